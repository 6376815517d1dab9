//! A simulated host: its clocks and its journal outlive the lives of its daemon.

use std::collections::VecDeque;
use std::sync::Arc;

use leafd_core::lease::{FOREVER, Lease, LeaseSettings, Recorded, Request, Response, Step};
use leafd_core::snowflake::{Generator, Now};
use leafd_core::{BootMs, UnixMs};
use leafd_wire::{Layout, Run};

use crate::breaks::Break;

/// The layouts of every host: Leaf's, and one with coarse ticks.
pub const LAYOUTS: [Layout; 2] = [
    Layout::LEAF,
    Layout { time_bits: 41, worker_bits: 10, sequence_bits: 8, unit_ms: 10, epoch_ms: 0 },
];

/// A host.
pub struct Host {
    pub clocks: Clocks,
    pub journal: Journal,
    /// An older state of the journal's files, as in a backup.
    pub backup: Option<Journal>,
    pub daemon: Option<Daemon>,
    /// It doesn't reach the registry until then, in true time.
    pub cut_off_until_ms: u64,
    /// It is stopped by a signal until then, in true time.
    pub paused_until_ms: u64,
    /// When it starts or restarts, in true time, if it isn't running.
    pub start_at_ms: u64,
    /// The highest id of each layout since its journal began.
    pub highest: [u64; LAYOUTS.len()],
    /// True time of the last id.
    pub drew_at_ms: u64,
    /// True times of its last calls of the registry.
    pub calls_ms: VecDeque<u64>,
}

/// A host's clocks, derived from the true time.
#[derive(Clone, Copy)]
pub struct Clocks {
    /// How far ahead the wall clock is.
    pub offset_ms: i64,
    /// How much faster than true time it runs, in millionths.
    pub skew_ppm: i64,
    pub booted_ms: u64,
}

/// What is on a host's disk.
#[derive(Clone)]
pub struct Journal {
    pub host: Arc<str>,
    pub claim: Option<Recorded>,
    pub bounds: [UnixMs; LAYOUTS.len()],
}

/// One life of a daemon.
pub struct Daemon {
    pub life: u64,
    pub lease: Lease,
    generators: [Generator; LAYOUTS.len()],
    /// Writes that are not on the disk yet, in order, each with the true time when it will be.
    pub writes: VecDeque<(u64, Change)>,
    bound_in_flight: [bool; LAYOUTS.len()],
    /// The number of the call under way.
    pub call: Option<u64>,
    pub stopping: bool,
}

/// A change of the journal.
#[derive(Clone)]
pub enum Change {
    Lease(Option<Recorded>),
    Bound(usize, UnixMs),
}

/// What a daemon wants of the world.
pub enum Outcome {
    Goes,
    Asks(Request),
    /// It has stopped cleanly.
    Ends,
}

impl Clocks {
    pub fn read(&self, true_ms: u64) -> Now {
        let since_ms = true_ms - self.booted_ms;
        let skewed = i64::try_from(since_ms).unwrap() * self.skew_ppm / 1_000_000;
        let unix = true_ms.saturating_add_signed(self.offset_ms + skewed);
        Now { unix: UnixMs(unix), boot: BootMs(since_ms) }
    }

    /// An administrator sets the wall clock right.
    pub fn correct(&mut self, true_ms: u64) {
        self.offset_ms = 0;
        let now = self.read(true_ms);
        self.offset_ms = i64::try_from(true_ms).unwrap() - i64::try_from(now.unix.0).unwrap();
    }
}

impl Journal {
    pub fn new(host: Arc<str>) -> Journal {
        Journal { host, claim: None, bounds: [UnixMs(0); LAYOUTS.len()] }
    }

    fn apply(&mut self, change: &Change) {
        match change {
            Change::Lease(claim) => self.claim = claim.clone(),
            Change::Bound(layout, bound) => {
                self.bounds[*layout] = self.bounds[*layout].max(*bound);
            }
        }
    }
}

