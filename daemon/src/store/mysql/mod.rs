//! The store on MySQL or MariaDB.
//!
//! - `driver`: one connection, through the `mysql` crate.
//! - `connect`: finding the server that takes writes, and what is agreed with it.
//! - `schema`: the tables, printed and made.
//! - `sql`: the statements.
//! - `leases`: those for the tables of workers.

mod connect;
mod driver;
mod leases;
mod schema;
mod sql;

use super::sql::{SqlStore, Target};

pub use driver::MysqlDriver;
pub use schema::{apply, print};

/// A store on MySQL or MariaDB.
pub type MysqlStore = SqlStore<MysqlDriver>;

/// The store at `target`. Connects with the first call.
#[must_use]
pub fn open(target: Target) -> MysqlStore {
    SqlStore::new(target)
}
