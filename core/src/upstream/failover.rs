//! The steps from a changed history to new claims.
//!
//! 1. A host that finds a note in doubt, or finds that commits are missing, has the store begin a new life.
//! 2. This host pushes its high-water marks.
//! 3. It asks whether claims were made in the new life. If not, no host has claimed before this host reported its
//!    numbers, so it keeps them. Otherwise it drops them. Because the push comes first and no clock is involved, an
//!    answer may take any time.
//! 4. It waits for the settling time by its own clock, so that the other hosts can do the same, or until it learns that
//!    another host has claimed. The first claim records in the store that settling is over.
//!
//! Meanwhile held ids are issued only while it is certain that no other host has claimed: until the settling time has
//! passed since the last question that was answered under the former history.

use super::state::{Monitor, Standing};
use super::{Event, Request};
use crate::BootMs;
use crate::store::{History, Identity, StoreError};

/// A new history that the host is settling in.
#[derive(Clone, Debug)]
pub(super) struct Settling {
    /// The store in its new history.
    pub identity: Identity,
    /// The latest history that was seen meanwhile and was not in doubt. The store must not return to an earlier one.
    pub latest: History,
    /// When the question that first revealed it was asked. If the store can't record who claimed, the settling time
    /// counts from here.
    pub since: BootMs,
    pub held: Held,
    /// Earlier histories in which this host reported its numbers in time, although the store never settled in them.
    pub told: Vec<History>,
    /// How many tags were pushed; `None` until they are.
    pub pushed: Option<usize>,
    /// When claims may continue; `None` until the store has reported whether it has settled.
    pub until: Option<BootMs>,
}

/// What is known about this host's held numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Held {
    /// No other host can have claimed them before this instant.
    OwnUntil(BootMs),
    /// They were reported in time.
    Own,
    /// They were dropped.
    Distrusted,
}

/// The clocks of two hosts differ in speed by less than one part in this many.
const CLOCKS_AGREE_TO: u64 = 500;

impl Monitor {
    /// A store whose known history was `from` now has another one. `asked`: when the question was asked; it may have
    /// been answered only `now`.
    pub(super) fn fail_over(
        &mut self,
        now: BootMs,
        asked: BootMs,
        found: Identity,
        from: &History,
    ) {
        let was_away = now >= self.proven_until();
        // Other hosts may have claimed in a lost life in which this host reported nothing.
        let missed_one = was_away
            && matches!(
                &self.standing,
                Standing::Settling(Settling { held: Held::OwnUntil(_), identity, .. })
                    if !found.history.includes(&identity.history)
            );
        self.begin_settling(asked, found.clone(), from);
        self.count(&found.history);
        if let Standing::Settling(Settling { told, .. }) = &self.standing
            && (missed_one || found.history.was_missed_by(from, told, was_away))
        {
            self.distrust();
        }
        self.next = Some(Request::PushHighWater(found));
    }

    /// The store's note is in doubt, or the store has lost the life that this host trusts, so it must begin a new one.
    pub(super) fn renew(&mut self, asked: BootMs, found: Identity, from: &History) {
        if !found.history.is_in_doubt() {
            self.events.push_back(Event::WentBack(found.history.clone()));
        }
        self.begin_settling(asked, found.clone(), from);
        self.next = Some(Request::Renew(found, Some(from.clone())));
    }

    fn begin_settling(&mut self, asked: BootMs, found: Identity, from: &History) {
        let proven_until = self.proven_until();
        let (held, told) = match &self.standing {
            _ if self.settings.embedded => (Held::Own, Vec::new()),
            Standing::Settling(Settling { held: Held::Own, identity, told, .. }) => {
                let now_told = told.iter().chain([&identity.history]).cloned().collect();
                (Held::OwnUntil(proven_until), now_told)
            }
            Standing::Settling(Settling { held, told, .. }) => (*held, told.clone()),
            _ => (Held::OwnUntil(proven_until), Vec::new()),
        };
        let latest = match &self.standing {
            _ if !found.history.is_in_doubt() => found.history.clone(),
            Standing::Settling(settling) => settling.latest.clone(),
            _ => from.clone(),
        };
        self.loss = None;
        self.suspect = false;
        self.trusted.get_or_insert_with(|| Identity { history: from.clone(), ..found.clone() });
        let (identity, since, pushed, until) = (found, asked, None, None);
        self.standing =
            Standing::Settling(Settling { identity, latest, since, held, told, pushed, until });
    }

