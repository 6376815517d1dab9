//! The current state of one of the daemon's stores: which one it is, whether it may be claimed from, and if not, why.
//! The core's [`Monitor`] decides; `driver` drives it.

mod claims;
mod driver;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use tokio::sync::Notify;

use crate::clock;
use crate::config::parse_primary;
use crate::reply::Failure;
use crate::store::StoreHandle;
use leafd_core::registry::RegistryId;
use leafd_core::store::{
    ClaimRecord, Identity, Role, Shard, StoreError, StoreId, TagRow, TagTerms, Why,
};
use leafd_core::upstream::{Condition, Monitor, Settings};
use leafd_core::{BootMs, Tag};

pub use claims::ClaimCounts;
pub use driver::Driver;

/// A store in which tags live.
pub struct Upstream {
    /// Its name in the configuration; empty for the only store.
    pub name: Arc<str>,
    /// Its URL, without secrets.
    pub url: Arc<str>,
    /// The server of the URL that answered last, if there are servers.
    pub server: RefCell<Option<String>>,
    /// The thread that calls it.
    pub store: StoreHandle,
    /// The role that it should have among the stores.
    pub role: Role,
    /// Whether it is this host's own file.
    pub embedded: bool,
    /// The ids of its tags that it grants.
    pub shard: Shard,
    /// The results of claims.
    pub claims: ClaimCounts,
    /// Whether this host is known to have claimed from it.
    has_claimed: Cell<bool>,
    /// Why claims will be refused, as of the last probe, if this host has never claimed from it.
    pub denied: RefCell<Option<StoreError>>,
    /// The identity under which the journal records its ids. It is known from the journal before the store has
    /// answered.
    key: RefCell<Option<StoreId>>,
    pub monitor: RefCell<Monitor>,
    /// Until when its held ids may be issued: the monitor's answer, kept here for every request.
    issues_until: Cell<BootMs>,
    /// See [`Store::conflicts`](crate::store::Store::conflicts).
    pub conflicts: Arc<AtomicU64>,
    /// The latest era that a primary of its list is known to have recorded. All stores of the list share it.
    pub latest_era: Rc<Cell<u32>>,
    /// Whether the held ids in the journal may be used.
    pub leftovers: Cell<bool>,
    /// Whether the store knows a later start of this host than the journal does.
    pub stale: Cell<bool>,
    /// Notified when something outside the driver has changed, so that the monitor must be asked for the next step.
    woken: Notify,
    /// Notified when a visit has ended.
    visited: Notify,
}

/// How long a request waits for the monitor's next attempt when the store doesn't answer.
const ATTEMPT_WITHIN: Duration = Duration::from_secs(2);

/// Ids may be issued without a time limit.
const NO_END: BootMs = BootMs(u64::MAX);

impl Upstream {
    /// A store that has not been asked yet.
    pub fn new(name: Arc<str>, store: StoreHandle, settings: Settings) -> Upstream {
        let Settings { url, role, embedded, remembered, .. } = settings.clone();
        let shard = parse_primary(&role.0).map_or(Shard::WHOLE, |primary| primary.shard);
        let key = remembered.map(|(store, _)| store);
        Upstream {
            name,
            url,
            server: RefCell::default(),
            store,
            role,
            embedded,
            shard,
            claims: ClaimCounts::default(),
            has_claimed: Cell::default(),
            denied: RefCell::default(),
            key: RefCell::new(key),
            monitor: RefCell::new(Monitor::new(settings, clock::boot())),
            issues_until: Cell::new(NO_END),
            conflicts: Arc::default(),
            latest_era: Rc::default(),
            leftovers: Cell::new(true),
            stale: Cell::new(false),
            woken: Notify::new(),
            visited: Notify::new(),
        }
    }

    /// See [`Store::show`](crate::store::Store::show).
    pub async fn show(&self, tag: &Tag) -> Result<TagRow, StoreError> {
        let tag = tag.clone();
        self.store.call(move |store| store.show(&tag)).await
    }

