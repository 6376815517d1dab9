//! The store on PostgreSQL.
//!
//! - `driver`: one connection, through the asynchronous client under the `postgres` crate, on its own runtime. The
//!   crate's blocking calls can't be limited in time, so a server that freezes during the login, or never answers a
//!   query, would block them forever.
//! - `connect`: finds the server that accepts writes, and sets up the connection.
//! - `kept`: the statements that every claim repeats, which the server prepares.
//! - `schema`: prints and creates the tables.
//! - `socket`: limits what a server gets and sends.
//! - `sql`: its dialect, and the query for a server's identity.
//! - `tls`: the certificates that encrypted connections trust.

mod connect;
mod driver;
mod kept;
mod schema;
mod socket;
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
