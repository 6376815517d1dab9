//! The first contact with a store after a start. Later probes check in the same way whether it is still the expected
//! store.

use super::failover::{Held, Settling};
use super::state::{Monitor, Standing};
use super::{Event, Record, Request};
use crate::BootMs;
use crate::store::{History, Identity, Role, StoreError, StoreId, Why};

/// A first contact in progress.
#[derive(Clone, Debug)]
pub(super) struct CheckingIn {
    found: Identity,
    /// The journal's history of this store.
    history: Option<History>,
    begun: BootMs,
}

/// What to do about another database. If it was swapped in on purpose, it may grant the former one's ids again.
const PUT_BACK: &str = "Restore the original one. If the change is intended, follow docs/operate/another-database.md \
     (stop all hosts, raise the tags, then run leafd adopt-store)";

/// A store that answers within this time is not crowded, in milliseconds.
const CROWDED_FROM_MS: u64 = 25;

/// Daemons spread their turns over this many times the store's answer time.
const TURNS: u64 = 4;

/// The longest wait for a turn, in milliseconds.
pub(super) const CROWDED_MS_MAX: u64 = 2_000;

impl Monitor {
    /// A store has reported its identity.
    pub(super) fn identified(
        &mut self,
        now: BootMs,
        asked: BootMs,
        found: Identity,
    ) -> Result<(), StoreError> {
        let Some(trusted) = &self.trusted else {
            self.meet(asked, found);
            return Ok(());
        };
        if trusted.id != found.id {
            self.refuse(StoreError::refused_for(Why::AnotherDatabase, format!(
                "the store {} is not the database that was in use: it was {trusted}, and now it is {found}; nothing is \
                 claimed from it. {PUT_BACK}",
                self.settings.url
            )));
            return Ok(());
        }
        if trusted.role != found.role {
            let known = trusted.history.clone();
            let same_history = trusted.history == found.history;
            self.refuse(StoreError::refused_for(Why::OtherRoutes, format!(
                "the recorded routes of the store {} have changed: they were {:?}, and now they are {:?}; nothing is \
                 claimed from it. Restart leafd with the routes of the other hosts",
                self.settings.url, &*trusted.role.0, &*found.role.0
            )));
            self.compare(&found.history, &known);
            self.in_another_role = same_history.then_some(found);
            return Ok(());
        }
        let (known, found_history) = (trusted.history.clone(), &found.history);
        let in_doubt = found_history.is_in_doubt();
        if let Standing::Refused(_, settling) = &mut self.standing
            && let Some(settling) = settling.take()
        {
            self.standing = Standing::Settling(*settling);
        }
        let settling = match &self.standing {
            Standing::Settling(settling) => Some(settling),
            _ => None,
        };
        let is_former = |later: &History| found_history.is_former_of(later);
        let is_old =
            is_former(&known) || settling.is_some_and(|settling| is_former(&settling.latest));
        if is_old && !in_doubt {
            let error = self.old_primary(found_history);
            // Held ids may be issued as before: for a limited time while the store settles, and as in an outage
            // otherwise.
            if settling.is_some() {
                return Err(error);
            }
            self.refuse(error);
        } else if in_doubt || !found_history.includes(&known) {
            self.renew(asked, found, &known);
        } else if settling.is_some_and(|settling| settling.identity == found) {
            self.go_on_settling();
        } else if settling.is_none() && *trusted == found {
            self.proven_at = asked;
            self.suspect = false;
            self.trust(found);
        } else {
            self.fail_over(now, asked, found, &known);
        }
        Ok(())
    }

    /// While a store is refused for its role, the monitor doesn't follow its fail-overs. If its history shows a
    /// fail-over, other hosts may have claimed this host's held ids. A former history only means that an old primary
    /// answers.
    fn compare(&mut self, found: &History, known: &History) {
        let others_may_claim = found.is_in_doubt() || !found.is_former_of(known);
        self.suspect |= !self.settings.embedded && found != known && others_may_claim;
    }

    /// The error for a server that continues a history that this host has seen end.
    fn old_primary(&self, found: &History) -> StoreError {
        StoreError::refused(format!(
            "the store {} is an old primary: this host has seen its history {} end; nothing is claimed from it. Stop it, or \
             make it follow the current primary; if that one is lost, run: leafd declare-loss --store {}",
            self.settings.url,
            found.life().unwrap_or_default(),
            self.settings.url
        ))
    }

    fn meet(&mut self, asked: BootMs, found: Identity) {
        let expected = &self.settings.role;
        if found.role != *expected && !found.role.0.is_empty() {
            let remembered = self.settings.remembered.clone();
            let same = remembered == Some((found.id.clone(), found.history.clone()));
            self.refuse(StoreError::refused_for(Why::OtherRoutes, format!(
                "the recorded routes of the store {} differ from this host's: they are {:?}, but this host is \
                 configured {}. Use the routes of the other hosts, or change the routes with: leafd routes apply",
                self.settings.url,
                &*found.role.0,
                expected.configured()
            )));
            if let Some((_, known)) = remembered {
                self.compare(&found.history, &known);
            }
            self.in_another_role = same.then_some(found);
            return;
        }
        let placed = found.role == *expected;
        let remembered = self.settings.remembered.as_ref();
        let has_ended =
            |(id, later): &(StoreId, History)| *id == found.id && found.history.is_former_of(later);
        if !found.history.is_in_doubt()
            && remembered.into_iter().chain(&self.latest_met).any(has_ended)
        {
            return self.refuse(self.old_primary(&found.history));
        }
        self.suspect = !self.settings.embedded
            && remembered.is_some_and(|(_, history)| !found.history.continues(history));
        self.checking_in = Some(CheckingIn { found, history: None, begun: asked });
        if placed {
            self.placed();
        } else {
            self.next = Some(Request::HasTags);
        }
    }