    /// Before this instant, no other host can have claimed this host's numbers, whatever has happened to the store.
    fn proven_until(&self) -> BootMs {
        match self.proven_at {
            BootMs(0) => BootMs(0),
            BootMs(at) => BootMs(at.saturating_add(self.settings.settle_ms)),
        }
    }

    /// A probe while the store settles has found the same history again.
    pub(super) fn go_on_settling(&mut self) {
        let Standing::Settling(settling) = &self.standing else { return };
        self.suspect = false;
        let identity = settling.identity.clone();
        self.next = Some(match settling.pushed {
            None => Request::PushHighWater(identity),
            Some(_) => Request::IsSettled(identity),
        });
    }

    /// The store has reported whether claims were made in its current life.
    pub(super) fn told_whether_settled(
        &mut self,
        now: BootMs,
        asked: BootMs,
        settled: Option<bool>,
        random: u64,
    ) {
        let (settle_ms, others_done_at) = (self.settings.settle_ms, self.others_done_at(now));
        let Standing::Settling(settling) = &mut self.standing else {
            return self.met(now, asked, settled, random);
        };
        self.proven_at = asked;
        let in_time = match settled {
            Some(settled) => !settled,
            // Each host measures for itself. The longest time that can have passed counts.
            None => now.0.saturating_sub(settling.since.0) < settle_ms,
        };
        let over_at = match settled {
            Some(true) => now,
            Some(false) => others_done_at,
            None => BootMs(settling.since.0.saturating_add(settle_ms)),
        };
        settling.until = Some(settling.until.map_or(over_at, |until| until.min(over_at)));
        match settling.held {
            Held::OwnUntil(_) if in_time => {
                settling.held = Held::Own;
                self.events.push_back(Event::Resumed);
            }
            Held::OwnUntil(_) => self.distrust(),
            Held::Own | Held::Distrusted => {}
        }
    }

    /// When every host will have had time to push, if the store has just reported that no claims were made yet.
    pub(super) fn others_done_at(&self, now: BootMs) -> BootMs {
        let settle_ms = self.settings.settle_ms;
        BootMs(now.0.saturating_add(settle_ms).saturating_add(settle_ms / CLOCKS_AGREE_TO))
    }

    pub(super) fn pushed(&mut self, tags: usize) {
        match &mut self.standing {
            Standing::Settling(settling) => {
                settling.pushed = Some(tags);
                self.next = Some(Request::IsSettled(settling.identity.clone()));
                self.events.push_back(Event::Resumed);
            }
            // With Leaf's table only, a loss can't be recorded for the other hosts.
            _ => {
                self.loss = None;
                self.events.push_back(Event::Settled(tags));
                self.events.push_back(Event::Resumed);
            }
        }
    }

    /// The journal has the new history: claims continue.
    pub(super) fn settled(&mut self) {
        let Standing::Settling(Settling { identity, pushed, .. }) = &self.standing else { return };
        let (identity, tags) = (identity.clone(), pushed.unwrap_or(0));
        self.events.push_back(Event::Settled(tags));
        self.trust(identity);
    }

    /// The answer to a request for a new life.
    pub(super) fn renewed(
        &mut self,
        now: BootMs,
        renewed: Result<bool, StoreError>,
    ) -> Result<(), StoreError> {
        match renewed {
            // The next probe finds the new life. The rest is as after a fail-over.
            Ok(true) | Err(StoreError::Changed { .. }) => {
                self.loss = None;
                self.probe_at = now;
            }
            // The store has no place for lives.
            Ok(false) => {
                let push = || self.answering().cloned().map(Request::PushHighWater);
                self.next = self.check_in().or_else(push);
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Counts a fail-over once, however many steps it takes.
    fn count(&mut self, to: &History) {
        if self.failed_over_to.as_ref() == Some(to) {
            return;
        }
        self.failed_over_to = Some(to.clone());
        self.failovers += 1;
        self.events.push_back(Event::FailedOver(to.clone()));
    }

    /// Other hosts may have claimed this host's numbers again. An embedded store has no other hosts.
    fn distrust(&mut self) {
        if self.settings.embedded {
            return;
        }
        if let Standing::Settling(settling) = &mut self.standing {
            if settling.held == Held::Distrusted {
                return;
            }
            settling.held = Held::Distrusted;
        }
        self.events.push_back(Event::Distrusted);
    }
}
