//! The part of a daemon that leases a worker and issues snowflake ids.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use leafd_core::lease::{
    FOREVER, IssueWindow, Lease, LeaseSettings, Mode, Recorded, Request, Response, Step,
};
use leafd_core::registry::{Holder, RegistryError};
use leafd_core::snowflake::{Generator, Now};
use leafd_core::store::{History, StartToken, StoreError};
use leafd_core::{BootMs, UnixMs, WorkerId};
use leafd_wire::{Layout, Run};

use crate::Break;
use crate::host::{Daemon, Disk, Journal, Moment};
use crate::store::Answer;
use crate::world::{DRIFT_MS, THRESHOLD_MS};

/// The layouts of every host: Leaf's, and one with coarse ticks.
pub const LAYOUTS: [Layout; 2] = [
    Layout::LEAF,
    Layout { time_bits: 41, worker_bits: 10, sequence_bits: 8, unit_ms: 10, epoch_ms: 0 },
];

/// How long a call waits for the monitor of a store that doesn't answer.
const ATTEMPT_MS: u64 = 2_000;

/// The lease and the generators.
pub struct Worker {
    pub lease: Lease,
    generators: [Generator; LAYOUTS.len()],
    /// Writes that are not on the disk yet, in order, each with the true time when it will be.
    pub writes: VecDeque<(u64, Change)>,
    mark_in_flight: [bool; LAYOUTS.len()],
    /// The lease of a restored journal, by its worker and start.
    restored: Option<(WorkerId, UnixMs)>,
    /// The last commit in what each side of the store last showed of the workers: the old primary's is the second one.
    pub saw: [u64; 2],
    /// The store's present history, and since when this life knows it.
    pub seen: Option<(History, BootMs)>,
    /// How many visits of the monitor had ended when a call began to wait for the next one, and until when it waits.
    waits: Option<(u64, u64)>,
}

/// A change of the journal.
#[derive(Clone)]
pub enum Change {
    Lease(Option<Recorded>),
    Mark(usize, UnixMs),
}

/// The answer to a call of the registry that failed.
pub fn failed(ask: &Request, error: RegistryError) -> Response {
    match ask {
        Request::Snapshot(_) => Response::Snapshot(Err(error)),
        Request::CompareAndSet(..) => Response::CompareAndSet(Err(error)),
        Request::Assign(..) => Response::Assign(Err(error)),
        Request::Record(_) => unreachable!("the daemon's journal records it"),
    }
}

impl Daemon {
    /// Whether a call of the registry in the store may be made; `None`: not yet. Registry and store are checked
    /// together, and while the store doesn't answer, only its monitor retries.
    pub fn may_ask(
        &mut self,
        ask: &Request,
        now: Now,
        true_ms: u64,
    ) -> Option<Result<(), StoreError>> {
        let (monitor, waits) = (&mut self.tags.monitor, &mut self.worker.waits);
        if let Request::CompareAndSet(under, _) | Request::Assign(under, ..) = ask
            && let Err(error) = monitor.verify(now.boot, under)
        {
            return Some(Err(error));
        }
        let is_away = !monitor.tried() || monitor.away.is_some();
        let (visits, until_ms) = *waits.get_or_insert((monitor.visits, true_ms + ATTEMPT_MS));
        if is_away && monitor.visits == visits && true_ms < until_ms {
            return None;
        }
        *waits = None;
        Some(monitor.away.as_ref().map_or(Ok(()), |away| Err(away.error.clone())))
    }

    /// An answer of the registry counts only if it is in the store that hosts claim from.
    pub fn verify(&mut self, now: Now, answer: &mut Answer) {
        let Answer::Worker(said) = answer else { return };
        if let Response::Snapshot(Ok(look)) = said
            && let Err(error) = self.tags.monitor.verify(now.boot, &look.registry)
        {
            *said = Response::Snapshot(Err(error.into()));
        }
        let (Response::Snapshot(Err(error)) | Response::CompareAndSet(Err(error))) = said else {
            return;
        };
        if let RegistryError::Unavailable { .. } = error {
            self.tags.monitor.probe_soon(now.boot);
        }
    }
}

impl Worker {
    pub fn start(
        life: u64,
        (mode, pool): (Mode, Range<u64>),
        journal: &Journal,
        now: Now,
        moment: Moment,
    ) -> Worker {
        let holder = Holder {
            id: Arc::clone(&journal.host),
            name: Arc::clone(&journal.host),
            incarnation: StartToken(life.to_string().into()),
        };
        let settings = LeaseSettings {
            mode,
            pool,
            holder,
            named: false,
            place: "simulated".into(),
            embedded: false,
            lease_ms: moment.sim.lease_ms,
            restart_grace_ms: moment.sim.grace_ms,
            clock_threshold_ms: THRESHOLD_MS,
            drift_max_ms: DRIFT_MS,
            settle_ms: Some(moment.sim.settle_ms),
        };
        let mut lease = Lease::new(settings, journal.lease.clone(), now);
        let generators = std::array::from_fn(|layout| {
            let mark = match moment.broken {
                Some(Break::MarkForgotten) => UnixMs(0),
                _ => journal.marks[layout],
            };
            lease.journal_reached(mark);
            Generator::new(LAYOUTS[layout], mark, DRIFT_MS)
        });
        let restored = journal.lease.as_ref().filter(|_| journal.is_restored);
        Worker {
            lease,
            generators,
            writes: VecDeque::new(),
            mark_in_flight: [false; LAYOUTS.len()],
            restored: restored.map(|lease| (lease.worker, lease.start)),
            saw: [0; 2],
            seen: None,
            waits: None,
        }
    }

