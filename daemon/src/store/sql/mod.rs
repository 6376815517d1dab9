//! The part that all stores share: everything except the connection to a database and the details of its SQL. So claims
//! work the same way in every store.
//!
//! [`Store`] works over a `Driver`: one connection, which is opened when needed and dropped when in doubt. Side tables
//! beside Leaf's table hold data for which Leaf has no column. Without them, in a database that has only Leaf's table
//! and perhaps grants only SELECT and UPDATE on it, claims work, and calls that need the side tables fail and say so.
//!
//! - `connector`: the location of a store, and how to connect to it.
//! - `dialect`: the differences between databases' SQL.
//! - `schema`: the tables.
//! - `statements`: the statements.
//! - `driver`: a connection.
//! - `session`: a connection to a store whose tables were checked.
//! - `tag_rows`: reads and writes the rows of tags over a session.
//! - `calls`: keeps a session, and repeats transactions.
//! - `store`: the calls of a store.
//! - `history`: records claims, and the holders of workers.
//! - `rows`: reads rows as they are, unusable ones included.
//! - `tables`: which tables exist, and how they differ from the expected ones.
//! - `engine`: which database engine answers, and whether it can be used.
//! - `leases`: the store as a registry of snowflake workers.
//! - `examine`: the inspection for `leafd doctor`.
//! - `privileges`: the privileges that leafd needs.
#![cfg_attr(
    not(all(feature = "mysql", feature = "postgres")),
    allow(dead_code, unused_imports, reason = "some of it only the stores behind a network share")
)]

mod calls;
mod connector;
mod dialect;
mod driver;
pub(super) mod engine;
mod examine;
mod history;
mod leases;
mod privileges;
mod rows;
mod schema;
mod session;
mod statements;
mod store;
mod tables;
mod tag_rows;

use std::time::Duration;

pub use calls::Store;
#[cfg(any(feature = "mysql", feature = "postgres"))]
pub(super) use connector::is_of_tls;
pub(super) use connector::{Connector, Location};
pub use connector::{ServerEngine, Target};
pub(super) use dialect::{Dialect, with_params};
pub(super) use driver::{
    Call, Cells, Driver, Param, Signs, SqlAnswer, SqlError, UNCHANGED, one_row, params,
};
use examine::examine;
pub use examine::{Examination, MissingPrivilege, WorkersWish};
pub use privileges::Purpose;
pub(super) use schema::{ColumnKind, META_TABLE, make, print};
pub(super) use statements::{ENTER_META, META, SET_META};
pub(super) use tables::{has_first_rows, missing_tables, refuse_lacking};

/// How long the preferred server has to accept a connection before the next one is asked as well. A server whose
/// process is stopped accepts connections and never answers. The first server that accepts writes is used.
pub(super) const HEAD_START: Duration = Duration::from_secs(1);

/// The message when Leaf's table, or the row that distinguishes it from others, is missing.
pub(super) const TABLES_GONE: &str = "leaf_alloc, or the row without a name in leafd_tag, is missing, as happens while a backup is restored";

/// The words for a server without TLS.
pub(super) const NO_TLS: &str =
    "the server offers no TLS: set it up, or write sslmode=disable in the URL";

/// The words for a server that asks for the password in clear text. Without TLS, it may be any server.
pub(super) const READABLE_PASSWORD: &str = "without TLS, the server asks for the password in clear text: write \
                                            sslmode=verify-full in the URL, or sslmode=disable";

/// The name of leafd's connections in the server's list of connections.
pub(super) const APPLICATION_NAME: &str = "leafd";
