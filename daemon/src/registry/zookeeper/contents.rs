//! Parses the content of nodes without an ensemble, and generates the bytes that leafd would write for it, so that
//! tests can try any content.

use zookeeper_client::Stat;

use super::leaf_node;
use super::leased;
use super::permanent::pair_entry;
use super::record::{NodeRecord, Registration};
use leafd_core::registry::Entry;

/// The worker in the content of `/leafd/workers/CHILD`, and leafd's own bytes for it; `None` if leafd writes no such
/// name.
///
/// # Errors
/// What can't be read.
pub fn leased(child: &str, bytes: &[u8], stat: &Stat) -> Option<Result<(Entry, Vec<u8>), String>> {
    let entry = leased::entry(leased::worker(child)?, bytes, stat);
    Some(entry.map(|entry| {
        let again = NodeRecord::new(&entry.holding, entry.seen, None).to_bytes();
        (entry, again)
    }))
}

/// The worker in Leaf's node and in leafd's own beside it; `None` if the name contains none.
///
/// # Errors
/// What can't be read.
pub fn permanent(
    child: &str,
    leaf: (Vec<u8>, Stat),
    side: Option<(Vec<u8>, Stat)>,
) -> Option<Result<Entry, String>> {
    Some(pair_entry(leaf_node::parse(child)?, leaf, side))
}

/// leafd's own bytes for a registry's identity with this content.
///
/// # Errors
/// What can't be read.
pub fn registration(bytes: &[u8]) -> Result<Vec<u8>, String> {
    Registration::parse(bytes).map(|registration| registration.to_bytes())
}
