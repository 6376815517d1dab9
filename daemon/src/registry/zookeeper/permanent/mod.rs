//! Permanently assigned workers, on Leaf's own nodes.
//!
//! Leaf's node contains a number's holder and the time up to which ids may have been issued: leafd writes a time ahead
//! of its ids there, and Java Leaf the current time. A second node, leafd's own, contains data for which Leaf has no
//! field, and changes in the same transaction. So if the two were last changed by different transactions, another
//! program, a Java Leaf, wrote Leaf's node.
//!
//! - `pair`: the content of the two nodes.
//! - `number`: assigns a free number to a host.

mod number;
pub mod pair;

use std::ops::Range;

use leafd_wire::Layout;
use zookeeper_client::{Error, Stat};

use self::number::own;
use self::pair::Pair;
use super::EnsembleTarget;
use super::ensemble::{EnsemblePlace, Folders};
use super::leaf_node::{self, LeafNode};
use super::record::NodeRecord;
use super::session::{CallError, Ensemble};
use crate::config::{LeafAddress, LeafName};
use crate::registry::Registry;
use leafd_core::registry::{
    CompareAndSet, Entry, LeaseRecord, RegistryError, RegistryId, Snapshot,
};
use leafd_core::{Tag, UnixMs};

/// Permanent workers in an ensemble, on a Leaf service's nodes.
pub struct PermanentRegistry {
    ensemble: Ensemble,
    forever: Forever,
}

/// The path of Leaf's folder.
struct Forever(String);

impl PermanentRegistry {
    /// Connects with the first call. `may_begin`: the service may be new beside others.
    pub fn open(target: EnsembleTarget, name: &LeafName, may_begin: bool) -> PermanentRegistry {
        let rival = (
            "/leafd/registry",
            "this path holds leased worker numbers, which permanent mode would assign forever; use another path, or worker_mode = leased",
        );
        let forever = format!("/snowflake/{name}/forever");
        let folders = Folders {
            base: format!("/leafd/permanent/{name}"),
            holders: "hosts",
            shared: Some(forever.clone()),
            may_begin,
            rival,
            kind: format!("/{name}"),
        };
        PermanentRegistry { ensemble: Ensemble::new(target, folders), forever: Forever(forever) }
    }
}

impl Registry for PermanentRegistry {
    fn register_layouts(&mut self, layouts: &[(Tag, Layout)]) -> Result<(), RegistryError> {
        self.ensemble.register_layouts(layouts)
    }

    fn snapshot(&mut self, pool: Range<u64>) -> Result<Snapshot, RegistryError> {
        let forever = &self.forever;
        self.ensemble.call(async |place| {
            let now = place.clock().await?;
            let state = place.state().await?;
            let (mut nodes, _) = forever.nodes(place).await?;
            nodes.retain(|node| pool.contains(&node.worker));
            nodes.sort_unstable_by(|a, b| (a.worker, &a.name).cmp(&(b.worker, &b.name)));
            let pairs = forever.pairs(place, nodes).await?;
            let entries =
                pairs.iter().map(|pair| pair.entry().unwrap_or_else(|_| pair.unreadable()));
            let (entries, history_age) = (entries.collect(), state.history_age(now));
            Ok(Snapshot { registry: state.id, history_age, now, entries })
        })
    }

    fn compare_and_set(
        &mut self,
        under: &RegistryId,
        swap: &CompareAndSet,
    ) -> Result<UnixMs, RegistryError> {
        let forever = &self.forever;
        self.ensemble.call(async |place| forever.compare_and_set(place, under, swap).await)
    }

    fn assign(
        &mut self,
        under: &RegistryId,
        pool: Range<u64>,
        holding: &LeaseRecord,
    ) -> Result<Entry, RegistryError> {
        let forever = &self.forever;
        self.ensemble.call(async |place| {
            holding.check(None)?;
            let address = address(place, holding)?;
            loop {
                let state = place.state().await?;
                state.id.check(under)?;
                // This is read first, because any later change makes the creation fail.
                let before = forever.before(place, state, &address).await?;
                let (nodes, stat) = forever.nodes(place).await?;
                if let Some(node) = own(place, &nodes, &address, &pool)? {
                    let pair = forever.pairs(place, vec![node]).await?.pop();
                    match pair {
                        Some(pair) => return pair.entry().map_err(|words| place.refused(words)),
                        // Deleted meanwhile.
                        None => continue,
                    }
                }
                let number = forever.choose(place, &before, &nodes, &stat, &pool).await?;
                let made = forever.make(place, &before, holding, number).await?;
                let Some(made) = made else { continue };
                // A Java Leaf ignores the other numbers, so leafd must give way.
                let (nodes, _) = forever.nodes(place).await?;
                if own(place, &nodes, &address, &pool).is_err() {
                    match place.client().delete(&forever.path(&made), None).await {
                        Ok(()) | Err(Error::NoNode) => {}
                        Err(error) => return Err(error.into()),
                    }
                }
            }
        })
    }
}

