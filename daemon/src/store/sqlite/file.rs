//! Opens the file of an embedded store, distinguishes it from a copy, and puts SQLite's errors into words.
//!
//! Two hosts that each run a copy of one store would issue the same ids. A copied file has another inode or another
//! time of birth; on another host the machine id differs too. Such a file is refused until an operator says that it is
//! the one in use.

use std::fs::{Metadata, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, UNIX_EPOCH};

use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::schema::{self, FileError, Meta};
use crate::journal::{hardware, is_same};
use leafd_core::store::{Reason, StartToken, StoreError, StoreId, Why};
use leafd_core::text::clean;

/// How long a statement waits for another connection's transaction.
pub(super) const BUSY_TIMEOUT: Duration = Duration::from_secs(2);

/// Pause between two attempts to switch a new file to a write-ahead log.
const WAL_RETRY_PAUSE: Duration = Duration::from_millis(10);

/// SQLite's cache. A store has few pages, and the kernel caches them as well.
const CACHE_KIB: i64 = 256;

/// Whether to make a file that is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Create {
    IfMissing,
    Never,
}

/// An open file, and its inode when it was opened.
#[derive(Debug)]
pub(super) struct OpenFile {
    pub(super) connection: Connection,
    inode: (u64, u64),
}

impl OpenFile {
    /// Whether the path still leads to this file. SQLite itself would go on using a file that was removed.
    pub(super) fn is_still_at(&self, path: &Path) -> bool {
        std::fs::metadata(path).is_ok_and(|meta| inode(&meta) == self.inode)
    }
}

/// What distinguishes this host from others: its machine id, and the identity that the operator configured.
#[must_use]
pub fn host_fingerprint(identity: Option<&str>) -> String {
    let files = ["/etc/machine-id", "/var/lib/dbus/machine-id"];
    let read = |path| std::fs::read_to_string(path).ok();
    let is_id = |text: &str| text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let machine = files
        .into_iter()
        .filter_map(read)
        .map(|text| text.trim().to_owned())
        .find(|text| is_id(text))
        .unwrap_or_else(|| "unknown".to_owned());
    format!("machine={machine} identity={}", identity.unwrap_or_default())
}

/// Makes this host the owner of the store at `path`, and gives the store a new identity, because the original may
/// still be in use elsewhere. A store that this host already owns is left as it is.
///
/// A copy doesn't know of ids that were issued after it was made: raise its tags above those before use.
///
/// # Errors
/// See [`super::open`]; and [`StoreError::Unavailable`] when there is no file.
pub fn adopt(path: &Path, fingerprint: &str) -> Result<StoreId, StoreError> {
    let opened = open_any(path, fingerprint, Create::Never);
    let (mut open, meta, now) = opened.map_err(|failure| named(path, failure))?;
    if is_same(&meta.fingerprint, &now.fingerprint) {
        return Ok(store_id(&meta.identity));
    }
    schema::rename(&mut open.connection, &now).map_err(|failure| named(path, failure))?;
    Ok(store_id(&now.identity))
}

/// Like [`adopt`], but a store that this host already owns also gets a new identity: it may be an old file that was
/// put back.
///
/// # Errors
/// As for [`adopt`].
pub fn adopt_anew(path: &Path, fingerprint: &str) -> Result<StoreId, StoreError> {
    let opened = open_any(path, fingerprint, Create::Never);
    let (mut open, _, now) = opened.map_err(|failure| named(path, failure))?;
    schema::rename(&mut open.connection, &now).map_err(|failure| named(path, failure))?;
    Ok(store_id(&now.identity))
}

/// Opens a store that must be this host's.
pub(super) fn open_own(
    path: &Path,
    fingerprint: &str,
    create: Create,
) -> Result<OpenFile, StoreError> {
    let opened = open_any(path, fingerprint, create).map_err(|failure| named(path, failure))?;
    check_own(path, opened)
}

/// Like [`open_own`], but makes a missing file, and returns `None` while another process holds the file locked.
pub(super) fn open_own_unless_locked(
    path: &Path,
    fingerprint: &str,
) -> Result<Option<OpenFile>, StoreError> {
    match open_any(path, fingerprint, Create::IfMissing) {
        Err(FileError::Sql(cause)) if is_busy(&cause) => {
            tracing::warn!("{}; retrying", describe(path, &cause));
            Ok(None)
        }
        Err(failure) => Err(named(path, failure)),
        Ok(opened) => check_own(path, opened).map(Some),
    }
}

fn check_own(path: &Path, (open, meta, now): Opened) -> Result<OpenFile, StoreError> {
    judge(path, &meta.fingerprint, &now.fingerprint).map(|()| open)
}

