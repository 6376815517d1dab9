//! The keys of public ids: which keys this host has, and whether all hosts have the same. No id is masked before the
//! first store has confirmed that. With two different keys of the same number, one id would get two public ids, and two
//! ids could get the same one.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use leafd_wire::Status;
use tokio::sync::Notify;
use tracing::{error, info};

use super::upstream::Upstream;
use crate::reply::Failure;
use crate::store::Store;
use leafd_core::mask::{MaskKey, MaskKeys};
use leafd_core::store::{History, StoreError};

/// The keys of this host.
pub struct Masks {
    upstream: Rc<Upstream>,
    keys: RefCell<Option<Rc<MaskKeys>>>,
    /// The store's history in which the keys were confirmed. A store that has lost commits may have other keys by now.
    confirmed: RefCell<Option<History>>,
    /// How the last attempt to confirm them failed; `None` if it succeeded.
    refusal: RefCell<Option<Failure>>,
    /// Notified when an attempt is needed now.
    wanted: Notify,
    /// Notified after each attempt.
    attempted: Notify,
}

/// How often to retry confirming the keys, even if they aren't needed yet.
const RETRY: Duration = Duration::from_secs(10);

/// The minimum time between two attempts. Callers that come meanwhile share the next one.
const PAUSE: Duration = Duration::from_millis(100);

impl Masks {
    /// Keys that are not confirmed yet; `None` if there are none.
    pub fn new(upstream: Rc<Upstream>, keys: Option<MaskKeys>) -> Rc<Masks> {
        Rc::new(Masks {
            upstream,
            keys: RefCell::new(keys.map(Rc::new)),
            confirmed: RefCell::default(),
            refusal: RefCell::default(),
            wanted: Notify::new(),
            attempted: Notify::new(),
        })
    }

    /// Uses other keys from now on. Keys that were confirmed stay confirmed, even while the store can't be reached.
    pub fn renew(&self, keys: Option<MaskKeys>) {
        let known = self.confirmed().zip(keys.as_ref()).is_some_and(|(confirmed, keys)| {
            keys.iter().all(|key| {
                let own = confirmed.get(key.number);
                own.is_some_and(|own| own.check_value() == key.check_value())
            })
        });
        *self.keys.borrow_mut() = keys.map(Rc::new);
        if !known {
            *self.confirmed.borrow_mut() = None;
        }
        *self.refusal.borrow_mut() = None;
        self.wanted.notify_one();
    }

    /// The keys, confirmed or not.
    ///
    /// # Errors
    /// This host has no keys.
    pub fn keys(&self) -> Result<Rc<MaskKeys>, Failure> {
        self.keys.borrow().clone().ok_or_else(|| {
            mask_key(
                "this daemon has no mask key: create one with leafd mask-key new, copy it to every host and set it in \
                 mask_key_file",
            )
        })
    }

    /// The keys, if there are any, for a caller that knows which key it needs.
    pub fn any(&self) -> Option<Rc<MaskKeys>> {
        self.keys.borrow().clone()
    }

    /// The keys, if they are confirmed.
    pub fn confirmed(&self) -> Option<Rc<MaskKeys>> {
        self.keys.borrow().clone().filter(|_| self.are_confirmed())
    }

    fn are_confirmed(&self) -> bool {
        let confirmed = self.confirmed.borrow();
        confirmed.is_some() && self.upstream.monitor.borrow().history() == confirmed.as_ref()
    }

    /// The keys, once the store has confirmed that all hosts have the same.
    ///
    /// # Errors
    /// This host has no keys, a key differs from that of other hosts, or the store can't be reached.
    pub async fn confirm(&self) -> Result<Rc<MaskKeys>, Failure> {
        loop {
            let keys = self.keys()?;
            if self.are_confirmed() {
                return Ok(keys);
            }
            let attempted = self.attempted.notified();
            self.wanted.notify_one();
            attempted.await;
            if !self.are_confirmed()
                && let Some(refusal) = &*self.refusal.borrow()
            {
                return Err(refusal.clone());
            }
        }
    }

    /// Asks the store. Returns the history in which it has confirmed the keys.
    async fn ask(&self, keys: &MaskKeys) -> Result<History, Failure> {
        self.upstream.reachable().await.map_err(|error| Failure::from(&error))?;
        let Some(under) = self.upstream.present() else {
            let reason = self.upstream.unavailable_reason();
            return Err(reason
                .unwrap_or_else(|| Failure::store_away("the store has not been identified yet")));
        };
        for key in keys.iter() {
            let (number, own) = (key.number, key.check_value());
            let under = under.clone();
            let note = move |store: &mut Store| store.note_mask_key(&under, number, own);
            match self.upstream.store.call(note).await {
                Ok(known) if known == own => {}
                Ok(_) => return Err(self.another(key)),
                Err(StoreError::Refused(words)) => return Err(mask_key(words.words)),
                Err(error) => return Err(Failure::from(&error)),
            }
        }
        Ok(under.history)
    }

    fn another(&self, key: &MaskKey) -> Failure {
        let (number, url) = (key.number, &self.upstream.url);
        mask_key(format!(
            "mask key {number} of this host differs from the key that the store {url} recorded under this number: \
             nothing is masked until mask_key_file is a copy of the other hosts' file. If no id was ever masked with \
             that key, delete the row mask_key_{number} of leafd_meta"
        ))
    }

    /// Gets the keys confirmed before they are needed, and whenever [`confirm`](Masks::confirm) waits for it, until
    /// dropped.
    pub async fn run(&self) {
        loop {
            if let Some(keys) = self.any().filter(|_| !self.are_confirmed()) {
                let outcome = self.ask(&keys).await;
                // They may have been replaced meanwhile.
                if self.any().is_some_and(|now| Rc::ptr_eq(&now, &keys)) {
                    self.note(&keys, outcome);
                }
            }
            self.attempted.notify_waiters();
            tokio::time::sleep(PAUSE).await;
            // The store's history may change meanwhile.
            let _ = tokio::time::timeout(RETRY, self.wanted.notified()).await;
        }
    }

    /// Remembers the outcome of an attempt, and logs it once.
    fn note(&self, keys: &MaskKeys, outcome: Result<History, Failure>) {
        match outcome {
            Ok(history) => {
                info!(current = %keys.current().number, "the mask keys match those of the other hosts");
                *self.confirmed.borrow_mut() = Some(history);
                *self.refusal.borrow_mut() = None;
            }
            Err(failure) => {
                let known = self.refusal.replace(Some(failure.clone()));
                let is_known = known.is_some_and(|known| known.message == failure.message);
                if failure.status == Status::MaskKey && !is_known {
                    error!("{}", failure.message);
                }
            }
        }
    }
}

/// An error that only an operator can resolve, by installing the right key.
pub fn mask_key(message: impl Into<String>) -> Failure {
    Failure::new(Status::MaskKey, message)
}
