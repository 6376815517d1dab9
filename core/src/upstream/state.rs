//! A monitor's state, and its next step.

use std::collections::VecDeque;

use super::check_in::CheckingIn;
use super::failover::{Held, Settling};
use super::{Away, Event, Record, Request, Response, Settings, Step};
use crate::BootMs;
use crate::backoff::Backoff;
use crate::store::{History, Identity, StoreError, StoreId};

/// A store as one daemon sees it, from the daemon's start on.
#[derive(Debug, Default)]
pub struct Monitor {
    pub(super) settings: Settings,
    pub(super) standing: Standing,
    /// The last store that was claimed from, whatever its current standing.
    pub trusted: Option<Identity>,
    /// The expected store in its known history, but with another role. Its tags can be queried, because held numbers
    /// are still issued.
    pub(super) in_another_role: Option<Identity>,
    /// When the last question was asked whose answer proved that the held numbers are this host's own.
    pub(super) proven_at: BootMs,
    /// Whether it granted, or contains, less than it had granted under this identity, and the other daemons don't know
    /// yet.
    pub(super) loss: Option<Identity>,
    pub(super) checking_in: Option<CheckingIn>,
    /// Where and in which history the last first contact began, even if it failed.
    pub(super) latest_met: Option<(StoreId, History)>,
    /// Whether it was found in another history than the known one, so that the held numbers may have been claimed
    /// again.
    pub(super) suspect: bool,
    /// The next part of the visit.
    pub(super) next: Option<Request>,
    pub(super) events: VecDeque<Event>,
    pub(super) probe_at: BootMs,
    /// Claims wait until then, because many daemons start at once.
    pub(super) crowded_until: Option<BootMs>,
    /// Fail-overs noticed since the daemon's start, including those that happened before it.
    pub failovers: u64,
    pub(super) failed_over_to: Option<History>,
    /// The pending request, and since when it is pending.
    pending: Option<(Request, BootMs)>,
    /// Since when it can't be used, and why; `None` if the last call was answered.
    pub away: Option<Away>,
    /// When it last answered.
    pub answered_at: Option<BootMs>,
    /// Visits that have ended, with any outcome.
    pub visits: u64,
    /// When the daemon last reported that it is running.
    pub(super) ran_at: BootMs,
    /// When the daemon resumed after it was stopped for longer than other hosts wait for its report. Until a question
    /// asked since then has been answered, another host may have claimed its held ids.
    pub(super) resumed_at: Option<BootMs>,
    retry_at: BootMs,
    backoff: Backoff,
}

/// A store's standing with this host.
#[derive(Clone, Debug, Default)]
pub(super) enum Standing {
    /// It has not answered since the start.
    #[default]
    Unmet,
    /// It is claimed from.
    Trusted,
    /// It may have lost commits.
    Settling(Settling),
    /// It is not the expected store, or not in the expected state. A new history that it was settling in still counts.
    Refused(StoreError, Option<Box<Settling>>),
}

/// A store is probed at least this often, whatever the setting, so that outages are noticed.
const PROBE_MS_MAX: u64 = 15_000;

/// The next probe is not scheduled yet.
const NEVER: BootMs = BootMs(u64::MAX);

impl Monitor {
    /// The monitor of a daemon that starts now. It has made no request yet.
    pub fn new(settings: Settings, now: BootMs) -> Monitor {
        Monitor { settings, probe_at: now, ran_at: now, retry_at: now, ..Monitor::default() }
    }

    /// What to do now. While a request is pending, this only waits.
    pub fn next(&mut self, now: BootMs) -> Step {
        if let Some(event) = self.events.pop_front() {
            return Step::Event(event);
        }
        if self.pending.is_some() {
            return Step::Wait(None);
        }
        if let Some(next) = self.next.take() {
            return self.send(now, next);
        }
        if self.retry_at > now {
            return Step::Wait(Some(self.retry_at));
        }
        if let (Some(lost), Standing::Trusted) = (&self.loss, &self.standing) {
            let renew = Request::Renew(lost.clone(), Some(lost.history.clone()));
            return self.send(now, renew);
        }
        if self.probe_at <= now {
            self.probe_at = NEVER;
            return self.send(now, Request::Identity);
        }
        let mut wake_at = self.probe_at;
        if let Standing::Settling(Settling { identity, until: Some(until), .. }) = &self.standing {
            if *until <= now {
                let record = Record::History(identity.id.clone(), identity.history.clone());
                return self.send(now, Request::Record(record));
            }
            wake_at = wake_at.min(*until);
        }
        if let Some(until) = self.crowded_until {
            if until <= now {
                self.crowded_until = None;
                return Step::Event(Event::Resumed);
            }
            wake_at = wake_at.min(until);
        }
        Step::Wait(Some(wake_at))
    }

    fn send(&mut self, now: BootMs, request: Request) -> Step {
        self.pending = Some((request.clone(), now));
        Step::Request(request)
    }