/// Checks which host owns a store that no daemon has open, and changes nothing. The owner was written to the file when
/// its tables were made. So this needs no write-ahead log, which only a connection that may write can read.
///
/// # Errors
/// See [`super::open`].
pub fn look(path: &Path, fingerprint: &str) -> Result<(), StoreError> {
    let meta = std::fs::metadata(path)
        .map_err(|cause| unavailable(path, format!("inspecting it failed: {cause}")))?;
    let now = full_fingerprint(fingerprint, &meta);
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
        | OpenFlags::SQLITE_OPEN_URI
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let read = Connection::open_with_flags(crate::journal::immutable(path), flags)
        .and_then(|connection| schema::fingerprint(&connection));
    match read {
        Ok(Some(found)) => judge(path, &found, &now),
        // Another process has begun to make the store.
        Ok(None) => Ok(()),
        Err(cause) => Err(describe(path, &cause)),
    }
}

/// The start tokens in a file that is not opened as a store, one for each host. Empty when there is no file, or no table
/// of hosts in it.
///
/// # Errors
/// [`StoreError::Unavailable`] and [`StoreError::Refused`] as for [`super::open`].
pub fn start_tokens(path: &Path) -> Result<Vec<StartToken>, StoreError> {
    if !path.exists() {
        return Ok(Vec::new());
    }
    let read = || {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags)?;
        connection.busy_timeout(BUSY_TIMEOUT)?;
        if !schema::has_table(&connection, "leafd_host")? {
            return Ok(Vec::new());
        }
        let mut hosts = connection.prepare("SELECT start_token FROM leafd_host")?;
        let tokens = hosts.query_map([], |row| Ok(StartToken(row.get::<_, String>(0)?.into())))?;
        tokens.collect()
    };
    read().map_err(|cause| describe(path, &cause))
}

fn judge(path: &Path, found: &str, now: &str) -> Result<(), StoreError> {
    if is_same(found, now) {
        return Ok(());
    }
    let host_of = |fingerprint: &str| {
        let (host, file) = fingerprint.rsplit_once(" file=").unwrap_or((fingerprint, ""));
        format!("{host},{}", file.split_once(',').map_or("", |(_, hardware)| hardware))
    };
    let how = if is_same(&host_of(found), &host_of(now)) {
        "the file was copied or restored"
    } else {
        "it was made on another host or under another identity"
    };
    Err(StoreError::refused(format!(
        "the store {} may not be this host's own: {how}. Two daemons that use copies of one store issue the same ids. \
         If no other copy is in use, adopt it with: leafd adopt-store",
        path.display()
    )))
}

/// An open file, what it records about itself, and what this host would record in a file that it makes now.
type Opened = (OpenFile, Meta, Meta);

/// Opens and prepares a file.
fn open_any(path: &Path, fingerprint: &str, create: Create) -> Result<Opened, FileError> {
    let meta = stat_or_create(path, create).map_err(|cause| unavailable(path, cause))?;
    let now = Meta {
        identity: crate::random::token()
            .map_err(|error| error.to_string())
            .map_err(|cause| unavailable(path, cause))?,
        fingerprint: full_fingerprint(fingerprint, &meta),
    };
    let mut connection = connect(path)?;
    let found = schema::prepare(&mut connection, &now)?;
    let open = OpenFile { connection, inode: inode(&meta) };
    // The file was inspected before SQLite opened it by name: both must be the same file.
    if !open.is_still_at(path) {
        return Err(unavailable(
            path,
            "the file was replaced while it was being opened; try again",
        )
        .into());
    }
    Ok((open, found, now))
}

/// Makes the file here, because SQLite would make it readable by everybody.
///
/// When a process closes a file, it loses all its locks on that file, also those of SQLite. So this never opens a file
/// that exists already. The mutex keeps other threads from opening a new file while this makes and closes it.
fn stat_or_create(path: &Path, create: Create) -> Result<Metadata, String> {
    static CREATING: Mutex<()> = Mutex::new(());
    let _creating = CREATING.lock().unwrap_or_else(PoisonError::into_inner);
    if create == Create::IfMissing {
        match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
            Err(cause) if cause.kind() != ErrorKind::AlreadyExists => {
                return Err(format!(
                    "creating the file failed: {cause}; its directory must exist and be writable by the daemon's user"
                ));
            }
            _ => {}
        }
    }
    let meta = std::fs::metadata(path).map_err(|cause| format!("inspecting it failed: {cause}"))?;
    if !meta.is_file() {
        return Err("it is not a regular file".to_owned());
    }
    Ok(meta)
}

