//! Opens the file of an embedded store, distinguishes it from a copy, and puts SQLite's errors into words.
//!
//! Two hosts that each run a copy of one store would issue the same ids. A copied file has another inode or another
//! birth time; on another host, the machine id differs too. Such a file is refused until an operator says that it is
//! the one in use. Two daemons that open one file under two names issue the same ids too, because SQLite's log has the
//! file's name: a file that may have another name is refused.

use std::fmt::Display;
use std::fs::{self, Metadata, OpenOptions};
use std::io::ErrorKind;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use nix::fcntl::{OFlag, open};
use nix::sys::stat::Mode;
use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::driver::{SqliteDriver, StoreFile};
use super::schema::{self, Recorded};
use crate::journal::{Identity, is_same, is_same_host};
use crate::store::sql::Driver as _;
use leafd_core::store::{Reason, StartToken, StoreError, StoreId, Why};
use leafd_wire::text::clean;

/// How long a statement waits for another connection's transaction.
pub(super) const BUSY_TIMEOUT: Duration = Duration::from_secs(2);

/// Pause between two attempts to switch a new file to a write-ahead log.
const WAL_RETRY_PAUSE: Duration = Duration::from_millis(10);

/// SQLite's cache. A store has few pages, and the kernel caches them as well.
const CACHE_KIB: i64 = 256;

/// Whether to create a missing file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Create {
    IfMissing,
    Never,
}

/// Makes this host the owner of the store at `path`, and gives the store a new identity, because the original may still
/// be in use elsewhere. A store that this host already owns is left as it is, unless it is to be adopted `anew`,
/// because it may be an old file that was restored.
///
/// A copy doesn't know about ids that were issued after it was made, so raise its tags above those before use.
///
/// # Errors
/// See [`super::open`]; and [`StoreError::Unavailable`] when there is no file.
pub fn adopt(path: &Path, host: &Identity, anew: bool) -> Result<StoreId, StoreError> {
    let target = StoreFile { path: path.to_owned(), host: host.clone() };
    let (mut driver, recorded, now) = open_any(&target, Create::Never)?;
    if !anew && is_same(&recorded.fingerprint, &now) {
        return Ok(store_id(&recorded.identity));
    }
    let to = Recorded { identity: crate::random::token(), fingerprint: now };
    schema::rename(&mut driver, &to).map_err(|failure| failure.answer(&driver.location()))?;
    Ok(store_id(&to.identity))
}

/// Opens a store that must be this host's.
pub(super) fn open_own(target: &StoreFile, create: Create) -> Result<SqliteDriver, StoreError> {
    let (driver, recorded, now) = open_any(target, create)?;
    judge(&target.path, &recorded.fingerprint, &now).map(|()| driver)
}

/// Checks which host owns a store that no daemon has open, and changes nothing. The owner was written to the file when
/// its tables were created, so this doesn't need the write-ahead log, which only a connection with write access can
/// read.
///
/// # Errors
/// See [`super::open`].
pub fn look(path: &Path, host: &Identity) -> Result<(), StoreError> {
    let now = fingerprint_of(path, host)?;
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
        | OpenFlags::SQLITE_OPEN_URI
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let read = Connection::open_with_flags(crate::journal::immutable(path), flags)
        .and_then(|connection| schema::fingerprint(&connection));
    match read {
        Ok(Some(found)) => judge(path, &found, &now),
        // Another process has begun to create the store.
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
    let how = if is_same_host(found, now) {
        "the file was copied or restored"
    } else {
        "it was made on another host or under another identity"
    };
    Err(refused(
        path,
        format_args!(
            "may not be this host's own: {how}. Two daemons that use copies of one store issue the same ids. If no \
             other copy is in use, adopt it with: leafd adopt-store"
        ),
    ))
}

/// Opens and prepares a file. Also returns what it records about itself, and the fingerprint that this host would
/// record now.
fn open_any(
    target: &StoreFile,
    create: Create,
) -> Result<(SqliteDriver, Recorded, String), StoreError> {
    let path = &target.path;
    let meta = stat_or_create(path, create).map_err(|cause| unavailable(path, cause))?;
    let elsewhere = match meta.nlink() {
        _ if is_mount(path) => Some(("is a mount of its own", "mount its directory instead")),
        2.. => Some((
            "has several names (hard links)",
            "stop all daemons that use it, and keep only the name that they used",
        )),
        _ => None,
    };
    if let Some((is, cure)) = elsewhere {
        let why = "SQLite's log lies beside each name, so daemons could claim the same ids";
        return Err(refused(path, format_args!("{is}; {why}: {cure}")));
    }
    let now = fingerprint_of(path, &target.host)?;
    let mut driver = SqliteDriver::new(connect(path)?, inode(&meta), target.clone());
    let recorded = schema::prepare(&mut driver, &now);
    let recorded = recorded.map_err(|failure| failure.answer(&driver.location()))?;
    // The file was inspected before SQLite opened it by name, and both must be the same file.
    if !driver.is_usable() {
        return Err(unavailable(
            path,
            "the file was replaced while it was being opened; try again",
        ));
    }
    Ok((driver, recorded, now))
}

/// Creates the file here, because SQLite would make it readable by everyone.
///
/// When a process closes a file, it loses all its locks on that file, including those of SQLite. So this never opens an
/// existing file. The mutex keeps other threads from opening a new file while this creates and closes it.
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
    let meta = fs::metadata(path).map_err(|cause| format!("inspecting it failed: {cause}"))?;
    if !meta.is_file() {
        return Err("it is not a regular file".to_owned());
    }
    Ok(meta)
}

