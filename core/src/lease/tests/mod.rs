//! Drives the lease as its users do, against a table of workers, a journal and clocks that the tests control.

mod clocks;
mod faults;
mod lives;
mod losses;
mod permanent;
mod selection;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::time::Duration;

use leafd_wire::Layout;

use super::{Lease, LeaseProblem, LeaseSettings, Mode, Recorded, Request, Response, Step};
use crate::registry::{Entry, Holder, LeaseRecord, RegistryError, RegistryId, Snapshot};
use crate::snowflake::{Generator, Now, Refusal};
use crate::store::{History, StartToken, StoreId};
use crate::{BootMs, UnixMs, WorkerId};

const START_MS: u64 = 1_700_000_000_000;
const LEASE_MS: u64 = 600_000;

/// A registry, the true time, and every id that was issued.
struct World {
    time_ms: u64,
    registry: RegistryId,
    history_age: Option<Duration>,
    /// How far the registry's clock is ahead of the true time.
    offset_ms: i64,
    entries: BTreeMap<u64, Entry>,
    away: bool,
    /// Writes are carried out, but their answers are lost.
    deaf: bool,
    ids: BTreeSet<u64>,
    tokens: u32,
}

/// A host: its journal and clock outlive the daemon's lives.
struct Host {
    settings: LeaseSettings,
    journal: Option<Recorded>,
    /// The latest expiry that was ever durable. Ids may be issued up to it.
    durable: UnixMs,
    layout_bound: UnixMs,
    offset_ms: i64,
    lease: Lease,
    generator: Generator,
    last_id: u64,
}

impl World {
    fn new() -> World {
        World {
            time_ms: START_MS,
            registry: RegistryId { id: StoreId("store".into()), history: History("1".into()) },
            history_age: None,
            offset_ms: 0,
            entries: BTreeMap::new(),
            away: false,
            deaf: false,
            ids: BTreeSet::new(),
            tokens: 0,
        }
    }

    fn settings(&self, host: &str, pool: Range<u64>) -> LeaseSettings {
        let incarnation = StartToken("".into());
        LeaseSettings {
            mode: Mode::Leased,
            pool,
            holder: Holder { id: host.into(), name: host.into(), incarnation },
            named: false,
            place: "here".into(),
            embedded: false,
            lease_ms: LEASE_MS,
            restart_grace_ms: 60_000,
            clock_threshold_ms: 5_000,
            drift_max_ms: 5_000,
            settle_ms: Some(10_000),
        }
    }

    fn host(&mut self, name: &str, pool: Range<u64>) -> Host {
        let settings = self.settings(name, pool);
        Host::start(self, settings, None, UnixMs(0), 0)
    }

    fn clock(&self) -> UnixMs {
        UnixMs(self.time_ms.strict_add_signed(self.offset_ms))
    }

    fn answer(&mut self, ask: Request) -> Response {
        let unavailable =
            || RegistryError::Unavailable { registry: "here".into(), cause: "away".into() };
        let away = self.away;
        match ask {
            Request::Snapshot(_) if away => Response::Snapshot(Err(unavailable())),
            Request::CompareAndSet(..) if away => Response::CompareAndSet(Err(unavailable())),
            Request::Assign(..) if away => Response::Assign(Err(unavailable())),
            Request::Snapshot(pool) => Response::Snapshot(Ok(Snapshot {
                registry: self.registry.clone(),
                history_age: self.history_age,
                now: self.clock(),
                entries: self.entries.range(pool).map(|(_, entry)| entry.clone()).collect(),
            })),
            Request::CompareAndSet(under, swap) => {
                let found = self.entries.get(&swap.worker.0).cloned();
                if let Err(error) =
                    self.registry.check(&under).and_then(|()| swap.judge(found, self.clock()))
                {
                    return Response::CompareAndSet(Err(error));
                }
                self.enter(swap.worker, swap.next, swap.seen);
                let heard = if self.deaf { Err(unavailable()) } else { Ok(self.clock()) };
                Response::CompareAndSet(heard)
            }
            Request::Assign(_, pool, holding) => {
                let free = pool.clone().find(|worker| !self.entries.contains_key(worker));
                let worker = WorkerId(free.expect("a test's pool is large enough"));
                self.enter(worker, holding, self.clock());
                Response::Assign(Ok(self.entries[&worker.0].clone()))
            }
            Request::Record(_) => panic!("the journal is the host's"),
        }
    }

    fn enter(&mut self, worker: WorkerId, holding: LeaseRecord, seen: UnixMs) {
        let written = self.clock();
        self.entries.insert(worker.0, Entry { worker, holding, seen, written });
    }
}

