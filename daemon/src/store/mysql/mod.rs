//! The store on MySQL or MariaDB.
//!
//! - `driver`: one connection, through the `mysql` crate.
//! - `connect`: finding the server that takes writes, and what is agreed with it.
//! - `schema`: the tables, printed and made.
//! - `sql`: the statements.
//! - `leases`: those for the tables of workers.
//! - `history`: those for what is remembered of claims and workers.

mod connect;
mod driver;
mod history;
mod leases;
mod schema;
mod sql;

use super::sql::{Examination, SqlStore, Target, WorkersWish};
use leafd_core::store::StoreError;

pub use driver::MysqlDriver;
pub use schema::{apply, print};

/// A store on MySQL or MariaDB.
pub type MysqlStore = SqlStore<MysqlDriver>;

/// The store at `target`. Connects with the first call.
#[must_use]
pub fn open(target: Target) -> MysqlStore {
    SqlStore::new(target)
}

/// Looks at the store at `target`, and changes nothing.
///
/// # Errors
/// [`StoreError`] when nobody lets us in, or doesn't answer.
pub fn examine(target: &Target, workers: Option<WorkersWish>) -> Result<Examination, StoreError> {
    super::sql::examine::<MysqlDriver>(target, workers)
}
