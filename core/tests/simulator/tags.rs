//! The part of a daemon that claims segments and issues their ids.

use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;
use std::sync::Arc;

use leafd_core::BootMs;
use leafd_core::store::{History, Identity, Proof, StoreError, StoreId};
use leafd_core::upstream::{Event, Monitor, Record, Request, Response, Settings, Step};

use crate::Break;
use crate::host::{CLAIMS, CameThrough, Daemon, Disk, Journal, MONITOR, Moment};
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

/// A life of the store that a daemon has seen.
#[derive(Clone)]
pub struct Seen {
    pub life: Rc<str>,
    /// From this time on the daemon must know whether it told the store its numbers in time, or issue nothing.
    pub must_know_ms: u64,
    /// It knows.
    pub is_known: bool,
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
    /// What was dropped, and when the journal forgets it.
    dropped: Option<(u64, Vec<Segment>)>,
    claiming: [bool; TAGS],
    /// The journal's leftovers were loaded or dropped.
    pub loaded: bool,
    distrusted: bool,
    started_ms: u64,
    /// What the store must still have.
    pub proof: Proof,
    /// The name under which the store has recorded this start.
    pub host: Option<Arc<str>>,
    /// The lives that it has seen.
    pub seen: Rc<[Seen]>,
    /// Those in which it was told whether claims were made.
    told: BTreeSet<Rc<str>>,
    /// The history in which it last asked whether the store is settled.
    asked_in: Option<History>,
    claim_retry_ms: u64,
}

