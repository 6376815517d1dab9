//! Where the snowflake worker number comes from.
//!
//! [`Registry`] is what a backend implements, blocking: a table of workers that changes by compare-and-set alone,
//! and a clock. It decides nothing: which worker to take, for how long and when to let go is for the core
//! ([`leafd_core::lease`]), so that every backend behaves alike and the core can be simulated whole.
//!
//! - [`static_worker`]: a number from the configuration, with no registry behind it.
//! - `zookeeper`: workers in ZooKeeper, where the program is built with it.
//!
//! Those in a store's database are `store::sql::leases`, on the store's own connection.

pub mod static_worker;
#[cfg(feature = "zookeeper")]
pub mod zookeeper;

use std::ops::Range;
use std::sync::Arc;

use leafd_core::registry::{
    CompareAndSet, Entry, Former, LeaseRecord, RegistryError, RegistryId, Snapshot,
};
use leafd_core::{Tag, UnixMs, WorkerId};
use leafd_wire::Layout;
use tokio::sync::Notify;

use crate::blocking::{Backend, Handle};

/// Calls a registry that runs on its thread.
pub type RegistryHandle = Handle<dyn Registry>;

impl Backend for dyn Registry + '_ {
    type Error = RegistryError;

    const THREAD_NAME: &'static str = "leafd-registry";
    const CALLS_WAITING_MAX: usize = 64;

    fn unavailable(name: &str, cause: String) -> RegistryError {
        RegistryError::Unavailable { registry: name.to_owned(), cause }
    }

    fn overloaded(name: &str) -> RegistryError {
        let words = format!("{} calls are waiting for it", Self::CALLS_WAITING_MAX);
        Self::unavailable(name, words)
    }
}

/// A registry of workers. Calls block; each returns within the backend's own time bound.
///
/// Every call opens or reopens the connection when there is none. A call that fails with
/// [`RegistryError::Unavailable`] may have been carried out, or may still be later: look again before concluding
/// anything from it.
pub trait Registry: Send {
    /// Records the layouts that are not recorded yet, and checks the others: all hosts of a registry must mean the
    /// same by a layout's name, because their ids are told apart by the worker field alone.
    ///
    /// # Errors
    /// [`RegistryError::Refused`] when one is recorded with another definition (it shows both);
    /// others as for every call.
    fn register_layouts(&mut self, layouts: &[(Tag, Layout)]) -> Result<(), RegistryError>;

    /// Everything there is: the registry's clock and every entry whose worker lies in `pool`, in ascending order.
    ///
    /// # Errors
    /// As for every call.
    fn snapshot(&mut self, pool: Range<u64>) -> Result<Snapshot, RegistryError>;

    /// Replaces what is recorded of a worker if it still is `expected`, in one transaction that is durable when this
    /// returns; answers the registry's clock.
    ///
    /// # Errors
    /// [`RegistryError::Conflict`] when something else is recorded (it has what);
    /// [`RegistryError::TooFarAhead`] when the bound lies more than `ahead_max` beyond the registry's own clock: a
    /// host whose clock is ahead must not take a worker away from everybody for years;
    /// [`RegistryError::Changed`] when the registry is not what `under` says; others as for every call.
    fn compare_and_set(
        &mut self,
        under: &RegistryId,
        swap: &CompareAndSet,
    ) -> Result<UnixMs, RegistryError>;

    /// Enters a holder under a worker of `pool` that the registry chooses and that never had another holder, for
    /// good: this is how permanent numbers are given. The same holder again gets the entry that it has.
    ///
    /// # Errors
    /// [`RegistryError::Exhausted`] when every worker of the pool was given; [`RegistryError::Changed`];
    /// [`RegistryError::Refused`] where numbers can only be leased; others as for every call.
    fn assign(
        &mut self,
        under: &RegistryId,
        pool: Range<u64>,
        holding: &LeaseRecord,
    ) -> Result<Entry, RegistryError>;

    /// Has `told` notified right after somebody else seems to have written what is recorded of this host's worker. A
    /// registry that only leafd writes to tells nobody: each write of leafd's is judged by the next one.
    fn tell_of_writes(&mut self, _told: Arc<Notify>) {}

    /// Who had a worker at an instant; `None` where the registry remembers present holders only.
    ///
    /// # Errors
    /// As for every call.
    fn former(&mut self, _worker: WorkerId, _at: UnixMs) -> Result<Option<Former>, RegistryError> {
        Ok(None)
    }
}
