//! The part that all stores share: everything but how to reach a database and what its SQL looks like. So no store
//! makes a mistake of its own in a claim.
//!
//! [`SqlStore`] is a [`Store`](super::Store) over a `Driver`: one connection, which is opened when it is needed and
//! dropped when it is in doubt. Side tables beside Leaf's table hold what Leaf has no column for. Without them, in a
//! database that has only Leaf's table and perhaps grants only SELECT and UPDATE on it, claims work, and calls that
//! need the side tables fail and say so.
//!
//! - `conflicts`: counts conflicts with what others write at the same moment.
//! - `driver`: what a backend supplies.
//! - `session`: a connection to a store whose tables were checked.
//! - `tag_rows`: reads and writes the rows of tags over a session.
//! - `calls`: keeps a session, and repeats transactions.
//! - `store`: the calls of a store.
//! - `history`: records who claimed what, and who had a worker.
//! - `rows`: reads rows as they are, unusable ones included.
//! - `tables`: which tables there are, and how they differ from what they should be.
//! - `engine`: which database engine answers, and what that means.
//! - `leases`: the store as a registry of snowflake workers.
//! - `examine`: what `leafd doctor` looks at.
//! - `rights`: which rights leafd needs.
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
mod rights;
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
pub use examine::{Examination, MissingRight, WorkersWish, examine};
pub(super) use history::Statements as HistoryStatements;
pub(super) use leases::Statements as LeaseStatements;
pub use rights::Purpose;
pub(super) use tables::{
    Layout, META_TABLE, columns, has_first_rows, name_of_leafs, refuse_different,
    refuse_different_workers, refuse_lacking,
};

/// Where a network store is, how to log in there, and the limits of its use.
#[derive(Clone, Debug)]
pub struct Target {
    /// Where it is.
    pub url: NetworkUrl,
    /// The password.
    pub password: StorePassword,
    /// How long each of its servers may take to accept a connection.
    pub connect_timeout: Duration,
    /// How long a call may take over an open connection.
    pub statement_timeout: Duration,
    /// Whether to use the store although leafd's tables are not visible there.
    pub leaf_only: bool,
    /// Whether to use an engine that leafd was not tested on.
    pub untested_engine: bool,
}

/// How long the preferred server has to accept a connection before the next one is asked as well. A server whose
/// process is stopped accepts connections and never answers. The first server that takes writes is used.
pub(super) const HEAD_START: Duration = Duration::from_secs(1);

/// The message when Leaf's table, or the row that distinguishes it from others, is missing.
pub(super) const TABLES_GONE: &str = "leaf_alloc, or the row without a name in leafd_tag, is missing, as happens while a backup is restored";

/// In the words about a value in leafd's own tables that something else has put there.
pub const NOT_LEAFD_S: &str = "leafd did not write";

/// The name of leafd's connections in the server's list of connections.
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
