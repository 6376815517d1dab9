//! The daemon's numbers for Prometheus and other collectors.
//!
//! Nothing is counted twice: a table makes the metrics from what STATUS shows as JSON. The thread that answers
//! requests gathers the numbers between requests, and a thread of its own writes the text.
//!
//! - `table`: which member of the status is which metric.
//! - `paths`: finds the members of the status.
//! - `tags`: the busiest tags individually, and the others together.
//! - `text`: writes the two formats.
//! - `process`: what the kernel counts for this process.

mod paths;
mod process;
mod table;
mod tags;
mod text;

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use serde_json::Value;

use crate::engine::segments::Segments;
use crate::histogram::Counted;
pub(crate) use table::{CLAIMS, COMMITS, WAITS};
use tags::Gathered;

/// The format of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Prometheus' text, version 0.0.4.
    Prometheus,
    /// OpenMetrics' text, version 1.0.0.
    OpenMetrics,
}

/// The form of the text that a collector asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Form {
    pub format: Format,
    /// Whether to include what the kernel counts for this process. A collector that reads files has metrics with these
    /// names of its own.
    pub process: bool,
}

pub type Told = Box<dyn FnOnce(&str)>;

/// The scrapes that were asked for. One is made at a time; requests that come meanwhile share the next.
#[derive(Default)]
pub struct Scrapes {
    /// How many tags are listed individually.
    tags_max: usize,
    asked: RefCell<Vec<(Form, Told)>>,
    running: Cell<bool>,
}

/// Histograms of times, with the name of their metric and that of their store.
pub(crate) type Times = Vec<(&'static str, Option<String>, Counted)>;

/// All numbers at one time.
#[derive(Debug)]
pub(crate) struct Snapshot {
    /// The status without its tags.
    pub status: Value,
    pub times: Times,
    pub tags: Gathered,
}

/// If the text is longer than fits into a reply, fewer tags are listed individually.
const TEXT_BYTES_MAX: usize = leafd_wire::REPLY_LENGTH_MAX as usize - 64;

impl Scrapes {
    /// Lists so many tags individually.
    #[must_use]
    pub fn new(tags_max: usize) -> Scrapes {
        Scrapes { tags_max, ..Scrapes::default() }
    }

    /// Records a request. Returns true if no scrape is being made now, so that `serve` must be called.
    pub fn ask(&self, form: Form, told: Told) -> bool {
        self.asked.borrow_mut().push((form, told));
        !self.running.replace(true)
    }

    /// Makes scrapes until nobody asks for one.
    pub(crate) async fn serve(&self, segments: &Segments, figures: impl Fn() -> (Value, Times)) {
        loop {
            let mut asked = self.asked.take();
            if asked.is_empty() {
                self.running.set(false);
                return;
            }
            let tags = tags::gather(segments, self.tags_max).await;
            let (status, times) = figures();
            let snapshot = Arc::new(Snapshot { status, times, tags });
            while let Some((form, _)) = asked.first() {
                let form = *form;
                let (these, others): (Vec<_>, Vec<_>) =
                    asked.into_iter().partition(|(asked, _)| *asked == form);
                asked = others;
                let snapshot = Arc::clone(&snapshot);
                let written = tokio::task::spawn_blocking(move || write(&snapshot, form)).await;
                // This fails when the daemon ends. Then nobody waits for the text.
                let Ok(written) = written else { return };
                these.into_iter().for_each(|(_, told)| told(&written));
            }
        }
    }
}

fn write(snapshot: &Snapshot, form: Form) -> String {
    let mut tags = snapshot.tags.clone();
    loop {
        let text = text::write(&snapshot.status, &snapshot.times, &tags, form);
        if text.len() <= TEXT_BYTES_MAX || tags.named.is_empty() {
            return text;
        }
        tags.keep(tags.named.len() / 2);
    }
}
