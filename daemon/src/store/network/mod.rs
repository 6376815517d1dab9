//! What the stores behind a network share: everything but how to reach a server and what its SQL looks like,
//! so that neither of them gets a claim wrong in its own way.
//!
//! [`NetworkStore`] is a [`Store`](super::Store) over a `Driver`: one connection, opened when it is needed, dropped when
//! it is in doubt. Beside Leaf's table there are side tables for what Leaf has no column for; without them
//! (only Leaf's table, perhaps only SELECT and UPDATE on it) claims work, and what needs them says so.
//!
//! - `driver`: what a backend supplies.
//! - `session`: a connection to a store whose tables are known to be usable.
//! - `store`: keeping one, and the calls of a store over it.
//! - `rows`: rows as they are, odd ones included.
//! - `tables`: which tables there are, and how they differ from what they should be.
//! - `workers`: the tables of workers.
//! - `tls`: whom to trust.

mod driver;
mod rows;
mod session;
mod store;
mod tables;
pub(super) mod tls;
mod workers;

use std::time::Duration;

use super::StoreError;
use crate::config::{NetworkUrl, StorePassword};

pub(super) use driver::{Call, Driver, Failure, Param, Place, Standing, Statements};
pub use store::NetworkStore;
pub(super) use tables::{Layout, META_TABLE, columns, refuse_different, refuse_different_workers};
pub use tls::install_provider as install_tls_provider;

/// Where a network store is, who we are there, and within which bounds it is used.
#[derive(Clone, Debug)]
pub struct Target {
    /// Where it is.
    pub url: NetworkUrl,
    /// What it is shown at login.
    pub password: StorePassword,
    /// How long each of its servers may take to let us in.
    pub connect_timeout: Duration,
    /// How long a call may take once we are in.
    pub statement_timeout: Duration,
    /// Whether it is used although leafd's tables are not to be seen there.
    pub leaf_only: bool,
}

/// What is said when Leaf's table, or what tells it from others, is not there (any more).
pub(super) const TABLES_GONE: &str = "leaf_alloc is gone, or the row without a name in leafd_tag, as happens while a backup is restored";

/// What a connection calls itself, for whoever looks at the server's list of connections.
pub(super) const APPLICATION_NAME: &str = "leafd";

impl Target {
    pub(super) fn unavailable(&self, cause: impl Into<String>) -> StoreError {
        StoreError::Unavailable { store: self.url.to_string(), cause: cause.into() }
    }

    pub(super) fn refused(&self, words: impl std::fmt::Display) -> StoreError {
        StoreError::Refused(format!("the store {} {words}", self.url))
    }
}
