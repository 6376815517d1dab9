//! The journal's format: its table and its version. Recognises a file that is something else before SQLite opens it.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::Path;

use rusqlite::Connection;

use super::fault::Fault;

/// The ASCII text `leaf`, which marks the file as a journal in SQLite's header.
const APPLICATION_ID: i32 = 0x6c65_6166;

/// The version of the format. It must increase when the text below or the content of records changes.
const FORMAT_VERSION: i32 = 5;

/// The table. Every row ends with a checksum over its other columns.
const TABLE: &str = "CREATE TABLE records (kind TEXT NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL, \
    sum INTEGER NOT NULL, PRIMARY KEY (kind, key)) STRICT, WITHOUT ROWID";

/// The part of a SQLite file's header that identifies the file.
const HEADER_BYTES: usize = 72;

/// Creates the table in an empty database.
pub(super) fn create(conn: &Connection) -> rusqlite::Result<()> {
    conn.pragma_update(None, "application_id", APPLICATION_ID)?;
    conn.pragma_update(None, "user_version", FORMAT_VERSION)?;
    conn.execute_batch(TABLE)
}

/// Checks the file's kind and version from its first bytes, without changing the file.
///
/// A journal has both before it is renamed, so a file without them has never been a journal.
pub(super) fn check_file(path: &Path) -> Result<(), Fault> {
    let kept = "leafd left it unchanged: move it away, or configure another state directory";
    let mut header = [0; HEADER_BYTES];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut header));
    match read {
        Ok(()) if header.starts_with(b"SQLite format 3\0") => {}
        Err(e) if e.kind() != ErrorKind::UnexpectedEof => {
            return Err(Fault::io("reading it")(e));
        }
        _ => {
            return Err(Fault(format!(
                "it is not a SQLite database, so it is not a journal; {kept}"
            )));
        }
    }
    let number = |at: usize| {
        let mut bytes = [0; 4];
        bytes.copy_from_slice(&header[at..at + 4]);
        i32::from_be_bytes(bytes)
    };
    let (version, application) = (number(60), number(68));
    if application != APPLICATION_ID {
        return Err(Fault(format!("it is a SQLite database, but not leafd's; {kept}")));
    }
    if version > FORMAT_VERSION {
        return Err(Fault(format!(
            "its format has version {version}, and this leafd knows versions up to \
             {FORMAT_VERSION}; run the newer leafd that wrote it"
        )));
    }
    if version < FORMAT_VERSION {
        return Err(Fault(format!(
            "its format, version {version}, is from before the first release, and this leafd reads only version \
             {FORMAT_VERSION}. Move journal.db and journal.db-wal to a safe place and start leafd again: it creates a \
             new journal and skips the ids that the old one held"
        )));
    }
    Ok(())
}

/// Checks that the file contains exactly the table of this format.
pub(super) fn check_tables(conn: &Connection) -> Result<(), Fault> {
    let mut statement = conn.prepare(
        "SELECT sql FROM sqlite_schema WHERE name NOT LIKE 'sqlite_autoindex_%' ORDER BY rowid",
    )?;
    let found: Vec<Option<String>> =
        statement.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
    if found.iter().map(Option::as_deref).eq([Some(TABLE)]) {
        return Ok(());
    }
    Err(Fault::damaged("its tables don't match its format"))
}
