//! Where the snowflake worker number comes from.
//!
//! A backend implements [`Registry`], with blocking calls: a table of workers that changes by compare-and-set alone,
//! and a clock. It decides nothing: the core ([`leafd_core::lease`]) decides which worker to lease, for how long, and
//! when to release it. So all backends behave alike, and the core can be simulated as a whole.
//!
//! - [`static_worker`]: a number from the configuration, with no registry behind it.
//! - `zookeeper`: workers in ZooKeeper, if the program is built with it.
//!
//! Workers in a store's database are in `store::sql::leases`, on the store's own connection.

pub mod static_worker;
#[cfg(feature = "zookeeper")]
pub mod zookeeper;

use std::ops::Range;

use leafd_core::registry::{
    CompareAndSet, Entry, Former, LeaseRecord, RegistryError, RegistryId, Snapshot,
};
use leafd_core::{Tag, UnixMs, WorkerId};
use leafd_wire::Layout;

use crate::blocking::{Backend, Handle};

/// Calls a registry that runs on its thread.
pub type RegistryHandle = Handle<dyn Registry>;

impl Backend for dyn Registry + '_ {
    type Error = RegistryError;

    const THREAD_NAME: &'static str = "leafd-registry";
    const CALLS_WAITING_MAX: usize = 64;

    fn unavailable(name: &str, cause: String) -> RegistryError {
        RegistryError::Unavailable { registry: name.to_owned(), cause: cause.into() }
    }

    fn overloaded(name: &str) -> RegistryError {
        let words = format!("{} calls are waiting for it", Self::CALLS_WAITING_MAX);
        Self::unavailable(name, words)
    }
}

/// A registry of workers. Calls block, and return within the backend's own time limit.
///
/// Every call opens the connection if there is none. A call that fails with [`RegistryError::Unavailable`] may have
/// been executed, or may still be, so read the state again before relying on it.
pub trait Registry: Send {
    /// Records new layouts and checks the recorded ones. A layout's name must mean the same on all hosts of a registry,
    /// because only the worker field distinguishes their ids.
    ///
    /// # Errors
    /// [`RegistryError::Refused`] if a layout is recorded with another definition (it shows both); others as for
    /// every call.
    fn register_layouts(&mut self, layouts: &[(Tag, Layout)]) -> Result<(), RegistryError>;

    /// The registry's clock, and every entry whose worker lies in `pool`, in ascending order.
    ///
    /// # Errors
    /// As for every call.
    fn snapshot(&mut self, pool: Range<u64>) -> Result<Snapshot, RegistryError>;

    /// Replaces a worker's entry if it still equals `expected`, in one transaction that is durable when this returns.
    /// Returns the registry's clock.
    ///
    /// # Errors
    /// [`RegistryError::Conflict`] if the entry is another one, which the error contains.
    /// [`RegistryError::TooFarAhead`] if the expiry lies more than `ahead_max` ahead of the registry's own clock: a
    /// host with a fast clock must not take a worker away for years. [`RegistryError::Changed`] if the registry is
    /// not `under`. Others as for every call.
    fn compare_and_set(
        &mut self,
        under: &RegistryId,
        swap: &CompareAndSet,
    ) -> Result<UnixMs, RegistryError>;

    /// Assigns a holder a worker of `pool` permanently: one that the registry chooses, and that never had another
    /// holder. A holder that already has a worker gets its entry.
    ///
    /// # Errors
    /// [`RegistryError::Exhausted`] if every worker of the pool is assigned; [`RegistryError::Changed`];
    /// [`RegistryError::Refused`] where numbers can only be leased; others as for every call.
    fn assign(
        &mut self,
        _under: &RegistryId,
        _pool: Range<u64>,
        _holding: &LeaseRecord,
    ) -> Result<Entry, RegistryError> {
        let words = "this registry leases worker numbers; it assigns none permanently";
        Err(RegistryError::Refused(words.into()))
    }

    /// Who had a worker at an instant; `None` if the registry remembers current holders only.
    ///
    /// # Errors
    /// As for every call.
    fn former(&mut self, _worker: WorkerId, _at: UnixMs) -> Result<Option<Former>, RegistryError> {
        Ok(None)
    }
}
