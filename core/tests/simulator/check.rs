//! What must never happen, and what must have happened in the end.

use std::fmt;

use leafd_core::UnixMs;
use leafd_core::lease::{LeaseProblem, Mode};
use leafd_wire::Run;

use crate::coverage::MACHINE;
use crate::host::{Host, LAYOUTS};
use crate::pairs::Pairs;
use crate::world::World;

/// A broken promise.
#[derive(Clone, Debug)]
pub enum Violation {
    /// An id was issued a second time.
    Twice { layout: usize, id: u64, worker: u64, host: String },
    /// A host issued an id below an earlier one.
    OutOfOrder { layout: usize, id: u64, before: u64, host: String },
    /// An id's tick ends beyond every expiry that its host ever had recorded with the worker.
    BeyondTheClaim { worker: u64, end: UnixMs, bound: UnixMs, host: String },
    /// An id's tick begins before its host's claim of the worker.
    BeforeTheClaim { worker: u64, start: UnixMs, begins: UnixMs, host: String },
    /// An id's tick ends beyond what is on the host's disk.
    BeyondTheJournal { end: UnixMs, bound: UnixMs, host: String },
    /// Long after everything recovered, a host still gets no ids.
    NeverReady { host: String, why: String },
    /// A host calls the registry again and again.
    TooManyCalls { host: String },
}

/// How many calls of the registry a host may make within the window. A renewal a second, a look now and then, and
/// retries that back off to one a second stay well below.
const CALLS_MAX: usize = 40;
const CALLS_WINDOW_MS: u64 = 10_000;

/// What happened in a run.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    pub ids: u64,
    pub starts: u64,
    pub crashes: u64,
    pub stops: u64,
    pub releases: u64,
    pub pods: u64,
    pub pauses: u64,
    pub clock_steps: u64,
    pub registry_clock_steps: u64,
    pub outages: u64,
    pub cut_off: u64,
    pub fail_overs: u64,
    pub journals_lost: u64,
    pub copies: u64,
    pub restored: u64,
    pub answers_lost: u64,
    pub late_calls: u64,
    /// Which answers and commands found a lease in which state.
    pub pairs: Pairs,
}

impl World {
    /// Checks ids that a host just issued.
    pub fn check_run(&mut self, index: usize, layout: usize, run: Run) -> Result<(), Violation> {
        let host = &mut self.hosts[index];
        let name = || host.journal.host.to_string();
        let fields = LAYOUTS[layout].decompose(run.first).expect("an id of the layout");
        let (worker, end) = (fields.worker, UnixMs(LAYOUTS[layout].tick_start_ms(fields.tick + 1)));
        let before = host.highest[layout];
        if run.first <= before {
            return Err(Violation::OutOfOrder { layout, id: run.first, before, host: name() });
        }
        let on_disk = host.journal.bounds[layout];
        if end > on_disk {
            return Err(Violation::BeyondTheJournal { end, bound: on_disk, host: name() });
        }
        let bound = self.registry.ever(worker, &host.journal.host);
        if self.mode == Mode::Leased && end > bound {
            return Err(Violation::BeyondTheClaim { worker, end, bound, host: name() });
        }
        let start = UnixMs(LAYOUTS[layout].tick_start_ms(fields.tick));
        let begins = self.registry.begins(worker, &host.journal.host);
        if start < begins {
            return Err(Violation::BeforeTheClaim { worker, start, begins, host: name() });
        }
        for id in run.first..run.first + u64::from(run.count) {
            if !self.ids[layout].insert(id) {
                return Err(Violation::Twice { layout, id, worker, host: name() });
            }
            host.highest[layout] = id;
        }
        host.drew_at_ms = self.true_ms;
        self.totals.ids += u64::from(run.count);
        Ok(())
    }

    /// Notes that a host calls the registry, and checks that it does so rarely enough.
    pub fn check_rate(&mut self, index: usize) -> Result<(), Violation> {
        let host = &mut self.hosts[index];
        host.calls_ms.push_back(self.true_ms);
        if host.calls_ms.len() <= CALLS_MAX {
            return Ok(());
        }
        let oldest_ms = host.calls_ms.pop_front().unwrap_or_default();
        if oldest_ms + CALLS_WINDOW_MS > self.true_ms {
            return Err(Violation::TooManyCalls { host: host.journal.host.to_string() });
        }
        Ok(())
    }

