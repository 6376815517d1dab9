//! What to do next: the state of a lease, and the steps that it asks for, one at a time.

use super::clock::Clock;
use super::release::Leaving;
use super::selection::choose;
use super::{FOREVER, PERMANENT_AHEAD_MS};
use super::{
    LeaseGrant, LeaseProblem, Mode, Record, Recorded, Request, Response, Settings, Skew, Step,
};
use crate::registry::{CompareAndSet, Holder, LeaseRecord, RegistryError, RegistryId, Snapshot};
use crate::time::Now;
use crate::{Backoff, BootMs, UnixMs, WorkerId};

/// The life of this host's worker, from the daemon's start to its stop.
#[derive(Debug)]
pub struct Lease {
    pub(super) settings: Settings,
    pub(super) clock: Clock,
    pub(super) held: Option<HeldLease>,
    /// An id was asked for: a worker is to be had.
    pub(super) wanted: bool,
    /// A look has shown that a worker could be had.
    pub(super) could_be_had: bool,
    pub(super) leaving: Option<Leaving>,
    /// What came of giving the worker back.
    pub(super) released: Option<Result<(), RegistryError>>,
    pub(super) pending: Option<Pending>,
    pub(super) to_record: Option<Record>,
    /// What the last look told, until it is decided on.
    pub(super) look: Option<Snapshot>,
    /// The last new claim whose outcome is unknown.
    pub(super) unsure: Option<HeldLease>,
    pub(super) look_next: bool,
    pub(super) look_at: BootMs,
    pub(super) renew_at: BootMs,
    pub(super) retry_at: BootMs,
    pub(super) backoff: Backoff,
    /// What the journal had may be used from here on, also while the registry has said nothing.
    head_start_until: BootMs,
    /// The registry was asked in vain since the start.
    pub(super) away: bool,
    /// The registry spoke against what the journal had.
    pub(super) blocked: bool,
    pub(super) trouble: Option<LeaseProblem>,
    pub(super) renewed: Option<BootMs>,
    /// The highest bound that the journal has of any layout.
    pub(super) journal_mark: UnixMs,
}

/// A claim that is held, or that the journal says is.
#[derive(Clone, Debug)]
pub(super) struct HeldLease {
    pub worker: WorkerId,
    pub start: UnixMs,
    pub registry: RegistryId,
    /// What the registry has, as far as is known.
    pub holding: LeaseRecord,
    /// What it has otherwise.
    pub earlier: Option<LeaseRecord>,
    /// Up to where the journal has recorded it; 0 when it has not yet.
    pub limit: UnixMs,
    /// Whether it was taken in this life.
    pub mine: bool,
}

/// What is under way.
#[derive(Debug)]
pub(super) enum Pending {
    Snapshot(Now),
    Write(Now, Box<Plan>),
    Record(Record),
}

/// A write to the registry, and what is held if it succeeds.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub aim: Aim,
    pub expected: Option<LeaseRecord>,
    pub after: HeldLease,
}

/// What a write is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Aim {
    /// Claim a worker that was somebody else's.
    LeaseGrant,
    /// Be given one for good; `Some`: that very one again.
    Bind(Option<WorkerId>),
    /// Take over what an earlier life of this host had, or tell the registry again what it has lost.
    Keep,
    /// Renew.
    Renew,
    /// Let go of it, in part or whole.
    Leave,
}

/// How long a start waits for the registry before it goes on with what the journal has, in milliseconds.
const HEAD_START_MS: u64 = 1_000;

/// How often all entries are looked at while a worker is held, in milliseconds.
const LOOK_EVERY_MS: u64 = 60_000;

/// How soon that is tried again where nobody has asked for an id and the look failed, in milliseconds.
const PEEK_RETRY_MS: u64 = 2_000;

/// How soon a pool that is used up is looked at again at the earliest, in milliseconds.
const TAKEN_RETRY_MS: u64 = 1_000;

/// How soon what somebody must mend is tried again, in milliseconds.
pub(super) const REFUSED_RETRY_MS: u64 = 2_000;

impl HeldLease {
    /// Up to where ids may have been issued, also when the registry has forgotten some of it.
    pub fn reach(&self) -> UnixMs {
        self.holding.expires.max(self.limit)
    }
}

