//! The host's journal: which ids this host has claimed, and how many of them may be issued. Both are on disk before an
//! id is used.
//!
//! It is a SQLite database (WAL, `synchronous=FULL`) in the state directory. It is written by its own thread. Requests
//! don't wait for it as long as there are ids below the marks. The marks of all tags move in one transaction. All
//! changes and queries go through one queue, in order. After a restart, the daemon continues at the marks without
//! asking a store.
//!
//! A journal belongs to one host ([`Identity`]). If it turns out to be a copy, it is set aside and a new one is
//! created, which makes this a new host. The new journal takes over only the lower limits of ids from the copy, the
//! marks of layouts and the highest ends of tags, because a limit that is too high never lets ids repeat. A limit may
//! be too low, though: a restored copy is as old as its backup, and a state directory that was lost leaves no mark at
//! all. So a user of the journal whose worker number outlives it (`static:N`) must take care when the journal is new or
//! has no mark of a layout. It must start that layout above everything that an earlier journal may have allowed: the
//! current time plus the drift of the clock.
//!
//! # Stores
//! For each store, the journal records where it was found, with which history, and which of this host's starts it
//! confirmed last. This lets a daemon start while its stores are unavailable, and still detect later what happened to
//! them. The user of the journal must keep the following order, so that a crash at any point does no harm:
//!
//! 1. The token of a start is durable before it is sent. If the answer to a check-in is lost, or the daemon crashes
//!    before [`Write::CheckedIn`], the next start finds the token among those that the store may have.
//! 2. [`Write::CheckedIn`] is durable before the first claim. In one step, it moves the URL, confirms the start and
//!    drops tokens that no store can have any more. Before it, the journal describes the former state, and no ids have
//!    been claimed from a store that it doesn't know.
//! 3. [`Write::ForgetAll`] is written as soon as held ids turn out not to belong to this host any more, because
//!    otherwise a start without the store would trust them again.
//! 4. [`Write::History`] is written last, after the host has reported its highest ends and the settling time is over.
//!    Until then, each start finds the old history, detects the change again and repeats the reports, which does no
//!    harm. For the same reason, a check-in doesn't change a recorded history.
//!
//! The journal keeps the row of a store that is no longer used, a few hundred bytes, and its highest ends. It keeps the
//! tokens of at most the last thousand starts.
//!
//! In the order of a start: `begin` creates a journal. `db` opens it with the checks of `schema` (what file is it?) and
//! `verify` (is every row as it was written?), and commits changes. `writer` is the thread, `write` defines the changes
//! that it gets, and `apply` checks and applies them. `records` reads and writes records, `tags` contains those of tags,
//! and `stores` those of stores and starts. `witness` decides whether the journal has every commit that was made.

mod apply;
mod begin;
mod db;
mod fault;
mod identity;
mod look;
mod records;
mod recovered;
mod schema;
mod stores;
mod tags;
#[cfg(test)]
mod tests;
mod verify;
mod witness;
mod write;
mod writer;

use std::collections::VecDeque;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::oneshot;

use self::fault::Fault;
pub use self::identity::Identity;
pub(crate) use self::identity::{hardware, is_same, is_same_host};
pub(crate) use self::look::immutable;
pub use self::look::{JournalSummary, look};
pub use self::recovered::{Recovered, StoreRecord};
use self::witness::{Freshness, Memory, Witnesses};
pub use self::witness::{Outside, SetAside};
pub use self::write::{LayoutRecord, TagRecord, Write};
use self::writer::{JournalCommand, JournalThread, Link, Pending, Shared};
use crate::histogram::Counted;
use crate::state_dir::StateDir;
use leafd_core::Tag;
use leafd_core::store::{StartToken, StoreId};

/// A handle to the open journal. Clones refer to the same journal, which closes when the last one is dropped.
#[derive(Clone, Debug)]
pub struct Journal {
    path: Arc<PathBuf>,
    queue: mpsc::Sender<JournalCommand>,
    shared: Arc<Shared>,
    thread: Arc<Mutex<Option<JoinHandle<()>>>>,
}

/// A batch that waits to be recorded.
#[derive(Debug)]
pub struct Written {
    path: Arc<PathBuf>,
    answered: oneshot::Receiver<Result<(), JournalError>>,
}

/// The longest history that can be recorded, in bytes.
pub const HISTORY_BYTES_MAX: usize = 1_024;

/// Why the journal can't be used. Meanwhile, only ids that it has recorded are issued.
#[derive(Clone, Debug, thiserror::Error)]
#[error("the journal {path} {what}: {cause}", path = path.display(), what = if *refused { "refuses a change" } else { "can't be used" })]
pub struct JournalError {
    /// The file or directory.
    pub path: PathBuf,
    /// What was tried, what happened and what to do next.
    pub cause: String,
    /// The journal works, but the change contradicts its records, so retrying is useless.
    pub refused: bool,
}

/// The stack of the journal's thread. SQLite needs little.
const THREAD_STACK_BYTES: usize = 1 << 20;

