//! A simulated host: its clocks and its journal outlive the lives of its daemon.

use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use leafd_core::lease::{Mode, Recorded, Step};
use leafd_core::snowflake::Now;
use leafd_core::store::History;
use leafd_core::upstream::{Record, Response};
use leafd_core::{BootMs, UnixMs};

use crate::lease::{Change, LAYOUTS, Worker};
use crate::store::{Answer, Call, TAGS, former_lives};
use crate::tags::{Segment, Tags};
use crate::{Break, Simulation};

/// Lines of calls that wait for the thread of the store: the monitor's, the lease's, and claims of tags.
pub const LINES: usize = 3;
pub const MONITOR: usize = 0;
pub const WORKER: usize = 1;
pub const CLAIMS: usize = 2;

/// A host.
#[derive(Default)]
pub struct Host {
    pub clocks: Clocks,
    pub journal: Journal,
    /// An older state of the journal, in which nothing was under way.
    pub backup: Option<Journal>,
    pub daemon: Option<Daemon>,
    /// It reaches no server until then, in true time.
    pub cut_off_until_ms: u64,
    /// Servers hear it, but it hears none of them until then.
    pub deaf_until_ms: u64,
    /// Nothing more reaches its disk until then.
    pub disk_hangs_until_ms: u64,
    /// Commits of its journal fail until then, and how.
    pub disk_fails_until_ms: u64,
    pub failing_disk: Disk,
    /// It is paused until then, in true time.
    pub paused_until_ms: u64,
    /// When its daemon starts or restarts, in true time, if it isn't running.
    pub start_at_ms: u64,
    /// Nobody requests snowflake ids until then.
    pub quiet_until_ms: u64,
    /// When its daemon last ran, in true time.
    pub ran_at_ms: u64,
    /// Until when something may keep it from renewing its lease, in true time.
    pub unwell_ms: u64,
    /// The highest id of each layout since its journal began.
    pub highest: [u64; LAYOUTS.len()],
    /// One past the last id of each tag since its journal began.
    pub issued_below: [u64; TAGS],
    /// True time of the last id of each tag, and of any layout.
    pub drew_at_ms: [u64; TAGS + 1],
    /// True times of its last calls of the registry.
    pub calls_ms: VecDeque<u64>,
    /// Its users draw ids of tags so seldom that it holds them for long.
    pub draws_seldom: bool,
    /// The server that it is connected to.
    pub server: usize,
    /// When the old primary of a split store last answered it, in true time.
    pub old_primary_ms: u64,
    /// What the engine said when the connection was opened.
    pub engine: Option<String>,
    /// Its last write that was confirmed, and in which life of the store.
    pub kept: Option<(Rc<str>, u64)>,
    /// Histories that it trusted and then left.
    pub left: BTreeSet<Rc<str>>,
}

/// What becomes of a commit of the journal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Disk {
    #[default]
    Works,
    /// It fails, and nothing of it is on the disk.
    Refuses,
    /// It fails after it was written, so nobody knows what is on the disk.
    FailsLate,
}

/// A host's clocks, derived from the true time.
#[derive(Clone, Copy, Default)]
pub struct Clocks {
    /// How far ahead the wall clock is.
    pub offset_ms: i64,
    /// How much faster than true time they run, in millionths.
    pub skew_ppm: i64,
    pub booted_ms: u64,
    /// How long the host was suspended or its daemon stopped.
    pub suspended_ms: u64,
}

/// What is on a host's disk.
#[derive(Clone, Default)]
pub struct Journal {
    /// The host's name in the store.
    pub host: Arc<str>,
    pub lease: Option<Recorded>,
    /// The mark of each layout.
    pub marks: [UnixMs; LAYOUTS.len()],
    /// It is an old state of this journal, which only the store can tell.
    pub is_restored: bool,
    pub history: Option<History>,
    pub segments: Vec<Segment>,
    pub ends: [u64; TAGS],
    /// The lives of the daemon from the last one on that the store has confirmed.
    pub starts: Vec<u64>,
    /// The number of its last write that the store has confirmed in this history.
    pub written: u64,
    /// The commit of a claim not after that write, and in which life of the store.
    pub kept: Option<(Rc<str>, u64)>,
}

/// One life of a daemon.
pub struct Daemon {
    pub life: u64,
    pub stopping: bool,
    /// When it gives up waiting for the journal at a stop, in true time.
    pub stop_by_ms: u64,
    /// The journal's last commit failed. It is tried again then, in true time.
    pub retry_ms: Option<u64>,
    /// Waiting calls.
    pub calls: [VecDeque<Call>; LINES],
    /// The call of the store that its thread makes now: its number, and since when, in true time.
    pub call: Option<(u64, u64)>,
    /// Whether that writes a lease.
    pub writes: bool,
    pub tags: Tags,
    pub worker: Worker,
}

