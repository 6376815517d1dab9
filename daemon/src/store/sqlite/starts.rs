//! Reads the start tokens in an embedded store's file before the file is opened as a store.

use std::path::Path;

use rusqlite::{Connection, OpenFlags};

use super::file;
use leafd_core::store::{StartToken, StoreError};

/// The start tokens in the file, one for each host. Empty when there is no file, or no table of hosts in it.
///
/// # Errors
/// [`StoreError::Unavailable`] and [`StoreError::Refused`] as for [`super::open`].
pub fn start_tokens(path: &Path) -> Result<Vec<StartToken>, StoreError> {
    if !path.exists() {
        return Ok(Vec::new());
    }
    read(path).map_err(|cause| file::describe(path, &cause))
}

fn read(path: &Path) -> rusqlite::Result<Vec<StartToken>> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(file::BUSY_TIMEOUT)?;
    let known = "SELECT count(*) FROM sqlite_schema WHERE name = 'leafd_host' AND type = 'table'";
    if connection.query_row(known, [], |row| row.get::<_, i64>(0))? == 0 {
        return Ok(Vec::new());
    }
    let mut statement = connection.prepare("SELECT start_token FROM leafd_host")?;
    let tokens = statement.query_map([], |row| Ok(StartToken(row.get::<_, String>(0)?.into())))?;
    tokens.collect()
}
