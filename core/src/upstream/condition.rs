//! What a store can be used for now, and if not, why and since when; and what others found out about it.

use super::failover::{Held, Settling};
use super::state::{Monitor, Standing};
use super::{Event, Settings};
use crate::BootMs;
use crate::store::{History, Identity, StoreError, StoreId};

/// A store that can't be used, as far as the last call showed.
#[derive(Clone, Debug)]
pub struct Away {
    /// When the first of the calls that failed was made.
    pub since: BootMs,
    /// Why the last one failed.
    pub error: StoreError,
}

/// Why a store can't be claimed from at present.
#[derive(Clone, Debug)]
pub enum Condition {
    /// It has not answered since the daemon's start.
    Unmet,
    /// The last call failed.
    Away(StoreError),
    /// It may have lost commits: every daemon tells it what it has seen.
    Settling,
    /// It has lost commits, and the other daemons have not been told yet.
    LostCommits,
    /// It serves, but many daemons have just started: this one waits for its turn.
    Crowded,
    /// It is not what it should be.
    Refused(StoreError),
}

impl Monitor {
    /// What it was told.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The identity under which it may be claimed from now.
    #[must_use]
    pub fn claimable(&self) -> Option<&Identity> {
        let wait = self.away.is_some() || self.loss.is_some() || self.crowded_until.is_some();
        match &self.standing {
            Standing::Trusted if !wait => self.trusted.as_ref(),
            _ => None,
        }
    }

    /// The identity under which it can be asked about its tags now, also while claims wait, and where it has another role
    /// than this daemon's routes say.
    #[must_use]
    pub fn present(&self) -> Option<&Identity> {
        match &self.standing {
            // Before it was told, it may have less than was claimed.
            Standing::Settling(Settling { pushed: None, .. }) => None,
            _ if self.away.is_some() => None,
            Standing::Refused(_) => self.in_another_role.as_ref(),
            _ => self.answering(),
        }
    }

    /// The identity under which it last answered, if it is the one that is meant.
    pub(super) fn answering(&self) -> Option<&Identity> {
        match &self.standing {
            Standing::Trusted => self.trusted.as_ref(),
            Standing::Settling(settling) => Some(&settling.identity),
            Standing::Unmet | Standing::Refused(_) => None,
        }
    }

    /// The identity that was trusted last.
    #[must_use]
    pub fn trusted(&self) -> Option<&Identity> {
        self.trusted.as_ref()
    }

    /// Whether ids may be issued from what is held. Not for as long as somebody else may have claimed the same: it is
    /// known that the store's history has changed, and not that the store was told in time.
    #[must_use]
    pub fn may_issue(&self, now: BootMs) -> bool {
        self.own_until().is_none_or(|until| now < until)
    }

    /// Until when ids may be issued from what is held; `None`: no end is in sight.
    #[must_use]
    pub fn own_until(&self) -> Option<BootMs> {
        match &self.standing {
            _ if self.suspect => Some(BootMs(0)),
            Standing::Settling(Settling { held: Held::OwnUntil(until), .. }) => Some(*until),
            _ => None,
        }
    }

    /// Why it can't be claimed from, if it can't.
    #[must_use]
    pub fn condition(&self) -> Option<Condition> {
        if let Some(away) = &self.away {
            return Some(Condition::Away(away.error.clone()));
        }
        match &self.standing {
            Standing::Unmet => Some(Condition::Unmet),
            Standing::Settling(_) => Some(Condition::Settling),
            Standing::Refused(error) => Some(Condition::Refused(error.clone())),
            Standing::Trusted if self.loss.is_some() => Some(Condition::LostCommits),
            Standing::Trusted => self.crowded_until.map(|_| Condition::Crowded),
        }
    }

    /// Why its tags can't be administered, if they can't: it is not, or not known to be, the store that is meant.
    /// Whether it answers shows when it is asked.
    #[must_use]
    pub fn admin_refusal(&self) -> Option<Condition> {
        match &self.standing {
            Standing::Unmet | Standing::Refused(_) => self.condition(),
            Standing::Trusted | Standing::Settling(_) => None,
        }
    }

    /// The identity under which a tag can be created, also where claims wait for the store to answer, or for their turn.
    ///
    /// # Errors
    /// It may have lost what was claimed under the name, and the other daemons have not told it yet; or it is not, or not
    /// known to be, the store that is meant.
    pub fn complete(&self) -> Result<&Identity, Condition> {
        match &self.standing {
            Standing::Trusted if self.loss.is_some() => Err(Condition::LostCommits),
            Standing::Trusted => self.trusted.as_ref().ok_or(Condition::Unmet),
            Standing::Settling(_) => Err(Condition::Settling),
            Standing::Unmet => Err(self.condition().unwrap_or(Condition::Unmet)),
            Standing::Refused(error) => Err(Condition::Refused(error.clone())),
        }
    }

