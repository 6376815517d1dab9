//! What all stores share: everything but how to reach a database and what its SQL looks like, so that none of them gets
//! a claim wrong in its own way.
//!
//! [`SqlStore`] is a [`Store`](super::Store) over a `Driver`: one connection, opened when it is needed, dropped when
//! it is in doubt. Beside Leaf's table there are side tables for what Leaf has no column for; without them
//! (only Leaf's table, perhaps only SELECT and UPDATE on it) claims work, and what needs them says so.
//!
//! - `conflicts`: with what others write at the same moment.
//! - `driver`: what a backend supplies.
//! - `session`: a connection to a store whose tables are known to be usable.
//! - `tag_rows`: the rows of tags, read and written over it.
//! - `calls`: keeping a session, and transactions that are repeated.
//! - `store`: the calls of a store.
//! - `history`: who claimed what, and who had a worker.
//! - `rows`: rows as they are, odd ones included.
//! - `tables`: which tables there are, and how they differ from what they should be.
//! - `engine`: what answers, and what that means.
//! - `leases`: the store as a registry of snowflake workers.
//! - `examine`: what `leafd doctor` looks at.
#![cfg_attr(
    not(all(feature = "mysql", feature = "postgres")),
    allow(dead_code, unused_imports, reason = "some of it only the stores behind a network share")
)]

mod calls;
mod conflicts;
mod driver;
pub(super) mod engine;
mod examine;
mod history;
mod leases;
mod rows;
mod session;
mod store;
mod tables;
mod tag_rows;

use std::time::{Duration, Instant};

use crate::config::{NetworkUrl, StorePassword};

pub use calls::SqlStore;
pub use driver::Location;
pub(super) use driver::{Call, Driver, Failure, Param, Place, Standing, Statements};
pub use examine::{Examination, MissingRight, Purpose, WorkersWish, examine};
pub(super) use history::Statements as HistoryStatements;
pub(super) use leases::Statements as LeaseStatements;
pub(super) use tables::{
    Layout, META_TABLE, columns, has_first_rows, name_of_leafs, refuse_different,
    refuse_different_workers, refuse_lacking,
};

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
    /// Whether it is used on an engine that leafd was not tested on.
    pub untested_engine: bool,
}

/// How long the server that is preferred has to let us in before the next one is asked as well: one that is stopped
/// accepts connections and says nothing. Whichever takes writes first is used.
pub(super) const HEAD_START: Duration = Duration::from_secs(1);

/// What is said when Leaf's table, or what tells it from others, is not there (any more).
pub(super) const TABLES_GONE: &str = "leaf_alloc, or the row without a name in leafd_tag, is missing, as happens while a backup is restored";

/// What a connection calls itself, for whoever looks at the server's list of connections.
pub(super) const APPLICATION_NAME: &str = "leafd";

impl Location for Target {
    fn store(&self) -> String {
        self.url.to_string()
    }

    fn user(&self) -> &str {
        &self.url.user
    }

    fn statement_timeout(&self) -> Duration {
        self.statement_timeout
    }

    fn leaf_only(&self) -> bool {
        self.leaf_only
    }

    fn has_failed(&mut self, endpoint: &str) {
        self.url.has_failed(endpoint, Instant::now());
    }

    fn others(&self, endpoint: &str) -> Vec<Self> {
        let alone = |url| Target { url, ..self.clone() };
        self.url.others(endpoint, Instant::now()).map(alone).collect()
    }
}
