//! A lease's state, and the next step that it asks for.

use super::clock::Clock;
use super::release::Leaving;
use super::selection::choose;
use super::{FOREVER, PERMANENT_AHEAD_MS};
use super::{
    IssueWindow, JournalChange, LeaseProblem, LeaseSettings, Mode, Recorded, Request, Response,
    Skew, Step,
};
use crate::registry::{CompareAndSet, Holder, LeaseRecord, RegistryError, RegistryId, Snapshot};
use crate::time::Now;
use crate::{Backoff, BootMs, UnixMs, WorkerId};

/// The life of this host's worker, from the daemon's start to its stop.
#[derive(Debug)]
pub struct Lease {
    pub(super) settings: LeaseSettings,
    pub(super) clock: Clock,
    pub(super) held: Option<HeldLease>,
    /// An id was asked for: a worker is needed.
    pub(super) wanted: bool,
    /// A look has shown that a worker is available.
    pub(super) could_be_had: bool,
    pub(super) leaving: Option<Leaving>,
    /// The outcome of giving the worker back.
    pub(super) released: Option<Result<(), RegistryError>>,
    pub(super) phase: Phase,
    /// The last write whose outcome is unknown.
    pub(super) unsure: Option<HeldLease>,
    pub(super) timers: Timers,
    /// The registry failed to answer since the start.
    pub(super) away: bool,
    /// The registry contradicted the journal.
    pub(super) blocked: bool,
    pub(super) trouble: Option<LeaseProblem>,
    pub(super) renewed: Option<BootMs>,
    /// The highest mark of any layout in the journal.
    pub(super) journal_mark: UnixMs,
}

/// A claim that is held, or that the journal calls held.
#[derive(Clone, Debug)]
pub(super) struct HeldLease {
    pub worker: WorkerId,
    pub start: UnixMs,
    pub registry: RegistryId,
    /// The registry's entry, as far as is known.
    pub holding: LeaseRecord,
    /// The registry's entry if it is not that.
    pub earlier: Option<LeaseRecord>,
    /// The journal has recorded the claim up to here; 0 before that.
    pub limit: UnixMs,
    /// Whether this life claimed it.
    pub mine: bool,
}

/// What is under way, or has just come of it.
#[derive(Debug, Default)]
pub(super) enum Phase {
    /// Nothing: the timers and the stage of leaving say what is next.
    #[default]
    Idle,
    /// The registry is asked for its entries, since then.
    Looking(Now),
    /// Its answer is acted on next.
    Looked(Snapshot),
    /// The registry is asked to write, since then.
    Writing(Now, Box<Plan>),
    /// The journal must record this next.
    ToRecord(JournalChange),
    /// The journal records this.
    Recording(JournalChange),
}

/// When to do what, unless something is under way.
#[derive(Debug)]
pub(super) struct Timers {
    pub look_next: bool,
    pub look_at: BootMs,
    pub renew_at: BootMs,
    pub retry_at: BootMs,
    pub backoff: Backoff,
    /// From here on the journal's claim may be used, even if the registry has not answered.
    head_start_until: BootMs,
}

/// A write to the registry, and what is held if it succeeds.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub aim: Aim,
    pub expected: Option<LeaseRecord>,
    pub after: HeldLease,
}

/// The purpose of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Aim {
    /// Claim a worker that another holder had.
    Claim,
    /// Get a permanent worker; `Some`: this one again.
    Bind(Option<WorkerId>),
    /// Take over an earlier life's worker, or write again what the registry lost.
    Keep,
    /// Renew.
    Renew,
    /// Give it back, in part or whole.
    Leave,
}

/// How long a start waits for the registry before it uses the journal's claim, in milliseconds.
const HEAD_START_MS: u64 = 1_000;

/// How often all entries are read while a worker is held, in milliseconds.
const LOOK_EVERY_MS: u64 = 60_000;

/// How soon a failed look is repeated while no id has been asked for, in milliseconds.
const PEEK_RETRY_MS: u64 = 2_000;

/// The shortest wait before an exhausted pool is read again, in milliseconds.
const TAKEN_RETRY_MS: u64 = 1_000;

/// How soon a call is repeated that fails until a person repairs something, in milliseconds.
pub(super) const REFUSED_RETRY_MS: u64 = 2_000;

impl HeldLease {
    /// The instant up to which ids may have been issued, including what the registry may have lost.
    pub fn reach(&self) -> UnixMs {
        self.holding.expires.max(self.limit)
    }
}

