//! Workers that are had for good, on Leaf's own nodes.
//!
//! Leaf's node says whose a number is and until when its ids go; leafd writes a time ahead of them there, Java Leaf the
//! present one. A node of leafd's own beside it, changed in the same transaction, says what Leaf has no field for. So if
//! the two were changed last by different transactions, somebody else wrote Leaf's: a Java Leaf.
//!
//! - `pair`: what the two say.
//! - `number`: giving a host a number that nobody has.

mod number;
mod pair;

use std::ops::Range;

use leafd_wire::Layout;
use zookeeper_client::{Client, Error, Stat};

use self::number::own;
use self::pair::Pair;
use super::Target;
use super::ensemble::{Ensemble, Folders, Place, set_at};
use super::leaf_node::{self, Address, LeafName, LeafNode};
use super::leased::AT_ONCE;
use super::record::Record;
use super::session::Failure;
use crate::id::{Tag, UnixMs};
use crate::registry::{Entry, Holding, Look, Registry, RegistryError, RegistryId, Swap};

/// Permanent workers in an ensemble, on the nodes of a Leaf service.
pub struct PermanentRegistry {
    ensemble: Ensemble,
    forever: Forever,
}

/// The path of Leaf's folder.
struct Forever(String);

impl PermanentRegistry {
    /// Connects with the first call.
    #[must_use]
    pub fn open(target: Target, name: &LeafName) -> PermanentRegistry {
        let rival = (
            "/leafd/registry",
            "leafds lease numbers here, which would be given for good; use another path, or worker_mode = leased",
        );
        let forever = format!("/snowflake/{name}/forever");
        let folders = Folders {
            base: format!("/leafd/permanent/{name}"),
            holders: "hosts",
            shared: Some(forever.clone()),
            rival,
            kind: format!("/{name}"),
        };
        PermanentRegistry { ensemble: Ensemble::new(target, folders), forever: Forever(forever) }
    }
}

impl Registry for PermanentRegistry {
    fn agree(&mut self, layouts: &[(Tag, Layout)]) -> Result<(), RegistryError> {
        self.ensemble.agree(layouts)
    }

    fn look(&mut self, pool: Range<u64>) -> Result<Look, RegistryError> {
        let forever = &self.forever;
        self.ensemble.call(async |client, place| {
            let now = place.clock(client).await?;
            let standing = place.standing(client).await?;
            let (mut nodes, _) = forever.nodes(client).await?;
            nodes.retain(|node| pool.contains(&node.worker));
            nodes.sort_unstable_by(|a, b| (a.worker, &a.name).cmp(&(b.worker, &b.name)));
            let pairs = forever.pairs(client, place, nodes).await?;
            let entries =
                pairs.iter().map(|pair| pair.entry().unwrap_or_else(|_| pair.unreadable()));
            let (entries, history_age) = (entries.collect(), standing.history_age(now));
            Ok(Look { registry: standing.id, history_age, now, entries })
        })
    }

    fn swap(&mut self, under: &RegistryId, swap: &Swap) -> Result<UnixMs, RegistryError> {
        let forever = &self.forever;
        self.ensemble.call(async |client, place| forever.swap(client, place, under, swap).await)
    }

