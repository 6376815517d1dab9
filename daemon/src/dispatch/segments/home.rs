//! One of the daemon's stores, as it is known at present: which one it is, whether it may be claimed from,
//! and if not, why.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use tokio::sync::Notify;
use tracing::{info, warn};

use crate::config::{PrimaryRole, parse_primary};
use crate::dispatch::Failure;
use crate::id::BootMs;
use crate::store::{History, Identity, Role, StoreError, StoreHandle, StoreId};

/// A store that tags live in.
pub struct Home {
    /// Its name in the configuration; empty for the sole store.
    pub name: Arc<str>,
    /// Where it is, without secrets.
    pub url: Arc<str>,
    /// The thread that calls it.
    pub store: StoreHandle,
    /// What it should say about its place among the stores.
    pub role: Role,
    /// Whether it is this host's own file.
    pub embedded: bool,
    /// Which of several independent primaries it is.
    pub primary: Option<PrimaryRole>,
    /// Under which name the journal counts its numbers. Known from the journal before it has answered.
    key: RefCell<Option<StoreId>>,
    standing: RefCell<Standing>,
    /// The store that was last claimed from, whatever stands now.
    trusted: RefCell<Option<Identity>>,
    /// Under which identity it can be asked now: trusted, or still settling.
    present: RefCell<Option<Identity>>,
    /// Why the last call failed, until one succeeds.
    failure: RefCell<Option<Failure>>,
    tried: Cell<bool>,
    first_try: Notify,
    leftovers: Cell<bool>,
    stale: Cell<bool>,
    fail_overs: Cell<u64>,
    /// The history that the last fail-over led to.
    failed_over_to: RefCell<Option<History>>,
    /// The history under which it has been told in time what this host has seen.
    told: RefCell<Option<History>>,
    /// Whether the tags that live here know that it answers.
    attended: Cell<bool>,
    look: Notify,
}

/// How the daemon stands with a store.
#[derive(Clone, Debug)]
enum Standing {
    /// It has not answered since the start.
    Unmet,
    /// It is claimed from.
    Trusted,
    /// It may have lost commits: the daemons tell it what they have seen, until then.
    Settling { until: BootMs },
    /// It is not what it should be.
    Refused(Failure),
}

impl Home {
    /// A store that has not been asked yet. `remembered`: what the journal says was there last.
    #[must_use]
    pub fn new(
        name: Arc<str>,
        url: Arc<str>,
        store: StoreHandle,
        role: Role,
        embedded: bool,
        remembered: Option<StoreId>,
    ) -> Home {
        let primary = parse_primary(&role.0);
        // Counters of another era are other numbers.
        let remembered = remembered.filter(|key| {
            let base = key.0.split_once(PRIMARY).map_or(&*key.0, |(base, _)| base);
            *key.0 == *format!("{base}{}", suffix(primary))
        });
        Home {
            name,
            url,
            store,
            role,
            embedded,
            primary,
            key: RefCell::new(remembered),
            standing: RefCell::new(Standing::Unmet),
            trusted: RefCell::default(),
            present: RefCell::default(),
            failure: RefCell::default(),
            tried: Cell::new(false),
            first_try: Notify::new(),
            leftovers: Cell::new(true),
            stale: Cell::new(false),
            fail_overs: Cell::new(0),
            failed_over_to: RefCell::default(),
            told: RefCell::default(),
            attended: Cell::new(false),
            look: Notify::new(),
        }
    }

    /// Under which name the journal counts the numbers of a store. A primary's counters of another era are other
    /// numbers.
    #[must_use]
    pub fn key_of(&self, store: &StoreId) -> StoreId {
        StoreId(format!("{store}{}", suffix(self.primary)).into())
    }

