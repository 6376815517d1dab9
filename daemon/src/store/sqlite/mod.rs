//! The embedded store: a SQLite database for one host.
//!
//! Leaf's table `leaf_alloc` in its SQLite twin holds the tags; whoever inserts a row there by hand has
//! made a tag. Side tables hold what Leaf has no column for: ceilings, generations, the end of what was
//! ever claimed under a name, the starts of hosts and the store's own identity.
//!
//! - `schema`: the tables, made and checked.
//! - `file`: opening, and telling one's own file from a copy.
//! - `driver`: an open file, as every store's calls use it.
//! - `sql`: the statements.

mod driver;
mod file;
mod schema;
mod sql;
mod starts;

use std::path::Path;

use super::sql::SqlStore;
use leafd_core::store::StoreError;

pub use self::driver::{SqliteDriver, Target};
pub use self::file::{adopt, adopt_anew, host_fingerprint, look};
pub use self::schema::print_schema;
pub use self::starts::start_tokens;

/// An embedded store that is, or can again be, open.
pub type SqliteStore = SqlStore<SqliteDriver>;

/// Opens the store at `path`, or makes it when there is no file. One that another process holds locked is opened by a later
/// call, as it would be if it were locked later.
///
/// `fingerprint` tells this host from others, see [`host_fingerprint`]; the file's own marks are added
/// to it here, each time that the file is opened.
///
/// # Errors
/// [`StoreError::Unavailable`] when the file can't be opened, read or written.
/// [`StoreError::Refused`] when it is no SQLite database, is damaged, was written by a newer leafd, has
/// another `leaf_alloc`, or belongs to another host (see [`adopt`]).
pub fn open(path: &Path, fingerprint: &str) -> Result<SqliteStore, StoreError> {
    let target = Target { path: path.to_owned(), fingerprint: fingerprint.to_owned() };
    match file::open_own_unless_locked(path, fingerprint)? {
        Some(open) => SqlStore::over(SqliteDriver::new(open, target.clone()), target),
        None => Ok(SqlStore::new(target)),
    }
}
