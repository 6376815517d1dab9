//! The embedded store: a SQLite database for one host.
//!
//! Leaf's table `leaf_alloc`, in its SQLite form, holds the tags. Inserting a row there by hand makes a tag. Side
//! tables hold what Leaf has no column for: ceilings, generations, the end of what was ever claimed under a name, the
//! starts of hosts, and the store's own identity.
//!
//! - `schema`: makes and checks the tables.
//! - `file`: opens the file, and distinguishes it from a copy.
//! - `driver`: runs the statements of a store's calls on the open file.
//! - `sql`: the statements.

mod driver;
mod file;
mod schema;
pub(super) mod sql;

use std::path::Path;

use super::sql::SqlStore;
use leafd_core::store::StoreError;

use self::driver::{SqliteDriver, StoreFile};
pub use self::file::{adopt, adopt_anew, host_fingerprint, look, start_tokens};
pub use self::schema::print_schema;

/// Opens the store at `path`, and makes it when there is no file. If another process holds the file locked, the next
/// call opens it. The file may be closed at times; then, too, the next call opens it again.
///
/// `fingerprint` identifies this host, see [`host_fingerprint`]. Each time that the file is opened, the file's own
/// marks are added to it.
///
/// # Errors
/// [`StoreError::Unavailable`] when the file can't be opened, read or written. [`StoreError::Refused`] when it is no
/// SQLite database, is damaged, was written by a newer leafd, has another `leaf_alloc`, or belongs to another host
/// (see [`adopt`]).
pub fn open(path: &Path, fingerprint: &str) -> Result<SqlStore, StoreError> {
    let target = StoreFile { path: path.to_owned(), fingerprint: fingerprint.to_owned() };
    match file::open_own_unless_locked(path, fingerprint)? {
        Some(open) => {
            let driver = SqliteDriver::new(open, target.clone());
            SqlStore::over(Box::new(driver), Box::new(target))
        }
        None => Ok(SqlStore::new(Box::new(target))),
    }
}
