//! Assigns a free number to a host, safely beside Java Leafs that use the same nodes.
//!
//! It uses the ensemble's counter, as Java Leaf does, while the counter is within the pool. The counter never
//! decreases, so once it is beyond the pool, numbers whose nodes were deleted are assigned again.

use std::collections::HashSet;
use std::ops::Range;

use zookeeper_client::{Acls, CreateMode, MultiWriteResult, Stat};

use super::super::ensemble::{EnsemblePlace, RegistryState, modified};
use super::super::leaf_node::{self, LeafNode};
use super::super::record::NodeRecord;
use super::super::session::CallError;
use super::Forever;
use crate::config::LeafAddress;
use leafd_core::UnixMs;
use leafd_core::registry::{LeaseRecord, RegistryError};

/// How many of the hosts that have been silent longest are named when no number is left.
const OLDEST_NAMED: usize = 3;

/// leafd's records at some moment before a host gets a number.
pub(super) struct Before {
    state: RegistryState,
    /// The host that needs a number.
    address: LeafAddress,
    /// The version of the holders' folder, which changes when a free number is taken.
    version: i32,
    /// The version of the host's own node, if it has one.
    own: Option<i32>,
    /// Numbers that other hosts may still use, even if their nodes under `forever` were deleted, and until when.
    used: Vec<(u64, UnixMs)>,
}

/// The kind of a new number.
#[derive(Clone, Copy)]
pub(super) enum Number {
    /// From the ensemble's counter, as with Java Leaf.
    Counted,
    /// A free number.
    Free(u64),
}

impl Forever {
    pub(super) async fn before(
        &self,
        place: &EnsemblePlace,
        state: RegistryState,
        address: &LeafAddress,
    ) -> Result<Before, CallError> {
        let (children, stat) = place.children().await?;
        let (version, address) = (stat.version, address.clone());
        let mut before = Before { state, address, version, own: None, used: Vec::new() };
        let paths: Vec<String> = children.iter().map(|host| place.holder(host)).collect();
        let found = place.read_all(&paths).await?;
        for ((host, path), found) in children.iter().zip(paths).zip(found) {
            let Some((bytes, stat)) = found else { continue };
            let record = NodeRecord::parse(&bytes).map_err(|cause| {
                place.refused(format!("the leafd node {path} can't be read: {cause}"))
            })?;
            if *host == before.address.to_string() {
                before.own = Some(stat.version);
            } else {
                let bound = record.holding().expires;
                before.used.extend(record.worker.map(|worker| (worker, bound)));
            }
        }
        Ok(before)
    }

    /// A number for a host that has none, chosen by the nodes and the state of their folder.
    pub(super) async fn choose(
        &self,
        place: &mut EnsemblePlace,
        before: &Before,
        nodes: &[LeafNode],
        folder: &Stat,
        pool: &Range<u64>,
    ) -> Result<Number, CallError> {
        let now = place.clock().await?;
        let used = before.used.iter().filter(|(_, bound)| *bound > now);
        let taken: HashSet<u64> =
            used.map(|(worker, _)| *worker).chain(nodes.iter().map(|node| node.worker)).collect();
        // The folder's version counts changes: creations and deletions. So creations are half of version and
        // children.
        let counter = (i64::from(folder.cversion) + i64::from(folder.num_children)) / 2;
        let free = |worker: &u64| !taken.contains(worker);
        if u64::try_from(counter).is_ok_and(|worker| pool.contains(&worker) && free(&worker)) {
            return Ok(Number::Counted);
        }
        match pool.clone().find(free) {
            Some(worker) => Ok(Number::Free(worker)),
            None => Err(self.exhausted(place, nodes, now, pool).await?),
        }
    }

