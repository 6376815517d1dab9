//! The journal file: opens and verifies it, commits to it, and checks that its name still refers to it.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, TransactionBehavior};

use super::apply::{self, Problem};
use super::fault::Fault;
use super::records::{self, Meta, Start};
use super::tags::{Segment, TagState};
use super::witness::{self, Stamp};
use super::{Recovered, StartToken, TagRecord, Write, schema, stores, tags, verify};
use crate::state_dir::{StateDir, beside};
use leafd_core::Tag;
use leafd_core::store::{Generation, StoreId};

/// The journal's file name in the state directory.
pub(super) const FILE: &str = "journal.db";

/// How long to wait for another program that has the file locked.
const BUSY_TIMEOUT: Duration = Duration::from_secs(1);

/// SQLite moves the log into the database after this many pages of 4 KiB.
const CHECKPOINT_PAGES: u32 = 256;

/// After a large transaction, the log's file is truncated to this size.
const LOG_KEPT_BYTES: u32 = 2 << 20;

/// SQLite's page cache. It can be small: marks are few and small.
const CACHE_KIB: i32 = 256;

/// An open journal.
#[derive(Debug)]
pub(super) struct Db {
    pub conn: Connection,
    pub meta: Meta,
    /// The database and its log, each with the inode that is open.
    files: [(PathBuf, FileId); 2],
    /// The embedded stores that the journal knew when it was opened.
    embedded: Vec<StoreId>,
    /// The state directory, in which stamps are created.
    dir: StateDir,
    /// The token of the clean stop, once it is recorded.
    pub stopped_as: Option<StartToken>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileId {
    device: u64,
    inode: u64,
}

/// The journal's path in a state directory.
pub(super) fn file_in(dir: &StateDir) -> PathBuf {
    dir.path().join(FILE)
}

/// What SQLite syncs, with the numbers of SQLite's setting `synchronous`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Syncs {
    /// Nothing, for a file that is synced as a whole before it is renamed.
    Nothing = 0,
    /// Every commit.
    Commits = 2,
}

/// Opens a connection with all the settings on which durability depends.
pub(super) fn connect(path: &Path, syncs: Syncs) -> Result<Connection, Fault> {
    // This never creates a file, because a journal that has vanished must not come back empty.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = Connection::open_with_flags(path, flags)?;
    conn.busy_timeout(BUSY_TIMEOUT)?;
    conn.pragma_update(None, "mmap_size", 0)?;
    conn.pragma_update(None, "trusted_schema", "OFF")?;
    conn.pragma_update(None, "cell_size_check", "ON")?;
    // The lock is exclusive before the log is first used, so SQLite keeps the log's index in private memory. Otherwise
    // the index would be in a mapped file, and a full disk or a truncation would cause a SIGBUS. Some of the pragmas
    // below use the log.
    expect(&conn, "locking_mode", "EXCLUSIVE", "exclusive")?;
    expect(&conn, "journal_mode", "WAL", "wal")?;
    conn.pragma_update(None, "cache_size", -CACHE_KIB)?;
    conn.pragma_update(None, "synchronous", syncs as i64)?;
    conn.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES)?;
    conn.pragma_update(None, "journal_size_limit", LOG_KEPT_BYTES)?;
    // SQLite ignores a setting that it can't follow, and what survives a power failure depends on this one.
    let synchronous: i64 = conn.pragma_query_value(None, "synchronous", |row| row.get(0))?;
    if synchronous != syncs as i64 {
        return Err(Fault(format!(
            "SQLite keeps synchronous at {synchronous} instead of {}",
            syncs as i64
        )));
    }
    Ok(conn)
}

fn expect(conn: &Connection, pragma: &str, wanted: &str, answer: &str) -> Result<(), Fault> {
    let found: String = conn.pragma_update_and_check(None, pragma, wanted, |row| row.get(0))?;
    if found == answer {
        return Ok(());
    }
    Err(Fault(format!("SQLite keeps {pragma} at {found} instead of {answer}")))
}

/// The prefix of the identities of embedded stores.
const EMBEDDED: &str = "sqlite:";

fn is_embedded(store: &StoreId) -> bool {
    store.0.starts_with(EMBEDDED)
}

// === impl Db ===

