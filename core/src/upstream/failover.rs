//! From a changed history to new claims.
//!
//! 1. This host pushes its high-water marks.
//! 2. The new history is noted in the store, unless it has been already. The store's own clock tells how long ago that
//!    was. If the settling time is not over, no host has claimed before the store heard of this host's numbers, and
//!    they stay this host's. Otherwise they are dropped. The push comes first and only the store's clock counts, so an
//!    answer may take any time.
//! 3. Claims continue once the store reports that the time is over.
//!
//! Meanwhile held ids are issued only while it is certain that no other host has claimed: until the settling time has
//! passed since the last question that was answered under the former history.

use super::state::{Monitor, Next, Standing};
use super::{Event, Record, Request};
use crate::BootMs;
use crate::store::{History, Identity, StoreError};

/// A new history that is being dealt with.
#[derive(Clone, Debug)]
pub(super) struct Settling {
    /// The store in its new history.
    pub identity: Identity,
    /// When the question was asked that first showed it. If the store can't record a note, the time counts from here.
    pub since: BootMs,
    pub held: Held,
    /// The store had not heard of these numbers under the previous history either. Other hosts may have claimed under
    /// that one from this instant.
    pub untold_before: Option<BootMs>,
    /// The store has not yet told how long ago the history was noted.
    pub first_note: bool,
    /// How many tags were pushed; `None` until they are.
    pub pushed: Option<usize>,
    /// When to ask again whether claims may continue.
    pub until: BootMs,
}

/// What is known about the numbers that this host holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Held {
    /// No other host can have claimed them before this instant.
    OwnUntil(BootMs),
    /// The store heard of them in time.
    Own,
    /// They were dropped.
    Distrusted,
}

impl Monitor {
    /// A store whose known history was `from` now has another one. `asked`: when the question was asked.
    pub(super) fn fail_over(&mut self, asked: BootMs, found: Identity, from: &History) {
        let settle_ms = self.settings.settle_ms;
        let proven_until = match self.proven_at {
            BootMs(0) => BootMs(0),
            BootMs(at) => BootMs(at.saturating_add(settle_ms)),
        };
        let (held, untold_before) = match &self.standing {
            _ if self.settings.embedded => (Held::Own, None),
            Standing::Settling(Settling { held: Held::OwnUntil(until), .. }) => {
                (Held::OwnUntil(*until), Some(*until))
            }
            Standing::Settling(Settling { held: Held::Distrusted, .. }) => (Held::Distrusted, None),
            _ => (Held::OwnUntil(proven_until), None),
        };
        self.loss = None;
        self.suspect = false;
        // Other hosts may have claimed anew before any daemon noticed.
        let loss_declared = from.losses() != found.history.losses();
        let identity = found.clone();
        let settling = Settling {
            identity,
            since: asked,
            held,
            untold_before,
            first_note: true,
            pushed: None,
            until: asked,
        };
        self.standing = Standing::Settling(settling);
        self.trusted.get_or_insert_with(|| Identity { history: from.clone(), ..found.clone() });
        if loss_declared {
            self.distrust();
        }
        self.next = Some(Next::Request(Request::PushHighWater(found)));
    }

    /// A probe while the store settles has found the same history again.
    pub(super) fn go_on_settling(&mut self, now: BootMs, asked: BootMs) {
        let Standing::Settling(settling) = &self.standing else { return };
        if settling.held == Held::Own {
            self.proven_at = asked;
        }
        let identity = settling.identity.clone();
        let judged = !matches!(settling.held, Held::OwnUntil(_));
        if settling.pushed.is_none() {
            self.next = Some(Next::Request(Request::PushHighWater(identity)));
        } else if !judged || settling.until <= now {
            self.next = Some(Next::Request(Request::NoteHistory(identity)));
        }
    }