    /// Whether a name under which the journal counts is that of a store, in whatever era.
    #[must_use]
    pub fn is_of(key: &StoreId, store: &StoreId) -> bool {
        key.0
            .strip_prefix(&*store.0)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(PRIMARY))
    }

    /// Under which name the journal counts this store's numbers; `None` until it has ever answered.
    #[must_use]
    pub fn key(&self) -> Option<StoreId> {
        self.key.borrow().clone()
    }

    pub(super) fn set_key(&self, key: StoreId) {
        *self.key.borrow_mut() = Some(key);
    }

    /// The identity under which it may be claimed from now.
    #[must_use]
    pub fn claimable(&self) -> Option<Identity> {
        match &*self.standing.borrow() {
            Standing::Trusted if self.failure.borrow().is_none() => self.trusted(),
            _ => None,
        }
    }

    /// The identity that was trusted last.
    #[must_use]
    pub fn trusted(&self) -> Option<Identity> {
        self.trusted.borrow().clone()
    }

    /// Why it can't be claimed from, if it can't.
    #[must_use]
    pub fn excuse(&self) -> Option<Failure> {
        if let Some(failure) = &*self.failure.borrow() {
            return Some(failure.clone());
        }
        match &*self.standing.borrow() {
            Standing::Trusted => None,
            Standing::Unmet => Some(Failure::store_away(format!(
                "the store {} has not answered since the daemon's start",
                self.url
            ))),
            Standing::Settling { .. } => Some(Failure::store_away(format!(
                "the store {} may have lost its last commits in a fail-over: claims wait until every daemon has told it \
                 what it has seen (failover_settle)",
                self.url
            ))),
            Standing::Refused(failure) => Some(failure.clone()),
        }
    }

    /// Why its tags can't be administered, if they can't: it is not, or not known to be, the store that is meant.
    /// Whether it answers shows when it is asked.
    #[must_use]
    pub fn not_meant(&self) -> Option<Failure> {
        match &*self.standing.borrow() {
            Standing::Refused(failure) => Some(failure.clone()),
            Standing::Unmet => self.excuse(),
            Standing::Trusted | Standing::Settling { .. } => None,
        }
    }

    /// Sees to it that what answered as a registry of workers is the store that this host claims from: whoever is led
    /// to another database must not be given a worker there, which a host of the right one may have. While the store
    /// was not met yet, the one that the journal knows is the right one.
    ///
    /// # Errors
    /// [`StoreError::Refused`] when it is not what is meant; [`StoreError::Unavailable`] when that is not known yet. In both
    /// cases it is looked at soon.
    pub fn vouch(&self, found: &StoreId) -> Result<(), StoreError> {
        let is_meant = match &*self.standing.borrow() {
            Standing::Refused(failure) => {
                self.look_soon();
                return Err(StoreError::Refused(failure.message.clone()));
            }
            Standing::Unmet => {
                self.key.borrow().as_ref().is_some_and(|key| Home::is_of(key, found))
            }
            Standing::Trusted | Standing::Settling { .. } => {
                self.present.borrow().as_ref().is_some_and(|present| present.id == *found)
            }
        };
        if is_meant {
            return Ok(());
        }
        self.look_soon();
        let failure = self.failure.borrow().as_ref().map(|failure| failure.message.clone());
        Err(StoreError::Unavailable {
            store: self.url.to_string(),
            cause: failure.unwrap_or_else(|| {
                format!("whether the database {found} is the one that is meant is being found out")
            }),
        })
    }

    /// How much longer claims wait after a fail-over, in milliseconds; 0 when they don't.
    #[must_use]
    pub fn settling_ms(&self, now: BootMs) -> u64 {
        match *self.standing.borrow() {
            Standing::Settling { until } => until.0.saturating_sub(now.0),
            _ => 0,
        }
    }

    /// Fail-overs noticed since the daemon's start, that of its absence included.
    #[must_use]
    pub fn fail_overs(&self) -> u64 {
        self.fail_overs.get()
    }

    /// Whether what the journal has left of it may be used.
    #[must_use]
    pub fn leftovers(&self) -> bool {
        self.leftovers.get()
    }

    pub(super) fn doubt_leftovers(&self) {
        self.leftovers.set(false);
    }

    /// Whether it knows a later start of this host than the journal does.
    #[must_use]
    pub fn stale(&self) -> bool {
        self.stale.get()
    }

    pub(super) fn set_stale(&self) {
        self.stale.set(true);
    }

    /// Waits until it has been asked once, with whatever outcome.
    pub async fn tried(&self) {
        while !self.tried.get() {
            self.first_try.notified().await;
        }
    }

    pub(super) fn set_tried(&self) {
        self.tried.set(true);
        self.first_try.notify_waiters();
    }

    /// Has it asked soon, because a call failed or found another store.
    pub(super) fn look_soon(&self) {
        self.look.notify_one();
    }

    pub(super) async fn look_wanted(&self) {
        self.look.notified().await;
    }

    /// The identity under which it can be asked now, be it claimed from or not; `None` while it is away.
    #[must_use]
    pub fn present(&self) -> Option<Identity> {
        if self.failure.borrow().is_some() {
            return None;
        }
        self.present.borrow().clone()
    }

    pub(super) fn trust(&self, identity: Identity) {
        *self.present.borrow_mut() = Some(identity.clone());
        *self.trusted.borrow_mut() = Some(identity);
        *self.standing.borrow_mut() = Standing::Trusted;
    }

    pub(super) fn settle(&self, identity: Identity, until: BootMs) {
        *self.present.borrow_mut() = Some(identity);
        *self.standing.borrow_mut() = Standing::Settling { until };
    }

    /// Counts a fail-over, once however often it takes to see it through. True: it is a new one.
    pub(super) fn count_fail_over(&self, to: &History) -> bool {
        if self.failed_over_to.borrow().as_ref() == Some(to) {
            return false;
        }
        *self.failed_over_to.borrow_mut() = Some(to.clone());
        self.fail_overs.set(self.fail_overs.get() + 1);
        true
    }

    pub(super) fn set_told(&self, under: &History) {
        *self.told.borrow_mut() = Some(under.clone());
    }

    pub(super) fn told(&self, under: &History) -> bool {
        self.told.borrow().as_ref() == Some(under)
    }

    /// It is not what it should be: nothing is claimed until it is.
    pub(super) fn refuse(&self, error: &StoreError) {
        let failure = Failure::from(error);
        let known = matches!(&*self.standing.borrow(), Standing::Refused(old) if old.message == failure.message);
        if !known {
            warn!(store = %self.url, "{error}");
        }
        *self.present.borrow_mut() = None;
        *self.standing.borrow_mut() = Standing::Refused(failure);
    }

    /// A call could not be made, or not answered.
    pub(super) fn fails(&self, error: &StoreError) {
        self.attended.set(false);
        let failure = Failure::from(error);
        if self.failure.replace(Some(failure)).is_none() {
            warn!("{error}; issuing goes on from what is claimed");
        }
    }

    /// A call was answered. True: the tags that live here have not been told yet.
    pub(super) fn answers(&self) -> bool {
        if self.failure.take().is_some() {
            info!(store = %self.url, "the store answers");
        }
        !self.attended.replace(true)
    }
}

/// What parts a primary's name from its place among the primaries.
const PRIMARY: &str = " primary ";

fn suffix(primary: Option<PrimaryRole>) -> String {
    match primary {
        Some(PrimaryRole { index, of, era }) => format!("{PRIMARY}{index} of {of} era {era}"),
        None => String::new(),
    }
}