/// Whether a file is mounted by itself, such as one that was passed to a container without its directory.
fn is_mount(path: &Path) -> bool {
    let mount = |path: &Path| {
        // SQLite's locks outlast the closing of such a descriptor. The standard library would leave out O_PATH, which
        // is part of musl's O_ACCMODE.
        let named = open(path, OFlag::O_PATH | OFlag::O_CLOEXEC, Mode::empty()).ok()?;
        let about = fs::read_to_string(format!("/proc/self/fdinfo/{}", named.as_raw_fd())).ok()?;
        about.lines().find_map(|line| line.strip_prefix("mnt_id:").map(str::to_owned))
    };
    // SQLite's log lies beside what a link leads to.
    let Ok(file) = path.canonicalize() else { return false };
    let folder = file.parent().unwrap_or(Path::new("/"));
    matches!((mount(&file), mount(folder)), (Some(file), Some(folder)) if file != folder)
}

fn connect(path: &Path) -> Result<Connection, StoreError> {
    // An absolute path, because SQLite treats some relative names specially.
    let absolute = std::path::absolute(path)
        .map_err(|cause| unavailable(path, format!("its absolute path is unknown: {cause}")))?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let open = || {
        let connection = Connection::open_with_flags(absolute, flags)?;
        connection.busy_timeout(BUSY_TIMEOUT)?;
        connection.pragma_update(None, "trusted_schema", false)?;
        connection.pragma_update(None, "cell_size_check", true)?;
        connection.pragma_update(None, "cache_size", -CACHE_KIB)?;
        let encoding: String = connection.pragma_query_value(None, "encoding", |row| row.get(0))?;
        if connection.is_readonly(rusqlite::MAIN_DB)? {
            return Ok(Err(unavailable(path, "the daemon's user can't write to it")));
        }
        if encoding != "UTF-8" {
            return Ok(Err(refused(path, format!("stores text as {encoding}; leafd needs UTF-8"))));
        }
        let mode = use_wal(&connection)?;
        if mode != "wal" {
            let words = format!(
                "can't have a write-ahead log there (SQLite offers {mode:?}): put it on a local disk"
            );
            return Ok(Err(refused(path, words)));
        }
        // A commit must survive a power failure; SQLite may have been built with a weaker default.
        connection.pragma_update(None, "synchronous", "FULL")?;
        Ok(Ok(connection))
    };
    open().map_err(|error| describe(path, &error))?
}

/// Switches the file to a write-ahead log, and returns its mode after that. While another connection makes the switch,
/// SQLite fails immediately instead of waiting, so this waits.
fn use_wal(connection: &Connection) -> rusqlite::Result<String> {
    let give_up = Instant::now() + BUSY_TIMEOUT;
    loop {
        let mode =
            connection.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0));
        match mode {
            Err(cause) if is_busy(&cause) && Instant::now() < give_up => {
                std::thread::sleep(WAL_RETRY_PAUSE);
            }
            mode => return mode,
        }
    }
}

pub(super) fn inode(meta: &Metadata) -> (u64, u64) {
    (meta.dev(), meta.ino())
}

fn fingerprint_of(path: &Path, host: &Identity) -> Result<String, StoreError> {
    host.fingerprint(path)
        .map_err(|cause| unavailable(path, format!("inspecting it failed: {cause}")))
}

fn store_id(identity: &str) -> StoreId {
    StoreId(format!("sqlite:{identity}").into())
}

fn unavailable(path: &Path, cause: impl Into<Reason>) -> StoreError {
    StoreError::Unavailable { store: path.display().to_string(), cause: cause.into() }
}

fn refused(path: &Path, words: impl Display) -> StoreError {
    StoreError::refused(format!("the store {} {words}", path.display()))
}

pub(super) fn is_busy(error: &rusqlite::Error) -> bool {
    let code = error.sqlite_error_code();
    matches!(code, Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

/// Describes an SQLite error, and what to do about it.
pub(super) fn describe(path: &Path, error: &rusqlite::Error) -> StoreError {
    let said = words(error);
    let refused = |words: &str| refused(path, format_args!("{words} ({said})"));
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
        let path = dir.path().join("s");
        stat_or_create(&path, Create::IfMissing).unwrap();
        let connection = connect(&path).unwrap();
        let level: i64 =
            connection.pragma_query_value(None, "synchronous", |row| row.get(0)).unwrap();
        // 2 is FULL. With a lower level a power failure may lose the last commits.
        assert_eq!(level, 2);
    }
}
