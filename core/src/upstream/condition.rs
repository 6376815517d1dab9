//! What a store can be used for now, or why and since when it can't be used; and what other callers have found out
//! about it.

use super::Event;
use super::check_in::CROWDED_MS_MAX;
use super::failover::{Held, Settling};
use super::state::{Monitor, Standing};
use crate::BootMs;
use crate::registry::RegistryId;
use crate::store::{History, Identity, Reason, StoreError, Why};

/// An unusable store, as of the last call.
#[derive(Clone, Debug)]
pub struct Away {
    /// When the first failed call was made.
    pub since: BootMs,
    /// Why the last call failed.
    pub error: StoreError,
    /// Whether no call has failed yet, but one has exceeded the longest allowed time.
    pub silent: bool,
}

/// Why claims can't be made from a store at present.
#[derive(Clone, Debug)]
pub enum Condition {
    /// It has not answered since the daemon's start.
    Unmet,
    /// The last call failed.
    Away(StoreError),
    /// It may have lost commits. Every daemon is reporting the highest numbers that it has seen.
    Settling,
    /// It has lost commits, and the other daemons don't know yet.
    LostCommits,
    /// It answers, but first claims are delayed to spread the load of daemons that start together.
    Crowded,
    /// It is not the expected store, or not in the expected state.
    Refused(StoreError),
}

/// A shorter gap doesn't count as a stop: a daemon reports once a second that it runs, and later on a busy machine.
const STOPPED_MS_MIN: u64 = 2_000;

impl Monitor {
    /// The identity for claims; `None` while none may be made.
    pub fn claimable(&self) -> Option<&Identity> {
        let wait = self.away.is_some() || self.loss.is_some() || self.crowded_until.is_some();
        match &self.standing {
            Standing::Trusted if !wait => self.trusted.as_ref(),
            _ => None,
        }
    }

    /// The identity for queries about its tags. Unlike claims, these are allowed while claims wait, and while the
    /// store's role differs from this daemon's routes.
    pub fn present(&self) -> Option<&Identity> {
        if self.away.is_some() { None } else { self.askable() }
    }

    /// Whether a claim that was made under this identity counts, now that it has been answered. It doesn't if the store
    /// has changed since, or may have, or has lost commits. A slow answer alone is no such sign.
    pub fn counts(&self, under: &Identity) -> bool {
        let failed = self.away.as_ref().is_some_and(|away| !away.silent);
        !failed && self.loss.is_none() && self.askable() == Some(under)
    }

    fn askable(&self) -> Option<&Identity> {
        match &self.standing {
            // Before this host's marks are pushed, the store may have recorded less than was claimed.
            Standing::Settling(Settling { pushed: None, .. }) => None,
            Standing::Refused(..) => self.in_another_role.as_ref(),
            _ => self.answering(),
        }
    }

    /// The identity of its last answer, if it is the expected store.
    pub(super) fn answering(&self) -> Option<&Identity> {
        match &self.standing {
            Standing::Trusted => self.trusted.as_ref(),
            Standing::Settling(settling) => Some(&settling.identity),
            Standing::Unmet | Standing::Refused(..) => None,
        }
    }

    /// The instant from which held ids may not be issued, because another host may have claimed the same ids. That is
    /// the case if the store's history has changed and this host may have reported its held ids too late, or if this
    /// daemon was stopped for so long that the others may have settled without it.
    pub fn issues_until(&self) -> BootMs {
        self.own_until().unwrap_or(BootMs(u64::MAX)).min(self.runs_until())
    }

    /// Reports that the daemon runs. Call this at least every second, because a longer gap means that it was stopped.
    /// Returns true if the store must be asked before held ids may be issued again.
    pub fn runs(&mut self, now: BootMs) -> bool {
        let stopped = now >= self.runs_until() && self.resumed_at.is_none();
        self.ran_at = now;
        if stopped {
            self.resumed_at = Some(now);
            self.probe_soon(now);
        }
        stopped
    }

    /// The instant from which held ids may not be issued, unless the daemon reports before then that it runs.
    pub fn runs_until(&self) -> BootMs {
        let settle_ms = self.settings.settle_ms;
        match self.resumed_at {
            // No other host claims from this host's own file, or other hosts don't wait at all.
            _ if settle_ms == 0 => BootMs(u64::MAX),
            Some(_) => BootMs(0),
            None => BootMs(self.ran_at.0.saturating_add(settle_ms.max(STOPPED_MS_MIN))),
        }
    }

    /// The instant until which held ids may be issued; `None`: indefinitely.
    pub fn own_until(&self) -> Option<BootMs> {
        match &self.standing {
            _ if self.suspect => Some(BootMs(0)),
            Standing::Settling(Settling { held: Held::OwnUntil(until), .. }) => Some(*until),
            _ => None,
        }
    }

    /// Why claims can't be made, if they can't.
    pub fn condition(&self) -> Option<Condition> {
        if let Some(away) = &self.away {
            return Some(Condition::Away(away.error.clone()));
        }
        match &self.standing {
            Standing::Unmet => Some(Condition::Unmet),
            Standing::Settling(_) => Some(Condition::Settling),
            Standing::Refused(error, _) => Some(Condition::Refused(error.clone())),
            Standing::Trusted if self.loss.is_some() => Some(Condition::LostCommits),
            Standing::Trusted => self.crowded_until.map(|_| Condition::Crowded),
        }
    }

    /// Why its tags can't be administered, if they can't: it is not known to be the expected store. This doesn't check
    /// whether it answers.
    pub fn admin_refusal(&self) -> Option<Condition> {
        match &self.standing {
            Standing::Unmet | Standing::Refused(..) => self.condition(),
            Standing::Trusted | Standing::Settling(_) => None,
        }
    }

