//! One of the daemon's stores, as it is known at present: which one it is, whether it may be claimed from,
//! and if not, why. The core's [`Monitor`] knows it; `driver` drives that.

mod claims;
mod driver;

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Notify;

use crate::clock;
use crate::config::parse_primary;
use crate::journal::StoreRecord;
use crate::reply::Failure;
use crate::store::StoreHandle;
use leafd_core::BootMs;
use leafd_core::store::{History, Identity, Role, Shard, StoreError, StoreId};
use leafd_core::upstream::{Condition, Monitor, Settings};

pub use claims::ClaimCounts;
pub use driver::{Driver, Tenants};

/// A store that tags live in.
pub struct Upstream {
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
    /// Which ids of its tags are its to give.
    pub shard: Shard,
    /// What claims came to.
    pub claims: ClaimCounts,
    /// Under which name the journal counts its numbers. Known from the journal before it has answered.
    key: RefCell<Option<StoreId>>,
    monitor: RefCell<Monitor>,
    /// Until when ids may be issued from what is held of it; the monitor's answer, at hand for every request.
    own_until: Cell<BootMs>,
    /// See [`Store::conflicts`](crate::store::Store::conflicts).
    conflicts: Arc<AtomicU64>,
    leftovers: Cell<bool>,
    stale: Cell<bool>,
    /// Something changed outside of the driver: its monitor is to be asked what to do.
    woken: Notify,
    /// A visit has ended.
    visited: Notify,
}

/// How its fail-overs are dealt with.
#[derive(Clone, Copy, Debug)]
pub struct FailoverSettings {
    /// How long claims wait after a fail-over.
    pub settle: Duration,
    /// The longest time between two probes.
    pub probe_every: Duration,
}

/// Those who need a store that is away wait so long for the monitor's next attempt.
const ATTEMPT_WITHIN: Duration = Duration::from_secs(2);

/// There is no end to what may be issued.
const NO_END: BootMs = BootMs(u64::MAX);

impl Upstream {
    /// A store that has not been asked yet. `remembered`: what the journal says was there last.
    #[must_use]
    pub fn new(
        name: Arc<str>,
        url: Arc<str>,
        store: StoreHandle,
        role: Role,
        embedded: bool,
        remembered: Option<&StoreRecord>,
        failover: FailoverSettings,
    ) -> Upstream {
        let shard = parse_primary(&role.0).map_or(Shard::WHOLE, |primary| primary.shard);
        let settings = Settings {
            url: Arc::clone(&url),
            role: role.clone(),
            embedded,
            remembered: remembered
                .map(|record| (record.store.clone(), History(Arc::clone(&record.history)))),
            settle_ms: if embedded { 0 } else { clock::millis(failover.settle) },
            probe_ms: clock::millis(failover.probe_every),
        };
        let key = remembered.map(|record| record.store.clone());
        Upstream {
            name,
            url,
            store,
            role,
            embedded,
            shard,
            claims: ClaimCounts::default(),
            key: RefCell::new(key),
            monitor: RefCell::new(Monitor::new(settings, clock::boot())),
            own_until: Cell::new(NO_END),
            conflicts: Arc::default(),
            leftovers: Cell::new(true),
            stale: Cell::new(false),
            woken: Notify::new(),
            visited: Notify::new(),
        }
    }

    /// With this count of its conflicts.
    #[must_use]
    pub fn counting(self, conflicts: Arc<AtomicU64>) -> Upstream {
        Upstream { conflicts, ..self }
    }

    /// How many of its transactions met what others wrote at the same moment, and were tried again.
    #[must_use]
    pub fn conflicts(&self) -> u64 {
        self.conflicts.load(Ordering::Relaxed)
    }

    /// Under which name the journal counts this store's numbers; `None` until it has ever answered.
    #[must_use]
    pub fn key(&self) -> Option<StoreId> {
        self.key.borrow().clone()
    }

    /// The identity under which it may be claimed from now.
    #[must_use]
    pub fn claimable(&self) -> Option<Identity> {
        self.monitor.borrow().claimable().cloned()
    }

    /// The identity under which it can be asked now, be it claimed from or not; `None` while it is away.
    #[must_use]
    pub fn present(&self) -> Option<Identity> {
        self.monitor.borrow().present().cloned()
    }

    /// The identity that was trusted last.
    #[must_use]
    pub fn trusted(&self) -> Option<Identity> {
        self.monitor.borrow().trusted().cloned()
    }

    /// Whether ids may be issued from what is held of it: see [`Monitor::may_issue`].
    #[must_use]
    pub fn may_issue(&self) -> bool {
        let until = self.issues_until();
        until == NO_END || clock::boot() < until
    }

    /// From when on no ids may be issued from what is held of it.
    #[must_use]
    pub fn issues_until(&self) -> BootMs {
        self.own_until.get()
    }