fn connect(path: &Path) -> Result<Connection, FileError> {
    // An absolute path, because SQLite treats some relative names specially.
    let absolute = std::path::absolute(path)
        .map_err(|cause| unavailable(path, format!("its absolute path is unknown: {cause}")))?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(absolute, flags)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    if connection.is_readonly(rusqlite::MAIN_DB)? {
        return Err(unavailable(path, "the daemon's user can't write to it").into());
    }
    connection.pragma_update(None, "trusted_schema", false)?;
    connection.pragma_update(None, "cell_size_check", true)?;
    connection.pragma_update(None, "cache_size", -CACHE_KIB)?;
    let encoding: String = connection.pragma_query_value(None, "encoding", |row| row.get(0))?;
    if encoding != "UTF-8" {
        return Err(
            StoreError::refused(format!("stores text as {encoding}; leafd needs UTF-8")).into()
        );
    }
    use_wal(&connection)?;
    // A commit must survive a power failure; SQLite may have been built with a weaker default.
    connection.pragma_update(None, "synchronous", "FULL")?;
    Ok(connection)
}

/// Switches the file to a write-ahead log. While another connection makes the switch, SQLite fails at once instead of
/// waiting, so this waits.
fn use_wal(connection: &Connection) -> Result<(), FileError> {
    let give_up = Instant::now() + BUSY_TIMEOUT;
    loop {
        let mode = connection
            .pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get::<_, String>(0));
        match mode {
            Ok(mode) if mode == "wal" => return Ok(()),
            Ok(mode) => {
                return Err(StoreError::refused(format!(
                    "can't have a write-ahead log there (SQLite offers {mode:?}): put it on a local disk"
                ))
                .into());
            }
            Err(cause) if is_busy(&cause) && Instant::now() < give_up => {
                std::thread::sleep(WAL_RETRY_PAUSE);
            }
            Err(cause) => return Err(cause.into()),
        }
    }
}

fn inode(meta: &Metadata) -> (u64, u64) {
    (meta.dev(), meta.ino())
}

/// The host's fingerprint, and the marks of the file.
fn full_fingerprint(host: &str, meta: &Metadata) -> String {
    format!("{host} file={}{}", file_marks(meta), hardware())
}

/// Marks that a copy of the file doesn't have. The device number is not one of them, as it may change with a reboot.
fn file_marks(meta: &Metadata) -> String {
    let born = meta.created().ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok());
    match born {
        Some(born) => format!("{}/{}", meta.ino(), born.as_nanos()),
        None => format!("{}/unknown", meta.ino()),
    }
}

pub(super) fn store_id(identity: &str) -> StoreId {
    StoreId(format!("sqlite:{identity}").into())
}

fn unavailable(path: &Path, cause: impl Into<Reason>) -> StoreError {
    StoreError::Unavailable { store: path.display().to_string(), cause: cause.into() }
}

/// Puts the file's name before the description of what is wrong with it.
fn named(path: &Path, failure: FileError) -> StoreError {
    match failure {
        FileError::Said(StoreError::Refused(reason)) => {
            StoreError::refused_for(reason.why, format!("the store {} {reason}", path.display()))
        }
        FileError::Said(error) => error,
        FileError::Sql(cause) => describe(path, &cause),
    }
}

pub(super) fn is_busy(error: &rusqlite::Error) -> bool {
    let code = error.sqlite_error_code();
    matches!(code, Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

/// Describes an SQLite error, and what to do about it.
pub(super) fn describe(path: &Path, error: &rusqlite::Error) -> StoreError {
    let said = words(error);
    let refused =
        |words: &str| StoreError::refused(format!("the store {} {words} ({said})", path.display()));
    match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase) => refused(
            "is not a SQLite database: configure another file, or move it away to start a new store",
        ),
        Some(ErrorCode::DatabaseCorrupt) => {
            refused("is damaged: stop the daemon and restore it from a backup")
        }
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => unavailable(
            path,
            Reason::new(
                Why::Locked,
                format!("another process kept it locked for {} s", BUSY_TIMEOUT.as_secs()),
            ),
        ),
        Some(ErrorCode::DiskFull) => unavailable(path, "its disk is full: free some space"),
        _ => unavailable(path, said),
    }
}

/// SQLite's words, which may quote what the file contains.
pub(super) fn words(error: &rusqlite::Error) -> String {
    clean(&error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commits_are_synced() {
        let dir = tempfile::tempdir().unwrap();
        let open = open_own(&dir.path().join("s"), "host", Create::IfMissing).unwrap();
        let level: i64 =
            open.connection.pragma_query_value(None, "synchronous", |row| row.get(0)).unwrap();
        // 2 is FULL. With a lower level a power failure may lose the last commits.
        assert_eq!(level, 2);
    }
}
