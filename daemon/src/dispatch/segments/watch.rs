//! Keeps company with a store: introduces the daemon to it, looks every few seconds whether it is still the
//! same, and backs off as one when it is away, however many tags wait for it.

use std::rc::Rc;
use std::time::Duration;

use tokio::time::Instant;
use tracing::error;

use super::Segments;
use super::home::Home;
use crate::dispatch::backoff::Backoff;
use crate::journal::Write;
use crate::store::{CheckIn, History, Identity, Role, StoreError};

/// A store is not looked at less often than this, so that one that is away is known to be.
const LOOK_EVERY_MAX: Duration = Duration::from_secs(15);

impl Segments {
    /// Keeps company with one store, until dropped.
    pub async fn watch(self: Rc<Self>, home: Rc<Home>) {
        let mut backoff = Backoff::default();
        loop {
            let begun = Instant::now();
            let looked = self.look(&home).await;
            home.set_tried();
            match looked {
                Ok(()) => {
                    backoff = Backoff::default();
                    self.answered(&home);
                    tokio::select! {
                        () = tokio::time::sleep(self.look_every()) => {}
                        () = home.look_wanted() => {}
                    }
                }
                Err(error) => {
                    home.fails(&error);
                    // What the attempt took counts: one that timed out is followed by the next one soon.
                    let pause = Duration::from_millis(backoff.next_ms());
                    tokio::time::sleep_until(begun + pause).await;
                }
            }
        }
    }

    /// A store answers (again): whatever waits for it goes on.
    pub(super) fn answered(self: &Rc<Self>, home: &Rc<Home>) {
        home.set_tried();
        if home.answers() {
            self.resume(home);
        }
    }

    /// How long until the next look, each time another, so that daemons don't keep step.
    fn look_every(&self) -> Duration {
        let every = self.settings.look_every.min(LOOK_EVERY_MAX);
        every.mul_f64(fastrand::f64().mul_add(0.5, 0.5))
    }

    async fn look(self: &Rc<Self>, home: &Rc<Home>) -> Result<(), StoreError> {
        let found = home.store.identity().await?;
        match home.trusted() {
            None => self.meet(home, found).await,
            Some(trusted) if trusted == found => {
                home.trust(found);
                Ok(())
            }
            Some(trusted) if trusted.id == found.id && trusted.role == found.role => {
                self.failed_over(home, found).await
            }
            Some(trusted) if trusted.id == found.id => {
                home.refuse(&StoreError::Refused(format!(
                    "the store {} has another place among its fleet's stores than when it was met: it was {:?}, and now it \
                     is {:?}; nothing is claimed from it: start leafd with the routes of the other hosts",
                    home.url, &*trusted.role.0, &*found.role.0
                )));
                Ok(())
            }
            Some(trusted) => {
                home.refuse(&StoreError::Refused(format!(
                    "the store {} leads to another database than the one in use: it was {trusted}, and now it is {found}; \
                     nothing is claimed from it: put the first one back, or stop leafd and accept this one with: leafd \
                     adopt-store",
                    home.url
                )));
                Ok(())
            }
        }
    }

    /// Introduces the daemon to a store that it has not met since its start.
    async fn meet(self: &Rc<Self>, home: &Rc<Home>, found: Identity) -> Result<(), StoreError> {
        let found = match self.placed(home, found).await {
            Err(error @ (StoreError::Refused(_) | StoreError::Changed { .. })) => {
                home.refuse(&error);
                return Ok(());
            }
            other => other?,
        };
        let key = home.key_of(&found.id);
        // An embedded store is this host's own, and the journal knows what was issued from a lost one.
        if let Some(known) = self.start.at(&home.url).map(|record| &record.store)
            && !Home::is_of(known, &found.id)
            && !home.embedded
        {
            self.set_aside(home);
            home.refuse(&StoreError::Refused(format!(
                "the store {} is another database than this host used before ({known}, now {key}): put the first one \
                 back, or accept this one with: leafd adopt-store",
                home.url
            )));
            return Ok(());
        }
        let tokens = self.start.tokens_known(&key);
        let judged =
            home.store.check_in(&found, &self.start.host, tokens, &self.start.token).await?;
        let history = self.start.of(&key).map(|record| History(record.history.clone()));
        if judged == CheckIn::Stale {
            error!(
                store = %home.url, host = %self.start.host,
                "the store knows a later start of this host: the journal is an old copy, or another host runs a copy of \
                 it; numbers left in it are skipped"
            );
            home.doubt_leftovers();
            home.set_stale();
            self.drop_held(home);
        } else {
            let recorded = history.clone().unwrap_or_else(|| found.history.clone());
            let url = home.url.clone();
            self.record(Write::CheckedIn { url, store: key.clone(), history: recorded.0 }).await?;
        }
        if home.key().is_some_and(|known| known != key) {
            self.drop_held(home);
        }
        home.set_key(key);
        match history {
            Some(known) if known != found.history => self.failed_over(home, found).await,
            _ => {
                home.store.note_history(&found).await?;
                home.trust(found);
                Ok(())
            }
        }
    }

    /// Checks a store's place among the stores. One that has no place yet takes it, if it has never had tags either:
    /// otherwise they might have lived elsewhere.
    async fn placed(&self, home: &Home, found: Identity) -> Result<Identity, StoreError> {
        if found.role == home.role {
            return Ok(found);
        }
        if !found.role.0.is_empty() {
            return Err(StoreError::Refused(format!(
                "the store {} has the place {:?} among its fleet's stores, but is configured {}: make the \
                 configuration that of the other hosts, or, if the routes are to change, use: leafd routes apply",
                home.url,
                &*found.role.0,
                home.role.configured()
            )));
        }
        let has_tags = !home.store.list(None, 1).await?.is_empty();
        // Of one that was deleted ids may have been given.
        if has_tags || !home.store.ends(None, 1).await?.is_empty() {
            return Err(StoreError::Refused(format!(
                "the store {} has or had tags already, but no place among several stores yet, which is to be {:?}: they might live \
                 elsewhere by these routes; have that checked, and its place recorded, with: leafd routes apply",
                home.url, &*home.role.0
            )));
        }
        home.store.take_role(&found, &home.role).await?;
        Ok(Identity { role: Role(home.role.0.clone()), ..found })
    }

    /// Has the journal record what a store is. It must be there before anything is claimed.
    pub(super) async fn record(&self, write: Write) -> Result<(), StoreError> {
        self.writer.journal().commit(vec![write]).await.map_err(|error| StoreError::Unavailable {
            store: "journal".to_owned(),
            cause: error.to_string(),
        })
    }
}