impl Db {
    /// Opens an existing journal, and verifies it before anything in it is used.
    pub fn open(dir: &StateDir) -> Result<Db, Fault> {
        let path = file_in(dir);
        let log = beside(&path, "-wal");
        let database_id = FileId::of(&path).map_err(Fault::io("inspecting it"))?;
        schema::check_file(&path)?;
        let conn = connect(&path, Syncs::Commits)?;
        // A crashed process may have written to the log without syncing it. Such data can be in the system's cache,
        // marked clean, and yet not on the disk, and a commit appended to it would be lost with it. So the log is moved
        // into the database, synced and restarted before anything is added.
        fold(&conn)?;
        verify::structure(&conn)?;
        schema::check_tables(&conn)?;
        let mut embedded = verify::rows(&conn)?;
        embedded.retain(is_embedded);
        let meta = Meta::read(&conn)?;
        let log_id = FileId::of(&log).map_err(Fault::io("inspecting its write-ahead log"))?;
        let files = [(path, database_id), (log, log_id)];
        let db = Db { conn, meta, files, embedded, dir: dir.clone(), stopped_as: None };
        db.check_in_place()?;
        Ok(db)
    }

    /// The token of the last start or clean stop.
    pub fn last_token(&self) -> Result<Option<StartToken>, Fault> {
        Ok(stores::last_start(&self.conn)?.map(|start| start.token))
    }

    /// Records a start. Its token is durable when this returns. If the journal is `unvouched`, the held ids are
    /// forgotten.
    pub fn start(&mut self, unvouched: bool) -> Result<Recovered, Fault> {
        let starts: Vec<Start> = records::read_all(&self.conn)?;
        let start = self.next_start(starts.last())?;
        let recovered = Recovered {
            host: self.meta.host.clone(),
            token: start.token.clone(),
            begun: false,
            set_aside: None,
            unvouched,
            layouts: records::read_all(&self.conn)?,
            claim: records::read(&self.conn, "")?,
            stopped_cleanly: self.meta.stopped_cleanly,
            stores: records::read_all(&self.conn)?,
            starts,
        };
        let mut meta = self.meta.clone();
        meta.commits += 1;
        meta.stopped_cleanly = false;
        let transaction = self.conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
        stores::write_start(&transaction, &start)?;
        let forgotten = if unvouched { tags::forget_segments(&transaction, None)? } else { 0 };
        records::write(&transaction, &meta)?;
        transaction.commit()?;
        self.meta = meta;
        self.check_in_place()?;
        self.put_stamp_in_place();
        if forgotten > 0 {
            tracing::warn!(
                segments = forgotten,
                "leafd did not stop cleanly and can't prove that this is its latest journal, for example because the \
                 host was rebooted or the socket is in the state directory: it skips the held ids and continues"
            );
        }
        Ok(recovered)
    }

    /// The next start or stop, with a new stamp that does not have its final name yet.
    fn next_start(&self, last: Option<&Start>) -> Result<Start, Fault> {
        let token = Stamp::make(&self.dir, last.map(|start| &start.token))
            .map_err(Fault::io("making the state directory's stamp"))?;
        Ok(Start { number: last.map_or(0, |start| start.number).saturating_add(1), token })
    }

    fn put_stamp_in_place(&self) {
        if let Err(e) = witness::put_in_place(&self.dir) {
            tracing::warn!(error = %e, "could not rename the new stamp; the next start looks for both names");
        }
    }