    /// Lets a store without a role take this one if it has never had tags. Otherwise the tags might belong elsewhere.
    pub(super) fn has_tags(
        &mut self,
        has_tags: Result<bool, StoreError>,
    ) -> Result<(), StoreError> {
        let Some(checking_in) = &self.checking_in else { return Ok(()) };
        let role = &self.settings.role;
        match has_tags {
            Ok(false) => {
                self.next = Some(Request::TakeRole(checking_in.found.clone(), role.clone()));
            }
            Ok(true) => self.refuse(StoreError::refused_for(Why::NoRoutes, format!(
                "the store {} has or had tags, but no recorded routes. This host is configured for {:?}, which could \
                 send its tags to another store. Check the routes, then record them with: leafd routes apply",
                self.settings.url, &*role.0
            ))),
            Err(error) => self.refused_or(error)?,
        }
        Ok(())
    }

    pub(super) fn role_taken(&mut self, taken: Result<(), StoreError>) -> Result<(), StoreError> {
        if let Err(error) = taken {
            return self.refused_or(error);
        }
        if let Some(checking_in) = &mut self.checking_in {
            checking_in.found.role = Role(self.settings.role.0.clone());
            self.placed();
        }
        Ok(())
    }

    /// Ends the visit with a refusal if the error is not an outage.
    fn refused_or(&mut self, error: StoreError) -> Result<(), StoreError> {
        match error {
            StoreError::Refused(_) | StoreError::Changed { .. } => {
                self.refuse(error);
                Ok(())
            }
            other => Err(other),
        }
    }

    /// An embedded store is this host's own. If it was lost, the journal knows which ids were issued.
    fn placed(&mut self) {
        let Some(CheckingIn { found, .. }) = &self.checking_in else { return };
        if let Some((known, _)) = &self.settings.remembered
            && *known != found.id
            && !self.settings.embedded
        {
            let error = StoreError::refused_for(
                Why::AnotherDatabase,
                format!(
                    "the store {} is not the database that this host used before ({known}, now {}); nothing is claimed \
                 from it. {PUT_BACK}",
                    self.settings.url, found.id
                ),
            );
            self.events.push_back(Event::SetAside);
            return self.refuse(error);
        }
        if !found.history.is_in_doubt() {
            self.latest_met = Some((found.id.clone(), found.history.clone()));
        }
        let known = self.settings.remembered.as_ref().map(|(_, history)| history);
        if found.history.is_in_doubt() || known.is_some_and(|known| !found.history.includes(known))
        {
            self.next = Some(Request::Renew(found.clone(), known.cloned()));
            return;
        }
        self.next = self.check_in();
    }

    /// The next step of the first contact, if it is in progress.
    pub(super) fn check_in(&self) -> Option<Request> {
        self.checking_in.as_ref().map(|one| Request::CheckIn(one.found.clone()))
    }

    pub(super) fn checked_in(&mut self, history: Option<History>) {
        let Some(checking_in) = &mut self.checking_in else { return };
        let found = &checking_in.found;
        let trusted = history.filter(|known| !found.history.continues(known));
        let trusted = trusted.unwrap_or_else(|| found.history.clone());
        checking_in.history = Some(trusted.clone());
        self.next = Some(Request::Record(Record::CheckedIn(found.id.clone(), trusted)));
    }

    /// The store and the journal have recorded this start. It is still unknown whether commits were lost since the last
    /// start.
    pub(super) fn check_in_recorded(&mut self, now: BootMs) {
        let Some(CheckingIn { found, history, .. }) = &self.checking_in else { return };
        let (found, history) = (found.clone(), history.clone());
        self.events.push_back(Event::CheckedIn(found.id.clone()));
        match history {
            Some(known) if known != found.history => {
                let begun =
                    self.checking_in.take().map_or(BootMs(0), |checking_in| checking_in.begun);
                self.fail_over(now, begun, found, &known);
            }
            _ => self.next = Some(Request::IsSettled(found)),
        }
    }

    /// The store is in its known history. If it has not settled in that history, this host waits like every other one.
    /// If the store is slow to answer, many daemons are starting, and each takes its turn.
    pub(super) fn met(&mut self, now: BootMs, asked: BootMs, settled: Option<bool>, random: u64) {
        let Some(CheckingIn { found, begun, .. }) = self.checking_in.take() else { return };
        let took_ms = now.0.saturating_sub(asked.0);
        if took_ms > CROWDED_FROM_MS && !self.settings.embedded {
            let turn_ms = took_ms.saturating_mul(TURNS).min(CROWDED_MS_MAX);
            self.crowded_until = Some(BootMs(now.0.saturating_add(random % turn_ms)));
        }
        self.proven_at = begun;
        if settled != Some(false) {
            return self.trust(found);
        }
        self.trusted = Some(found.clone());
        self.standing = Standing::Settling(Settling {
            latest: found.history.clone(),
            identity: found,
            since: asked,
            held: Held::Own,
            told: Vec::new(),
            pushed: Some(0),
            until: Some(self.others_done_at(now)),
        });
    }
}