    fn bind(
        &mut self,
        under: &RegistryId,
        pool: Range<u64>,
        holding: &Holding,
    ) -> Result<Entry, RegistryError> {
        let forever = &self.forever;
        self.ensemble.call(async |client, place| {
            holding.check(None)?;
            let address = address(place, holding)?;
            loop {
                let standing = place.standing(client).await?;
                standing.id.check(under)?;
                let (nodes, stat) = forever.nodes(client).await?;
                if let Some(node) = own(place, &nodes, &address, &pool)? {
                    let pair = forever.pairs(client, place, vec![node]).await?.pop();
                    match pair {
                        Some(pair) => return pair.entry().map_err(|words| place.refused(words)),
                        // Deleted meanwhile.
                        None => continue,
                    }
                }
                let number = forever.choose(client, place, &nodes, &stat, &pool, &address).await?;
                let made =
                    forever.make(client, place, &standing, &address, holding, number).await?;
                let Some(made) = made else { continue };
                // A Java Leaf looks at nobody else's number, so it is for us to make way.
                let (nodes, _) = forever.nodes(client).await?;
                if own(place, &nodes, &address, &pool).is_err() {
                    match client.delete(&forever.path(&made), None).await {
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

    /// The nodes that give numbers, and the state of their folder.
    async fn nodes(&self, client: &Client) -> Result<(Vec<LeafNode>, Stat), Failure> {
        let (children, stat) = client.get_children(&self.0).await?;
        Ok((children.iter().filter_map(|child| leaf_node::parse(child)).collect(), stat))
    }

    /// What is in these nodes and beside them; those that are deleted meanwhile are left out.
    async fn pairs(
        &self,
        client: &Client,
        place: &Place,
        nodes: Vec<LeafNode>,
    ) -> Result<Vec<Pair>, Failure> {
        let mut pairs = Vec::with_capacity(nodes.len());
        let mut nodes = nodes.into_iter().peekable();
        while nodes.peek().is_some() {
            // All are sent before the first is waited for.
            let asked: Vec<_> = nodes
                .by_ref()
                .take(AT_ONCE)
                .map(|node| {
                    let leaf = client.get_data(&self.path(&node.name));
                    let beside = node.holder.parse::<Address>().is_ok();
                    let side = beside.then(|| client.get_data(&place.holder(&node.holder)));
                    (node, leaf, side)
                })
                .collect();
            for (node, leaf, side) in asked {
                let leaf = present(leaf.await)?;
                let side = match side {
                    Some(side) => present(side.await)?,
                    None => None,
                };
                pairs.extend(leaf.map(|leaf| Pair { node, leaf, side }));
            }
        }
        Ok(pairs)
    }

    async fn swap(
        &self,
        client: &Client,
        place: &mut Place,
        under: &RegistryId,
        swap: &Swap,
    ) -> Result<UnixMs, Failure> {
        let address = address(place, &swap.next)?;
        let id = |holding: &Holding| holding.holder.as_ref().map(|holder| holder.id.clone());
        if swap.expected.as_ref().and_then(id) != id(&swap.next) {
            let words = "numbers that are given for good don't change hands; delete the node of a host that is gone";
            return Err(place.refused(words));
        }
        let worker = swap.worker.0;
        swap.next.check(Some(swap.worker))?;
        let record = Record::new(&swap.next, swap.seen, Some(worker)).to_bytes();
        let payload = address.payload(swap.next.bound);
        let side_path = place.holder(&address.to_string());
        loop {
            let standing = place.standing(client).await?;
            standing.id.check(under)?;
            let Some(pair) = self.find(client, place, &address, worker).await? else {
                return Err(RegistryError::Conflict { worker: swap.worker, found: None }.into());
            };
            let found = pair.entry().map_err(|words| place.refused(words))?;
            place.judge(client, swap, Some(found)).await?;
            let options = place.persistent();
            let leaf_path = self.path(&pair.node.name);
            let written = place
                .commit(client, &standing, |all| {
                    all.add_set_data(&leaf_path, &payload, Some(pair.leaf.1.version))?;
                    match &pair.side {
                        Some((_, stat)) => {
                            all.add_set_data(&side_path, &record, Some(stat.version))
                        }
                        None => all.add_create(&side_path, &record, &options),
                    }
                })
                .await?;
            if let Some(results) = written {
                return match set_at(&results, 1) {
                    Some(stat) => Ok(place.written(stat)),
                    None => place.clock(client).await,
                };
            }
        }
    }

    /// The node that gives this host this number.
    async fn find(
        &self,
        client: &Client,
        place: &Place,
        address: &Address,
        worker: u64,
    ) -> Result<Option<Pair>, Failure> {
        // So the counter names it, and leafd.
        let usual = leaf_node::parse(&format!("{address}-{worker:010}")).into_iter().collect();
        if let Some(pair) = self.pairs(client, place, usual).await?.pop() {
            return Ok(Some(pair));
        }
        let (mut nodes, _) = self.nodes(client).await?;
        nodes.retain(|node| node.worker == worker && node.holder == address.to_string());
        Ok(self.pairs(client, place, nodes).await?.pop())
    }
}

/// Who `holding` belongs to.
fn address(place: &Place, holding: &Holding) -> Result<Address, Failure> {
    let Some(holder) = &holding.holder else {
        let words = "numbers that are given for good are not given back; delete the node of a host that is gone";
        return Err(place.refused(words));
    };
    holder.id.parse().map_err(|words: String| place.refused(words))
}

/// A node's data and state if it is there.
fn present(got: Result<(Vec<u8>, Stat), Error>) -> Result<Option<(Vec<u8>, Stat)>, Failure> {
    match got {
        Ok(got) => Ok(Some(got)),
        Err(Error::NoNode) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
