//! A lease's state: its next step, and the effect of each outcome.

use std::time::Duration;

use super::clock::{Clock, signed};
use super::release::Leaving;
use super::selection::choose;
use super::{
    FOREVER, IssueWindow, LeaseProblem, LeaseSettings, Mode, PERMANENT_AHEAD_MS, Recorded, Request,
    Response, Step,
};
use crate::registry::{CompareAndSet, Entry, LeaseRecord, RegistryError, RegistryId, Snapshot};
use crate::store::{Reason, Why};
use crate::time::Now;
use crate::{Backoff, BootMs, UnixMs, WorkerId};

/// The life of this host's worker, from the daemon's start to its stop.
#[derive(Clone, Debug)]
pub struct Lease {
    /// The settings it was made with.
    pub settings: LeaseSettings,
    /// The host's clock, as far as the registry has confirmed it.
    pub clock: Clock,
    pub(super) held: Option<HeldLease>,
    /// Whether an id has been requested, so that a worker is needed.
    pub(super) wanted: bool,
    /// Whether the registry has shown that a worker is available.
    pub(super) could_be_had: bool,
    pub(super) leaving: Option<Leaving>,
    /// The outcome of the worker's release.
    pub(super) released: Option<Result<(), RegistryError>>,
    pub(super) phase: Phase,
    /// The last write whose outcome is unknown.
    pub(super) unsure: Option<Recorded>,
    pub(super) timers: Timers,
    /// Whether the registry has failed to answer since the start.
    away: bool,
    /// Whether the registry has contradicted the journal, so that an earlier life's claim isn't used as it is.
    pub(super) blocked: bool,
    /// The last unsolved problem, even while ids are issued.
    pub trouble: Option<LeaseProblem>,
    /// When the registry last confirmed the claim in this life.
    pub renewed: Option<BootMs>,
    /// The highest mark of any layout in the journal.
    journal_mark: UnixMs,
}

/// A claim that is held, at least according to the journal.
#[derive(Clone, Debug)]
pub(super) struct HeldLease {
    /// The claim in the registry, as far as it is known.
    pub claim: Recorded,
    /// The furthest end of the claim that was ever in the journal; 0 if there was none.
    pub limit: UnixMs,
    /// The end of the claim in the journal, if the journal has it. Ids may be issued up to there.
    pub in_journal: Option<UnixMs>,
    /// Whether it was claimed in this life.
    pub mine: bool,
}

/// The pending call, or its outcome.
#[derive(Clone, Debug, Default)]
pub(super) enum Phase {
    /// No call is pending. The timers, or a stop in progress, decide what comes next.
    #[default]
    Idle,
    /// A read of the registry's entries has been pending since this time.
    Looking(Now),
    /// The entries that were read, to be acted on next.
    Looked(Snapshot),
    /// A write to the registry has been pending since this time.
    Writing(Now, Box<Plan>),
    /// The journal must record this next.
    ToRecord(Option<Recorded>),
    /// The journal is recording this.
    Recording(Option<Recorded>),
}

/// When the next actions are due, unless a call is pending.
#[derive(Clone, Debug)]
pub(super) struct Timers {
    pub look_next: bool,
    look_at: BootMs,
    pub renew_at: BootMs,
    pub retry_at: BootMs,
    pub backoff: Backoff,
    /// From this time on, the journal's claim may be used even if the registry has not answered.
    head_start_until: BootMs,
}

/// A write to the registry, and the claim that is held if it succeeds.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub aim: Aim,
    pub expected: Option<LeaseRecord>,
    pub after: Recorded,
}

/// The purpose of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Aim {
    /// Claim a worker that another holder had.
    Claim,
    /// Get a permanent worker; `Some`: the same one again.
    Bind(Option<WorkerId>),
    /// Renew, take over an earlier life's worker, or write again what the registry lost.
    Keep,
    /// Release it, partly or entirely.
    Leave,
}

/// How long a start waits for the registry before it uses the journal's claim, in milliseconds.
const HEAD_START_MS: u64 = 1_000;

/// How often all entries are read while a worker is held, in milliseconds.
const LOOK_EVERY_MS: u64 = 60_000;

/// How soon to read again after a failure while no id has been requested, in milliseconds.
const PEEK_RETRY_MS: u64 = 2_000;

/// The shortest wait before an exhausted pool is read again, in milliseconds.
const TAKEN_RETRY_MS: u64 = 1_000;

