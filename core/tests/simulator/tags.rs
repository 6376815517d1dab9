//! The part of a daemon that claims segments and issues their ids.

use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;
use std::sync::Arc;

use leafd_core::BootMs;
use leafd_core::store::{History, Identity, Proof, StoreError, StoreId};
use leafd_core::upstream::{Event, Monitor, Record, Request, Response, Settings, Step};

use crate::Break;
use crate::host::{CLAIMS, Daemon, Journal, MONITOR, Moment};
use crate::store::{CLAIM, Call, TAGS, Told, former_lives, life_of};
use crate::world::ANSWER_MS;

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

/// The monitor of the store, and what is held.
pub struct Tags {
    /// The earlier lives whose writes it knows as this host's own.
    pub starts: Vec<u64>,
    /// The store has recorded a life that the journal doesn't know, so it is a new host's.
    pub is_anew: bool,
    /// The last write that the journal knew at the start.
    written: Option<(History, u64)>,
    pub monitor: Monitor,
    pub held: Vec<Segment>,
    highest: [u64; TAGS],
    /// Claimed segments that the journal doesn't have yet, each with the true time when it will.
    pub unjournalled: VecDeque<(u64, Segment)>,
    /// A record of the monitor on its way to the disk, and when it arrives.
    record: Option<(u64, Record)>,
    claiming: [bool; TAGS],
    /// The journal's leftovers were loaded or dropped.
    pub loaded: bool,
    distrusted: bool,
    started_ms: u64,
    /// What the store must still have.
    pub proof: Proof,
    /// The name under which the store has recorded this start.
    pub host: Option<Arc<str>>,
    /// The lives that it has seen, with the time from which it must know whether it told the store in time.
    pub seen: Rc<[(Rc<str>, u64)]>,
    /// Those in which it was told whether claims were made.
    told: BTreeSet<Rc<str>>,
    /// The history in which it last asked whether the store is settled.
    asked_in: Option<History>,
    claim_retry_ms: u64,
}

impl Daemon {
    /// Handles what the disk has reached, what the monitor wants, and which tags want a claim.
    pub fn go_on_with_tags(
        &mut self,
        journal: &mut Journal,
        left: &mut BTreeSet<Rc<str>>,
        now: BootMs,
        moment: Moment,
    ) {
        let Moment { true_ms, random, .. } = moment;
        let (life, tags) = (self.life, &mut self.tags);
        tags.follow_disk(life, journal, left, now, moment);
        tags.monitor.runs(now);
        if let Some((_, since_ms)) = self.call {
            tags.monitor.under_way(now, true_ms - since_ms);
        }
        loop {
            match tags.monitor.next(now) {
                Step::Event(event) => {
                    if event == Event::Distrusted && moment.broken != Some(Break::DistrustIgnored) {
                        tags.drop_held(journal);
                    }
                }
                Step::Request(Request::Record(record)) => {
                    tags.record = Some((true_ms + moment.sync_ms, record));
                }
                Step::Request(request) => {
                    let told = tags.told_with(&request, journal, moment.broken);
                    match (&request, moment.broken) {
                        (Request::PushHighWater(_), Some(Break::PushSkipped)) => {
                            tags.monitor.answered(now, Response::PushHighWater(Ok(0)), random);
                        }
                        _ => self.calls[MONITOR].push_back(Call::Monitor(request, told)),
                    }
                }
                Step::Wait(_) => break,
            }
        }
        if !tags.loaded && (tags.monitor.tried() || true_ms > tags.started_ms + 1_000) {
            tags.loaded = true;
            if !tags.distrusted {
                tags.held.extend(journal.segments.iter().copied());
            }
        }
        if !self.stopping && tags.loaded && tags.claim_retry_ms <= true_ms {
            let wanted = (0..TAGS).filter_map(|tag| tags.claim(tag));
            self.calls[CLAIMS].extend(wanted);
        }
    }

