//! The store on PostgreSQL.
//!
//! - `driver`: one connection, through the asynchronous engine of the `postgres` crate on a runtime of its own,
//!   because the crate's blocking calls can't be bounded in time: a server that is frozen while we log in, or that
//!   never answers a query, would hold them for ever.
//! - `connect`: finding the server that takes writes, and what is agreed with it.
//! - `schema`: the tables, printed and made.
//! - `sql`: the statements.
//! - `tls`: whom to trust, for protected connections.
//! - `leases`: those for the tables of workers.
//! - `history`: those for what is remembered of claims and workers.

mod connect;
mod driver;
mod history;
mod leases;
mod schema;
mod sql;
mod tls;

use super::sql::{Examination, SqlStore, Target, WorkersWish};
use leafd_core::store::StoreError;

pub use driver::PostgresDriver;
pub use schema::{apply, print};
pub(crate) use tls::trusted_roots;

/// A store on PostgreSQL.
pub type PostgresStore = SqlStore<PostgresDriver>;

/// The store at `target`. Connects with the first call.
#[must_use]
pub fn open(target: Target) -> PostgresStore {
    SqlStore::new(target)
}

/// Looks at the store at `target`, and changes nothing.
///
/// # Errors
/// [`StoreError`] when nobody lets us in, or doesn't answer.
pub fn examine(target: &Target, workers: Option<WorkersWish>) -> Result<Examination, StoreError> {
    super::sql::examine::<PostgresDriver>(target, workers)
}
