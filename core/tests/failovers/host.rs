//! A simulated host: its clock and its journal outlive the lives of its daemon.

use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;

use leafd_core::BootMs;
use leafd_core::store::{History, Identity, Proof, StoreError, StoreId};
use leafd_core::upstream::{Event, Monitor, Record, Request, Response, Settings, Step};

use crate::breaks::Break;
use crate::store::{CLAIM, Call, TAGS, Told, former_lives};
use crate::world::{ANSWER_MS, PROBE_MS, SETTLE_MS};

/// A host.
pub struct Host {
    /// What the engine said when the connection was opened.
    pub engine: Option<String>,
    /// Its last write that was confirmed, and in which life of the store.
    pub kept: Option<(Rc<str>, u64)>,
    /// Lives that it trusted and then left.
    pub left: BTreeSet<Rc<str>>,
    pub booted_ms: u64,
    /// How much faster than true time its clock runs, in millionths.
    pub skew_ppm: i64,
    /// How long it was suspended or stopped.
    pub suspended_ms: u64,
    /// Its users draw so seldom that it holds numbers for long.
    pub draws_seldom: bool,
    pub journal: Journal,
    /// An older state of the journal, in which nothing was under way.
    pub backup: Option<Journal>,
    pub daemon: Option<Daemon>,
    /// It reaches no server until then.
    pub cut_off_until_ms: u64,
    /// It is paused until then, in true time.
    pub paused_until_ms: u64,
    /// When its daemon starts or restarts, in true time, if it isn't running.
    pub start_at_ms: u64,
    /// When its daemon last ran, in true time.
    pub ran_at_ms: u64,
    /// The server that it is connected to.
    pub server: usize,
    /// True time of the last id of each tag.
    pub drew_at_ms: [u64; TAGS],
}

/// What is on a host's disk.
#[derive(Clone, Default)]
pub struct Journal {
    /// The host's name in the store.
    pub host: usize,
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

/// Numbers held.
#[derive(Clone, Copy)]
pub struct Segment {
    pub tag: usize,
    pub next: u64,
    pub end: u64,
    pub claim: usize,
    /// It comes from a restored journal.
    pub restored: bool,
}

/// One life of a daemon.
pub struct Daemon {
    pub life: u64,
    /// The earlier lives whose writes it knows as this host's own.
    pub starts: Vec<u64>,
    /// The store has recorded a life that the journal doesn't know, so it is a new host's.
    pub is_anew: bool,
    /// The last write that the journal knew at the start.
    written: Option<(History, u64)>,
    pub monitor: Monitor,
    pub held: Vec<Segment>,
    pub highest: [u64; TAGS],
    /// Claimed segments that the journal doesn't have yet, each with the true time when it will.
    pub unjournalled: VecDeque<(u64, Segment)>,
    /// A record of the monitor on its way to the disk, and when it arrives.
    pub record: Option<(u64, Record)>,
    /// Waiting calls: the monitor's, and claims.
    pub calls: [VecDeque<Call>; 2],
    /// The calls under way.
    pub call: [Option<u64>; 2],
    /// Since when, in true time.
    pub called_ms: [u64; 2],
    pub claiming: [bool; TAGS],
    /// The journal's leftovers were loaded or dropped.
    pub loaded: bool,
    pub distrusted: bool,
    pub started_ms: u64,
    /// What the store must still have.
    pub proof: Proof,
    /// The lives that it has seen, with the time from which it must know whether it told the store in time.
    pub seen: Rc<[(Rc<str>, u64)]>,
    /// Those in which it was told whether claims were made.
    pub told: BTreeSet<Rc<str>>,
    /// The history in which it last asked whether the store is settled.
    asked_in: Option<History>,
    pub claim_retry_ms: u64,
}

impl Host {
    pub fn now(&self, true_ms: u64, broken: Option<Break>) -> BootMs {
        let mut since_ms = true_ms - self.booted_ms;
        if broken == Some(Break::SuspendNotCounted) {
            since_ms = since_ms.saturating_sub(self.suspended_ms);
        }
        let skewed = i64::try_from(since_ms).unwrap() * self.skew_ppm / 1_000_000;
        BootMs(since_ms.saturating_add_signed(skewed))
    }