/// How soon to repeat a call that fails until an operator fixes something, in milliseconds.
pub(super) const REFUSED_RETRY_MS: u64 = 2_000;

impl HeldLease {
    /// The instant up to which ids may have been issued, including what the registry may have lost.
    pub fn reach(&self) -> UnixMs {
        self.claim.holding.expires.max(self.limit)
    }

    /// Whether both are the same claim apart from their expiry, so that ids of one may follow ids of the other.
    fn is_same(&self, claim: &Recorded) -> bool {
        (self.claim.worker, self.claim.start) == (claim.worker, claim.start)
    }
}

impl Lease {
    /// The lease of a daemon that starts now. `recorded` is its journal's record. A record of another place, holder or
    /// pool does not count.
    pub fn new(settings: LeaseSettings, recorded: Option<Recorded>, now: Now) -> Lease {
        let counts = |recorded: &Recorded| {
            let holder = recorded.holding.holder.as_ref();
            recorded.place == settings.place
                && settings.pool.contains(&recorded.worker.0)
                && holder.is_some_and(|holder| holder.id == settings.holder.id)
        };
        let forgotten = recorded.as_ref().is_some_and(|recorded| !counts(recorded));
        let held = recorded.filter(counts).map(|claim| HeldLease {
            limit: claim.holding.expires,
            // An end of 0 records that another host was seen to have the worker.
            in_journal: Some(claim.holding.expires).filter(|end| *end > UnixMs(0)),
            claim,
            mine: false,
        });
        Lease {
            clock: Clock::new(now, settings.clock_threshold_ms),
            settings,
            held,
            wanted: false,
            could_be_had: false,
            leaving: None,
            released: None,
            phase: if forgotten { Phase::ToRecord(None) } else { Phase::Idle },
            unsure: None,
            timers: Timers {
                look_next: true,
                look_at: now.boot,
                renew_at: now.boot,
                retry_at: now.boot,
                backoff: Backoff::default(),
                head_start_until: BootMs(now.boot.0.saturating_add(HEAD_START_MS)),
            },
            away: false,
            blocked: false,
            trouble: None,
            renewed: None,
            journal_mark: UnixMs(0),
        }
    }

    /// Records that an id was requested: from now on, a worker is claimed and kept. Returns whether this is the first
    /// request.
    pub fn want(&mut self) -> bool {
        let first = !std::mem::replace(&mut self.wanted, true);
        if first && self.held.is_none() && self.leaving.is_none() {
            // An earlier fault may have been fixed by now, so try immediately.
            (self.trouble, self.timers.backoff) = (None, Backoff::default());
            (self.timers.retry_at, self.timers.look_at) = (BootMs(0), BootMs(0));
        }
        first
    }

    /// Notes the highest mark of any layout in the journal. A permanent worker's recorded time follows it.
    pub fn journal_reached(&mut self, mark: UnixMs) {
        self.journal_mark = self.journal_mark.max(mark);
    }

    /// What to do now. Pass a fresh `random` to each call. While a call is pending, this only waits.
    pub fn next(&mut self, now: Now, random: u64) -> Step {
        match std::mem::take(&mut self.phase) {
            Phase::ToRecord(record) => return self.record(record),
            Phase::Looked(look) if self.leaving.is_none() => {
                return match self.decide(look, now, random) {
                    Some(plan) => self.write(now, plan),
                    None => self.next(now, random),
                };
            }
            Phase::Idle | Phase::Looked(_) => {}
            under_way => {
                self.phase = under_way;
                return Step::Wait(self.head_start_end(now));
            }
        }
        if self.leaving.is_some() {
            return self.leave(now);
        }
        if self.held.is_none() && !self.wanted {
            return self.peek(now);
        }
        let Timers { look_next, look_at, renew_at, retry_at, .. } = self.timers;
        if retry_at > now.boot {
            return Step::Wait(Some(self.wake_at(now, retry_at)));
        }
        let taken = self.held.as_ref().is_some_and(|held| held.mine);
        if !taken || look_next || look_at <= now.boot {
            self.timers.look_next = false;
            return self.look(now);
        }
        if renew_at <= now.boot
            && let Some(held) = &self.held
        {
            let mut after = Recorded { earlier: None, ..held.claim.clone() };
            after.holding.expires = self.bound_ahead(now, held.reach());
            let expected = Some(held.claim.holding.clone());
            return self.write(now, Plan { aim: Aim::Keep, expected, after });
        }
        Step::Wait(Some(self.wake_at(now, renew_at.min(look_at))))
    }