    /// The store has told how long ago, by its clock, the present history was first noted, in milliseconds.
    pub(super) fn noted(&mut self, now: BootMs, asked: BootMs, noted_ms: Option<u64>, random: u64) {
        let settle_ms = self.settings.settle_ms;
        let Standing::Settling(settling) = &self.standing else {
            return self.met(now, asked, noted_ms, random);
        };
        // Without a note each host measures for itself. The least time that can have passed decides how long claims
        // wait; the most decides whether other hosts may have claimed.
        let least_ms = noted_ms.unwrap_or(asked.0.saturating_sub(settling.since.0));
        let most_ms = noted_ms.unwrap_or(now.0.saturating_sub(settling.since.0));
        let identity = settling.identity.clone();
        if settling.first_note && self.went_back(asked, noted_ms) {
            self.events.push_back(Event::WentBack(identity.history.clone()));
            self.next = Some(Next::Request(Request::DeclareLoss(identity)));
            return;
        }
        self.noted_by = noted_ms.map(|noted_ms| BootMs(now.0.saturating_sub(noted_ms)));
        self.count(&identity.history, least_ms);
        let Standing::Settling(settling) = &mut self.standing else { return };
        // Claims under a history in between ended before this one began.
        let begun_by = BootMs(now.0.saturating_sub(least_ms));
        let missed_one = settling.untold_before.take().is_some_and(|until| begun_by > until);
        let in_time = most_ms < settle_ms && !missed_one;
        settling.first_note = false;
        settling.until = BootMs(asked.0.saturating_add(settle_ms.saturating_sub(least_ms)));
        match settling.held {
            Held::OwnUntil(_) if in_time => {
                settling.held = Held::Own;
                self.proven_at = asked;
                self.events.push_back(Event::Resumed);
            }
            Held::OwnUntil(_) => self.distrust(),
            Held::Own | Held::Distrusted => {}
        }
        if least_ms >= settle_ms {
            self.proven_at = asked;
            self.next = Some(Next::Record(Record::History(identity.id, identity.history)));
        }
    }

    pub(super) fn pushed(&mut self, tags: usize) {
        match &mut self.standing {
            Standing::Settling(settling) => {
                settling.pushed = Some(tags);
                let note = Request::NoteHistory(settling.identity.clone());
                self.next = Some(Next::Request(note));
                self.events.push_back(Event::Resumed);
            }
            // With Leaf's table only, there is nowhere to tell the other hosts of a loss.
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

    /// The answer to a declared loss.
    pub(super) fn declared(
        &mut self,
        now: BootMs,
        told: Result<bool, StoreError>,
    ) -> Result<(), StoreError> {
        match told {
            // The declaration changed the history, or another daemon's did. What follows is as after a fail-over.
            Ok(true) | Err(StoreError::Changed { .. }) => {
                self.loss = None;
                self.probe_at = now;
            }
            Ok(false) => {
                if let Some(under) = self.answering().cloned() {
                    self.next = Some(Next::Request(Request::PushHighWater(under)));
                }
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Whether the store is back at a history noted before the one that this host last knew. Then everything since is
    /// lost, and the hosts that hold numbers of that time learn it only by being told.
    fn went_back(&self, asked: BootMs, noted_ms: Option<u64>) -> bool {
        let (Some(noted_ms), Some(known)) = (noted_ms, self.noted_by) else { return false };
        // Answers take time. One declaration too many costs numbers; one too few risks duplicate ids.
        BootMs(asked.0.saturating_sub(noted_ms)) <= known
    }

    /// Counts a fail-over once, however many steps it takes.
    fn count(&mut self, to: &History, noted_ms: u64) {
        if self.failed_over_to.as_ref() == Some(to) {
            return;
        }
        self.failed_over_to = Some(to.clone());
        self.failovers += 1;
        let left_ms = self.settings.settle_ms.saturating_sub(noted_ms);
        self.events.push_back(Event::FailedOver { to: to.clone(), noted_ms, left_ms });
    }

    /// Other hosts may have claimed this host's numbers anew. An embedded store has no other hosts.
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