    /// Stops issuing, and keeps the worker for a restart.
    pub fn stop(&mut self, broken: Option<Break>) {
        self.lease.stop(self.issued_below());
        self.leave(broken);
    }

    /// An administrator releases the worker while the daemon runs. The next id needs another one.
    pub fn release(&mut self, broken: Option<Break>) {
        self.lease.release(self.issued_below());
        self.leave(broken);
    }

    fn leave(&mut self, broken: Option<Break>) {
        if broken != Some(Break::LossIgnored) {
            self.issue_as(None);
        }
    }

    fn issued_below(&self) -> UnixMs {
        self.generators.iter().map(Generator::issued_below).max().unwrap_or_default()
    }

    fn issue_as(&mut self, window: Option<IssueWindow>) {
        self.generators.iter_mut().for_each(|generator| generator.follow(window));
    }

    /// Does what is possible now. Returns a step that is not the journal's.
    pub fn go_on(
        &mut self,
        journal: &mut Journal,
        now: Now,
        stopping: bool,
        moment: Moment,
    ) -> Step {
        let Moment { broken, true_ms, sync_ms, random, .. } = moment;
        while moment.acknowledges
            && self.writes.front().is_some_and(|(due_ms, _)| *due_ms <= true_ms)
        {
            let (_, change) = self.writes.pop_front().unwrap();
            if moment.disk == Disk::Works {
                journal.apply(&change);
            }
            if broken != Some(Break::SyncsLost) {
                self.durable(now, change);
            }
        }
        let step = loop {
            match self.lease.next(now, random) {
                Step::Request(Request::Record(lease)) => {
                    if broken == Some(Break::StopNotJournalled) && stopping {
                        self.lease.answered(now, Response::Record(Ok(())), random);
                        continue;
                    }
                    self.write(true_ms + sync_ms, now, Change::Lease(lease), broken);
                }
                step => break step,
            }
        };
        self.follow(now, broken);
        let believed = self.lease.clock.believed_time(now);
        for layout in 0..LAYOUTS.len() {
            if !self.mark_in_flight[layout]
                && let Some(mark) = self.generators[layout].mark_wanted(believed)
            {
                self.mark_in_flight[layout] = true;
                self.write(true_ms + sync_ms, now, Change::Mark(layout, mark), broken);
            }
        }
        step
    }

    /// Issues ids of one layout, if it can.
    pub fn draw(&mut self, layout: usize, now: Now, count: u32, random: u64) -> Option<Run> {
        let now = self.lease.clock.believed_time(now);
        self.generators[layout].take(now, count, random).ok()
    }

    /// Whether it issues ids of the lease that a restored journal had.
    pub fn is_restored(&self) -> bool {
        let window = self.generators[0].grant;
        window.is_some_and(|window| self.restored == Some((window.worker, window.start)))
    }

    /// The disk's content after a clean stop: every write has arrived, and the marks are exact.
    pub fn end(self, journal: &mut Journal) {
        self.writes.iter().for_each(|(_, change)| journal.apply(change));
        for (layout, generator) in self.generators.iter().enumerate() {
            if let Some(end) = generator.used_end() {
                journal.marks[layout] = end;
            }
        }
    }

    /// `saw`: the last commit of the store then, and whether the old primary has answered.
    pub fn answered(&mut self, now: Now, answer: Response, saw: (u64, bool), random: u64) {
        let shows = matches!(
            answer,
            Response::Snapshot(Ok(_))
                | Response::CompareAndSet(Err(RegistryError::Conflict { .. }))
        );
        if shows {
            self.saw[usize::from(saw.1)] = saw.0;
        }
        self.lease.answered(now, answer, random);
    }

    fn follow(&mut self, now: Now, broken: Option<Break>) {
        let mut window = self.lease.standing(now).ok();
        if window.is_none() && broken == Some(Break::LossIgnored) {
            window = self.generators[0].grant;
        }
        if let Some(window) = &mut window {
            match broken {
                Some(Break::LimitIgnored) => window.limit = FOREVER,
                Some(Break::StartIgnored) => window.start = UnixMs(0),
                _ => {}
            }
        }
        self.issue_as(window);
    }

    /// Hands a change to the disk, which writes in order.
    fn write(&mut self, due_ms: u64, now: Now, change: Change, broken: Option<Break>) {
        if broken == Some(Break::SyncsLost) {
            // The disk confirms it now, and will have it unless the host crashes.
            self.durable(now, change.clone());
        }
        let due_ms = self.writes.back().map_or(due_ms, |(last_ms, _)| due_ms.max(*last_ms));
        self.writes.push_back((due_ms, change));
    }

    fn durable(&mut self, now: Now, change: Change) {
        match change {
            Change::Lease(_) => self.lease.answered(now, Response::Record(Ok(())), 0),
            Change::Mark(layout, mark) => {
                self.mark_in_flight[layout] = false;
                self.generators[layout].marked(mark);
                self.lease.journal_reached(mark);
            }
        }
    }
}