    /// The next number of a tag, if one may be issued.
    pub fn draw(&mut self, tag: usize, now: BootMs, broken: Option<Break>) -> Option<Segment> {
        let Tags { monitor, held, loaded, .. } = &mut self.tags;
        let may_issue = match broken {
            Some(Break::DoubtIgnored) => now < monitor.runs_until(),
            Some(Break::StopIgnored) => monitor.own_until().is_none_or(|until| now < until),
            _ => now < monitor.issues_until(),
        };
        if self.stopping || !*loaded || !may_issue {
            return None;
        }
        let one = held.iter_mut().find(|held| held.tag == tag)?;
        let drawn = *one;
        one.next += 1;
        held.retain(|held| held.next < held.end);
        Some(drawn)
    }
}

impl Tags {
    pub fn start(life: u64, journal: &mut Journal, now: BootMs, moment: Moment) -> Tags {
        if moment.broken == Some(Break::HistoryForgotten) {
            journal.history = None;
        }
        let history = journal.history.clone();
        let remembered = history.clone().map(|history| (StoreId("simulated".into()), history));
        let settle_ms = moment.sim.settle_ms;
        let settings = Settings {
            url: "simulated".into(),
            role: Default::default(),
            embedded: false,
            remembered,
            settle_ms,
            probe_ms: settle_ms / 4,
            answer_ms: ANSWER_MS,
        };
        let starts = journal.starts.clone();
        journal.starts.push(life);
        Tags {
            starts,
            is_anew: false,
            written: history.map(|history| (history, journal.written)),
            monitor: Monitor::new(settings, now),
            held: Vec::new(),
            highest: journal.ends,
            unjournalled: VecDeque::new(),
            record: None,
            claiming: [false; TAGS],
            loaded: false,
            distrusted: false,
            started_ms: moment.true_ms,
            proof: Proof::default(),
            host: None,
            seen: Rc::default(),
            told: BTreeSet::new(),
            asked_in: None,
            claim_retry_ms: 0,
        }
    }

    fn follow_disk(
        &mut self,
        life: u64,
        journal: &mut Journal,
        left: &mut BTreeSet<Rc<str>>,
        now: BootMs,
        moment: Moment,
    ) {
        while let Some((due_ms, segment)) = self.unjournalled.front().copied()
            && due_ms <= moment.true_ms
        {
            self.unjournalled.pop_front();
            journal.ends[segment.tag] = journal.ends[segment.tag].max(segment.end);
            self.held.push(segment);
        }
        let due = self.record.take_if(|(due_ms, _)| *due_ms <= moment.true_ms);
        let Some((_, record)) = due else { return };
        if let Record::CheckedIn(..) = record {
            journal.starts = vec![life];
        }
        let (Record::CheckedIn(_, history) | Record::History(_, history)) = record;
        if let Some(former) = journal.history.replace(history.clone())
            && former != history
        {
            left.insert((&*former.0).into());
            (journal.written, journal.kept) = (0, None);
        }
        self.monitor.answered(now, Response::Record(Ok(())), moment.random);
    }

    fn told_with(&self, request: &Request, journal: &Journal, broken: Option<Break>) -> Told {
        let mut told = Told::default();
        match request {
            Request::CheckIn(_) => {
                (told.starts, told.written) = (self.starts.clone(), self.written.clone());
            }
            Request::PushHighWater(_) => {
                let of = match broken {
                    Some(Break::PushMissesWhatIsNotJournalled) => journal.ends,
                    _ => self.highest,
                };
                told.ends = of.into_iter().enumerate().collect();
            }
            _ => {}
        }
        told
    }

    /// The claim that a tag wants now, if it wants one.
    fn claim(&mut self, tag: usize) -> Option<Call> {
        let held = self.held.iter().filter(|held| held.tag == tag);
        let left: u64 = held.map(|held| held.end - held.next).sum();
        let waits = self.unjournalled.iter().any(|(_, segment)| segment.tag == tag);
        if left >= CLAIM / 2 || self.claiming[tag] || waits {
            return None;
        }
        let under = self.monitor.claimable()?.clone();
        self.claiming[tag] = true;
        Some(Call::Claim(tag, under))
    }