impl Lease {
    /// The lease of a daemon that starts now. `recorded` is what its journal says; what is recorded of another place,
    /// holder or pool doesn't count.
    #[must_use]
    pub fn new(settings: Settings, recorded: Option<Recorded>, now: Now) -> Lease {
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
            pending: None,
            to_record: forgotten.then_some(Record::Forget),
            look: None,
            unsure: None,
            look_next: true,
            look_at: now.boot,
            renew_at: now.boot,
            retry_at: now.boot,
            backoff: Backoff::default(),
            head_start_until: BootMs(now.boot.0.saturating_add(HEAD_START_MS)),
            away: false,
            blocked: false,
            trouble: None,
            renewed: None,
            journal_mark: UnixMs(0),
        }
    }

    /// An id was asked for: from now on a worker is claimed and kept. True: for the first time.
    pub fn want(&mut self) -> bool {
        let first = !std::mem::replace(&mut self.wanted, true);
        if first && self.held.is_none() && self.leaving.is_none() {
            // What a look has found so far may have been mended: it is tried at once.
            (self.trouble, self.backoff) = (None, Backoff::default());
            (self.retry_at, self.look_at) = (BootMs(0), BootMs(0));
        }
        first
    }

    /// Somebody else may have written what the registry has of this host's worker: it is compared at once.
    pub fn doubt(&mut self) {
        self.renew_at = BootMs(0);
    }

    /// The highest mark that the journal has of any layout. A permanent worker's recorded time follows it.
    pub fn journal_reached(&mut self, mark: UnixMs) {
        self.journal_mark = self.journal_mark.max(mark);
    }

    /// What to do now. `random` is drawn anew for each call. While a step is under way this only waits.
    pub fn next(&mut self, now: Now, random: u64) -> Step {
        if self.pending.is_some() {
            return Step::Wait(self.head_start_end(now));
        }
        if let Some(record) = self.to_record.take() {
            self.pending = Some(Pending::Record(record.clone()));
            return Step::Record(record);
        }
        if self.leaving.is_some() {
            return self.leave(now);
        }
        if let Some(look) = self.look.take() {
            if let Some(plan) = self.decide(look, now, random) {
                return self.write(now, plan);
            }
            return self.next(now, random);
        }
        if self.held.is_none() && !self.wanted {
            return self.peek(now);
        }
        if self.retry_at > now.boot {
            return Step::Wait(Some(self.wake_at(now, self.retry_at)));
        }
        let taken = self.held.as_ref().is_some_and(|held| held.mine);
        if !taken || self.look_next || self.look_at <= now.boot {
            self.look_next = false;
            self.pending = Some(Pending::Snapshot(now));
            return Step::Request(Request::Snapshot(self.settings.pool.clone()));
        }
        if self.renew_at <= now.boot
            && let Some(held) = &self.held
        {
            let mut after = held.clone();
            after.holding.expires = self.bound_ahead(now, held.reach());
            after.earlier = None;
            let expected = Some(held.holding.clone());
            return self.write(now, Plan { aim: Aim::Renew, expected, after });
        }
        Step::Wait(Some(self.wake_at(now, self.renew_at.min(self.look_at))))
    }

    /// Nobody has asked for an id yet. Whether one could be had is looked at now and then all the same.
    fn peek(&mut self, now: Now) -> Step {
        if self.look_at > now.boot {
            return Step::Wait(Some(self.look_at));
        }
        self.look_at = BootMs(now.boot.0.saturating_add(PEEK_RETRY_MS));
        self.pending = Some(Pending::Snapshot(now));
        Step::Request(Request::Snapshot(self.settings.pool.clone()))
    }

    /// What such a look has shown.
    pub(super) fn peeked(&mut self, now: Now, could_be_had: bool) {
        self.could_be_had = could_be_had;
        if could_be_had {
            self.trouble = None;
        } else {
            self.look_at = BootMs(now.boot.0.saturating_add(PEEK_RETRY_MS));
        }
    }

    /// What may be issued now. To be asked again after each event.
    ///
    /// # Errors
    /// Why nothing may.
    pub fn standing(&self, now: Now) -> Result<LeaseGrant, LeaseProblem> {
        if let Some(leaving) = &self.leaving {
            return Err(leaving.trouble());
        }
        let trouble = |otherwise| self.trouble.clone().unwrap_or(otherwise);
        let waits = self.wanted || !self.could_be_had;
        let idle = if waits { LeaseProblem::Starting } else { LeaseProblem::Unused };
        let held = self.held.as_ref().ok_or_else(|| trouble(idle))?;
        let vouched = held.mine || self.away || self.head_start_until <= now.boot;
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
        Ok(LeaseGrant { worker: held.worker, start: held.start, limit })
    }

    /// The clocks as generators are to use them: without a forward step that nobody has confirmed.
    #[must_use]
    pub fn hold(&self, now: Now) -> Now {
        self.clock.hold(now)
    }

    /// What went wrong last and still stands, also while ids can be issued.
    #[must_use]
    pub fn trouble(&self) -> Option<&LeaseProblem> {
        self.trouble.as_ref()
    }

    /// Whether anybody has asked for an id, or a worker is held from before.
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

    /// How much of a forward step of the wall clock is left out until the registry confirms it, in milliseconds.
    #[must_use]
    pub fn held_back_ms(&self, now: Now) -> u64 {
        self.clock.held_back_ms(now)
    }

    /// The worker that is held, usable or not, and until when by the journal.
    #[must_use]
    pub fn held(&self) -> Option<(WorkerId, UnixMs)> {
        self.held.as_ref().map(|held| (held.worker, held.limit))
    }

    /// When the registry last confirmed the claim in this life.
    #[must_use]
    pub fn renewed(&self) -> Option<BootMs> {
        self.renewed
    }

    /// What it was told.
    #[must_use]
    pub fn settings(&self) -> &Settings {
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
        self.pending = Some(Pending::Write(now, Box::new(plan)));
        Step::Request(ask)
    }

    /// A claim of a worker of the pool that nobody has.
    pub(super) fn plan_claim(&mut self, look: &Snapshot, now: Now, random: u64) -> Option<Plan> {
        match choose(look, &self.settings, self.clock.hold(now).unix, random) {
            Ok(choice) => {
                let holding = self.holding(now, choice.start);
                let after = self.held_new(look, choice.worker, choice.start, holding);
                Some(Plan { aim: Aim::LeaseGrant, expected: choice.expected, after })
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

    /// This life as holder, with a bound ahead of now and not below `least`.
    pub(super) fn holding(&self, now: Now, least: UnixMs) -> LeaseRecord {
        let holder: Holder = self.settings.holder.clone();
        LeaseRecord { holder: Some(holder), expires: self.bound_ahead(now, least) }
    }

    fn bound_ahead(&self, now: Now, least: UnixMs) -> UnixMs {
        let wall = self.clock.hold(now).unix.0;
        let bound = match self.settings.mode {
            Mode::Leased => wall.saturating_add(self.settings.lease_ms),
            Mode::Permanent => wall.saturating_add(PERMANENT_AHEAD_MS).max(self.journal_mark.0),
        };
        UnixMs(bound).max(least)
    }

    pub(super) fn troubled(&mut self, trouble: LeaseProblem) {
        self.trouble = Some(trouble);
    }

    pub(super) fn retry_in(&mut self, now: Now, wait_ms: u64) {
        self.retry_at = BootMs(now.boot.0.saturating_add(wait_ms));
        self.look_next = true;
    }

    /// Tries again soon, each time later, never all hosts at once.
    pub(super) fn back_off(&mut self, now: Now, random: u64) {
        let wait_ms = self.backoff.next_ms(random);
        self.retry_in(now, wait_ms);
    }

    /// All is well: the next renewal and the next look are due in their time.
    pub(super) fn confirmed(&mut self, now: Now) {
        self.trouble = None;
        self.backoff = Backoff::default();
        self.look_next = false;
        self.retry_at = now.boot;
        self.renewed = Some(now.boot);
        self.renew_at = BootMs(now.boot.0.saturating_add(self.settings.renew_every_ms()));
    }

    pub(super) fn looked_at(&mut self, now: Now) {
        self.look_at = BootMs(now.boot.0.saturating_add(LOOK_EVERY_MS));
    }

    /// Takes in what a call came to. An answer that was not asked for is left out.
    pub fn answered(&mut self, now: Now, answer: Response, random: u64) {
        match (self.pending.take(), answer) {
            (Some(Pending::Snapshot(asked)), Response::Snapshot(look)) => {
                self.looked(asked, now, look, random);
            }
            (Some(Pending::Write(asked, plan)), Response::CompareAndSet(answer)) => {
                self.swapped(asked, now, *plan, answer, random);
            }
            (Some(Pending::Write(_, plan)), Response::Assign(answer)) => {
                self.bound(now, *plan, answer, random);
            }
            (pending, _) => self.pending = pending,
        }
    }

    fn wake_at(&self, now: Now, at: BootMs) -> BootMs {
        self.head_start_end(now).map_or(at, |end| end.min(at))
    }

    /// When what the journal has may be used although the registry has said nothing.
    fn head_start_end(&self, now: Now) -> Option<BootMs> {
        let waits = self.held.as_ref().is_some_and(|held| !held.mine) && !self.away;
        (waits && self.head_start_until > now.boot).then_some(self.head_start_until)
    }
}
