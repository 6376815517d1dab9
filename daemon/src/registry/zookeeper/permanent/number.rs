//! Gives a host a number that nobody has, in a way that Java Leafs on the same nodes can do nothing wrong with.
//!
//! As they do it, by the ensemble's counter, while that stands in the pool. It never goes back, so beyond the pool
//! numbers are given again whose nodes were deleted.

use std::collections::HashSet;
use std::ops::Range;

use zookeeper_client::{Acls, Client, CreateMode, MultiWriteResult, Stat};

use super::super::ensemble::{Place, Standing, modified};
use super::super::leaf_node::{Address, LeafNode};
use super::super::leased::AT_ONCE;
use super::super::record::Record;
use super::super::session::Failure;
use super::{Forever, present};
use crate::id::UnixMs;
use crate::registry::{Holding, RegistryError};

/// How many of the hosts that wrote longest ago are named when there are no numbers left.
const OLDEST_NAMED: usize = 3;

/// How a new number is entered.
pub(super) enum Number {
    /// By the ensemble's counter, as Java Leaf does it.
    Counted,
    /// One that is free, in a folder of holders whose state is the same as when it was found to be.
    Free(u64, i32),
}

impl Forever {
    /// A number for a host that has none.
    pub(super) async fn choose(
        &self,
        client: &Client,
        place: &mut Place,
        nodes: &[LeafNode],
        folder: &Stat,
        pool: &Range<u64>,
        address: &Address,
    ) -> Result<Number, Failure> {
        let now = place.clock(client).await?;
        // Its version is compared when a free number is taken: of two that choose at once one looks again.
        let (hosts, state) = place.children(client).await?;
        let mut taken: HashSet<u64> = nodes.iter().map(|node| node.worker).collect();
        for some in hosts.chunks(AT_ONCE) {
            let asked: Vec<_> =
                some.iter().map(|host| (host, client.get_data(&place.holder(host)))).collect();
            for (host, answer) in asked {
                let Some((bytes, _)) = present(answer.await)? else { continue };
                // Its node under `forever` may have been deleted while it lives.
                let record = Record::parse(&bytes).map_err(|cause| {
                    place.refused(format!("{} can't be read: {cause}", place.holder(host)))
                })?;
                let live = *host != address.to_string() && record.holding().bound > now;
                taken.extend(record.worker().filter(|_| live));
            }
        }
        // The state's version counts changes: creations twice, less those that are there.
        let counter = (i64::from(folder.cversion) + i64::from(folder.num_children)) / 2;
        let free = |worker: &u64| !taken.contains(worker);
        if u64::try_from(counter).is_ok_and(|worker| pool.contains(&worker) && free(&worker)) {
            return Ok(Number::Counted);
        }
        match pool.clone().find(free) {
            Some(worker) => Ok(Number::Free(worker, state.version)),
            None => {
                Err(RegistryError::Exhausted(self.oldest(client, place, nodes, now).await?).into())
            }
        }
    }

    /// Enters a host with its number: the node's name, or `None` if somebody was faster.
    pub(super) async fn make(
        &self,
        client: &Client,
        place: &mut Place,
        standing: &Standing,
        address: &Address,
        holding: &Holding,
        number: Number,
    ) -> Result<Option<String>, Failure> {
        let now = place.clock(client).await?;
        let worker = match number {
            Number::Counted => None,
            Number::Free(worker, _) => Some(worker),
        };
        let record = Record::new(holding, now, worker);
        let side_path = place.holder(&address.to_string());
        // A creation that was given up and arrives late finds another version, so that no host has two nodes.
        let side = present(client.get_data(&side_path).await)?;
        let (options, folder) = (place.persistent(), place.holders());
        let results = place
            .commit(client, standing, |all| {
                match &side {
                    Some((_, stat)) => {
                        all.add_set_data(&side_path, &record.to_bytes(), Some(stat.version))?;
                    }
                    None => all.add_create(&side_path, &record.to_bytes(), &options)?,
                }
                let payload = address.payload(holding.bound);
                let (mode, path) = match number {
                    Number::Counted => {
                        (CreateMode::PersistentSequential, self.path(&format!("{address}-")))
                    }
                    Number::Free(worker, version) => {
                        all.add_set_data(&folder, b"", Some(version))?;
                        (CreateMode::Persistent, self.path(&format!("{address}-{worker:010}")))
                    }
                };
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

    /// Who might be gone, for an operator.
    async fn oldest(
        &self,
        client: &Client,
        place: &Place,
        nodes: &[LeafNode],
        now: UnixMs,
    ) -> Result<String, Failure> {
        let mut pairs = self.pairs(client, place, nodes.to_vec()).await?;
        pairs.sort_by_key(|pair| modified(&pair.leaf.1));
        let named = pairs.iter().take(OLDEST_NAMED).map(|pair| {
            let hours = now.0.saturating_sub(modified(&pair.leaf.1).0) / 3_600_000;
            format!("{} ({hours} h ago)", pair.node.name)
        });
        let named: Vec<String> = named.collect();
        Ok(format!(
            "delete nodes under {} of hosts that are gone for good; those written longest ago are {}",
            self.0,
            named.join(", ")
        ))
    }
}

/// The node that a host has, if it has one that it alone can use.
pub(super) fn own(
    place: &Place,
    nodes: &[LeafNode],
    address: &Address,
    pool: &Range<u64>,
) -> Result<Option<LeafNode>, Failure> {
    let address = address.to_string();
    let mut own = nodes.iter().filter(|node| node.holder == address);
    let (node, second) = (own.next(), own.next());
    let Some(node) = node else { return Ok(None) };
    if let Some(second) = second {
        return Err(place.refused(format!(
            "{} and {} both give this host a number, and Java Leafs take either; delete the one whose number this host \
             has not used",
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
        return Err(place.refused(format!(
            "{} gives this host a number outside of {}..{}; delete the node and it gets another one, or widen \
             worker_range",
            node.name, pool.start, pool.end
        )));
    }
    Ok(Some(node.clone()))
}
