//! The store on PostgreSQL.
//!
//! - `driver`: one connection, through the asynchronous client under the `postgres` crate, on a runtime of its own.
//!   The crate's blocking calls can't be limited in time: a server that freezes during the login, or never answers a
//!   query, would block them for ever.
//! - `connect`: finds the server that takes writes, and sets up the connection.
//! - `kept`: the statements that every claim repeats, which the server keeps ready.
//! - `plain`: a connection without TLS.
//! - `schema`: prints and makes the tables.
//! - `sql`: its dialect, and how a server is asked who it is.
//! - `tls`: the certificates that encrypted connections trust.

mod connect;
mod driver;
mod kept;
mod plain;
mod schema;
pub(super) mod sql;
mod tls;

use super::sql::ServerEngine;
use driver::PostgresDriver;

/// How to use its servers.
pub static ENGINE: ServerEngine = ServerEngine {
    dialect: &sql::DIALECT,
    ask: |target, endpoint, password| {
        Ok(Box::new(PostgresDriver::connect(target, endpoint, password)?))
    },
    make: schema::make,
};
