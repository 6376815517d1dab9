//! Looks at a journal that no daemon has open, for `leafd doctor`, and leaves it as it is.

use std::path::Path;

use rusqlite::{Connection, OpenFlags};

use super::fault::Fault;
use super::{Identity, JournalError, db, schema};
use crate::state_dir::explain;

/// What a journal says of whose it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// What stores call the host.
    pub host: String,
    /// Whether the file isn't the one that was begun on this host.
    pub is_foreign: bool,
}

/// Looks at a directory's journal; `None` where there is none. What it looks at is in the file from its beginning, so the
/// log beside it, which is read by nobody who doesn't write, is not needed.
///
/// # Errors
/// It is no journal, of another format, damaged, or can't be read.
pub fn look(dir: &Path, identity: &Identity) -> Result<Option<Seen>, JournalError> {
    let path = dir.join(db::FILE);
    match path.try_exists() {
        Ok(false) => Ok(None),
        Ok(true) => read(&path, identity).map(Some).map_err(|fault| JournalError {
            path,
            cause: fault.0,
            refused: false,
        }),
        Err(error) => {
            let cause = explain("looking for it", &error);
            Err(JournalError { path, cause, refused: false })
        }
    }
}

fn read(path: &Path, identity: &Identity) -> Result<Seen, Fault> {
    schema::check_file(path)?;
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
        | OpenFlags::SQLITE_OPEN_URI
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = Connection::open_with_flags(immutable(path), flags)?;
    let sql = "SELECT host, fingerprint FROM meta";
    let row = conn.query_row(sql, [], |row| Ok((row.get(0)?, row.get::<_, String>(1)?)));
    let (host, fingerprint) = row?;
    let now =
        identity.fingerprint(path).map_err(|error| Fault(explain("looking for it", &error)))?;
    Ok(Seen { host, is_foreign: fingerprint != now })
}

/// A file's name for SQLite that promises that nobody changes it: then it is opened without a lock, and nothing is made
/// beside it.
pub(crate) fn immutable(path: &Path) -> String {
    let path = path.to_string_lossy();
    let escaped = path.replace('%', "%25").replace('?', "%3f").replace('#', "%23");
    format!("file:{escaped}?immutable=1")
}