/// The answer to a call of the monitor that needs the journal.
fn journal_fails() -> Response {
    let (store, cause) = ("journal".to_owned(), "it can't be read".into());
    Response::PushHighWater(Err(StoreError::Unavailable { store, cause }))
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
                        tags.drop_held(journal, true_ms + moment.sync_ms);
                    }
                }
                Step::Request(Request::Record(record)) => {
                    tags.record = Some((tags.due_ms(moment), record));
                }
                Step::Request(request) => {
                    if let (Request::PushHighWater(_), Some(_)) = (&request, self.retry_ms) {
                        // The daemon reads from its journal what it has seen.
                        tags.monitor.answered(now, journal_fails(), random);
                        continue;
                    }
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
        let fails = self.retry_ms.is_some() && broken != Some(Break::FaultIgnored);
        if self.stopping || fails || !*loaded || !may_issue {
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
            dropped: None,
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
        if !moment.acknowledges {
            return;
        }
        if moment.disk == Disk::Works {
            self.reach_disk(life, journal, left, moment.true_ms);
        }
        while let Some((due_ms, segment)) = self.unjournalled.front().copied()
            && due_ms <= moment.true_ms
        {
            self.unjournalled.pop_front();
            self.held.push(segment);
        }
        self.dropped.take_if(|(due_ms, _)| *due_ms <= moment.true_ms);
        if self.record.take_if(|(due_ms, _)| *due_ms <= moment.true_ms).is_some() {
            self.monitor.answered(now, Response::Record(Ok(())), moment.random);
        }
    }

    /// Whether changes are under way to the disk.
    pub fn has_writes(&self) -> bool {
        !self.unjournalled.is_empty() || self.record.is_some() || self.dropped.is_some()
    }

    /// Whether one of them is due.
    pub fn has_due(&self, true_ms: u64) -> bool {
        let [claim, record, dropped] = [
            self.unjournalled.front().map(|(due_ms, _)| *due_ms),
            self.record.as_ref().map(|(due_ms, _)| *due_ms),
            self.dropped.as_ref().map(|(due_ms, _)| *due_ms),
        ];
        [claim, record, dropped].into_iter().flatten().any(|due_ms| due_ms <= true_ms)
    }

    /// The disk has what is due.
    pub fn reach_disk(
        &self,
        life: u64,
        journal: &mut Journal,
        left: &mut BTreeSet<Rc<str>>,
        true_ms: u64,
    ) {
        let due = self.unjournalled.iter().take_while(|(due_ms, _)| *due_ms <= true_ms);
        due.for_each(|(_, segment)| journal.saw(segment));
        if let Some((due_ms, record)) = &self.record
            && *due_ms <= true_ms
        {
            journal.apply_record(life, left, record);
        }
    }

    /// The daemon ends, and the disk has what came through.
    pub fn end(
        mut self,
        life: u64,
        journal: &mut Journal,
        left: &mut BTreeSet<Rc<str>>,
        came_through: CameThrough,
    ) {
        // Writes are in order: if what was dropped is still there, nothing that was written later is.
        let is_kept = self.dropped.is_some() && !came_through.drop;
        let claims = if is_kept { 0 } else { came_through.claims };
        let has_record = came_through.record && !is_kept;
        for (_, segment) in self.unjournalled.drain(..).take(claims) {
            journal.saw(&segment);
            self.held.push(segment);
        }
        if let Some((_, record)) = self.record.filter(|_| has_record) {
            journal.apply_record(life, left, &record);
        }
        if self.loaded {
            let kept = self.dropped.filter(|_| !came_through.drop);
            journal.segments = kept.map_or_else(Vec::new, |(_, dropped)| dropped);
            journal.segments.extend(self.held);
        }
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

    /// What it holds is no longer its own. The journal forgets it too, and has it until then.
    fn drop_held(&mut self, journal: &mut Journal, due_ms: u64) {
        self.distrusted = true;
        let held = match self.loaded {
            true => std::mem::take(&mut self.held),
            false => std::mem::take(&mut journal.segments),
        };
        self.loaded = true;
        self.unjournalled.clear();
        let (until_ms, dropped) = self.dropped.get_or_insert_default();
        *until_ms = due_ms.max(*until_ms);
        dropped.extend(held);
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
            _ => {
                self.drop_held(journal, 0);
                // A new name and what it doesn't hold are one commit, which has just been made.
                self.dropped = None;
            }
        }
        journal.starts.push(life);
        (self.is_anew, self.starts, self.written) = (true, Vec::new(), None);
    }

    /// An answer showed this history. From this time on the daemon must know whether it told the store its numbers in
    /// time.
    pub fn sees(&mut self, now_ms: u64, must_know_ms: u64, history: &History) {
        self.meets(now_ms, history, must_know_ms, false);
    }

    fn meets(&mut self, now_ms: u64, history: &History, must_know_ms: u64, is_known: bool) {
        if history.is_in_doubt() {
            return;
        }
        let is_new = |life: &Rc<str>| !self.seen.iter().any(|seen| seen.life == *life);
        // A former life is over: what the host has not told the store there, it never will.
        let over = |life| Seen { life, must_know_ms: now_ms, is_known: true };
        let former = former_lives(history).filter(is_new).map(over);
        let present = Seen { life: life_of(history), must_know_ms, is_known };
        self.seen = self.seen.iter().cloned().chain(former).chain([present]).collect();
    }

    /// The store has said whether claims were made in this history. The first time decides about what is held, unless
    /// the store has lost since when the daemon saw the history what it could have said.
    pub fn is_told(&mut self, now_ms: u64, history: &History) {
        let life = life_of(history);
        if self.told.insert(Rc::clone(&life)) {
            self.seen = self.seen.iter().filter(|seen| seen.life != life).cloned().collect();
        }
        self.meets(now_ms, history, now_ms, true);
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
        self.unjournalled.push_back((self.due_ms(moment), segment));
        (!late).then_some(claim)
    }

    /// When a write that is made now is on the disk: not before what was dropped earlier is gone.
    fn due_ms(&self, moment: Moment) -> u64 {
        let drops_ms = self.dropped.as_ref().map_or(0, |(due_ms, _)| *due_ms);
        drops_ms.max(moment.true_ms + moment.sync_ms)
    }
}