// === impl Journal ===

impl Journal {
    /// Opens the directory's journal, and records this start in it. If there is no journal, or only a copy or an old
    /// one, it first creates a new one. Blocks for as long as the disk takes.
    ///
    /// # Errors
    /// The file is not a journal, has another format, is damaged, can't be read or written, or may not be set aside
    /// (see [`Outside`]). It is then left as it is.
    pub fn open(
        dir: &StateDir,
        identity: &Identity,
        outside: Outside<'_>,
    ) -> Result<(Journal, Recovered), JournalError> {
        let path = db::file_in(dir);
        Journal::open_file(&path, dir, identity, outside)
            .map_err(|fault| JournalError::of(&path, fault))
    }

    fn open_file(
        path: &Path,
        dir: &StateDir,
        identity: &Identity,
        outside: Outside<'_>,
    ) -> Result<(Journal, Recovered), Fault> {
        let missing = match fs::symlink_metadata(path) {
            Ok(_) => false,
            Err(e) if e.kind() == ErrorKind::NotFound => true,
            Err(e) => return Err(Fault::io("inspecting it")(e)),
        };
        let witnesses = Witnesses::look(dir, outside.memory)?;
        if missing {
            if let Some(lost) = witnesses.lost() {
                (outside.may_begin_anew)(&lost).map_err(Fault)?;
            }
            begin::first(dir, identity)?;
        }
        let mut db = db::Db::open(dir)?;
        let found = identity.fingerprint(path).map_err(Fault::io("inspecting it"))?;
        let mut verdict = match missing {
            true => Freshness::Current,
            false => witnesses.judge(&db)?,
        };
        let mut set_aside = None;
        let not_ours = match &verdict {
            _ if !is_same(&db.meta.fingerprint, &found) => {
                let why =
                    format!("it was written on {}, and is now on {found}", db.meta.fingerprint);
                Some((false, "foreign", why))
            }
            Freshness::Restored(why) => Some((true, "restored", why.clone())),
            _ => None,
        };
        if let Some((restored, kind, why)) = not_ours {
            let old = witnesses.set_aside(&db, restored, why.clone())?;
            (outside.may_begin_anew)(&old).map_err(Fault)?;
            let kept = begin::instead_of(db, dir, identity, kind)?;
            let is = if restored {
                "an old copy that was restored"
            } else {
                "a copy from another host or disk"
            };
            tracing::error!(
                journal = %path.display(), why, kept = %kept.display(),
                "the journal in the state directory is {is}: it was moved aside, and this host starts with a new one. \
                 The ids that it held are skipped; none is repeated"
            );
            set_aside = Some(kept);
            db = db::Db::open(dir)?;
            verdict = Freshness::Current;
        }
        let started = db.start(verdict == Freshness::Unvouched)?;
        let begun = missing || set_aside.is_some();
        let recovered = Recovered { begun, set_aside, ..started };
        let memory = outside.memory.and_then(|path| {
            Memory::begin(path, &db.meta.host, db.meta.commits, recovered.token.clone())
        });
        let journal = Journal::spawn(path.to_owned(), dir, identity, db, memory)
            .map_err(Fault::io("starting its thread"))?;
        Ok((journal, recovered))
    }

    fn spawn(
        path: PathBuf,
        dir: &StateDir,
        identity: &Identity,
        db: db::Db,
        memory: Option<Memory>,
    ) -> std::io::Result<Journal> {
        let (queue, commands) = mpsc::channel();
        let shared = Arc::<Shared>::default();
        let writer = JournalThread {
            path: path.clone(),
            dir: dir.clone(),
            identity: identity.clone(),
            acknowledged: db.meta.clone(),
            link: Link::Open(Box::new(db)),
            pending: VecDeque::new(),
            memory,
            shared: Arc::clone(&shared),
            stopping: false,
        };
        let thread = std::thread::Builder::new()
            .name("leafd-journal".to_owned())
            .stack_size(THREAD_STACK_BYTES)
            .spawn(move || writer.run(commands))?;
        let thread = Arc::new(Mutex::new(Some(thread)));
        Ok(Journal { path: Arc::new(path), queue, shared, thread })
    }

    /// Makes a batch durable, all of it or nothing. Batches that are queued meanwhile share a transaction. A fault
    /// doesn't lose the batch: the journal retries until it is durable, before it handles anything that comes later.
    /// The batch is queued when this returns.
    ///
    /// A commit may report a fault although it was durable. Then the journal applies the whole batch again. So a caller
    /// must have at most one rise of a mark queued for each segment or layout (a claim counts as one), because the
    /// lower of two would be refused the second time.
    #[must_use = "nothing may be issued on the strength of what is not durable yet"]
    pub fn write(&self, writes: Vec<Write>) -> Written {
        let (answer, answered) = oneshot::channel();
        // If it can't be sent, dropping its sender answers it.
        let _ = self.queue.send(JournalCommand::Commit(Pending { writes, kept: true, answer }));
        Written { path: Arc::clone(&self.path), answered }
    }

