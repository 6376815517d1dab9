//! The daemon's numbers for Prometheus and other collectors.
//!
//! Nothing is counted twice: the metrics are a rendering of the snapshot that STATUS renders too. The thread that
//! answers requests takes it between requests, and a thread of its own writes the text.
//!
//! - `table`: which number of the snapshot is which metric.
//! - `tags`: the busiest tags individually, and the others together.
//! - `text`: writes the two formats.
//! - `process`: what the kernel counts for this process.

mod process;
mod table;
mod tags;
mod text;

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use leafd_checkup::snapshot::Snapshot;

use crate::engine::segments::Segments;
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
    pub(crate) async fn serve(&self, segments: &Segments, take: impl Fn() -> Snapshot) {
        loop {
            let mut asked = self.asked.take();
            if asked.is_empty() {
                self.running.set(false);
                return;
            }
            let tags = tags::gather(segments, self.tags_max).await;
            let numbers = Arc::new((take(), tags));
            while let Some((form, _)) = asked.first() {
                let form = *form;
                let (these, others): (Vec<_>, Vec<_>) =
                    asked.into_iter().partition(|(asked, _)| *asked == form);
                asked = others;
                let numbers = Arc::clone(&numbers);
                let write = move || write(&numbers.0, &numbers.1, form);
                let written = tokio::task::spawn_blocking(write).await;
                // This fails when the daemon ends. Then nobody waits for the text.
                let Ok(written) = written else { return };
                these.into_iter().for_each(|(_, told)| told(&written));
            }
        }
    }
}

fn write(snapshot: &Snapshot, tags: &Gathered, form: Form) -> String {
    let mut tags = tags.clone();
    loop {
        let text = table::write(snapshot, &tags, form);
        if text.len() <= TEXT_BYTES_MAX || tags.named.is_empty() {
            return text;
        }
        tags.keep(tags.named.len() / 2);
    }
}
