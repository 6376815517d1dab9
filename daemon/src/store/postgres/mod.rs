//! The store on PostgreSQL.
//!
//! - `driver`: one connection, through the asynchronous client under the `postgres` crate, on a runtime of its own.
//!   The crate's blocking calls can't be limited in time: a server that freezes during the login, or never answers a
//!   query, would block them for ever.
//! - `connect`: finds the server that takes writes, and sets up the connection.
//! - `schema`: prints and makes the tables.
//! - `sql`: the statements for tags.
//! - `tls`: the certificates that encrypted connections trust.
//! - `leases`: the statements for workers.
//! - `history`: the statements for the records of past claims and workers.

mod connect;
mod driver;
mod history;
mod leases;
mod schema;
mod sql;
mod tls;

use super::sql::{Dialect, Examination, ServerConnector, SqlStore, Target, WorkersWish};
use leafd_core::store::StoreError;

use driver::PostgresDriver;
pub use schema::{apply, print};

/// The statements and tables.
static DIALECT: Dialect = Dialect {
    sql: sql::STATEMENTS,
    workers: &leases::STATEMENTS,
    history: &history::STATEMENTS,
    tables: sql::TABLES,
    placeholder_prefix: "$",
    embedded: false,
};

/// The store at `target`. The first call connects.
#[must_use]
pub fn open(target: Target) -> SqlStore {
    SqlStore::new(Box::new(connector(target)))
}

/// Looks at the store at `target` without changing it.
///
/// # Errors
/// [`StoreError`] when no server accepts the connection, or none answers.
pub fn examine(target: &Target, workers: Option<WorkersWish>) -> Result<Examination, StoreError> {
    super::sql::examine(Box::new(connector(target.clone())), workers)
}

fn connector(target: Target) -> ServerConnector {
    let connect =
        |target: &Target| PostgresDriver::connect(target).map(|driver| Box::new(driver) as _);
    ServerConnector { target, dialect: &DIALECT, connect }
}