impl Lease {
    /// The lease of a daemon that starts now. `recorded` is what its journal says. A record of another place, holder
    /// or pool does not count.
    #[must_use]
    pub fn new(settings: LeaseSettings, recorded: Option<Recorded>, now: Now) -> Lease {
        let counts = |recorded: &Recorded| {
            let holder = recorded.holding.holder.as_ref();
            recorded.place == settings.place
                && settings.pool.contains(&recorded.worker.0)
                && holder.is_some_and(|holder| holder.id == settings.holder.id)
        };
        let forgotten = recorded.as_ref().is_some_and(|recorded| !counts(recorded));
        let held = recorded.filter(counts).map(|recorded| HeldLease {
            worker: recorded.worker,
            start: recorded.start,
            registry: recorded.registry,
            limit: recorded.holding.expires,
            holding: recorded.holding,
            earlier: recorded.earlier,
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
            phase: if forgotten { Phase::ToRecord(JournalChange::Forget) } else { Phase::Idle },
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

    /// An id was asked for: from now on a worker is claimed and kept. Returns whether this is the first time.
    pub fn want(&mut self) -> bool {
        let first = !std::mem::replace(&mut self.wanted, true);
        if first && self.held.is_none() && self.leaving.is_none() {
            // The fault that a look found may be repaired by now: try at once.
            (self.trouble, self.timers.backoff) = (None, Backoff::default());
            (self.timers.retry_at, self.timers.look_at) = (BootMs(0), BootMs(0));
        }
        first
    }

    /// Another program may have written this host's entry in the registry: compare it at once.
    pub fn doubt(&mut self) {
        self.timers.renew_at = BootMs(0);
    }

    /// Notes the highest mark of any layout in the journal. A permanent worker's recorded time follows it.
    pub fn journal_reached(&mut self, mark: UnixMs) {
        self.journal_mark = self.journal_mark.max(mark);
    }

    /// What to do now. Pass a fresh `random` to each call. While a step is under way this only waits.
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
            let mut after = held.clone();
            after.holding.expires = self.bound_ahead(now, held.reach());
            after.earlier = None;
            let expected = Some(held.holding.clone());
            return self.write(now, Plan { aim: Aim::Renew, expected, after });
        }
        Step::Wait(Some(self.wake_at(now, renew_at.min(look_at))))
    }

    /// No id has been asked for yet. Looks now and then whether a worker is available.
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

    pub(super) fn record(&mut self, record: JournalChange) -> Step {
        self.phase = Phase::Recording(record.clone());
        Step::JournalChange(record)
    }

    /// Takes in the result of such a look.
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
        if !vouched || held.limit == UnixMs(0) || (self.blocked && !held.mine) {
            return Err(trouble(LeaseProblem::Starting));
        }
        if let Some(skew) = self.clock.refuses(now) {
            return Err(LeaseProblem::Clock(skew));
        }
        let limit = match self.settings.mode {
            Mode::Leased => held.limit,
            Mode::Permanent => FOREVER,
        };
        Ok(IssueWindow { worker: held.worker, start: held.start, limit })
    }

    /// The clocks for the generators to use: without a forward step that is not confirmed.
    #[must_use]
    pub fn believed_time(&self, now: Now) -> Now {
        self.clock.believed_time(now)
    }

    /// The last problem that still stands, even while ids are issued.
    #[must_use]
    pub fn trouble(&self) -> Option<&LeaseProblem> {
        self.trouble.as_ref()
    }

    /// Whether an id was asked for, or a worker is held from an earlier start.
    #[must_use]
    pub fn is_used(&self) -> bool {
        self.wanted || self.held.is_some()
    }

    /// What was wrong with the host's clock at the registry's last answer.
    #[must_use]
    pub fn skew(&self) -> Option<Skew> {
        self.clock.skew()
    }

    /// How far the host's clock was ahead of the registry's at its last answer, in milliseconds.
    #[must_use]
    pub fn offset_ms(&self) -> Option<i64> {
        self.clock.offset_ms()
    }

    /// How much of a forward step of the wall clock is held back until the registry confirms it, in milliseconds.
    #[must_use]
    pub fn held_back_ms(&self, now: Now) -> u64 {
        self.clock.held_back_ms(now)
    }

    /// The worker that is held, usable or not, and the end of its claim by the journal.
    #[must_use]
    pub fn held(&self) -> Option<(WorkerId, UnixMs)> {
        self.held.as_ref().map(|held| (held.worker, held.limit))
    }

    /// The registry of the worker that is held.
    #[must_use]
    pub fn registry(&self) -> Option<&RegistryId> {
        self.held.as_ref().map(|held| &held.registry)
    }