    /// Checks periodically whether a worker is available, as long as no id has been requested.
    fn peek(&mut self, now: Now) -> Step {
        if self.timers.look_at > now.boot {
            return Step::Wait(Some(self.timers.look_at));
        }
        self.timers.look_at = BootMs(now.boot.0.saturating_add(PEEK_RETRY_MS));
        self.look(now)
    }

    fn look(&mut self, now: Now) -> Step {
        self.phase = Phase::Looking(now);
        Step::Request(Request::Snapshot(self.settings.pool.clone()))
    }

    pub(super) fn record(&mut self, claim: Option<Recorded>) -> Step {
        self.phase = Phase::Recording(claim.clone());
        Step::Request(Request::Record(claim))
    }

    /// Records the result of a `peek`.
    pub(super) fn peeked(&mut self, now: Now, could_be_had: bool) {
        self.could_be_had = could_be_had;
        if could_be_had {
            self.trouble = None;
        } else {
            self.timers.look_at = BootMs(now.boot.0.saturating_add(PEEK_RETRY_MS));
        }
    }

    /// What may be issued now. Ask again after each event.
    ///
    /// # Errors
    /// Why nothing may be issued.
    pub fn standing(&self, now: Now) -> Result<IssueWindow, LeaseProblem> {
        if let Some(leaving) = &self.leaving {
            return Err(leaving.trouble());
        }
        let trouble = |otherwise| self.trouble.clone().unwrap_or(otherwise);
        let waits = self.wanted || !self.could_be_had;
        let idle = if waits { LeaseProblem::Starting } else { LeaseProblem::Unused };
        let held = self.held.as_ref().ok_or_else(|| trouble(idle))?;
        let vouched = held.mine || self.away || self.timers.head_start_until <= now.boot;
        let may_issue = vouched && (held.mine || !self.blocked);
        let Some(in_journal) = held.in_journal.filter(|_| may_issue) else {
            return Err(trouble(LeaseProblem::Starting));
        };
        if let Some(skew) = self.clock.refuses(now) {
            return Err(LeaseProblem::Clock(skew));
        }
        let limit = match self.settings.mode {
            Mode::Leased => in_journal,
            Mode::Permanent => FOREVER,
        };
        Ok(IssueWindow { worker: held.claim.worker, start: held.claim.start, limit })
    }

    /// Whether an id has been requested, or a worker is held from an earlier start.
    pub fn is_used(&self) -> bool {
        self.wanted || self.held.is_some()
    }

    /// The held worker, usable or not, and the end of its claim in the journal.
    pub fn held(&self) -> Option<(WorkerId, UnixMs)> {
        self.held.as_ref().map(|held| (held.claim.worker, held.limit))
    }

    /// The registry of the held worker.
    pub fn registry(&self) -> Option<&RegistryId> {
        self.held.as_ref().map(|held| &held.claim.registry)
    }

    pub(super) fn write(&mut self, now: Now, plan: Plan) -> Step {
        let under = plan.after.registry.clone();
        let ask = match plan.aim {
            Aim::Bind(worker) => {
                let pool =
                    worker.map_or(self.settings.pool.clone(), |worker| worker.0..worker.0 + 1);
                Request::Assign(under, pool, plan.after.holding.clone())
            }
            _ => Request::CompareAndSet(
                under,
                CompareAndSet {
                    worker: plan.after.worker,
                    expected: plan.expected.clone(),
                    next: plan.after.holding.clone(),
                    seen: now.unix,
                    ahead_max: Duration::from_millis(self.settings.ahead_max_ms()),
                },
            ),
        };
        self.phase = Phase::Writing(now, Box::new(plan));
        Step::Request(ask)
    }

    /// A claim of a free worker of the pool.
    pub(super) fn plan_claim(&mut self, look: &Snapshot, now: Now, random: u64) -> Option<Plan> {
        match choose(look, &self.settings, self.clock.believed_time(now).unix, random) {
            Ok(choice) => {
                let holding = self.holding(now, choice.start);
                let after = self.claim_of(look, choice.worker, choice.start, holding);
                Some(Plan { aim: Aim::Claim, expected: choice.expected, after })
            }
            Err(taken) => {
                let wait_ms = taken.next_ms.unwrap_or(REFUSED_RETRY_MS);
                self.trouble = Some(LeaseProblem::Taken(Box::new(taken)));
                self.retry_in(now, wait_ms.clamp(TAKEN_RETRY_MS, REFUSED_RETRY_MS));
                None
            }
        }
    }

