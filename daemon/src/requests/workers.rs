//! Operators' requests about workers: list their holders, or release one.

use std::rc::Rc;

use leafd_wire::opcode;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::clock;
use crate::engine::lease::{LeaseDriver, Worker};
use crate::reply::Failure;
use crate::requests::tags::refused;
use crate::requests::{Dispatcher, PeerRequest};
use leafd_core::WorkerId;
use leafd_core::registry::{CompareAndSet, Entry, LeaseRecord, Mode, RegistryError, Snapshot};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    /// The first number to list.
    #[serde(default)]
    first: u64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Release {
    /// The worker to release; this daemon's own if none is given.
    worker: Option<u64>,
}

/// The maximum number of workers on a page.
const PAGE_MAX: usize = 1_024;

impl Dispatcher {
    /// Checks an administrative request about workers, and carries it out.
    pub(super) fn administer_workers(
        self: &Rc<Self>,
        request: &PeerRequest<'_>,
    ) -> Result<(), Failure> {
        let what = "administer workers";
        match request.header.opcode {
            opcode::WORKER_LIST => {
                self.answer_administrator(request, what, async |requests, list: List| {
                    list_workers(requests.keeper()?, &list).await
                })
            }
            _ => self.answer_administrator(request, what, async |requests, release: Release| {
                requests.release_worker(requests.keeper()?, &release).await
            }),
        }
    }

    fn keeper(&self) -> Result<&Rc<LeaseDriver>, Failure> {
        match &self.snowflakes.worker {
            Worker::Leased(keeper) => Ok(keeper),
            _ => Err(refused(
                "this daemon leases no worker from a registry: worker is neither \"store\" nor \"zookeeper\"",
            )),
        }
    }

    async fn release_worker(
        &self,
        keeper: &LeaseDriver,
        release: &Release,
    ) -> Result<Value, Failure> {
        let held = keeper.lease.borrow().held().map(|(worker, _)| worker);
        let mode = keeper.lease.borrow().settings.mode;
        let own = match (release.worker, held) {
            (None, None) => return Err(refused("this daemon holds no worker")),
            (None, Some(held)) => Some(held),
            (Some(worker), held) => held.filter(|held| held.0 == worker),
        };
        if let Some(worker) = own {
            self.give_back(keeper, worker).await?;
            return Ok(json!({"worker": worker.0, "own": true}));
        }
        if mode == Mode::Permanent {
            return Err(refused("a permanent worker can only be released by its own host"));
        }
        let worker = WorkerId(release.worker.unwrap_or_default());
        let entry = take_back(keeper, worker).await?;
        let until_ms = entry.holding.expires.0;
        Ok(json!({"worker": worker.0, "own": false, "until_ms": until_ms}))
    }

    /// Releases this host's worker. Keeps it if the registry doesn't answer.
    async fn give_back(&self, keeper: &LeaseDriver, worker: WorkerId) -> Result<(), Failure> {
        let one = worker.0..worker.0.saturating_add(1);
        keeper.link.snapshot(one).await.map_err(|error| failure(&error))?;
        let (held, leaving) = {
            let lease = keeper.lease.borrow();
            (lease.held().map(|(worker, _)| worker), lease.is_leaving())
        };
        if leaving || held != Some(worker) {
            return Err(refused(format!(
                "worker {worker} is already being released, or no longer belongs to this daemon: list the workers again"
            )));
        }
        let issued_below = self.snowflakes.issued_below();
        self.snowflakes.leave_worker();
        match keeper.release(issued_below).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error @ RegistryError::Unavailable { .. })) => {
                Err(Failure::store_away(format!(
                    "worker {worker} may or may not have been released: {error}. This daemon no longer uses it, and \
                     its next snowflake id leases a worker again. If it was not released, it becomes free when its \
                     lease expires"
                )))
            }
            Ok(Err(error)) => Err(failure(&error)),
            Err(_) => Err(Failure::stopping()),
        }
    }
}

async fn list_workers(keeper: &LeaseDriver, list: &List) -> Result<Value, Failure> {
    let pool = keeper.lease.borrow().settings.pool.clone();
    let first = list.first.max(pool.start);
    let look = keeper.link.snapshot(first..pool.end.max(first)).await;
    let look = look.map_err(|error| failure(&error))?;
    let shown = look.entries.iter().take(PAGE_MAX);
    let rows: Vec<Value> = shown.map(|entry| row(entry, &look)).collect();
    let next = look.entries.get(PAGE_MAX).map(|entry| entry.worker.0);
    Ok(json!({
        "pool": [pool.start, pool.end],
        "now_ms": look.now.0,
        "workers": rows,
        "next": next,
    }))
}

/// Takes a worker from another host. Its bound stays, because that host may have issued ids up to it.
async fn take_back(keeper: &LeaseDriver, worker: WorkerId) -> Result<Entry, Failure> {
    let look = keeper
        .link
        .snapshot(worker.0..worker.0.saturating_add(1))
        .await
        .map_err(|error| failure(&error))?;
    let is_held = |entry: &Entry| entry.worker == worker && entry.holding.holder.is_some();
    let Some(entry) = look.entries.into_iter().find(is_held) else {
        return Err(refused(format!("no host holds worker {worker}")));
    };
    let swap = CompareAndSet {
        worker,
        expected: Some(entry.holding.clone()),
        next: LeaseRecord { holder: None, expires: entry.holding.expires },
        seen: clock::now().unix,
        ahead_max: std::time::Duration::MAX,
    };
    let done = keeper.link.compare_and_set(look.registry, swap).await;
    done.map(|_| entry).map_err(|error| failure(&error))
}

fn row(entry: &Entry, look: &Snapshot) -> Value {
    let holder = entry.holding.holder.as_ref();
    json!({
        "worker": entry.worker.0,
        "holder": holder.map(|holder| &*holder.id),
        "name": holder.map(|holder| &*holder.name),
        "stopped": holder.map(leafd_core::registry::Holder::has_stopped),
        "until_ms": entry.holding.expires.0,
        "left_ms": entry.holding.expires.0.saturating_sub(look.now.0),
        "written_ms_ago": look.now.0.saturating_sub(entry.written.0),
    })
}

pub(super) fn failure(error: &RegistryError) -> Failure {
    match error {
        RegistryError::Unavailable { .. } | RegistryError::Changed { .. } => {
            Failure::store_away(error.to_string())
        }
        other => refused(other.to_string()),
    }
}