impl Host {
    fn start(
        world: &mut World,
        mut settings: LeaseSettings,
        journal: Option<Recorded>,
        layout_bound: UnixMs,
        offset_ms: i64,
    ) -> Host {
        world.tokens += 1;
        settings.holder.incarnation = StartToken(format!("start-{}", world.tokens).into());
        let now = now(world, offset_ms);
        let lease = Lease::new(settings.clone(), journal.clone(), now);
        let generator = Generator::new(Layout::LEAF, layout_bound, settings.drift_max_ms);
        let durable = journal.as_ref().map_or(UnixMs(0), |recorded| recorded.holding.expires);
        Host { settings, journal, durable, layout_bound, offset_ms, lease, generator, last_id: 0 }
    }

    /// The next life of the host, after a crash or a stop.
    fn restart(self, world: &mut World) -> Host {
        let last_id = self.last_id;
        let next =
            Host::start(world, self.settings, self.journal, self.layout_bound, self.offset_ms);
        Host { last_id, ..next }
    }

    fn now(&self, world: &World) -> Now {
        now(world, self.offset_ms)
    }

    /// Takes steps until there is nothing to do now. Answers take no time.
    fn settle(&mut self, world: &mut World) -> Step {
        self.settle_with(world, |_, _| None)
    }

    /// The same, but `fault` may answer instead of the world and the journal.
    fn settle_with(
        &mut self,
        world: &mut World,
        mut fault: impl FnMut(&mut World, &Request) -> Option<Response>,
    ) -> Step {
        for _ in 0..100 {
            let now = self.now(world);
            self.lease.journal_reached(self.layout_bound);
            let step = self.lease.next(now, world.time_ms);
            if let Step::Request(ask) = &step {
                let pending = self.lease.next(now, world.time_ms);
                assert!(matches!(pending, Step::Wait(_)), "one call at a time: {pending:?}");
                if let Some(answer) = fault(world, ask) {
                    self.lease.answered(now, answer, world.time_ms);
                    continue;
                }
            }
            match step {
                Step::Request(Request::Record(claim)) => {
                    if let Some(claim) = &claim {
                        self.durable = self.durable.max(claim.holding.expires);
                    }
                    self.journal = claim;
                    self.lease.answered(now, Response::Record(Ok(())), world.time_ms);
                }
                Step::Request(ask) => {
                    let answer = world.answer(ask);
                    self.lease.answered(now, answer, world.time_ms);
                }
                step => {
                    self.generator.follow(self.lease.standing(now).ok());
                    return step;
                }
            }
            self.journal_has_what_may_be_used(now);
            self.generator.follow(self.lease.standing(now).ok());
        }
        panic!("a host that takes steps for ever: {:?}", self.lease);
    }

    /// A registry's answer alone does not allow issuing: the journal must have recorded it first.
    fn journal_has_what_may_be_used(&self, now: Now) {
        if self.settings.mode != Mode::Leased {
            return;
        }
        let Ok(grant) = self.lease.standing(now) else { return };
        let has = self.durable;
        assert!(grant.limit <= has, "{grant:?}, and the journal has had {has:?}");
    }

    /// Lets time pass in steps of a second, and does everything that is due.
    fn pass(&mut self, world: &mut World, seconds: u64) {
        for _ in 0..seconds {
            world.time_ms += 1_000;
            self.settle(world);
        }
    }

    /// Draws an id and moves the journal's mark as needed. Checks that every id is new to the world, and above the
    /// host's last.
    fn draw(&mut self, world: &mut World) -> Result<u64, Refusal> {
        let now = self.lease.clock.believed_time(self.now(world));
        self.generator.follow(self.lease.standing(now).ok());
        let mut drawn = self.generator.take(now, 1, 7);
        if let Some(bound) = self.generator.mark_wanted(now) {
            self.layout_bound = bound;
            self.generator.marked(bound);
            drawn = drawn.or_else(|_| self.generator.take(now, 1, 7));
        }
        let id = drawn?.first;
        assert!(world.ids.insert(id), "id {id} was issued twice");
        assert!(id > self.last_id, "id {id} after {}", self.last_id);
        self.last_id = id;
        Ok(id)
    }

    fn worker(&self, world: &World) -> Result<u64, LeaseProblem> {
        self.lease.standing(self.now(world)).map(|claim| claim.worker.0)
    }

    /// The step that waits for this many milliseconds from now.
    fn wait(&self, world: &World, ms: u64) -> Step {
        Step::Wait(Some(BootMs(self.now(world).boot.0 + ms)))
    }

    fn stop(&mut self, world: &mut World) {
        let issued_below = self.generator.issued_below();
        self.lease.stop(issued_below);
        assert_eq!(self.settle(world), Step::Done);
        self.layout_bound = issued_below;
    }
}

fn now(world: &World, offset_ms: i64) -> Now {
    Now {
        unix: UnixMs(world.time_ms.strict_add_signed(offset_ms)),
        boot: BootMs(world.time_ms - START_MS + 1_000),
    }
}

/// A host that has drawn its first id.
fn drawing(world: &mut World, name: &str, pool: Range<u64>) -> Host {
    let mut host = world.host(name, pool);
    host.lease.want();
    host.settle(world);
    host.draw(world).expect("a registry that answers gives a worker");
    host
}
