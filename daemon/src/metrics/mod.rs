//! The daemon's numbers for Prometheus and other collectors.
//!
//! Nothing is counted twice: the metrics are a rendering of the snapshot that STATUS renders too. The request loop takes
//! it between requests, and a thread of its own writes the text.
//!
//! - `table`: which number of the snapshot is which metric.
//! - `text`: writes the two formats.
//! - `process`: what the kernel counts for this process.

mod process;
mod table;
mod text;

use leafd_checkup::snapshot::Snapshot;

use crate::requests::Busiest;

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

/// If the text is longer than fits into a reply, fewer tags are listed individually.
const TEXT_BYTES_MAX: usize = leafd_wire::REPLY_LENGTH_MAX as usize - 64;

/// Writes all metrics.
#[must_use]
pub fn write(snapshot: &Snapshot, mut tags: Busiest, form: Form) -> String {
    loop {
        let text = table::write(snapshot, &tags, form);
        if text.len() <= TEXT_BYTES_MAX || tags.named.is_empty() {
            return text;
        }
        tags.keep(tags.named.len() / 2);
    }
}