/// What a daemon goes by at one instant.
#[derive(Clone, Copy)]
pub struct Moment {
    pub sim: Simulation,
    pub broken: Option<Break>,
    pub true_ms: u64,
    /// How long the disk takes from now on.
    pub sync_ms: u64,
    pub disk: Disk,
    /// Whether the journal acknowledges what is due now.
    pub acknowledges: bool,
    pub random: u64,
}

/// How a daemon goes on.
pub enum Outcome {
    Goes,
    /// It has stopped cleanly.
    Ends,
    /// It has stopped, but its journal could not record that, or doesn't know that it did.
    EndsInexactly,
}

/// How many of the changes under way to the disk are on it after a crash: the worker's, the claims of tags, the
/// monitor's record, and whether the journal has forgotten what was dropped.
#[derive(Clone, Copy, Default)]
pub struct CameThrough {
    pub writes: usize,
    pub claims: usize,
    pub record: bool,
    pub drop: bool,
}

/// A journal that fails is tried again after this long.
pub const RETRY_MS: u64 = 1_000;

impl Clocks {
    pub fn read(&self, true_ms: u64, broken: Option<Break>) -> Now {
        let since_ms = true_ms - self.booted_ms;
        let skewed_ms = i64::try_from(since_ms).unwrap() * self.skew_ppm / 1_000_000;
        let counted_ms = match broken {
            Some(Break::SuspendNotCounted) => since_ms.saturating_sub(self.suspended_ms),
            _ => since_ms,
        };
        Now {
            unix: UnixMs(true_ms.saturating_add_signed(self.offset_ms + skewed_ms)),
            boot: BootMs(counted_ms.saturating_add_signed(skewed_ms)),
        }
    }

    /// How far ahead the wall clock is.
    pub fn ahead_ms(&self, true_ms: u64) -> i64 {
        i64::try_from(self.read(true_ms, None).unix.0).unwrap() - i64::try_from(true_ms).unwrap()
    }

    /// An administrator sets the wall clock right.
    pub fn correct(&mut self, true_ms: u64) {
        self.offset_ms -= self.ahead_ms(true_ms);
    }
}

impl Host {
    pub fn start(&mut self, life: u64, workers: (Mode, Range<u64>), moment: Moment) {
        let now = self.clocks.read(moment.true_ms, moment.broken);
        let worker = Worker::start(life, workers, &self.journal, now, moment);
        let tags = Tags::start(life, &mut self.journal, now.boot, moment);
        (self.kept, self.engine) = (self.journal.kept.clone(), None);
        self.ran_at_ms = moment.true_ms;
        self.daemon = Some(Daemon {
            life,
            stopping: false,
            stop_by_ms: u64::MAX,
            retry_ms: None,
            calls: Default::default(),
            call: None,
            writes: false,
            tags,
            worker,
        });
    }

    /// Handles what the disk has reached, and what the machines want.
    pub fn go_on(&mut self, moment: Moment) -> Outcome {
        let now = self.clocks.read(moment.true_ms, moment.broken);
        let Host { daemon: Some(daemon), journal, left, .. } = self else { return Outcome::Goes };
        let acknowledges = daemon.tries_journal(journal, left, moment);
        let moment = Moment { acknowledges, ..moment };
        if moment.sim.has_tags {
            daemon.go_on_with_tags(journal, left, now.boot, moment);
        }
        match daemon.worker.go_on(journal, now, daemon.stopping, moment) {
            Step::Request(ask) => daemon.calls[WORKER].push_back(Call::Worker(ask)),
            Step::Wait(_) => {}
            Step::Done if moment.disk == Disk::Works && daemon.retry_ms.is_none() => {
                return Outcome::Ends;
            }
            // It waits for the end of the fault, so that nothing is lost.
            Step::Done if daemon.has_writes() => {}
            Step::Done => return Outcome::EndsInexactly,
        }
        let gives_up = daemon.retry_ms.is_some() && daemon.stop_by_ms <= moment.true_ms;
        if gives_up { Outcome::EndsInexactly } else { Outcome::Goes }
    }

    /// The disk has this now.
    pub fn use_journal(&mut self, journal: Journal) {
        self.left = journal.history.iter().flat_map(former_lives).collect();
        (self.journal, self.daemon) = (journal, None);
        (self.highest, self.issued_below) = ([0; LAYOUTS.len()], [0; TAGS]);
    }

    /// After a crash only the disk's content remains.
    pub fn crash(&mut self, came_through: CameThrough, broken: Option<Break>) {
        let Some(daemon) = self.daemon.take() else { return };
        daemon.tags.end(daemon.life, &mut self.journal, &mut self.left, came_through);
        if broken != Some(Break::SyncsLost) {
            daemon.worker.writes.iter().take(came_through.writes).for_each(|(_, change)| {
                self.journal.apply(change);
            });
        }
    }

    /// After a clean stop everything is on the disk.
    pub fn end(&mut self) {
        let Some(daemon) = self.daemon.take() else { return };
        let all = CameThrough { writes: 0, claims: usize::MAX, record: true, drop: true };
        daemon.tags.end(daemon.life, &mut self.journal, &mut self.left, all);
        daemon.worker.end(&mut self.journal);
    }

