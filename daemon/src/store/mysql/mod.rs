//! The store on MySQL or MariaDB.
//!
//! - `driver`: one connection, through the `mysql` crate.
//! - `connect`: finds the server that takes writes, and sets up the connection.
//! - `schema`: prints and makes the tables.
//! - `sql`: its dialect, and how a server is asked who it is.

mod connect;
mod driver;
mod schema;
pub(super) mod sql;

use super::sql::{Examination, ServerConnector, Store, Target, WorkersWish};
use leafd_core::store::StoreError;

use driver::MysqlDriver;
pub use schema::{apply, print};
use sql::DIALECT;

/// The store at `target`. The first call connects.
#[must_use]
pub fn open(target: Target) -> Store {
    Store::new(Box::new(connector(target)))
}

/// Looks at the store at `target` without changing it.
///
/// # Errors
/// [`StoreError`] when no server accepts the connection, or none answers.
pub fn examine(target: &Target, workers: Option<WorkersWish>) -> Result<Examination, StoreError> {
    super::sql::examine(Box::new(connector(target.clone())), workers)
}

fn connector(target: Target) -> ServerConnector {
    ServerConnector {
        target,
        dialect: &DIALECT,
        ask: |target, endpoint, password| {
            Ok(Box::new(MysqlDriver::connect(target, endpoint, password)?))
        },
    }
}
