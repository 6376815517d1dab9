//! The store on MySQL or MariaDB.
//!
//! - `driver`: one connection, through the `mysql` crate.
//! - `connect`: finds the server that accepts writes, and sets up the connection.
//! - `schema`: prints and creates the tables.
//! - `sql`: its dialect, and the query for a server's identity.

mod connect;
mod driver;
mod schema;
pub(super) mod sql;

use super::sql::ServerEngine;
use driver::MysqlDriver;

/// How to use its servers.
pub static ENGINE: ServerEngine = ServerEngine {
    dialect: &sql::DIALECT,
    ask: |target, endpoint, password| {
        Ok(Box::new(MysqlDriver::connect(target, endpoint, password)?))
    },
    make: schema::make,
};
