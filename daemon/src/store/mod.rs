//! The central store: where a host claims ranges of a tag's numbers.
//!
//! The calls of a [`Store`] block. A [`StoreHandle`] runs a store on its own thread for the asynchronous side. Leaf's
//! table and its half-open ranges are the contract, so that a Java Leaf and leafd can share one table: `max_id` is the
//! first number not yet claimed, and a claim of `n` takes `[max_id, max_id + n)` and leaves `max_id + n`.
//!
//! [`leafd_core::store`] contains the types of the calls, and decides what a claim takes.
//!
//! - [`sql`]: every call, over a driver.
//! - [`sqlite`], `postgres`, `mysql`: the drivers; the last two only if the program is built with them.

#[cfg(feature = "mysql")]
pub mod mysql;
#[cfg(feature = "postgres")]
pub mod postgres;
pub mod sql;
pub mod sqlite;

pub use sql::Store;

use crate::blocking::{Backend, Handle};
use leafd_core::store::StoreError;

/// Calls a store that runs on its own thread. When the future of a claim is dropped, the ids of that claim are lost.
pub type StoreHandle = Handle<Store>;

impl Backend for Store {
    type Error = StoreError;

    const THREAD_NAME: &'static str = "leafd-store";
    const CALLS_WAITING_MAX: usize = 1024;

    fn unavailable(name: &str, cause: String) -> StoreError {
        StoreError::Unavailable { store: name.to_owned(), cause: cause.into() }
    }

    fn overloaded(name: &str) -> StoreError {
        StoreError::Overloaded { store: name.to_owned(), waiting_max: Self::CALLS_WAITING_MAX }
    }
}