    /// The claim that is held once the registry has this entry.
    pub(super) fn claim_of(
        &self,
        look: &Snapshot,
        worker: WorkerId,
        start: UnixMs,
        holding: LeaseRecord,
    ) -> Recorded {
        let (place, registry) = (self.settings.place.clone(), look.registry.clone());
        Recorded { place, registry, worker, start, holding, earlier: None }
    }

    /// An entry with this life as its holder. Its expiry lies in the future and is not earlier than `least`.
    pub(super) fn holding(&self, now: Now, least: UnixMs) -> LeaseRecord {
        let holder = Some(self.settings.holder.clone());
        LeaseRecord { holder, expires: self.bound_ahead(now, least) }
    }

    fn bound_ahead(&self, now: Now, least: UnixMs) -> UnixMs {
        let wall = self.clock.believed_time(now).unix.0;
        let bound = match self.settings.mode {
            Mode::Leased => wall.saturating_add(self.settings.lease_ms),
            Mode::Permanent => wall.saturating_add(PERMANENT_AHEAD_MS).max(self.journal_mark.0),
        };
        UnixMs(bound).max(least)
    }

    /// Records a problem that retries don't solve. The next read may find it fixed. The retry is no later than the
    /// next renewal would be, because after a fail-over another host may soon lease a worker that the registry has lost.
    pub(super) fn refused(&mut self, now: Now, problem: LeaseProblem) {
        self.trouble = Some(problem);
        self.retry_in(now, REFUSED_RETRY_MS.min(self.settings.renew_every_ms()));
    }

    pub(super) fn retry_in(&mut self, now: Now, wait_ms: u64) {
        self.timers.retry_at = BootMs(now.boot.0.saturating_add(wait_ms));
        self.timers.look_next = true;
    }

    /// Schedules the next try: soon at first, later each time, and at different instants on different hosts.
    fn back_off(&mut self, now: Now, random: u64) {
        let wait_ms = self.timers.backoff.next_ms(random);
        self.retry_in(now, wait_ms);
    }

    pub(super) fn looked_at(&mut self, now: Now) {
        self.timers.look_at = BootMs(now.boot.0.saturating_add(LOOK_EVERY_MS));
    }

    /// Records the outcome of a call. Ignores an answer if no call is pending.
    pub fn answered(&mut self, now: Now, response: Response, random: u64) {
        match (std::mem::take(&mut self.phase), response) {
            (Phase::Looking(asked), Response::Snapshot(Ok(look))) => {
                let peers = self.peers(&look);
                self.clock.judge(asked, now, look.now, peers);
                self.phase = Phase::Looked(look);
            }
            (Phase::Looking(_), Response::Snapshot(Err(error))) => self.failed(now, &error, random),
            (Phase::Writing(_, plan), Response::CompareAndSet(outcome))
                if plan.aim == Aim::Leave =>
            {
                self.left(outcome);
            }
            (Phase::Writing(asked, plan), Response::CompareAndSet(Ok(registry))) => {
                self.clock.judge(asked, now, registry, Vec::new());
                self.taken(now, plan.after);
            }
            (Phase::Writing(_, plan), Response::Assign(Ok(entry))) => {
                if self.is_own(&entry.holding) {
                    let Entry { worker, holding, .. } = entry;
                    self.taken(now, Recorded { worker, holding, ..plan.after });
                } else {
                    // This host already had a worker, from another start. The next read shows from which one.
                    self.back_off(now, random);
                }
            }
            (
                Phase::Writing(asked, plan),
                Response::CompareAndSet(Err(error)) | Response::Assign(Err(error)),
            ) => self.write_failed(asked, now, *plan, &error, random),
            (Phase::Recording(claim), Response::Record(recorded)) => {
                self.recorded(now, claim, recorded);
            }
            (phase, _) => self.phase = phase,
        }
    }

    /// How far the clocks of live hosts were ahead of the registry's.
    fn peers(&self, look: &Snapshot) -> Vec<i64> {
        let lives = |entry: &&Entry| {
            let recent = look.now.0.saturating_sub(entry.written.0) <= self.settings.alive_ms();
            let holder = entry.holding.holder.as_ref();
            recent && entry.in_use() && holder.is_some_and(|one| one.id != self.settings.holder.id)
        };
        let live = look.entries.iter().filter(lives);
        live.map(|entry| signed(entry.seen) - signed(entry.written)).collect()
    }

