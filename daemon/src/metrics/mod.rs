//! The daemon's numbers for Prometheus and other collectors.
//!
//! The metrics are another rendering of the snapshot that STATUS renders, so nothing is counted twice. The request loop
//! takes it between requests, and a separate thread writes the text.
//!
//! - `table`: which number of the snapshot is which metric; `help.txt` says what each metric is.
//! - `text`: writes Prometheus' format.
//! - `process`: the kernel's counters for this process.

mod process;
mod table;
mod text;

use leafd_checkup::snapshot::Snapshot;

use crate::requests::Busiest;

/// If the text is longer than fits into a reply, fewer tags are listed individually.
const TEXT_BYTES_MAX: usize = leafd_wire::REPLY_LENGTH_MAX as usize - 64;

/// Writes all metrics. `process`: whether to include the kernel's counters for this process; a collector that reads
/// files has its own metrics with these names.
pub fn write(snapshot: &Snapshot, mut tags: Busiest, process: bool) -> String {
    loop {
        let text = table::write(snapshot, &tags, process);
        if text.len() <= TEXT_BYTES_MAX || tags.named.is_empty() {
            return text;
        }
        tags.keep(tags.named.len() / 2);
    }
}
