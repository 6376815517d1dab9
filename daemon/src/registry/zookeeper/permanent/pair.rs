//! The content of a Leaf node and of leafd's own node beside it, and the resulting holder.

use zookeeper_client::Stat;

use super::super::ensemble::modified;
use super::super::leaf_node::{self, LEAF_COVER, LeafNode};
use super::super::record::NodeRecord;
use leafd_core::registry::{Entry, HOLDER_BYTES_MAX, Holder, LeaseRecord};
use leafd_core::store::StartToken;
use leafd_core::{UnixMs, WorkerId};

/// A Leaf node, and leafd's own node beside it.
pub struct Pair {
    pub node: LeafNode,
    pub leaf: (Vec<u8>, Stat),
    pub side: Option<(Vec<u8>, Stat)>,
}

impl Pair {
    /// # Errors
    /// What can't be read, and what to do.
    pub fn entry(&self) -> Result<Entry, String> {
        let unreadable = |what: &str, cause: String| {
            format!(
                "the {what} of {} can't be read: {cause}; if no host uses that address any more, delete the node; \
                 otherwise restore what its host last wrote",
                self.node.name
            )
        };
        let side = match &self.side {
            Some((bytes, stat)) => {
                let record = NodeRecord::parse(bytes);
                Some((record.map_err(|cause| unreadable("leafd node", cause))?, stat))
            }
            None => None,
        };
        let (payload, stat) = &self.leaf;
        let written = modified(stat);
        let worker = WorkerId(self.node.worker);
        if let Some((record, side)) = &side
            && side.mzxid == stat.mzxid
        {
            return Ok(Entry { worker, holding: record.holding(), seen: record.seen, written });
        }
        let seen = leaf_node::timestamp(payload).map_err(|cause| unreadable("payload", cause))?;
        let cover = u64::try_from(LEAF_COVER.as_millis()).unwrap_or(u64::MAX);
        let bound = UnixMs(seen.0.saturating_add(cover));
        let before = side.map(|(record, _)| record.holding().expires);
        let holding = self.held_by_leaf(bound.max(before.unwrap_or_default()));
        Ok(Entry { worker, holding, seen, written })
    }

    /// It is only known that the number has a holder.
    pub(super) fn unreadable(&self) -> Entry {
        let written = modified(&self.leaf.1);
        let holding = self.held_by_leaf(UnixMs(0));
        Entry { worker: WorkerId(self.node.worker), holding, seen: written, written }
    }

    fn held_by_leaf(&self, bound: UnixMs) -> LeaseRecord {
        // Any program can write names here.
        let plain = |c: char| if c.is_ascii_graphic() { c } else { '?' };
        let mut id: String = self.node.holder.chars().map(plain).take(HOLDER_BYTES_MAX).collect();
        if id.is_empty() {
            id.push('?');
        }
        let (id, name) = (id.as_str().into(), id.as_str().into());
        let holder = Holder { id, name, incarnation: StartToken("".into()) };
        LeaseRecord { holder: Some(holder), expires: bound }
    }
}