impl Daemon {
    pub fn start(
        life: u64,
        settings: LeaseSettings,
        journal: &Journal,
        now: Now,
        broken: Option<Break>,
    ) -> Daemon {
        let drift_max_ms = settings.drift_max_ms;
        let mut lease = Lease::new(settings, journal.claim.clone(), now);
        let generators = std::array::from_fn(|layout| {
            let bound = match broken {
                Some(Break::JournalBoundForgotten) => UnixMs(0),
                _ => journal.bounds[layout],
            };
            lease.journal_reached(bound);
            Generator::new(LAYOUTS[layout], bound, drift_max_ms)
        });
        Daemon {
            life,
            lease,
            generators,
            writes: VecDeque::new(),
            bound_in_flight: [false; LAYOUTS.len()],
            call: None,
            stopping: false,
        }
    }

    /// Stops issuing, and keeps the worker for a restart.
    pub fn stop(&mut self) {
        self.lease.stop(self.issued_below());
        self.stopping = true;
    }

    /// An administrator releases the worker while the daemon runs. The next id needs another one.
    pub fn release(&mut self) {
        self.lease.release(self.issued_below());
    }

    fn issued_below(&self) -> UnixMs {
        self.generators.iter().map(Generator::issued_below).max().unwrap_or_default()
    }

    /// Does what is possible now. `sync_ms`: how long the disk takes from now on.
    pub fn go_on(
        &mut self,
        journal: &mut Journal,
        true_ms: u64,
        now: Now,
        sync_ms: u64,
        random: u64,
        broken: Option<Break>,
    ) -> Outcome {
        while self.writes.front().is_some_and(|(due_ms, _)| *due_ms <= true_ms) {
            let (_, change) = self.writes.pop_front().unwrap();
            journal.apply(&change);
            if broken != Some(Break::SyncsLost) {
                self.durable(now, change);
            }
        }
        let outcome = loop {
            match self.lease.next(now, random) {
                Step::Request(Request::Record(claim)) => {
                    if broken == Some(Break::StopNotJournalled) && self.stopping {
                        self.lease.answered(now, Response::Record(Ok(())), random);
                        continue;
                    }
                    self.write(true_ms + sync_ms, now, Change::Lease(claim), broken);
                }
                Step::Request(ask) => break Outcome::Asks(ask),
                Step::Wait(_) => break Outcome::Goes,
                Step::Done => break Outcome::Ends,
            }
        };
        self.follow(now, broken);
        let held = self.lease.clock.believed_time(now);
        for layout in 0..LAYOUTS.len() {
            if !self.bound_in_flight[layout]
                && let Some(bound) = self.generators[layout].mark_wanted(held)
            {
                self.bound_in_flight[layout] = true;
                self.write(true_ms + sync_ms, now, Change::Bound(layout, bound), broken);
            }
        }
        outcome
    }

    /// Issues ids of one layout, if it can.
    pub fn draw(&mut self, layout: usize, now: Now, count: u32, random: u64) -> Option<Run> {
        let now = self.lease.clock.believed_time(now);
        self.generators[layout].take(now, count, random).ok()
    }

    /// The disk's content once every write has arrived; after a clean stop also the exact marks.
    pub fn end(self, journal: &mut Journal) {
        for (_, change) in &self.writes {
            journal.apply(change);
        }
        for (layout, generator) in self.generators.iter().enumerate() {
            if let Some(end) = generator.used_end() {
                journal.bounds[layout] = end;
            }
        }
    }

    /// The disk's content after a crash that this many changes survived.
    pub fn crash(self, journal: &mut Journal, came_through: usize, broken: Option<Break>) {
        if broken != Some(Break::SyncsLost) {
            self.writes.iter().take(came_through).for_each(|(_, change)| journal.apply(change));
        }
    }

    pub fn answered(&mut self, now: Now, answer: Response, random: u64) {
        self.call = None;
        self.lease.answered(now, answer, random);
    }

    fn follow(&mut self, now: Now, broken: Option<Break>) {
        let mut claim = self.lease.standing(now).ok();
        if claim.is_none() && broken == Some(Break::LossIgnored) {
            claim = self.generators[0].grant;
        }
        if let Some(claim) = &mut claim {
            match broken {
                Some(Break::LimitIgnored) => claim.limit = FOREVER,
                Some(Break::StartIgnored) => claim.start = UnixMs(0),
                _ => {}
            }
        }
        self.generators.iter_mut().for_each(|generator| generator.follow(claim));
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
            Change::Bound(layout, bound) => {
                self.bound_in_flight[layout] = false;
                self.generators[layout].marked(bound);
                self.lease.journal_reached(bound);
            }
        }
    }
}