    fn write_failed(
        &mut self,
        asked: Now,
        now: Now,
        plan: Plan,
        error: &RegistryError,
        random: u64,
    ) {
        match error {
            RegistryError::TooFarAhead { now: registry, .. } => {
                self.clock.judge(asked, now, *registry, Vec::new());
                let behind = || {
                    let words =
                        "the worker registry's clock is far behind the times recorded in it";
                    LeaseProblem::Refused(Reason::new(Why::RegistryClock, words))
                };
                let trouble = self.clock.skew.map_or_else(behind, LeaseProblem::Clock);
                self.refused(now, trouble);
            }
            RegistryError::Conflict { found, .. } => {
                self.retry_in(now, 0);
                // If a claim is held, this conflict is the first sign of another holder, so stop immediately.
                if let Some(held) = self.held.clone()
                    && !self.is_ours(found.as_deref())
                {
                    match self.settings.mode {
                        Mode::Leased => self.lose(&held),
                        Mode::Permanent => {
                            self.blocked = true;
                            self.held = Some(HeldLease { mine: false, ..held });
                        }
                    }
                } else if plan.aim == Aim::Claim {
                    // Other hosts choose at the same time, so retries must be spread out.
                    self.back_off(now, random);
                }
            }
            // Other hosts must not claim before the registry knows this host's claim, so the first retry is immediate.
            RegistryError::Changed { .. } if !self.timers.backoff.failing() => {
                self.timers.backoff.note_failure();
                self.retry_in(now, 0);
            }
            RegistryError::Unavailable { .. } => {
                self.unsure = Some(plan.after);
                self.failed(now, error, random);
            }
            _ => self.failed(now, error, random),
        }
    }

    fn failed(&mut self, now: Now, error: &RegistryError, random: u64) {
        let reason = || Reason::new(error.why(), error.to_string());
        match error {
            RegistryError::Unavailable { .. } => {
                self.away = true;
                self.trouble = Some(LeaseProblem::Away(reason()));
                self.back_off(now, random);
            }
            RegistryError::Changed { .. } | RegistryError::Conflict { .. } => {
                self.back_off(now, random);
            }
            _ => {
                self.blocked = true;
                self.refused(now, LeaseProblem::Refused(reason()));
            }
        }
    }

    /// The registry has granted the claim; the journal must record it next.
    pub(super) fn taken(&mut self, now: Now, claim: Recorded) {
        let changed = self
            .held
            .as_ref()
            .is_none_or(|held| !held.mine || held.claim.registry != claim.registry);
        // The journal's record of the same claim stays usable until the next one.
        let (limit, in_journal) = match &self.held {
            Some(held) if held.is_same(&claim) => (held.limit, held.in_journal),
            _ => (UnixMs(0), None),
        };
        if changed || self.settings.mode == Mode::Leased {
            self.phase = Phase::ToRecord(Some(claim.clone()));
        }
        self.held = Some(HeldLease { claim, limit, in_journal, mine: true });
        self.trouble = None;
        self.renewed = Some(now.boot);
        let renew_at = BootMs(now.boot.0.saturating_add(self.settings.renew_every_ms()));
        let (backoff, retry_at) = (Backoff::default(), now.boot);
        self.timers = Timers { look_next: false, renew_at, retry_at, backoff, ..self.timers };
    }

    /// The journal has recorded this claim, or refused it.
    fn recorded(&mut self, now: Now, claim: Option<Recorded>, outcome: Result<(), String>) {
        match (outcome, claim) {
            (Ok(()), Some(claim)) => {
                if let Some(held) = self.held.as_mut().filter(|held| held.is_same(&claim)) {
                    held.limit = held.limit.max(claim.holding.expires);
                    held.in_journal = Some(claim.holding.expires);
                }
            }
            (Ok(()), None) => {}
            (Err(why), None) if self.is_leaving() => self.not_forgotten(why),
            (Err(why), _) => {
                self.refused(now, LeaseProblem::Refused(why.into()));
            }
        }
    }

    fn wake_at(&self, now: Now, at: BootMs) -> BootMs {
        self.head_start_end(now).map_or(at, |end| end.min(at))
    }

    /// When the journal's claim may be used without an answer from the registry.
    fn head_start_end(&self, now: Now) -> Option<BootMs> {
        let waits = self.held.as_ref().is_some_and(|held| !held.mine) && !self.away;
        let until = self.timers.head_start_until;
        (waits && until > now.boot).then_some(until)
    }
}