impl Forever {
    fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.0)
    }

    /// The nodes that assign numbers, and the state of their folder.
    async fn nodes(&self, place: &EnsemblePlace) -> Result<(Vec<LeafNode>, Stat), CallError> {
        let (children, stat) = place.there(&self.0, place.client().get_children(&self.0).await)?;
        Ok((children.iter().filter_map(|child| leaf_node::parse(child)).collect(), stat))
    }

    /// These nodes with leafd's own nodes; skips those that are deleted meanwhile.
    async fn pairs(
        &self,
        place: &EnsemblePlace,
        nodes: Vec<LeafNode>,
    ) -> Result<Vec<Pair>, CallError> {
        // A name that is not an address can't have one of leafd's nodes.
        let beside = |node: &LeafNode| match node.holder.parse::<LeafAddress>() {
            Ok(_) => place.holder(&node.holder),
            Err(_) => place.holder("-"),
        };
        let both = |node: &LeafNode| [self.path(&node.name), beside(node)];
        let paths: Vec<String> = nodes.iter().flat_map(both).collect();
        let mut found = place.read_all(&paths).await?.into_iter();
        let pairs = nodes.into_iter().filter_map(|node| {
            let (leaf, side) = (found.next()?, found.next()?);
            Some(Pair { node, leaf: leaf?, side })
        });
        Ok(pairs.collect())
    }

    async fn compare_and_set(
        &self,
        place: &mut EnsemblePlace,
        under: &RegistryId,
        swap: &CompareAndSet,
    ) -> Result<UnixMs, CallError> {
        swap.next.check(Some(swap.worker))?;
        loop {
            let state = place.state().await?;
            state.id.check(under)?;
            let pair = self.find(place, swap).await?;
            let found = pair.as_ref().map(Pair::entry).transpose();
            let found = found.map_err(|words| place.refused(words))?;
            place.judge(swap, found.clone()).await?;
            let holder = |holding: &LeaseRecord| holding.holder.clone();
            let (owner, next) =
                (found.and_then(|entry| holder(&entry.holding)), holder(&swap.next));
            let (Some(pair), Some(owner)) = (pair, owner) else {
                let words = format!("worker {} is not permanently assigned", swap.worker);
                return Err(place.refused(words));
            };
            if next.is_none_or(|next| next.id != owner.id) {
                return Err(place.refused(format!(
                    "worker {} is permanently assigned to {:?}; once that host no longer exists, delete {}",
                    swap.worker,
                    owner.id,
                    self.path(&pair.node.name)
                )));
            }
            let address: LeafAddress =
                owner.id.parse().map_err(|words: String| place.refused(words))?;
            let payload = leaf_node::payload(&address, swap.next.expires);
            let record = NodeRecord::new(&swap.next, swap.seen, Some(swap.worker.0)).to_bytes();
            let (leaf_path, side_path) = (self.path(&pair.node.name), place.holder(&owner.id));
            let options = place.persistent();
            let written = place
                .commit(&state, |all| {
                    all.add_set_data(&leaf_path, &payload, Some(pair.leaf.1.version))?;
                    match &pair.side {
                        Some((_, stat)) => {
                            all.add_set_data(&side_path, &record, Some(stat.version))
                        }
                        None => all.add_create(&side_path, &record, &options),
                    }
                })
                .await?;
            // No results: another writer was faster. The current content decides.
            if let Some(results) = written {
                return place.written_at(&leaf_path, &results).await;
            }
        }
    }

    /// The node that assigns the number of a compare-and-set; if there are two, that of the holder in question.
    async fn find(
        &self,
        place: &EnsemblePlace,
        swap: &CompareAndSet,
    ) -> Result<Option<Pair>, CallError> {
        let worker = swap.worker.0;
        let about = swap.expected.as_ref().and_then(|expected| expected.holder.as_ref());
        let about = about.map_or("", |holder| &*holder.id);
        if about.parse::<LeafAddress>().is_ok() {
            // The usual name, as the counter and leafd form it.
            let usual = leaf_node::parse(&format!("{about}-{worker:010}")).into_iter().collect();
            if let Some(pair) = self.pairs(place, usual).await?.pop() {
                return Ok(Some(pair));
            }
        }
        let (mut nodes, _) = self.nodes(place).await?;
        nodes.retain(|node| node.worker == worker);
        nodes.sort_by_key(|node| (node.holder == about, node.name.clone()));
        let node = nodes.pop().into_iter().collect();
        Ok(self.pairs(place, node).await?.pop())
    }
}

/// The holder's address.
fn address(place: &EnsemblePlace, holding: &LeaseRecord) -> Result<LeafAddress, CallError> {
    let Some(holder) = &holding.holder else {
        return Err(place.refused("a permanent worker needs a holder"));
    };
    holder.id.parse().map_err(|words: String| place.refused(words))
}
