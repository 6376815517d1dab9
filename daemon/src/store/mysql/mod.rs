//! The store on MySQL or MariaDB.
//!
//! - `driver`: one connection, through the `mysql` crate.
//! - `connect`: finding the server that takes writes, and what is agreed with it.
//! - `schema`: the tables, printed and made.
//! - `sql`: the statements.
//! - `workers`: those for the tables of workers.

mod connect;
mod driver;
mod schema;
mod sql;
mod workers;

use super::network::{NetworkStore, Target};

pub use driver::MysqlDriver;
pub use schema::{apply, print};

/// A store on MySQL or MariaDB.
pub type MysqlStore = NetworkStore<MysqlDriver>;

/// The store at `target`. Connects with the first call.
#[must_use]
pub fn open(target: Target) -> MysqlStore {
    NetworkStore::new(target, sql::TABLES)
}