    /// See [`Store::look_up`](crate::store::Store::look_up).
    pub async fn look_up(
        &self,
        under: &Identity,
        tags: Vec<Tag>,
    ) -> Result<Vec<Option<TagTerms>>, StoreError> {
        let under = under.clone();
        self.store.call(move |store| store.look_up(&under, &tags)).await
    }

    /// See [`Store::raise`](crate::store::Store::raise).
    async fn raise(
        &self,
        under: &Identity,
        ends: Vec<(Tag, u64)>,
        masking: bool,
    ) -> Result<Vec<bool>, StoreError> {
        let under = under.clone();
        self.store.call(move |store| store.raise(&under, &ends, masking)).await
    }

    /// See [`Store::claims_after`](crate::store::Store::claims_after).
    pub async fn claims_after(
        &self,
        tag: &Tag,
        id: u64,
        limit: u32,
    ) -> Result<Vec<ClaimRecord>, StoreError> {
        let tag = tag.clone();
        self.store.call(move |store| store.claims_after(&tag, id, limit)).await
    }

    /// Records that the store has this role, so that its list has reached the role's era.
    fn hear_role(&self, role: &Role) {
        let era = parse_primary(&role.0).map_or(0, |primary| primary.era);
        self.latest_era.set(era.max(self.latest_era.get()));
    }

    /// The latest era of its list, if that is later than this host's; otherwise 0.
    fn later_era(&self) -> u32 {
        self.outdated().map_or(0, |_| self.latest_era.get())
    }

    /// The refusal of a store whose list has a later era than this host's, because the store may have been restored
    /// from the former era, and would then grant ids again.
    fn outdated(&self) -> Option<StoreError> {
        let (own, latest) = (parse_primary(&self.role.0)?.era, self.latest_era.get());
        (latest > own).then(|| {
            StoreError::refused_for(Why::OtherRoutes, format!(
                "in this host's routes, the store {} is one of several primaries in era {own}, but a primary of the \
                 list has recorded era {latest}: use the routes of the other hosts",
                self.url
            ))
        })
    }

    /// The identity under which the journal records this store's ids; `None` if it has never answered.
    pub fn key(&self) -> Option<StoreId> {
        self.key.borrow().clone()
    }

    /// The identity under which ids may be claimed from it now.
    pub fn claimable(&self) -> Option<Identity> {
        self.monitor.borrow().claimable().filter(|_| self.outdated().is_none()).cloned()
    }

    /// The identity under which it can be queried now, whether or not it may be claimed from; `None` while it doesn't
    /// answer.
    pub fn present(&self) -> Option<Identity> {
        self.monitor.borrow().present().cloned()
    }

    /// Whether a claim made under this identity counts: see [`Monitor::counts`].
    pub fn counts(&self, under: &Identity) -> bool {
        self.monitor.borrow().counts(under) && self.outdated().is_none()
    }

    /// Whether its held ids may be issued: see [`Monitor::issues_until`].
    pub fn may_issue(&self) -> bool {
        let until = self.issues_until.get();
        until == NO_END || clock::boot() < until
    }

    /// Why it can't be claimed from; `None` when it can.
    pub fn unavailable_reason(&self) -> Option<Failure> {
        self.condition().map(|(condition, _)| self.failure(&condition))
    }

    /// Why it can't be claimed from, and since when if that is known; `None` when it can.
    pub fn condition(&self) -> Option<(Condition, Option<BootMs>)> {
        let monitor = self.monitor.borrow();
        let condition = self.outdated().map(Condition::Refused).or_else(|| monitor.condition());
        Some((condition?, monitor.away.as_ref().map(|away| away.since)))
    }

    /// Why its tags can't be administered; `None` when they can. They can't if it is not, or not known to be, the
    /// configured store. This doesn't check whether it answers.
    pub fn admin_refusal(&self) -> Option<Failure> {
        self.monitor.borrow().admin_refusal().map(|condition| self.failure(&condition))
    }