    /// What becomes of a commit now.
    pub fn disk(&self, true_ms: u64) -> Disk {
        if self.disk_fails_until_ms > true_ms { self.failing_disk } else { Disk::Works }
    }

    /// Whether commits fail, or the daemon doesn't know yet that they work again.
    pub fn fails(&self, true_ms: u64) -> bool {
        self.disk(true_ms) != Disk::Works || self.daemon.as_ref().is_some_and(Daemon::fails)
    }

    pub fn is_unwell_until(&mut self, true_ms: u64) {
        self.unwell_ms = self.unwell_ms.max(true_ms);
    }

    pub fn has_drawn_snowflakes(&self) -> bool {
        self.drew_at_ms[TAGS] > 0
    }

    /// It goes on earlier than it would have.
    pub fn resume(&mut self, true_ms: u64) {
        self.clocks.suspended_ms -= self.paused_until_ms.saturating_sub(true_ms);
        self.paused_until_ms = self.paused_until_ms.min(true_ms);
    }
}

impl Daemon {
    /// Whether its journal fails, as far as it knows.
    pub fn fails(&self) -> bool {
        self.retry_ms.is_some()
    }

    /// Whether changes are under way to the disk.
    pub fn has_writes(&self) -> bool {
        !self.worker.writes.is_empty() || self.tags.has_writes()
    }

    /// Commits what is due to the journal, and returns whether it may be acknowledged. After a failure it is unknown
    /// what is on the disk. Everything is tried again, in its order, and nothing is acknowledged or issued until then.
    fn tries_journal(
        &mut self,
        journal: &mut Journal,
        left: &mut BTreeSet<Rc<str>>,
        moment: Moment,
    ) -> bool {
        let Moment { true_ms, disk, broken, .. } = moment;
        if broken == Some(Break::FailedWriteCounts) {
            return true;
        }
        if self.retry_ms.is_some_and(|retry_ms| retry_ms > true_ms) {
            return false;
        }
        let is_due = self.worker.writes.front().is_some_and(|(due_ms, _)| *due_ms <= true_ms);
        if self.retry_ms.is_none() && !is_due && !self.tags.has_due(true_ms) {
            return true;
        }
        if disk == Disk::Works {
            self.retry_ms = None;
            return true;
        }
        if disk == Disk::FailsLate {
            let due = self.worker.writes.iter().take_while(|(due_ms, _)| *due_ms <= true_ms);
            due.for_each(|(_, change)| journal.apply(change));
            self.tags.reach_disk(self.life, journal, left, true_ms);
        }
        self.retry_ms = Some(true_ms + RETRY_MS);
        false
    }

    /// Whether this answer counts only once the journal has recorded something: a new name of the host, or its last
    /// write. Returns how long that takes at least.
    pub fn waits_for_journal(
        &self,
        journal: &Journal,
        answer: &Answer,
        true_ms: u64,
    ) -> Option<u64> {
        let tags = &self.tags;
        let records = match answer {
            Answer::Monitor(None) => true,
            Answer::Monitor(Some(Response::Identity(Ok(found)))) => {
                let is_trusted = tags.monitor.claimable() == Some(found);
                let written = tags.proof.confirmed(&found.history);
                is_trusted && !tags.is_anew && written > journal.written
            }
            _ => false,
        };
        let retry_ms = self.retry_ms.filter(|_| records)?;
        Some(retry_ms.saturating_sub(true_ms).max(1))
    }
}

impl Journal {
    /// The journal of a new host that has found another one's, or an old one.
    pub fn begin_anew(self, host: Arc<str>) -> Journal {
        let Journal { marks, history, ends, .. } = self;
        Journal { host, marks, history, ends, ..Journal::default() }
    }

    pub fn apply(&mut self, change: &Change) {
        match change {
            Change::Lease(lease) => {
                let what = |lease: &Option<Recorded>| {
                    lease.as_ref().map(|lease| (lease.worker, lease.start))
                };
                self.is_restored &= what(lease) == what(&self.lease);
                self.lease.clone_from(lease);
            }
            Change::Mark(layout, mark) => self.marks[*layout] = self.marks[*layout].max(*mark),
        }
    }

    /// Records a claim.
    pub fn saw(&mut self, segment: &Segment) {
        self.ends[segment.tag] = self.ends[segment.tag].max(segment.end);
    }

    /// Records what a daemon has learned of the store.
    pub fn apply_record(&mut self, life: u64, left: &mut BTreeSet<Rc<str>>, record: &Record) {
        if let Record::CheckedIn(..) = record {
            self.starts = vec![life];
        }
        let (Record::CheckedIn(_, history) | Record::History(_, history)) = record;
        if let Some(former) = self.history.replace(history.clone())
            && former != *history
        {
            left.insert((&*former.0).into());
            (self.written, self.kept) = (0, None);
        }
    }
}
