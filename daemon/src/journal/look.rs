//! Inspects a journal that no daemon has open, for `leafd doctor`, without changing it.

use std::path::Path;

use rusqlite::{Connection, OpenFlags};

use super::fault::Fault;
use super::records::Meta;
use super::{Identity, JournalError, db, is_same, schema};

/// A journal's information about its host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalSummary {
    /// The host's name in its stores.
    pub host: String,
    /// Whether the file is a copy of the one that was created on its host.
    pub is_foreign: bool,
}

/// Inspects a directory's journal; `None` if there is none. It reads only what never changes after creation, so it
/// doesn't need the write-ahead log, which only a connection with write access can read.
///
/// # Errors
/// The file is not a journal, has another format, is damaged, or can't be read.
pub fn look(dir: &Path, identity: &Identity) -> Result<Option<JournalSummary>, JournalError> {
    let path = dir.join(db::FILE);
    match path.try_exists() {
        Ok(false) => Ok(None),
        Ok(true) => read(&path, identity).map(Some),
        Err(error) => Err(Fault::io("inspecting it")(error)),
    }
    .map_err(|fault| JournalError::of(&path, fault))
}

fn read(path: &Path, identity: &Identity) -> Result<JournalSummary, Fault> {
    schema::check_file(path)?;
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
        | OpenFlags::SQLITE_OPEN_URI
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = Connection::open_with_flags(immutable(path), flags)?;
    let Meta { host, fingerprint, .. } = Meta::read(&conn)?;
    let now = identity.fingerprint(path).map_err(Fault::io("inspecting it"))?;
    Ok(JournalSummary {
        host: host.0.as_ref().to_owned(),
        is_foreign: !is_same(&fingerprint, &now),
    })
}

/// A file's name for SQLite, with the promise that the file doesn't change, so that SQLite takes no lock and creates no
/// files beside it.
pub(crate) fn immutable(path: &Path) -> String {
    let path = path.to_string_lossy();
    let escaped = path.replace('%', "%25").replace('?', "%3f").replace('#', "%23");
    format!("file:{escaped}?immutable=1")
}
