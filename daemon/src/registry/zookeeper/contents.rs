//! Parses what nodes hold without an ensemble, and makes the bytes that would be written for it. So tests can try any
//! content.

use zookeeper_client::Stat;

use super::leaf_node;
use super::permanent::pair_entry;
use super::record::{NodeRecord, Registration};
use super::{ensemble::modified, leased};
use leafd_core::UnixMs;
use leafd_core::registry::Entry;

/// When a node was written, as its ensemble says.
#[derive(Clone, Copy, Debug)]
pub struct Stamp {
    /// The transaction.
    pub zxid: i64,
    /// Milliseconds since 1970; below 0 before that.
    pub ms: i64,
}

/// What `/leafd/workers/CHILD` says of a worker, and leafd's own bytes for it; `None` if leafd writes no such name.
///
/// # Errors
/// What can't be read.
#[must_use]
pub fn leased(child: &str, bytes: &[u8], stamp: Stamp) -> Option<Result<(Entry, Vec<u8>), String>> {
    let worker = leased::worker(child)?;
    let entry = leased::entry(worker, bytes, &stat(stamp));
    Some(entry.map(|entry| {
        let again = NodeRecord::new(&entry.holding, entry.seen, None).to_bytes();
        (entry, again)
    }))
}

/// What Leaf's node and leafd's own beside it say of a worker; `None` if the name gives none.
///
/// # Errors
/// What can't be read.
#[must_use]
pub fn permanent(
    child: &str,
    leaf: (&[u8], Stamp),
    side: Option<(&[u8], Stamp)>,
) -> Option<Result<Entry, String>> {
    let node = leaf_node::parse(child)?;
    let with_stat = |(bytes, stamp): (&[u8], Stamp)| (bytes.to_vec(), stat(stamp));
    Some(pair_entry(node, with_stat(leaf), side.map(with_stat)))
}

/// Leafd's own bytes for a registry's identity that reads so.
///
/// # Errors
/// What can't be read.
pub fn registration(bytes: &[u8]) -> Result<Vec<u8>, String> {
    Registration::parse(bytes).map(|registration| registration.to_bytes())
}

/// The time that such a stamp says.
#[must_use]
pub fn time_of(stamp: Stamp) -> UnixMs {
    modified(&stat(stamp))
}

fn stat(Stamp { zxid, ms }: Stamp) -> Stat {
    Stat {
        czxid: 0,
        mzxid: zxid,
        pzxid: 0,
        ctime: 0,
        mtime: ms,
        version: 0,
        cversion: 0,
        aversion: 0,
        ephemeral_owner: 0,
        data_length: 0,
        num_children: 0,
    }
}