    /// Why it can't be claimed from, if it can't.
    #[must_use]
    pub fn unavailable_reason(&self) -> Option<Failure> {
        self.monitor.borrow().condition().map(|condition| self.failure(&condition))
    }

    /// Why it can't be claimed from, and since when if that is known; `None` when it can.
    #[must_use]
    pub fn condition(&self) -> Option<(Condition, Option<BootMs>)> {
        let monitor = self.monitor.borrow();
        Some((monitor.condition()?, monitor.away().map(|away| away.since)))
    }

    /// When it last answered its monitor.
    #[must_use]
    pub fn answered_at(&self) -> Option<BootMs> {
        self.monitor.borrow().answered_at()
    }

    /// Why its tags can't be administered, if they can't: it is not, or not known to be, the store that is meant.
    /// Whether it answers shows when it is asked.
    #[must_use]
    pub fn admin_refusal(&self) -> Option<Failure> {
        self.monitor.borrow().admin_refusal().map(|condition| self.failure(&condition))
    }

    /// The identity under which a tag can be created: see [`Monitor::complete`].
    ///
    /// # Errors
    /// Why none can be.
    pub fn complete(&self) -> Result<Identity, StoreError> {
        let monitor = self.monitor.borrow();
        monitor.complete().cloned().map_err(|condition| {
            let cause = match condition {
                Condition::Away(error) | Condition::Refused(error) => return error,
                Condition::Unmet | Condition::Crowded => "it has not answered since the daemon's start",
                Condition::Settling | Condition::LostCommits => {
                    "it may have lost its last commits, and with them what it knew of this name: create the tag when all \
                     hosts have reported what they have seen (failover_settle)"
                }
            };
            StoreError::Unavailable { store: self.url.to_string(), cause: cause.to_owned() }
        })
    }

    /// Whether it was met in this history last.
    #[must_use]
    pub fn is_in(&self, history: &History) -> bool {
        self.monitor.borrow().history() == Some(history)
    }

    /// What it is refused for, if it is: nothing can be had of it until somebody does something.
    #[must_use]
    pub fn refusal(&self) -> Option<Failure> {
        self.monitor.borrow().refusal().map(Failure::from)
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
    pub fn verify(&self, found: &StoreId) -> Result<(), StoreError> {
        let verified = self.monitor.borrow_mut().verify(clock::boot(), found);
        if verified.is_err() {
            self.woken.notify_one();
        }
        verified
    }

    /// How much longer claims wait after a fail-over, in milliseconds; 0 when they don't.
    #[must_use]
    pub fn settling_ms(&self, now: BootMs) -> u64 {
        self.monitor.borrow().settling_ms(now)
    }

    /// Fail-overs noticed since the daemon's start, that of its absence included.
    #[must_use]
    pub fn fail_overs(&self) -> u64 {
        self.monitor.borrow().failovers()
    }

    /// Whether what the journal has left of it may be used.
    #[must_use]
    pub fn leftovers(&self) -> bool {
        self.leftovers.get()
    }

    pub(crate) fn distrust_leftovers(&self) {
        self.leftovers.set(false);
    }

    /// Whether it knows a later start of this host than the journal does.
    #[must_use]
    pub fn stale(&self) -> bool {
        self.stale.get()
    }

    /// Waits until it has been asked once, with whatever outcome.
    pub async fn tried(&self) {
        while !self.monitor.borrow().tried() {
            self.visited.notified().await;
        }
    }

    /// Waits, while it is away or was not asked yet, for the monitor's next attempt: whoever lives in it does not knock
    /// beside that.
    ///
    /// # Errors
    /// Why it still can't be used.
    pub async fn reachable(&self) -> Result<(), StoreError> {
        let away = || {
            let monitor = self.monitor.borrow();
            !monitor.tried() || monitor.away().is_some()
        };
        if away() {
            // One that is slow to answer is not waited for: the answer is what is known by then.
            let _ = tokio::time::timeout(ATTEMPT_WITHIN, self.visited.notified()).await;
        }
        match self.monitor.borrow().away() {
            Some(away) => Err(away.error.clone()),
            None => Ok(()),
        }
    }

    /// Waits until it has been asked once, with whatever outcome; not longer than an attempt may take.
    pub async fn asked_once(&self) {
        if !self.monitor.borrow().tried() {
            let _ = tokio::time::timeout(ATTEMPT_WITHIN, self.visited.notified()).await;
        }
    }

    /// Has it probed soon, because a call found another store than it was made for.
    pub(crate) fn probe_soon(&self) {
        self.monitor.borrow_mut().probe_soon(clock::boot());
        self.woken.notify_one();
    }

    /// A call could not be made, or was not answered.
    pub(crate) fn call_failed(&self, error: &StoreError) {
        self.monitor.borrow_mut().call_failed(clock::boot(), error);
        self.woken.notify_one();
    }
}