    /// The identity for creating a tag. Unlike claims, this is allowed while the store has not answered, or while the
    /// daemon waits for its turn.
    ///
    /// # Errors
    /// The store may have lost claims of this name that other daemons have not reported yet, or it is not known to be
    /// the expected store.
    pub fn complete(&self) -> Result<&Identity, Condition> {
        match &self.standing {
            Standing::Trusted if self.loss.is_some() => Err(Condition::LostCommits),
            Standing::Trusted => self.trusted.as_ref().ok_or(Condition::Unmet),
            Standing::Settling(_) => Err(Condition::Settling),
            Standing::Unmet => Err(self.condition().unwrap_or(Condition::Unmet)),
            Standing::Refused(error, _) => Err(Condition::Refused(error.clone())),
        }
    }

    /// The history at the last contact with the expected store.
    pub fn history(&self) -> Option<&History> {
        let answered = match &self.standing {
            Standing::Refused(..) => self.in_another_role.as_ref(),
            _ => self.answering(),
        };
        answered.or(self.trusted.as_ref()).map(|identity| &identity.history)
    }

    /// Why it is refused, if it is.
    pub fn refusal(&self) -> Option<&StoreError> {
        match &self.standing {
            Standing::Refused(error, _) => Some(error),
            _ => None,
        }
    }

    /// Whether it has been asked at all, whatever the outcome.
    pub fn tried(&self) -> bool {
        self.visits > 0
    }

    /// How much longer claims wait after a fail-over, in milliseconds; 0 if they don't.
    pub fn settling_ms(&self, now: BootMs) -> u64 {
        match &self.standing {
            Standing::Settling(Settling { until: Some(until), .. }) => {
                until.0.saturating_sub(now.0)
            }
            Standing::Settling(_) => self.settings.settle_ms,
            _ => 0,
        }
    }

    /// Checks that the registry of workers is in the store that claims are made from. A host that reaches another
    /// database must not take a worker there, because a host on the right database may have the same one. Before the
    /// first contact, the right store is the one in the journal. If the answer is unknown, a probe follows soon.
    ///
    /// # Errors
    /// [`StoreError::Refused`] if it is another store; [`StoreError::Unavailable`] while that is unknown.
    pub fn verify(&mut self, now: BootMs, found: &RegistryId) -> Result<(), StoreError> {
        let meant = match &self.standing {
            Standing::Unmet => self.settings.remembered.as_ref().map(|(id, history)| (id, history)),
            _ => self.answering().map(|identity| (&identity.id, &identity.history)),
        };
        if meant == Some((&found.id, &found.history)) && !found.history.is_in_doubt() {
            return Ok(());
        }
        self.probe_soon(now);
        if let Standing::Refused(error, _) = &self.standing {
            return Err(StoreError::refused_for(error.why(), error.to_string()));
        }
        let cause = match &self.away {
            Some(away) => Reason::new(away.error.why(), away.error.to_string()),
            None => format!("database {found} is not verified yet").into(),
        };
        Err(StoreError::Unavailable { store: self.settings.url.to_string(), cause })
    }

    /// The history that this host trusts, or trusted before it started.
    pub fn known_history(&self) -> Option<&History> {
        let remembered = || self.settings.remembered.as_ref().map(|(_, history)| history);
        self.trusted.as_ref().map(|trusted| &trusted.history).or_else(remembered)
    }

    /// Another caller's call failed or was not answered.
    pub fn call_failed(&mut self, now: BootMs, error: &StoreError) {
        self.goes_away(now, error.clone(), false);
        self.probe_soon(now);
    }

    /// Any caller's call has been pending for this long, in milliseconds. A disk or a server that hangs reports no
    /// error. Returns true if the store counts as unavailable from now on because of this.
    pub fn under_way(&mut self, now: BootMs, for_ms: u64) -> bool {
        let answer_ms = self.settings.answer_ms;
        if for_ms < answer_ms {
            return false;
        }
        let words = format!("it has not answered for more than {} s", answer_ms / 1_000);
        let cause = Reason::new(Why::Silent, words);
        let error = StoreError::Unavailable { store: self.settings.url.to_string(), cause };
        if self.away.as_ref().is_some_and(|away| away.error == error) {
            return false;
        }
        self.goes_away(BootMs(now.0.saturating_sub(for_ms)), error, true);
        self.probe_soon(now);
        true
    }

    /// Probes the store as soon as possible, because a call reached another store than expected.
    pub fn probe_soon(&mut self, now: BootMs) {
        self.probe_at = self.probe_at.min(now);
    }

    /// The store granted, or contains, less than it had granted under this identity, so it has lost commits without a
    /// new history. Returns true if this was not known yet; then every daemon must learn of it.
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
    /// The class of its reason.
    pub fn why(&self) -> Why {
        match self {
            Condition::Away(error) | Condition::Refused(error) => error.why(),
            _ => Why::Other,
        }
    }

    /// The condition in words; `url` names the store.
    pub fn describe(&self, url: &str) -> String {
        match self {
            Condition::Unmet => {
                format!("the store {url} has not answered since the daemon started")
            }
            Condition::Away(error) | Condition::Refused(error) => error.to_string(),
            Condition::Settling => format!(
                "the store {url} has failed over or was restored, and may have lost its last commits: claims pause for \
                 failover_settle, so that all hosts can report the highest ids they have seen"
            ),
            Condition::LostCommits => {
                format!(
                    "the store {url} lost claims that it had confirmed: every host reports the highest ids it has seen, and \
                     drops held ids that other hosts may claim. Check its replication and backups"
                )
            }
            Condition::Crowded => {
                format!(
                    "first claims from the store {url} are delayed by up to {} s to spread start-up load",
                    CROWDED_MS_MAX / 1_000
                )
            }
        }
    }
}