    fn drop_held(&mut self, journal: &mut Journal) {
        self.distrusted = true;
        self.held.clear();
        self.unjournalled.clear();
        journal.segments.clear();
    }

    /// The store knows a later start than the journal, which is old: the daemon goes on as a new host.
    pub fn begins_anew(
        &mut self,
        life: u64,
        host: Arc<str>,
        journal: &mut Journal,
        broken: Option<Break>,
    ) {
        let former = std::mem::take(journal);
        // The lease is the registry's to judge.
        let (lease, is_restored) = (former.lease.clone(), former.is_restored);
        let left = former.segments.clone();
        *journal = Journal { lease, is_restored, ..former.begin_anew(host) };
        match broken {
            Some(Break::LeftoversUsed) => journal.segments = left,
            _ => self.drop_held(journal),
        }
        journal.starts.push(life);
        (self.is_anew, self.starts, self.written) = (true, Vec::new(), None);
    }

    /// An answer showed this history. From this time on the daemon must know whether it told the store its numbers in
    /// time.
    pub fn sees(&mut self, now_ms: u64, must_know_ms: u64, history: &History) {
        if history.is_in_doubt() {
            return;
        }
        let is_new = |life: &Rc<str>| !self.seen.iter().any(|(seen, _)| seen == life);
        // A former life is over: what the host has not told the store there, it never will.
        let former = former_lives(history).filter(is_new).map(|life| (life, now_ms));
        let all = self.seen.iter().cloned().chain(former);
        self.seen = all.chain([(life_of(history), must_know_ms)]).collect();
    }

    /// The store has said whether claims were made in this history. The first time decides about what is held, unless
    /// the store has lost since when the daemon saw the history what it could have said.
    pub fn is_told(&mut self, now_ms: u64, history: &History) {
        let life = life_of(history);
        if self.told.insert(Rc::clone(&life)) {
            self.seen = self.seen.iter().filter(|(seen, _)| *seen != life).cloned().collect();
        }
        self.sees(now_ms, now_ms, history);
    }

    /// The answer to one of the monitor's calls.
    pub fn answered(&mut self, now: BootMs, mut response: Response, moment: Moment) {
        if let Response::IsSettled(Ok(Some(settled))) = &mut response {
            let present = self.monitor.history().cloned();
            let first = self.asked_in != present;
            self.asked_in = present;
            match moment.broken {
                Some(Break::SettlingSkipped) if !first => *settled = true,
                Some(Break::InTimeAssumed) if first => *settled = false,
                Some(Break::NewcomersTrust) if self.monitor.failovers == 0 => *settled = true,
                _ => {}
            }
        }
        self.monitor.answered(now, response, moment.random);
    }

    /// The answer to a claim. The numbers are this host's once the journal has them. Returns the claim if it is used.
    pub fn claimed(
        &mut self,
        now: BootMs,
        tag: usize,
        under: &Identity,
        claim: Result<(u64, usize), StoreError>,
        moment: Moment,
    ) -> Option<usize> {
        self.claiming[tag] = false;
        let (start, claim) = match claim {
            Ok(claim) => claim,
            Err(error) => {
                self.claim_retry_ms = moment.true_ms + 200;
                match error {
                    StoreError::Changed { .. } => self.monitor.probe_soon(now),
                    error => self.monitor.call_failed(now, &error),
                }
                return None;
            }
        };
        let late = !self.monitor.counts(under);
        if late && moment.broken != Some(Break::LateClaimUsed) {
            return None;
        }
        if start < self.highest[tag] {
            self.claim_retry_ms = moment.true_ms + 200;
            self.monitor.lost_commits(under);
            return None;
        }
        let end = start + CLAIM;
        self.highest[tag] = self.highest[tag].max(end);
        let segment = Segment { tag, next: start, end, claim, restored: false };
        self.unjournalled.push_back((moment.true_ms + moment.sync_ms, segment));
        (!late).then_some(claim)
    }
}
