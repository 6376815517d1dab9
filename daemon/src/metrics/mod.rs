//! The daemon's numbers as Prometheus and others read them.
//!
//! Nothing is counted twice: what STATUS tells as JSON is what the metrics are made of, by one table. What is gathered on
//! the thread that answers requests takes turns with requests, and a thread of its own writes the text.
//!
//! - `table`: which member of the status is which metric.
//! - `paths`: finds the members.
//! - `tags`: the busiest tags one by one, the others together.
//! - `text`: the two formats.
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

/// In which form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Prometheus' text, version 0.0.4.
    Prometheus,
    /// OpenMetrics' text, version 1.0.0.
    OpenMetrics,
}

/// For whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Form {
    /// In which form.
    pub format: Format,
    /// With what the kernel counts for this process. A collector that reads files has metrics of these names itself.
    pub process: bool,
}

/// Who is told the text.
pub type Told = Box<dyn FnOnce(&str)>;

/// Scrapes that are asked for, one at a time: whoever asks while one is gathered shares the next.
#[derive(Default)]
pub struct Scrapes {
    /// Tags that are told one by one.
    tags_max: usize,
    asked: RefCell<Vec<(Form, Told)>>,
    running: Cell<bool>,
}

/// Times that were counted, under the name of their metric and of their store.
pub(crate) type Times = Vec<(&'static str, Option<String>, Counted)>;

/// All that is told at one time.
#[derive(Debug)]
pub(crate) struct Snapshot {
    /// As in the status, without its tags.
    pub status: Value,
    pub times: Times,
    pub tags: Gathered,
}

/// Larger texts are told with fewer tags one by one: a reply takes no more.
const TEXT_BYTES_MAX: usize = leafd_wire::REPLY_LENGTH_MAX as usize - 64;

impl Scrapes {
    /// Tells so many tags one by one.
    #[must_use]
    pub fn new(tags_max: usize) -> Scrapes {
        Scrapes { tags_max, ..Scrapes::default() }
    }

    /// Notes who asks. True: nothing is gathered now, so that `serve` is due.
    pub fn ask(&self, form: Form, told: Told) -> bool {
        self.asked.borrow_mut().push((form, told));
        !self.running.replace(true)
    }

    /// Tells all who ask, until nobody does.
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
                // It fails when the daemon ends: nobody is there to be told.
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