    /// Records a host with its number. Returns the node's name; `None` if another writer was faster. A creation that
    /// timed out and arrives late also finds other versions, so no host gets two nodes.
    pub(super) async fn make(
        &self,
        place: &mut EnsemblePlace,
        before: &Before,
        holding: &LeaseRecord,
        number: Number,
    ) -> Result<Option<String>, CallError> {
        let now = place.clock().await?;
        let worker = match number {
            Number::Counted => None,
            Number::Free(worker) => Some(worker),
        };
        let record = NodeRecord::new(holding, now, worker).to_bytes();
        let Before { state, address, version, own, .. } = before;
        let side_path = place.holder(&address.to_string());
        let (options, folder) = (place.persistent(), place.holders());
        let results = place
            .commit(state, |all| {
                match own {
                    Some(version) => all.add_set_data(&side_path, &record, Some(*version))?,
                    None => all.add_create(&side_path, &record, &options)?,
                }
                let (mode, path) = match number {
                    Number::Counted => {
                        (CreateMode::PersistentSequential, self.path(&format!("{address}-")))
                    }
                    Number::Free(worker) => {
                        all.add_set_data(&folder, b"", Some(*version))?;
                        (CreateMode::Persistent, self.path(&format!("{address}-{worker:010}")))
                    }
                };
                let payload = leaf_node::payload(address, holding.expires);
                all.add_create(&path, &payload, &mode.with_acls(Acls::anyone_all()))
            })
            .await?;
        Ok(results.and_then(|results| match results.into_iter().next_back() {
            Some(MultiWriteResult::Create { path, .. }) => {
                path.rsplit_once('/').map(|(_, name)| name.to_owned())
            }
            _ => None,
        }))
    }

    /// The error that no number is left, with the hosts that may no longer exist.
    async fn exhausted(
        &self,
        place: &EnsemblePlace,
        nodes: &[LeafNode],
        now: UnixMs,
        pool: &Range<u64>,
    ) -> Result<CallError, CallError> {
        let mut pairs = self.pairs(place, nodes.to_vec()).await?;
        pairs.retain(|pair| pool.contains(&pair.node.worker));
        pairs.sort_by_key(|pair| modified(&pair.leaf.1));
        let named = pairs.iter().take(OLDEST_NAMED).map(|pair| {
            let hours = now.0.saturating_sub(modified(&pair.leaf.1).0) / 3_600_000;
            format!("{} ({hours} h ago)", pair.node.name)
        });
        let named: Vec<String> = named.collect();
        let words = format!(
            "{}; delete the nodes under {} of hosts that no longer exist, or widen the worker field; the least \
             recently written ones are {}",
            shown(pool),
            self.path("").trim_end_matches('/'),
            named.join(", ")
        );
        Ok(RegistryError::Exhausted(words).into())
    }
}

/// The host's node, if it has one that no other host can use.
pub(super) fn own(
    place: &EnsemblePlace,
    nodes: &[LeafNode],
    address: &LeafAddress,
    pool: &Range<u64>,
) -> Result<Option<LeafNode>, CallError> {
    let address = address.to_string();
    let mut own = nodes.iter().filter(|node| node.holder == address);
    let (node, second) = (own.next(), own.next());
    let Some(node) = node else { return Ok(None) };
    if let Some(second) = second {
        return Err(place.refused(format!(
            "{} and {} both give this host a number, and a Java Leaf may use either; delete the one whose number this \
             host has not used",
            node.name, second.name
        )));
    }
    let twin = nodes.iter().find(|other| other.worker == node.worker && other.name != node.name);
    if let Some(twin) = twin {
        return Err(place.refused(format!(
            "{} and {} give two hosts one number; stop both hosts and delete one of the nodes",
            node.name, twin.name
        )));
    }
    if !pool.contains(&node.worker) {
        return Err(RegistryError::Exhausted(format!(
            "{} gives this host a number that is not one of {}; delete the node to get another number, or widen the \
             worker field",
            node.name,
            shown(pool)
        ))
        .into());
    }
    Ok(Some(node.clone()))
}

fn shown(pool: &Range<u64>) -> String {
    format!("{} to {}", pool.start, pool.end.saturating_sub(1))
}
