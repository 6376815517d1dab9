//! The keys of public ids: which keys this host has, and whether all hosts have the same. No id is masked before the
//! first store has confirmed that. With two different keys of the same number, one id would get two public ids, and two
//! ids could get the same one.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use leafd_wire::Status;
use tokio::sync::{Mutex, Notify};
use tracing::{error, info};

use super::upstream::Upstream;
use crate::clock;
use crate::reply::Failure;
use crate::store::Store;
use leafd_core::BootMs;
use leafd_core::mask::{MaskKey, MaskKeys};
use leafd_core::store::{History, Identity, StoreError};

/// The keys of this host.
pub struct Masks {
    upstream: Rc<Upstream>,
    keys: RefCell<Option<Rc<MaskKeys>>>,
    /// The store's history in which the keys were confirmed. A store that has lost commits may have other keys by now.
    confirmed: RefCell<Option<History>>,
    /// How the last attempt to confirm them failed.
    refusal: RefCell<Option<ConfirmFailure>>,
    /// Held during an attempt, so that there is only one at a time.
    confirming: Mutex<()>,
    renewed: Notify,
}

/// An error that is returned to all callers for a short time, so that they don't each make an attempt.
struct ConfirmFailure {
    failure: Failure,
    until: BootMs,
    /// The store's identity after the attempt; `None` while it couldn't be used. The error doesn't apply to another
    /// store.
    under: Option<Identity>,
}

/// How long an error is repeated without another attempt.
const REFUSED_MS: u64 = 1_000;

/// How often to retry confirming the keys, even if they aren't needed yet.
const RETRY: Duration = Duration::from_secs(10);

impl Masks {
    /// Keys that are not confirmed yet; `None` if there are none.
    pub fn new(upstream: Rc<Upstream>, keys: Option<MaskKeys>) -> Rc<Masks> {
        Rc::new(Masks {
            upstream,
            keys: RefCell::new(keys.map(Rc::new)),
            confirmed: RefCell::default(),
            refusal: RefCell::default(),
            confirming: Mutex::new(()),
            renewed: Notify::new(),
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
        self.renewed.notify_one();
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

    /// Asks the store to confirm that all hosts have the same keys, if it hasn't yet.
    ///
    /// # Errors
    /// This host has no keys, a key differs from that of other hosts, or the store can't be reached.
    pub async fn confirm(&self) -> Result<Rc<MaskKeys>, Failure> {
        let _one = self.confirming.lock().await;
        let keys = self.keys()?;
        if self.are_confirmed() {
            return Ok(keys);
        }
        if let Some(refusal) = &*self.refusal.borrow()
            && clock::boot() < refusal.until
            && self.upstream.present() == refusal.under
        {
            return Err(refusal.failure.clone());
        }
        let outcome = self.ask(&keys).await;
        // The keys may have been replaced meanwhile.
        let same = self.keys.borrow().as_ref().is_some_and(|now| Rc::ptr_eq(now, &keys));
        match outcome {
            Ok(history) => {
                *self.confirmed.borrow_mut() = same.then_some(history);
                Ok(keys)
            }
            Err(failure) => {
                *self.refusal.borrow_mut() = same.then(|| ConfirmFailure {
                    failure: failure.clone(),
                    until: BootMs(clock::boot().0 + REFUSED_MS),
                    under: self.upstream.present(),
                });
                Err(failure)
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

    /// Gets the keys confirmed before they are needed, and logs problems with them, until dropped.
    pub async fn run(&self) {
        loop {
            let mut told = None;
            while self.keys.borrow().is_some() && !self.are_confirmed() {
                match self.confirm().await {
                    Ok(keys) => {
                        info!(current = %keys.current().number, "the mask keys match those of the other hosts");
                        break;
                    }
                    Err(failure) => {
                        if failure.status == Status::MaskKey
                            && told.as_ref() != Some(&failure.message)
                        {
                            error!("{}", failure.message);
                            told = Some(failure.message);
                        }
                        tokio::select! {
                            () = tokio::time::sleep(RETRY) => {}
                            () = self.renewed.notified() => {}
                        }
                    }
                }
            }
            // The store's history may change meanwhile.
            tokio::select! {
                () = tokio::time::sleep(RETRY) => {}
                () = self.renewed.notified() => {}
            }
        }
    }
}

/// An error that only an operator can resolve, by installing the right key.
pub fn mask_key(message: impl Into<String>) -> Failure {
    Failure::new(Status::MaskKey, message)
}