    pub fn start(&mut self, life: u64, true_ms: u64, broken: Option<Break>) {
        if broken == Some(Break::HistoryForgotten) {
            self.journal.history = None;
        }
        let remembered = self.journal.history.clone();
        let remembered = remembered.map(|history| (StoreId("simulated".into()), history));
        let settings = Settings {
            url: "simulated".into(),
            role: Default::default(),
            embedded: false,
            remembered,
            settle_ms: SETTLE_MS,
            probe_ms: PROBE_MS,
            answer_ms: ANSWER_MS,
        };
        (self.kept, self.engine) = (self.journal.kept.clone(), None);
        let starts = self.journal.starts.clone();
        self.journal.starts.push(life);
        let written = self.journal.history.clone().map(|history| (history, self.journal.written));
        self.daemon = Some(Daemon {
            life,
            starts,
            is_anew: false,
            written,
            monitor: Monitor::new(settings, self.now(true_ms, broken)),
            held: Vec::new(),
            highest: self.journal.ends,
            unjournalled: VecDeque::new(),
            record: None,
            calls: Default::default(),
            call: [None; 2],
            called_ms: [0; 2],
            claiming: [false; TAGS],
            loaded: false,
            distrusted: false,
            started_ms: true_ms,
            proof: Proof::default(),
            seen: Rc::default(),
            told: BTreeSet::new(),
            asked_in: None,
            claim_retry_ms: 0,
        });
    }

    /// Handles what the disk has reached, what the monitor wants, and which tags want a claim.
    pub fn go_on(&mut self, true_ms: u64, sync_ms: u64, random: u64, broken: Option<Break>) {
        let now = self.now(true_ms, broken);
        let Host { daemon: Some(daemon), journal, left, .. } = self else { return };
        while let Some((due_ms, segment)) = daemon.unjournalled.front().copied()
            && due_ms <= true_ms
        {
            daemon.unjournalled.pop_front();
            journal.ends[segment.tag] = journal.ends[segment.tag].max(segment.end);
            daemon.held.push(segment);
        }
        if let Some((due_ms, record)) = daemon.record.take_if(|(due_ms, _)| *due_ms <= true_ms) {
            let _ = due_ms;
            if let Record::CheckedIn(..) = record {
                journal.starts = vec![daemon.life];
            }
            let (Record::CheckedIn(_, history) | Record::History(_, history)) = record;
            if let Some(former) = journal.history.replace(history.clone())
                && former != history
            {
                left.insert((&*former.0).into());
                (journal.written, journal.kept) = (0, None);
            }
            daemon.monitor.answered(now, Response::Record(Ok(())), random);
        }
        daemon.monitor.runs(now);
        for line in 0..2 {
            if daemon.call[line].is_some() {
                daemon.monitor.under_way(now, true_ms - daemon.called_ms[line]);
            }
        }
        loop {
            match daemon.monitor.next(now) {
                Step::Event(event) => daemon.happened(journal, &event, broken),
                Step::Request(Request::Record(record)) => {
                    daemon.record = Some((true_ms + sync_ms, record));
                }
                Step::Request(request) => daemon.ask(journal, now, request, random, broken),
                Step::Wait(_) => break,
            }
        }
        if !daemon.loaded && (daemon.monitor.tried() || true_ms > daemon.started_ms + 1_000) {
            daemon.loaded = true;
            if !daemon.distrusted {
                daemon.held.extend(journal.segments.iter().copied());
            }
        }
        if !daemon.loaded || daemon.claim_retry_ms > true_ms {
            return;
        }
        for tag in 0..TAGS {
            let left: u64 = daemon
                .held
                .iter()
                .filter(|held| held.tag == tag)
                .map(|held| held.end - held.next)
                .sum();
            if left < CLAIM / 2
                && !daemon.claiming[tag]
                && !daemon.unjournalled.iter().any(|(_, segment)| segment.tag == tag)
                && let Some(under) = daemon.monitor.claimable()
            {
                daemon.claiming[tag] = true;
                daemon.calls[1].push_back(Call::Claim(tag, under.clone()));
            }
        }
    }

    /// The disk has this now.
    pub fn use_journal(&mut self, journal: Journal) {
        self.left = journal.history.iter().flat_map(former_lives).collect();
        (self.journal, self.daemon) = (journal, None);
    }

