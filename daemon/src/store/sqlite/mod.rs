//! The embedded store: a SQLite database for one host.
//!
//! Leaf's table `leaf_alloc`, in its SQLite form, holds the tags. Inserting a row there by hand creates a tag. Side
//! tables hold data for which Leaf has no column: ceilings, generations, the end of all claims ever made under a name,
//! the starts of hosts, and the store's own identity.
//!
//! - `schema`: creates and checks the tables.
//! - `file`: opens the file, and distinguishes it from a copy.
//! - `driver`: runs the statements of a store's calls on the open file.
//! - `sql`: the statements.

mod driver;
mod file;
mod schema;
pub(super) mod sql;

use std::path::Path;

use super::sql::Store;
use crate::journal::Identity;
use leafd_core::store::{StoreError, Why};

use self::driver::StoreFile;
use self::file::Create;
pub use self::file::{adopt, look, start_tokens};
pub use self::schema::print_schema;

/// Opens the store at `path`, and creates it if there is no file. If another process has the file locked, the next call
/// opens it. The file may also be closed at times; the next call then opens it again.
///
/// The file must be `host`'s own. Each time it is opened, its inode and birth time are compared too.
///
/// # Errors
/// [`StoreError::Unavailable`] when the file can't be opened, read or written. [`StoreError::Refused`] when it is not a
/// SQLite database, is damaged, was written by a newer leafd, has another `leaf_alloc`, or belongs to another host (see
/// [`adopt`]).
pub fn open(path: &Path, host: &Identity) -> Result<Store, StoreError> {
    let target = StoreFile { path: path.to_owned(), host: host.clone() };
    match file::open_own(&target, Create::IfMissing) {
        Err(StoreError::Unavailable { cause, .. }) if cause.why == Why::Locked => {
            tracing::warn!(store = %path.display(), "{cause}; retrying");
            Ok(Store::new(Box::new(target)))
        }
        opened => Store::over(Box::new(opened?), Box::new(target)),
    }
}