    /// Like [`Journal::write`], but tries only once, for callers that can only report a fault.
    ///
    /// An empty batch shows whether the journal works.
    ///
    /// # Errors
    /// The batch contradicts the existing records (then only this batch is omitted), or the journal can't be written.
    /// In that case, it is unknown whether the batch is on the disk: no id may be issued because of it, and repeating
    /// it does no harm.
    pub async fn commit(&self, writes: Vec<Write>) -> Result<(), JournalError> {
        self.ask(|answer| JournalCommand::Commit(Pending { writes, kept: false, answer })).await?
    }

    /// The record of a tag. Call this once, before the first use of the tag after a start.
    ///
    /// # Errors
    /// If the journal can't be read.
    pub async fn tag(&self, store: &StoreId, tag: &Tag) -> Result<Option<TagRecord>, JournalError> {
        let (store, tag) = (store.clone(), tag.clone());
        self.read(move |db| db.tag(&store, &tag)).await
    }

    /// The record of a layout.
    ///
    /// # Errors
    /// If the journal can't be read.
    pub async fn layout(&self, name: &Tag) -> Result<Option<LayoutRecord>, JournalError> {
        let name = name.clone();
        self.read(move |db| records::read(&db.conn, name.as_str())).await
    }

    /// The highest ends of all claims ever made from a store: up to `limit` tags after `after`, in the order of their
    /// bytes. Empty when there are no more. These ends are reported to the store after a fail-over. The journal does
    /// nothing else meanwhile, so `limit` should be a few thousand.
    ///
    /// # Errors
    /// If the journal can't be read.
    pub async fn ends(
        &self,
        store: &StoreId,
        after: Option<&Tag>,
        limit: u32,
    ) -> Result<Vec<(Tag, u64)>, JournalError> {
        let (store, after) = (store.clone(), after.cloned());
        self.read(move |db| db.ends(&store, after.as_ref(), limit)).await
    }

    /// The current fault, `None` while the journal works.
    pub fn failure(&self) -> Option<JournalError> {
        self.shared.error.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether there is a fault. Cheap enough to call for each request.
    pub fn failed(&self) -> bool {
        self.shared.failed.load(Ordering::Acquire)
    }

    /// How long the disk has been working on the current operation; zero if there is none.
    pub fn busy_for(&self) -> Duration {
        self.shared.busy.lasts()
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Waits until a fault begins or ends. Only one caller may wait at a time.
    pub async fn fault_changed(&self) {
        self.shared.changed.notified().await;
    }

    /// How many transactions were committed.
    pub fn commits(&self) -> u64 {
        self.shared.commits.load(Ordering::Relaxed)
    }

    /// How often the file could not be used.
    pub fn errors(&self) -> u64 {
        self.shared.errors.load(Ordering::Relaxed)
    }

    /// How long transactions took.
    pub fn commit_times(&self) -> Counted {
        self.shared.commit_times.counted()
    }

    /// The token of the clean stop, once it is recorded. Stores get it like the token of a start.
    pub fn stopped(&self) -> Option<StartToken> {
        self.shared.stopped.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Finishes what is queued, closes the file, and waits until the thread has ended. Every other call fails from
    /// then on. It doesn't write exact marks: see [`Write::StoppedCleanly`].
    pub async fn close(&self) {
        // An error means that the journal is closed already.
        let _ = self.ask(JournalCommand::Close).await;
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            // Only the end of the thread matters. If it panicked, the panic itself was reported.
            let _ = thread.join();
        }
    }

    async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&db::Db) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, JournalError> {
        self.ask(|answer| {
            JournalCommand::Ask(Box::new(move |writer| {
                // The caller may have stopped waiting for the answer.
                let _ = answer.send(writer.read(read));
            }))
        })
        .await?
    }

    async fn ask<T>(
        &self,
        command: impl FnOnce(oneshot::Sender<T>) -> JournalCommand,
    ) -> Result<T, JournalError> {
        let (answer, answered) = oneshot::channel();
        self.queue.send(command(answer)).map_err(|_| JournalError::closed(&self.path))?;
        answered.await.map_err(|_| JournalError::closed(&self.path))
    }
}

// === impl Written ===

impl Written {
    /// The outcome, once the batch is durable or refused.
    ///
    /// # Errors
    /// The batch contradicts the existing records (then only this batch is omitted), or the journal was closed.
    pub async fn outcome(self) -> Result<(), JournalError> {
        self.answered.await.map_err(|_| JournalError::closed(&self.path))?
    }
}

// === impl JournalError ===

impl JournalError {
    fn of(path: &Path, fault: Fault) -> JournalError {
        JournalError { path: path.to_path_buf(), cause: fault.0, refused: false }
    }

    fn closed(path: &Path) -> JournalError {
        JournalError::of(
            path,
            Fault("it is closed; restart leafd if this is unexpected".to_owned()),
        )
    }
}