    /// Checks that every host has drawn ids since.
    pub fn check_all_draw(&self, since_ms: u64) -> Result<(), Violation> {
        let waits = |host: &&Host| host.drew_at_ms < since_ms && !self.must_be_mended(host);
        let Some(host) = self.hosts.iter().find(waits) else { return Ok(()) };
        let now = host.clocks.read(self.true_ms);
        let why = host.daemon.as_ref().map_or_else(
            || "it does not run".to_owned(),
            |daemon| format!("{:?}, {:?}", daemon.lease.standing(now), &daemon.lease.trouble),
        );
        Err(Violation::NeverReady { host: host.journal.host.to_string(), why })
    }
}

impl World {
    /// A number was assigned for good in a write that a fail-over lost, and its host was off until another host had the
    /// same number. The host is refused with a message, and people decide.
    fn must_be_mended(&self, host: &Host) -> bool {
        let trouble = host.daemon.as_ref().and_then(|daemon| daemon.lease.trouble.as_ref());
        self.mode == Mode::Permanent
            && self.totals.fail_overs > 0
            && matches!(trouble, Some(LeaseProblem::Refused(_)))
    }
}

impl Totals {
    pub fn add(&mut self, other: &Totals) {
        let theirs = other.all();
        for (mine, (_, theirs)) in self.all_mut().into_iter().zip(theirs) {
            *mine += theirs;
        }
        self.pairs.add(&other.pairs);
    }

    /// If something never goes wrong in a simulation, the simulation shows nothing about it.
    pub fn assert_all_happened(&self) {
        for (what, count) in self.all() {
            assert!(count > 0, "{what} never happened");
        }
        MACHINE.assert_all_met(&self.pairs);
    }

    fn all(&self) -> [(&'static str, u64); 17] {
        [
            ("ids", self.ids),
            ("starts", self.starts),
            ("crashes", self.crashes),
            ("clean stops", self.stops),
            ("releases", self.releases),
            ("pods replaced", self.pods),
            ("pauses", self.pauses),
            ("clock steps", self.clock_steps),
            ("clock steps of the registry", self.registry_clock_steps),
            ("outages", self.outages),
            ("hosts cut off", self.cut_off),
            ("fail-overs", self.fail_overs),
            ("journals lost", self.journals_lost),
            ("journals copied", self.copies),
            ("journals set back", self.restored),
            ("answers lost", self.answers_lost),
            ("late calls", self.late_calls),
        ]
    }

    fn all_mut(&mut self) -> [&mut u64; 17] {
        [
            &mut self.ids,
            &mut self.starts,
            &mut self.crashes,
            &mut self.stops,
            &mut self.releases,
            &mut self.pods,
            &mut self.pauses,
            &mut self.clock_steps,
            &mut self.registry_clock_steps,
            &mut self.outages,
            &mut self.cut_off,
            &mut self.fail_overs,
            &mut self.journals_lost,
            &mut self.copies,
            &mut self.restored,
            &mut self.answers_lost,
            &mut self.late_calls,
        ]
    }
}

impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = self.all().map(|(what, count)| format!("{count} {what}"));
        write!(f, "{}; {}", all.join(", "), MACHINE.coverage(&self.pairs))
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Violation::Twice { layout, id, worker, host } => {
                write!(
                    f,
                    "{host} issued {id} of layout {layout} with worker {worker} a second time"
                )
            }
            Violation::OutOfOrder { layout, id, before, host } => {
                write!(f, "{host} issued {id} of layout {layout} after {before}")
            }
            Violation::BeyondTheClaim { worker, end, bound, host } => {
                write!(
                    f,
                    "{host} issued up to {end:?} with worker {worker}, claimed until {bound:?}"
                )
            }
            Violation::BeforeTheClaim { worker, start, begins, host } => {
                write!(
                    f,
                    "{host} issued from {start:?} with worker {worker}, claimed from {begins:?}"
                )
            }
            Violation::BeyondTheJournal { end, bound, host } => {
                write!(f, "{host} issued up to {end:?}, and its journal has {bound:?}")
            }
            Violation::NeverReady { host, why } => write!(f, "{host} gets no ids: {why}"),
            Violation::TooManyCalls { host } => write!(
                f,
                "{host} called the registry more than {CALLS_MAX} times in {CALLS_WINDOW_MS} ms"
            ),
        }
    }
}