    /// Makes batches durable in one transaction. A batch that contradicts the existing records is omitted as a whole,
    /// and only that batch is refused. A fault fails all of them, and it is then unknown whether they are on the disk.
    pub fn commit(&mut self, batches: &[&[Write]]) -> Result<Vec<Result<(), String>>, Fault> {
        self.check_in_place()?;
        // A clean stop gets a token like a start, so that a copy of a running daemon's journal isn't mistaken for that
        // of a stopped one.
        let stops = batches.iter().any(|batch| batch.contains(&Write::StoppedCleanly));
        let stop = match stops {
            true => Some(self.next_start(stores::last_start(&self.conn)?.as_ref())?),
            false => None,
        };
        let mut meta = self.meta.clone();
        meta.commits += 1;
        let mut transaction =
            self.conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let mut answers = Vec::with_capacity(batches.len());
        for batch in batches {
            // If the savepoint is dropped without a commit, it rolls its batch back.
            let savepoint = transaction.savepoint()?;
            match apply::batch(&savepoint, batch) {
                Ok(()) => {
                    savepoint.commit()?;
                    meta.stopped_cleanly |= batch.contains(&Write::StoppedCleanly);
                    for write in *batch {
                        if let Write::BeginAnew { host } = write {
                            meta.host = host.clone();
                        }
                    }
                    answers.push(Ok(()));
                }
                Err(Problem::Refused(why)) => answers.push(Err(why)),
                Err(Problem::Fault(fault)) => return Err(fault),
            }
        }
        if let Some(stop) = &stop {
            stores::write_start(&transaction, stop)?;
        }
        meta.counted = records::count(&transaction)?;
        records::write(&transaction, &meta)?;
        transaction.commit()?;
        self.meta = meta;
        // If the log was deleted while it was being written, the commit is lost.
        self.check_in_place()?;
        if let Some(stop) = stop {
            self.put_stamp_in_place();
            self.stopped_as = Some(stop.token);
        }
        Ok(answers)
    }

    /// The record of a tag.
    pub fn tag(&self, store: &StoreId, tag: &Tag) -> Result<Option<TagRecord>, Fault> {
        let state = TagState::read(&self.conn, store, tag)?;
        let lost_end = if is_embedded(store) { self.embedded_end(tag)? } else { 0 };
        if state.is_none() && lost_end == 0 {
            return Ok(None);
        }
        let state = state.unwrap_or_default();
        Ok(Some(TagRecord {
            generation: Generation(state.generation),
            highest_end: state.highest_end.max(lost_end),
            unissued: state.segments.into_iter().filter_map(Segment::unissued).collect(),
        }))
    }

    /// See [`super::Journal::ends`].
    pub fn ends(
        &self,
        store: &StoreId,
        after: Option<&Tag>,
        limit: u32,
    ) -> Result<Vec<(Tag, u64)>, Fault> {
        let others = self.embedded.iter().filter(|other| is_embedded(store) && *other != store);
        let mut ends = BTreeMap::new();
        // The first tags of all stores together are among the first tags of each store.
        for store in others.chain([store]) {
            for (tag, end) in tags::ends(&self.conn, store, after, limit)? {
                let highest = ends.entry(tag).or_insert(0);
                *highest = end.max(*highest);
            }
        }
        Ok(ends.into_iter().take(usize::try_from(limit).unwrap_or(usize::MAX)).collect())
    }

    /// The highest end that this host has seen of a tag in any embedded store. Such a store belongs to this host alone.
    /// If it is lost, restored or adopted, it returns with another identity and lower numbers, and ids that were issued
    /// from it must not be issued again.
    fn embedded_end(&self, tag: &Tag) -> Result<u64, Fault> {
        let mut end = 0;
        for store in &self.embedded {
            let state = TagState::read(&self.conn, store, tag)?;
            end = end.max(state.map_or(0, |state| state.highest_end));
        }
        Ok(end)
    }

    /// Checks that the names still refer to the open files. Otherwise a restart would not find the current changes.
    fn check_in_place(&self) -> Result<(), Fault> {
        for (path, id) in &self.files {
            let what = match FileId::of(path) {
                Ok(found) if found == *id => continue,
                Ok(_) => "replaced by another file".to_owned(),
                Err(e) if e.kind() == io::ErrorKind::NotFound => "moved away or deleted".to_owned(),
                Err(e) => return Err(Fault::io("inspecting it")(e)),
            };
            return Err(Fault(format!(
                "{} was {what} while in use; put the original back, or restart leafd",
                path.display()
            )));
        }
        Ok(())
    }
}

/// Moves the whole log into the database, syncs the database, and empties the log.
pub(super) fn fold(conn: &Connection) -> Result<(), Fault> {
    // No other program can keep SQLite from doing this, because the lock is exclusive.
    conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
        .map_err(|e| Fault::from(e).while_trying("checkpointing its write-ahead log"))
}

// === impl FileId ===

impl FileId {
    fn of(path: &Path) -> io::Result<FileId> {
        let found = fs::symlink_metadata(path)?;
        if !found.is_file() {
            return Err(io::Error::other("it is not a regular file"));
        }
        Ok(FileId { device: found.dev(), inode: found.ino() })
    }
}