    /// The history in which it was met last, as the store that is meant.
    #[must_use]
    pub fn history(&self) -> Option<&History> {
        let answered = match &self.standing {
            Standing::Refused(_) => self.in_another_role.as_ref(),
            _ => self.answering(),
        };
        answered.or(self.trusted.as_ref()).map(|identity| &identity.history)
    }

    /// What it is refused for, if it is.
    #[must_use]
    pub fn refusal(&self) -> Option<&StoreError> {
        match &self.standing {
            Standing::Refused(error) => Some(error),
            _ => None,
        }
    }

    /// Since when it can't be used, and why; `None` when it answered last.
    #[must_use]
    pub fn away(&self) -> Option<&Away> {
        self.away.as_ref()
    }

    /// When it last answered.
    #[must_use]
    pub fn answered_at(&self) -> Option<BootMs> {
        self.answered_at
    }

    /// Whether it has been asked once, with whatever outcome.
    #[must_use]
    pub fn tried(&self) -> bool {
        self.visits > 0
    }

    /// How often it has been asked, with whatever outcome.
    #[must_use]
    pub fn visits(&self) -> u64 {
        self.visits
    }

    /// How much longer claims wait after a fail-over, in milliseconds; 0 when they don't.
    #[must_use]
    pub fn settling_ms(&self, now: BootMs) -> u64 {
        match &self.standing {
            Standing::Settling(settling) => settling.until.0.saturating_sub(now.0),
            _ => 0,
        }
    }

    /// Fail-overs noticed since the daemon's start, those of its absence included.
    #[must_use]
    pub fn failovers(&self) -> u64 {
        self.failovers
    }

    /// Checks that what answered as a registry of workers is the store that is claimed from: a host that is led to another
    /// database must not be given a worker there, which a host of the right one may have. Before the store was met, the
    /// one that the journal knows is the right one. What is not known yet is probed soon.
    ///
    /// # Errors
    /// [`StoreError::Refused`] when it is not what is meant; [`StoreError::Unavailable`] when that is not known yet.
    pub fn verify(&mut self, now: BootMs, found: &StoreId) -> Result<(), StoreError> {
        let meant = match &self.standing {
            Standing::Unmet => self.settings.remembered.as_ref().map(|(id, _)| id),
            _ => self.answering().map(|identity| &identity.id),
        };
        if meant == Some(found) {
            return Ok(());
        }
        self.probe_soon(now);
        if let Standing::Refused(error) = &self.standing {
            return Err(StoreError::Refused(error.to_string()));
        }
        let cause = match &self.away {
            Some(away) => away.error.to_string(),
            None => format!("database {found} is not verified yet"),
        };
        Err(StoreError::Unavailable { store: self.settings.url.to_string(), cause })
    }

    /// A call that somebody else made could not be made, or was not answered.
    pub fn call_failed(&mut self, now: BootMs, error: &StoreError) {
        self.goes_away(now, error.clone());
        self.probe_soon(now);
    }

    /// Has it probed as soon as may be: a call found another store than it was made for.
    pub fn probe_soon(&mut self, now: BootMs) {
        self.probe_at = self.probe_at.min(now);
    }

    /// It gave, or has, less than it had given under this identity: it has lost commits without showing another history.
    /// True: that was not known yet, and every daemon is told of it.
    pub fn lost_commits(&mut self, under: &Identity) -> bool {
        let trusted = matches!(self.standing, Standing::Trusted);
        if !trusted || self.trusted.as_ref() != Some(under) || self.loss.is_some() {
            return false;
        }
        self.loss = Some(under.clone());
        if !self.settings.embedded {
            self.events.push_back(Event::Distrusted);
        }
        true
    }
}

impl Condition {
    /// In words; `url` is what the store is called.
    #[must_use]
    pub fn describe(&self, url: &str) -> String {
        match self {
            Condition::Unmet => {
                format!("the store {url} has not answered since the daemon's start")
            }
            Condition::Away(error) | Condition::Refused(error) => error.to_string(),
            Condition::Settling => format!(
                "the store {url} has failed over or was restored, and may have lost its last commits: nothing new is claimed \
                 until failover_settle has passed, so that all hosts can report the ids that they have seen"
            ),
            Condition::LostCommits => {
                format!(
                    "the store {url} forgot claims that it had confirmed: every host reports the highest ids that it has \
                     seen, and drops those that others may be given. Check its replication and backups"
                )
            }
            Condition::Crowded => {
                format!(
                    "the store {url} is busy because many daemons are starting; claims begin in a moment"
                )
            }
        }
    }
}
