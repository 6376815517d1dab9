//! Leased workers: a node `/leafd/workers/NNNNN`, with at least five digits, for each worker that has ever had a
//! holder.

use std::ops::Range;

use leafd_wire::Layout;
use zookeeper_client::{Error, Stat};

use super::EnsembleTarget;
use super::ensemble::{EnsemblePlace, Folders, modified};
use super::leaf_tree::{self, LeafTree};
use super::record::NodeRecord;
use super::session::{CallError, Ensemble};
use crate::registry::Registry;
use leafd_core::registry::{
    CompareAndSet, Entry, INSTANT_MAX, LeaseRecord, RegistryError, RegistryId, Snapshot,
};
use leafd_core::{Tag, UnixMs, WorkerId};

/// Leased workers in an ensemble.
pub struct LeasedRegistry {
    ensemble: Ensemble,
}

impl LeasedRegistry {
    /// Connects with the first call.
    pub fn open(target: EnsembleTarget) -> LeasedRegistry {
        let rival = (
            "/leafd/permanent",
            "this path holds permanent worker numbers, which leased mode would reassign; use another path, or worker_mode = permanent",
        );
        let (base, kind) = ("/leafd".to_owned(), String::new());
        let folders =
            Folders { base, holders: "workers", shared: None, may_begin: true, rival, kind };
        LeasedRegistry { ensemble: Ensemble::new(target, folders) }
    }
}

impl Registry for LeasedRegistry {
    fn register_layouts(&mut self, layouts: &[(Tag, Layout)]) -> Result<(), RegistryError> {
        self.ensemble.register_layouts(layouts)
    }

    fn snapshot(&mut self, pool: Range<u64>) -> Result<Snapshot, RegistryError> {
        self.ensemble.call(async |place| {
            refuse_beside_leaf(place).await?;
            let now = place.clock().await?;
            let state = place.state().await?;
            let children = place.children().await?.0;
            let mut workers: Vec<u64> = children.iter().filter_map(|child| worker(child)).collect();
            workers.retain(|worker| pool.contains(worker));
            workers.sort_unstable();
            let paths: Vec<String> = workers.iter().map(|worker| path(place, *worker)).collect();
            let found = place.read_all(&paths).await?;
            let entries = workers.into_iter().zip(paths).zip(found);
            let entries = entries.filter_map(|((worker, path), found)| {
                // Deleted nodes have no holder.
                let (bytes, stat) = found?;
                Some(entry(worker, &bytes, &stat).unwrap_or_else(|odd| {
                    tracing::warn!(
                        %path, %odd,
                        "the record of a worker can't be read; no host gets the worker until it is repaired"
                    );
                    for_ever(worker, &stat)
                }))
            });
            let entries = entries.collect();
            let history_age = state.history_age(now);
            Ok(Snapshot { registry: state.id, history_age, now, entries })
        })
    }

    fn compare_and_set(
        &mut self,
        under: &RegistryId,
        swap: &CompareAndSet,
    ) -> Result<UnixMs, RegistryError> {
        self.ensemble.call(async |place| {
            swap.next.check(Some(swap.worker))?;
            let record = NodeRecord::new(&swap.next, swap.seen, None);
            let worker = swap.worker.0;
            let (path, bytes) = (path(place, worker), record.to_bytes());
            loop {
                let state = place.state().await?;
                state.id.check(under)?;
                let found = match place.client().get_data(&path).await {
                    Ok((bytes, stat)) => {
                        let entry = entry(worker, &bytes, &stat).map_err(|odd| {
                            place.refused(format!("{path} can't be read: {odd}; restore it"))
                        })?;
                        Some((entry, stat))
                    }
                    Err(Error::NoNode) => None,
                    Err(error) => return Err(error.into()),
                };
                let recorded = found.as_ref().map(|(entry, _)| entry.clone());
                place.judge(swap, recorded).await?;
                let options = place.persistent();
                let written = place
                    .commit(&state, |all| match &found {
                        Some((_, stat)) => all.add_set_data(&path, &bytes, Some(stat.version)),
                        None => all.add_create(&path, &bytes, &options),
                    })
                    .await?;
                // No results: another writer was faster. The current content decides.
                if let Some(results) = written {
                    return place.written_at(&path, &results).await;
                }
            }
        })
    }
}

/// Refuses a path where Leaf keeps its numbers, because a leased number may be one of them. Every daemon reads the
/// workers before it takes one, so this is detected in time even if the Leaf came later.
async fn refuse_beside_leaf(place: &EnsemblePlace) -> Result<(), CallError> {
    let Some(LeafTree { path, service }) = leaf_tree::find(place.client()).await? else {
        return Ok(());
    };
    let way_out = match service {
        Some(service) => format!(
            "share them with worker_mode = \"permanent\" and leaf_name = {service:?}, or use another path"
        ),
        None => "use a path outside of Leaf's nodes".to_owned(),
    };
    Err(place.refused(format!(
        "a Java Leaf keeps its numbers there, in {path}, and a leased number could be one of them: {way_out} and a \
         worker_range that no Leaf uses"
    )))
}

fn path(place: &EnsemblePlace, worker: u64) -> String {
    place.holder(&format!("{worker:05}"))
}

/// The worker of a node's name, if leafd writes such names.
pub fn worker(child: &str) -> Option<u64> {
    let worker = child.parse().ok()?;
    (format!("{worker:05}") == child).then_some(worker)
}

/// # Errors
/// What can't be read.
pub fn entry(worker: u64, bytes: &[u8], stat: &Stat) -> Result<Entry, String> {
    let record = NodeRecord::parse(bytes)?;
    let (holding, seen, written) = (record.holding(), record.seen, modified(stat));
    Ok(Entry { worker: WorkerId(worker), holding, seen, written })
}

/// An entry whose worker no host can take.
fn for_ever(worker: u64, stat: &Stat) -> Entry {
    let holding = LeaseRecord { holder: None, expires: INSTANT_MAX };
    let written = modified(stat);
    Entry { worker: WorkerId(worker), holding, seen: written, written }
}
