//! The content of a Leaf node and of leafd's own node beside it, and the resulting holder.

use zookeeper_client::Stat;

use super::super::ensemble::modified;
use super::super::leaf_node::{self, LEAF_COVER, LeafNode};
use super::super::record::NodeRecord;
use leafd_core::registry::{Entry, HOLDER_BYTES_MAX, Holder, LeaseRecord};
use leafd_core::store::StartToken;
use leafd_core::{UnixMs, WorkerId};

/// The maximum number of bytes of a node to show.
const PAYLOAD_SHOWN: usize = 200;

/// A Leaf node, and leafd's own node beside it.
pub(super) struct Pair {
    pub(super) node: LeafNode,
    pub(super) leaf: (Vec<u8>, Stat),
    pub(super) side: Option<(Vec<u8>, Stat)>,
}

impl Pair {
    /// # Errors
    /// What can't be read, and what to do.
    pub(super) fn entry(&self) -> Result<Entry, String> {
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

    /// Logs who wrote Leaf's node, and what, where leafd's own write was expected.
    pub(super) fn tell_of_a_leaf(&self, path: &str, expected: Option<&LeaseRecord>) {
        let by_leafd = |holder: &Holder| !holder.incarnation.0.is_empty();
        let expected = expected.and_then(|expected| expected.holder.as_ref());
        let (payload, stat) = &self.leaf;
        let beside = self.side.as_ref().map(|(_, side)| side.mzxid);
        if !expected.is_some_and(by_leafd) || beside == Some(stat.mzxid) {
            return;
        }
        let payload = &payload[..payload.len().min(PAYLOAD_SHOWN)];
        tracing::error!(
            %path, payload = %String::from_utf8_lossy(payload).escape_debug(), written_ms = modified(stat).0,
            "another program, probably a Java Leaf with this ip:port, wrote this host's ZooKeeper node, so snowflake \
             ids stop. Stop that Leaf; leafd then continues on its own"
        );
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