    /// The identity under which a tag can be created: see [`Monitor::complete`].
    ///
    /// # Errors
    /// Why no tag can be created.
    pub fn complete(&self) -> Result<Identity, StoreError> {
        if let Some(error) = self.outdated() {
            return Err(error);
        }
        let monitor = self.monitor.borrow();
        monitor.complete().cloned().map_err(|condition| {
            let cause = match condition {
                Condition::Away(error) | Condition::Refused(error) => return error,
                Condition::Unmet | Condition::Crowded => "it has not answered since the daemon's start",
                Condition::Settling | Condition::LostCommits => {
                    "it may have lost its last commits, and with them its record of this name: create the tag once all \
                     hosts have reported the highest ids they have seen (failover_settle)"
                }
            };
            StoreError::Unavailable { store: self.url.to_string(), cause: cause.into() }
        })
    }

    /// Why it is refused, if it is. It then can't be used until an operator acts.
    pub fn refusal(&self) -> Option<Failure> {
        let outdated = self.outdated();
        outdated.as_ref().or(self.monitor.borrow().refusal()).map(Failure::from)
    }

    fn failure(&self, condition: &Condition) -> Failure {
        match condition {
            Condition::Away(error) | Condition::Refused(error) => Failure::from(error),
            other => Failure::store_away(other.describe(&self.url)),
        }
    }

    /// See [`Monitor::verify`].
    ///
    /// # Errors
    /// As there.
    pub fn verify(&self, found: &RegistryId) -> Result<(), StoreError> {
        let verified = self.monitor.borrow_mut().verify(clock::boot(), found);
        if verified.is_err() {
            self.woken.notify_one();
        }
        verified
    }

    /// Waits until it has been asked once, whatever the result.
    pub async fn tried(&self) {
        while !self.monitor.borrow().tried() {
            self.visited.notified().await;
        }
    }

    /// While it doesn't answer, or was not asked yet: waits for the monitor's next attempt, so that its tags don't
    /// make attempts of their own.
    ///
    /// # Errors
    /// Why it still can't be used.
    pub async fn reachable(&self) -> Result<(), StoreError> {
        let away = || {
            let monitor = self.monitor.borrow();
            !monitor.tried() || monitor.away.is_some()
        };
        if away() {
            // This doesn't wait for a slow answer; the result is what is known by then.
            let _ = tokio::time::timeout(ATTEMPT_WITHIN, self.visited.notified()).await;
        }
        match &self.monitor.borrow().away {
            Some(away) => Err(away.error.clone()),
            None => Ok(()),
        }
    }

    /// Like [`Upstream::reachable`], but requests the attempt immediately.
    pub async fn reach_now(&self) {
        if self.monitor.borrow().away.is_some() {
            self.probe_soon();
            let _ = self.reachable().await;
        }
    }

    /// Waits until it has been asked once, whatever the result, but not longer than an attempt may take.
    pub async fn asked_once(&self) {
        let _ = tokio::time::timeout(ATTEMPT_WITHIN, self.tried()).await;
    }

    /// Requests a probe soon, because a call reached another store than intended.
    pub(crate) fn probe_soon(&self) {
        self.monitor.borrow_mut().probe_soon(clock::boot());
        self.woken.notify_one();
    }

    /// Detects a call that has been pending for too long, and that the daemon was stopped. Call this every second.
    pub(crate) fn watch(&self) {
        let for_ms = clock::millis(self.store.busy_for());
        let mut monitor = self.monitor.borrow_mut();
        let now = clock::boot();
        if monitor.runs(now) | monitor.under_way(now, for_ms) {
            self.woken.notify_one();
        }
        drop(monitor);
        self.follow();
    }

    /// A call failed or was not answered.
    pub(crate) fn call_failed(&self, error: &StoreError) {
        self.monitor.borrow_mut().call_failed(clock::boot(), error);
        self.woken.notify_one();
    }
}