    /// When the registry last confirmed the claim in this life.
    #[must_use]
    pub fn renewed(&self) -> Option<BootMs> {
        self.renewed
    }

    /// The settings it was made with.
    #[must_use]
    pub fn settings(&self) -> &LeaseSettings {
        &self.settings
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
                    ahead_max: std::time::Duration::from_millis(self.settings.ahead_max_ms()),
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
                let after = self.held_new(look, choice.worker, choice.start, holding);
                Some(Plan { aim: Aim::Claim, expected: choice.expected, after })
            }
            Err(taken) => {
                let wait_ms = taken.next_ms.unwrap_or(REFUSED_RETRY_MS);
                self.troubled(LeaseProblem::Taken(Box::new(taken)));
                self.retry_in(now, wait_ms.clamp(TAKEN_RETRY_MS, REFUSED_RETRY_MS));
                None
            }
        }
    }

    pub(super) fn held_new(
        &self,
        look: &Snapshot,
        worker: WorkerId,
        start: UnixMs,
        holding: LeaseRecord,
    ) -> HeldLease {
        let registry = look.registry.clone();
        HeldLease { worker, start, registry, holding, earlier: None, limit: UnixMs(0), mine: true }
    }

    /// An entry with this life as holder, and an expiry that lies ahead of now and not before `least`.
    pub(super) fn holding(&self, now: Now, least: UnixMs) -> LeaseRecord {
        let holder: Holder = self.settings.holder.clone();
        LeaseRecord { holder: Some(holder), expires: self.bound_ahead(now, least) }
    }

    fn bound_ahead(&self, now: Now, least: UnixMs) -> UnixMs {
        let wall = self.clock.believed_time(now).unix.0;
        let bound = match self.settings.mode {
            Mode::Leased => wall.saturating_add(self.settings.lease_ms),
            Mode::Permanent => wall.saturating_add(PERMANENT_AHEAD_MS).max(self.journal_mark.0),
        };
        UnixMs(bound).max(least)
    }

    pub(super) fn troubled(&mut self, trouble: LeaseProblem) {
        self.trouble = Some(trouble);
    }

    /// Notes a problem that no retry solves. The next look may find it repaired.
    pub(super) fn refused(&mut self, now: Now, problem: LeaseProblem) {
        self.troubled(problem);
        self.retry_in(now, REFUSED_RETRY_MS);
    }

    pub(super) fn retry_in(&mut self, now: Now, wait_ms: u64) {
        self.timers.retry_at = BootMs(now.boot.0.saturating_add(wait_ms));
        self.timers.look_next = true;
    }

    /// Schedules the next try: soon, later each time, and not at the same instant on all hosts.
    pub(super) fn back_off(&mut self, now: Now, random: u64) {
        let wait_ms = self.timers.backoff.next_ms(random);
        self.retry_in(now, wait_ms);
    }

    /// The registry confirmed the lease: schedules the next renewal and the next look.
    pub(super) fn confirmed(&mut self, now: Now) {
        self.trouble = None;
        self.renewed = Some(now.boot);
        let renew_at = BootMs(now.boot.0.saturating_add(self.settings.renew_every_ms()));
        let (backoff, retry_at) = (Backoff::default(), now.boot);
        self.timers = Timers { look_next: false, renew_at, retry_at, backoff, ..self.timers };
    }

    pub(super) fn looked_at(&mut self, now: Now) {
        self.timers.look_at = BootMs(now.boot.0.saturating_add(LOOK_EVERY_MS));
    }

    /// Takes in the outcome of a call. Ignores an answer to no pending call.
    pub fn answered(&mut self, now: Now, answer: Response, random: u64) {
        match (std::mem::take(&mut self.phase), answer) {
            (Phase::Looking(asked), Response::Snapshot(look)) => {
                self.looked(asked, now, look, random);
            }
            (Phase::Writing(asked, plan), Response::CompareAndSet(answer)) => {
                self.swapped(asked, now, *plan, answer, random);
            }
            (Phase::Writing(_, plan), Response::Assign(answer)) => {
                self.bound(now, *plan, answer, random);
            }
            (phase, _) => self.phase = phase,
        }
    }

    fn wake_at(&self, now: Now, at: BootMs) -> BootMs {
        self.head_start_end(now).map_or(at, |end| end.min(at))
    }

    /// When the journal's claim may be used without an answer of the registry.
    fn head_start_end(&self, now: Now) -> Option<BootMs> {
        let waits = self.held.as_ref().is_some_and(|held| !held.mine) && !self.away;
        let until = self.timers.head_start_until;
        (waits && until > now.boot).then_some(until)
    }
}