    /// After a crash only the disk's content remains.
    pub fn crash(&mut self) {
        let Some(daemon) = self.daemon.take() else { return };
        if daemon.loaded {
            self.journal.segments = daemon.held;
        }
    }
}

impl Journal {
    /// The journal of a new host that has found another one's, or an old one.
    pub fn begin_anew(self, host: usize) -> Journal {
        let Journal { history, ends, .. } = self;
        Journal { host, history, ends, ..Journal::default() }
    }
}

impl Daemon {
    fn ask(
        &mut self,
        journal: &Journal,
        now: BootMs,
        request: Request,
        random: u64,
        broken: Option<Break>,
    ) {
        let mut told = Told::default();
        if let Request::CheckIn(_) = request {
            (told.starts, told.written) = (self.starts.clone(), self.written.clone());
        }
        if let Request::PushHighWater(_) = request {
            if broken == Some(Break::PushSkipped) {
                return self.monitor.answered(now, Response::PushHighWater(Ok(0)), random);
            }
            let of = match broken {
                Some(Break::PushMissesWhatIsNotJournalled) => journal.ends,
                _ => self.highest,
            };
            told.ends = of.into_iter().enumerate().collect();
        }
        self.calls[0].push_back(Call::Monitor(request, told));
    }

    fn happened(&mut self, journal: &mut Journal, event: &Event, broken: Option<Break>) {
        if *event == Event::Distrusted && broken != Some(Break::DistrustIgnored) {
            self.drop_held(journal);
        }
    }

    fn drop_held(&mut self, journal: &mut Journal) {
        self.distrusted = true;
        self.held.clear();
        self.unjournalled.clear();
        journal.segments.clear();
    }

    /// The store knows a later start than the journal, which is old: the daemon goes on as a new host.
    pub fn begins_anew(&mut self, host: usize, journal: &mut Journal, broken: Option<Break>) {
        let left = std::mem::take(&mut journal.segments);
        *journal = std::mem::take(journal).begin_anew(host);
        match broken {
            Some(Break::LeftoversUsed) => journal.segments = left,
            _ => self.drop_held(journal),
        }
        journal.starts.push(self.life);
        (self.is_anew, self.starts, self.written) = (true, Vec::new(), None);
    }

    /// The answer to one of the monitor's calls.
    pub fn answered(
        &mut self,
        now: BootMs,
        mut response: Response,
        random: u64,
        broken: Option<Break>,
    ) {
        if let Response::IsSettled(Ok(Some(settled))) = &mut response {
            let present = self.monitor.history().cloned();
            let first = self.asked_in != present;
            self.asked_in = present;
            match broken {
                Some(Break::SettlingSkipped) if !first => *settled = true,
                Some(Break::InTimeAssumed) if first => *settled = false,
                Some(Break::NewcomersTrust) if self.monitor.failovers == 0 => *settled = true,
                _ => {}
            }
        }
        self.monitor.answered(now, response, random);
    }

    /// The answer to a claim. The numbers are this host's once the journal has them.
    /// Returns the claim if it is used.
    #[expect(clippy::too_many_arguments, reason = "one answer and all that it is judged by")]
    pub fn claimed(
        &mut self,
        true_ms: u64,
        now: BootMs,
        sync_ms: u64,
        tag: usize,
        under: &Identity,
        claim: Result<(u64, usize), StoreError>,
        broken: Option<Break>,
    ) -> Option<usize> {
        self.claiming[tag] = false;
        let (start, claim) = match claim {
            Ok(claim) => claim,
            Err(error) => {
                self.claim_retry_ms = true_ms + 200;
                match error {
                    StoreError::Changed { .. } => self.monitor.probe_soon(now),
                    error => self.monitor.call_failed(now, &error),
                }
                return None;
            }
        };
        let late = !self.monitor.counts(under);
        if late && broken != Some(Break::LateClaimUsed) {
            return None;
        }
        if start < self.highest[tag] {
            self.claim_retry_ms = true_ms + 200;
            self.monitor.lost_commits(under);
            return None;
        }
        let end = start + CLAIM;
        self.highest[tag] = self.highest[tag].max(end);
        let segment = Segment { tag, next: start, end, claim, restored: false };
        self.unjournalled.push_back((true_ms + sync_ms, segment));
        (!late).then_some(claim)
    }

    /// The next number of a tag, if one may be issued.
    pub fn draw(&mut self, tag: usize, now: BootMs, broken: Option<Break>) -> Option<Segment> {
        if !self.loaded {
            return None;
        }
        let may_issue = match broken {
            Some(Break::DoubtIgnored) => now < self.monitor.runs_until(),
            Some(Break::StopIgnored) => self.monitor.own_until().is_none_or(|until| now < until),
            _ => now < self.monitor.issues_until(),
        };
        if !may_issue {
            return None;
        }
        let held = self.held.iter_mut().find(|held| held.tag == tag)?;
        let drawn = *held;
        held.next += 1;
        self.held.retain(|held| held.next < held.end);
        Some(drawn)
    }
}
