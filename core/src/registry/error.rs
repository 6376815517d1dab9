//! Why a call to a registry fails.

use super::{Entry, RegistryId};
use crate::store::{Reason, StoreError, Why};
use crate::{UnixMs, WorkerId};

/// A failed call. The text says what was tried, what happened and what to do next.
#[derive(Clone, Debug, thiserror::Error)]
pub enum RegistryError {
    /// The registry can't be reached, didn't answer in time or can't write at present. The write may have been
    /// carried out, or may still be.
    #[error("the worker registry {registry} is unavailable: {cause}")]
    Unavailable {
        /// Its name, without secrets.
        registry: String,
        cause: Reason,
    },
    /// The registry, or its history, is not the one that the caller trusts. Nothing was changed.
    #[error("the worker registry is now {found} instead of {expected}")]
    Changed {
        /// What the caller trusts.
        expected: RegistryId,
        /// What answered.
        found: RegistryId,
    },
    /// The worker's entry is not the expected one. Nothing was changed.
    #[error("worker {worker} has changed in the registry: {found:?}")]
    Conflict {
        worker: WorkerId,
        /// The entry; `None`: there is none.
        found: Option<Box<Entry>>,
    },
    /// The expiry lies too far beyond the registry's clock. Nothing was changed.
    #[error(
        "a lease until {bound:?} is too far ahead of the worker registry's clock, which is at {now:?}: check the \
         clocks of this host and the registry"
    )]
    TooFarAhead { now: UnixMs, bound: UnixMs },
    /// Every worker of the pool is assigned permanently.
    #[error("every worker number of the pool is permanently assigned: {0}")]
    Exhausted(String),
    /// The call can't succeed, and repeating it won't help. The text says what to do.
    #[error("{0}")]
    Refused(Reason),
}

impl RegistryError {
    /// The class of its reason.
    pub fn why(&self) -> Why {
        match self {
            RegistryError::Unavailable { cause, .. } => cause.why,
            RegistryError::Refused(reason) => reason.why,
            _ => Why::Other,
        }
    }
}

impl From<StoreError> for RegistryError {
    /// The corresponding error when the store is the registry.
    fn from(error: StoreError) -> RegistryError {
        match error {
            StoreError::Unavailable { store, cause } => {
                RegistryError::Unavailable { registry: store, cause }
            }
            StoreError::Overloaded { ref store, .. } => RegistryError::Unavailable {
                registry: store.clone(),
                cause: error.to_string().into(),
            },
            StoreError::Refused(reason) => RegistryError::Refused(reason),
            other => RegistryError::Refused(other.to_string().into()),
        }
    }
}