    /// Records the outcome of the pending request. Pass a fresh `random` to each call.
    pub fn answered(&mut self, now: BootMs, response: Response, random: u64) {
        let Some((request, asked)) = self.pending.take() else {
            debug_assert!(false, "nothing was asked");
            return;
        };
        let visit = self.judge(now, asked, request, response, random);
        self.went_on(now, asked, visit, random);
    }

    /// Acts on an answer. An error ends the visit, and the next one follows soon.
    fn judge(
        &mut self,
        now: BootMs,
        asked: BootMs,
        request: Request,
        response: Response,
        random: u64,
    ) -> Result<(), StoreError> {
        match (request, response) {
            (Request::Identity, Response::Identity(found)) => {
                self.identified(now, asked, found?)?
            }
            (Request::HasTags, Response::HasTags(has_tags)) => self.has_tags(has_tags)?,
            (Request::TakeRole(..), Response::TakeRole(taken)) => self.role_taken(taken)?,
            // It had lost this host's last start, and has begun a new life.
            (Request::CheckIn(_), Response::CheckIn(Err(StoreError::Changed { .. }))) => {
                self.probe_at = now;
            }
            (Request::CheckIn(_), Response::CheckIn(checked_in)) => {
                self.checked_in(checked_in?);
            }
            (Request::IsSettled(_), Response::IsSettled(settled)) => {
                self.told_whether_settled(now, asked, settled?, random);
            }
            (Request::Renew(..), Response::Renew(renewed)) => self.renewed(now, renewed)?,
            (Request::PushHighWater(_), Response::PushHighWater(tags)) => self.pushed(tags?),
            (Request::Record(record), Response::Record(recorded)) => {
                recorded?;
                match record {
                    Record::CheckedIn(..) => self.check_in_recorded(now),
                    Record::History(..) => self.settled(),
                }
            }
            (request, response) => {
                debug_assert!(false, "{response:?} is no answer to {request:?}");
            }
        }
        Ok(())
    }

    fn went_on(&mut self, now: BootMs, asked: BootMs, visit: Result<(), StoreError>, random: u64) {
        // While the store can't be reached this is an outage like any other.
        if self.resumed_at.take_if(|resumed_at| *resumed_at <= asked).is_some() {
            self.events.push_back(Event::Resumed);
        }
        match visit {
            Ok(()) => {
                self.answered_at = Some(now);
                if self.next.is_none() {
                    self.rest(now, random);
                }
            }
            Err(error) => {
                self.checking_in = None;
                self.visits += 1;
                // The wait counts from the start of the attempt, so after a timeout the next try follows soon.
                self.retry_at = BootMs(asked.0.saturating_add(self.backoff.next_ms(random)));
                self.probe_at = self.retry_at;
                self.goes_away(asked, error, false);
            }
        }
    }

    /// Ends the visit. The next probe comes at a random time, so that daemons don't synchronise.
    fn rest(&mut self, now: BootMs, random: u64) {
        self.backoff = Backoff::default();
        self.visits += 1;
        if self.probe_at == NEVER {
            let every_ms = self.settings.probe_ms.clamp(1, PROBE_MS_MAX);
            let pause_ms = every_ms / 2 + random % (every_ms / 2 + 1);
            self.probe_at = BootMs(now.0.saturating_add(pause_ms));
        }
        if self.away.take().is_some() {
            self.events.push_back(Event::Back);
            self.events.push_back(Event::Resumed);
        }
    }

    /// A call failed or was not answered; `silent` as in [`Away`].
    pub(super) fn goes_away(&mut self, since: BootMs, error: StoreError, silent: bool) {
        match &mut self.away {
            Some(away) => {
                away.error = error;
                away.silent &= silent;
            }
            None => {
                self.away = Some(Away { since, error: error.clone(), silent });
                self.events.push_back(Event::Away(error));
            }
        }
    }

    /// It answered, and claims may be made from it.
    pub(super) fn trust(&mut self, found: Identity) {
        if !matches!(self.standing, Standing::Trusted) {
            self.events.push_back(Event::Resumed);
        }
        self.trusted = Some(found);
        self.standing = Standing::Trusted;
    }

    /// It is not the expected store, or not in the expected state: nothing is claimed from it until it is.
    pub(super) fn refuse(&mut self, error: StoreError) {
        let known = matches!(
            &self.standing,
            Standing::Refused(known, _) if known.to_string() == error.to_string()
        );
        if !known {
            self.events.push_back(Event::Refused(error.clone()));
        }
        self.checking_in = None;
        self.in_another_role = None;
        // If the store was settling, it was not known yet whether the held numbers were reported in time.
        self.suspect |=
            matches!(self.standing, Standing::Settling(Settling { held: Held::OwnUntil(_), .. }));
        let settling = match std::mem::take(&mut self.standing) {
            Standing::Settling(settling) => Some(Box::new(settling)),
            Standing::Refused(_, settling) => settling,
            Standing::Unmet | Standing::Trusted => None,
        };
        self.standing = Standing::Refused(error, settling);
    }
}
