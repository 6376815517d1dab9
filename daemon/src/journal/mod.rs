//! The host's journal: what this host has claimed and how much of it may be out, on disk before use.
//!
//! A SQLite database (WAL, `synchronous=FULL`) in the state directory, written by a thread of its own.
//! Requests never wait for it while ids below the marks last; marks of all tags move in one
//! transaction. Whoever changes or asks something goes through one queue, and is served in its order. A restart goes on at the marks without asking anybody.
//!
//! A journal belongs to one host ([`Identity`]). One that is found to be a copy is set aside and a new
//! one is begun, which makes this a new host: of the copy only what limits ids from below is carried over,
//! marks of layouts and highest ends of tags, because a limit that is too high never lets an id out
//! twice. It may be too low, though: a restored copy is as old as its backup, and a state directory
//! that was lost leaves no mark at all. So whoever issues under a worker number that outlives the journal
//! (`static:N`) must start a layout that the journal has no mark of, or an old one, above everything that
//! an earlier life may have issued: the present time and its clock's drift.
//!
//! # Stores
//! Of each store it is known where it was found, with which history, and which of this host's starts it
//! confirmed last, so that a daemon can start while its stores are away and still notice later what became of
//! them. Whoever uses the journal keeps this order, and then a crash at any point is safe:
//!
//! 1. A start's token is durable before it can be sent. When the answer to a check-in is lost, or the crash
//!    comes before [`Write::CheckedIn`], the next start finds the token among those that the store may have.
//! 2. [`Write::CheckedIn`] is durable before the first claim: it moves the URL, confirms the start and drops
//!    what tokens no store can have any more, all at once. Before it the journal says what was true until
//!    then, and nothing has been claimed from a store that it doesn't know.
//! 3. [`Write::ForgetAll`] as soon as leftovers are found not to be ours: otherwise a start without the store
//!    would trust them again.
//! 4. [`Write::History`] last, after what was seen has been pushed and the settling time is over. Until then
//!    each start finds the old history, notices the change anew and pushes again, which changes nothing that
//!    was pushed before. For the same reason a check-in leaves a recorded history alone.
//!
//! A store that is not in use any more keeps its row, a few hundred bytes, and its highest ends; it can't pin
//! tokens beyond the last thousand starts.
//!
//! In the order of a start: `begin` makes a journal, `db` opens one, by `schema` (what file is it?), `wal`
//! (is its log whole?) and `verify` (is every row what was written?), and commits what is entered; `writer` is the thread,
//! `write` what it is given; `apply` checks and enters changes; `rows` knows the tables' rows, `stores` those about stores
//! and starts, and `lease` that about the worker.

mod apply;
mod begin;
mod db;
mod fault;
mod identity;
mod lease;
mod look;
mod recovered;
mod rows;
mod schema;
mod stores;
#[cfg(test)]
mod tests;
mod verify;
mod wal;
mod witness;
mod write;
mod writer;

use std::collections::VecDeque;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use tokio::sync::oneshot;

pub use self::identity::{Identity, MACHINE_ID_FILE};
pub(crate) use self::look::immutable;
pub use self::look::{Seen, look};
pub use self::recovered::{Recovered, StoreRecord};
use self::witness::{Memory, Verdict, Witnesses};
pub use self::witness::{Outside, SetAside};
pub use self::write::{LayoutRecord, TagRecord, Write};
use self::writer::{Command, Failure, Link, Page, Pending, Question, Writer};
use crate::histogram::Counted;
use crate::state_dir::{StateDir, explain};
use leafd_core::Tag;
use leafd_core::store::{StartToken, StoreId};

/// A handle to the open journal. Clones are handles to the same one; it closes with the last.
#[derive(Clone, Debug)]
pub struct Journal {
    path: Arc<PathBuf>,
    queue: mpsc::Sender<Command>,
    failure: Failure,
    stopped: Arc<Mutex<Option<StartToken>>>,
    thread: Arc<Mutex<Option<JoinHandle<()>>>>,
}

/// A batch on its way to the disk.
#[derive(Debug)]
pub struct Written {
    path: Arc<PathBuf>,
    answered: oneshot::Receiver<Result<(), JournalError>>,
}

/// The longest history that can be recorded, in bytes.
pub const HISTORY_BYTES_MAX: usize = 1_024;

/// Why the journal can't be used. Nothing is issued until it can.
#[derive(Clone, Debug, thiserror::Error)]
#[error("the journal {path} {what}: {cause}", path = path.display(), what = if *refused { "refuses a change" } else { "can't be used" })]
pub struct JournalError {
    /// The file or directory.
    pub path: PathBuf,
    /// What was tried, what happened and what to do next.
    pub cause: String,
    /// The journal works, but the change contradicts what is recorded: trying it again is of no use.
    pub refused: bool,
}

/// How much stack the thread may use; SQLite needs little.
const THREAD_STACK_BYTES: usize = 1 << 20;

// === impl Journal ===

impl Journal {
    /// Opens the directory's journal, begins one where there is none (or a copy of another's, or an old one), and
    /// enters this start in it. Blocks for as long as the disk takes.
    ///
    /// # Errors
    /// When the file is not a journal, of a newer format, damaged, or can't be read or written, or when it may not be
    /// set aside (see [`Outside`]). It is left as it is then.
    pub fn open(
        dir: &StateDir,
        identity: &Identity,
        outside: Outside<'_>,
    ) -> Result<(Journal, Recovered), JournalError> {
        let path = db::file_in(dir);
        let failed = |fault: fault::Fault| JournalError {
            path: path.clone(),
            cause: fault.0,
            refused: false,
        };
        let missing = match fs::symlink_metadata(&path) {
            Ok(_) => false,
            Err(e) if e.kind() == ErrorKind::NotFound => true,
            Err(e) => return Err(failed(fault::Fault(explain("looking for it", &e)))),
        };
        let witnesses = Witnesses::look(dir, outside.memory).map_err(failed)?;
        if missing {
            if let Some(lost) = witnesses.lost() {
                (outside.may_begin_anew)(&lost).map_err(|why| failed(fault::Fault(why)))?;
            }
            begin::first(dir, identity).map_err(failed)?;
        }
        let mut db = db::Db::open(dir).map_err(failed)?;
        let found = identity
            .fingerprint(&path)
            .map_err(|e| failed(fault::Fault(explain("looking for it", &e))))?;
        let mut verdict = match missing {
            true => Verdict::Current,
            false => witnesses.judge(&db).map_err(failed)?,
        };
        let mut set_aside = None;
        let not_ours = match &verdict {
            _ if db.meta.fingerprint != found => {
                let why =
                    format!("it was written on {}, and is now on {found}", db.meta.fingerprint);
                Some((false, "foreign", why))
            }
            Verdict::Restored(why) => Some((true, "restored", why.clone())),
            _ => None,
        };
        if let Some((restored, kind, why)) = not_ours {
            let old = witnesses.set_aside(&db, restored, why.clone()).map_err(failed)?;
            (outside.may_begin_anew)(&old).map_err(|why| failed(fault::Fault(why)))?;
            let kept = begin::instead_of(db, dir, identity, kind).map_err(failed)?;
            let is =
                if restored { "an old one, restored" } else { "a copy from another host or disk" };
            tracing::error!(
                journal = %path.display(), why, kept = %kept.display(),
                "the journal in the state directory is {is}: it was moved aside, and this host starts afresh. Ids that it \
                 held are skipped; none repeats"
            );
            set_aside = Some(kept);
            db = db::Db::open(dir).map_err(failed)?;
            verdict = Verdict::Current;
        }
        let unvouched = verdict == Verdict::Unvouched;
        let started = db.start(!unvouched).map_err(failed)?;
        if started.forgotten > 0 {
            tracing::warn!(
                segments = started.forgotten,
                "leafd did not stop cleanly and can't prove that this journal is its newest, as after the host was \
                 started again: held ids are skipped, and service goes on"
            );
        }
        let recovered = Recovered {
            host: db.meta.host.clone(),
            token: started.token,
            begun: missing || set_aside.is_some(),
            set_aside,
            unvouched,
            layouts: started.layouts,
            claim: started.claim,
            stopped_cleanly: started.stopped_cleanly,
            stores: started.stores,
            starts: started.earlier,
        };
        let memory =
            outside.memory.and_then(|path| Memory::begin(path, &db.meta.host, db.meta.commits));
        let journal = Journal::spawn(path.clone(), dir, identity, db, memory)
            .map_err(|e| failed(fault::Fault(explain("starting its thread", &e))))?;
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
        let failure = Failure::default();
        let stopped = Arc::default();
        let writer = Writer {
            path: path.clone(),
            dir: dir.clone(),
            identity: identity.clone(),
            acknowledged: db.meta.clone(),
            link: Link::Open(Box::new(db)),
            pending: VecDeque::new(),
            memory,
            failure: failure.clone(),
            stopped: Arc::clone(&stopped),
            stopping: false,
            closed: None,
        };
        let thread = std::thread::Builder::new()
            .name("leafd-journal".to_owned())
            .stack_size(THREAD_STACK_BYTES)
            .spawn(move || writer.run(commands))?;
        let thread = Arc::new(Mutex::new(Some(thread)));
        Ok(Journal { path: Arc::new(path), queue, failure, stopped, thread })
    }

    /// Makes a batch durable; all of it or nothing. What is queued meanwhile shares one transaction. A fault doesn't lose
    /// it: it is tried until it is durable, before whatever is asked later. It is on its way when this returns.
    ///
    /// A commit may report a fault although it was durable: then all of it is entered once more. So whoever writes has at
    /// most one rise of a mark (a claim's counts) on its way for each segment or layout: the lower of two would be
    /// refused the second time.
    #[must_use = "nothing may be issued on the strength of what is not durable yet"]
    pub fn write(&self, writes: Vec<Write>) -> Written {
        let (answer, answered) = oneshot::channel();
        // One that can't be sent is answered: its sender is dropped.
        let _ = self.queue.send(Command::Commit(Pending { writes, kept: true, answer }));
        Written { path: Arc::clone(&self.path), answered }
    }

    /// As [`Journal::write`], but tried only once: for one who has nothing else to do but to tell of a fault.
    ///
    /// An empty batch is a way to find out whether the journal works (again).
    ///
    /// # Errors
    /// When the batch contradicts what is recorded (it alone is then left out), or when the journal can't
    /// be written to. In the latter case the batch may or may not be on the disk: nothing may be issued
    /// on its strength, and repeating it is safe.
    pub async fn commit(&self, writes: Vec<Write>) -> Result<(), JournalError> {
        self.ask(|answer| Command::Commit(Pending { writes, kept: false, answer })).await?
    }

    /// What is recorded of a tag: to be asked once, before the tag is first used after a start.
    ///
    /// # Errors
    /// When the journal can't be read.
    pub async fn tag(&self, store: &StoreId, tag: &Tag) -> Result<Option<TagRecord>, JournalError> {
        self.ask(|answer| Command::Ask(Question::Tag(store.clone(), tag.clone(), answer))).await?
    }

    /// What is recorded of a layout.
    ///
    /// # Errors
    /// When the journal can't be read.
    pub async fn layout(&self, name: &Tag) -> Result<Option<LayoutRecord>, JournalError> {
        self.ask(|answer| Command::Ask(Question::Layout(name.clone(), answer))).await?
    }

    /// The highest ends of any claim ever made from a store, up to `limit` tags of them in ascending order of
    /// their bytes, those after `after`; empty when there are no more. This is what to push after a fail-over.
    /// The journal does nothing else meanwhile: some thousands at a time are right.
    ///
    /// # Errors
    /// When the journal can't be read.
    pub async fn ends(
        &self,
        store: &StoreId,
        after: Option<&Tag>,
        limit: u32,
    ) -> Result<Vec<(Tag, u64)>, JournalError> {
        let page = Page { store: store.clone(), after: after.cloned(), limit };
        self.ask(|answer| Command::Ask(Question::Ends(page, answer))).await?
    }

    /// The fault that stands, `None` while the journal works.
    #[must_use]
    pub fn failure(&self) -> Option<JournalError> {
        self.failure.get()
    }

    /// Whether a fault stands. Cheap: for each request.
    #[must_use]
    pub fn failed(&self) -> bool {
        self.failure.stands()
    }

    /// Waits until a fault has come up or gone; for one who waits at a time.
    pub async fn fault_changed(&self) {
        self.failure.changed().await;
    }

    /// Transactions committed.
    #[must_use]
    pub fn commits(&self) -> u64 {
        self.failure.commits()
    }

    /// Times that the file could not be used.
    #[must_use]
    pub fn errors(&self) -> u64 {
        self.failure.errors()
    }

    /// How long transactions took.
    #[must_use]
    pub fn commit_times(&self) -> Counted {
        self.failure.commit_times()
    }

    /// The token of the clean stop that was entered, for the stores to know as a start's.
    #[must_use]
    pub fn stopped(&self) -> Option<StartToken> {
        self.stopped.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Does what is queued, closes the file and waits for the thread to end. Every other call fails from
    /// then on. Doesn't write exact marks: see [`Write::StoppedCleanly`].
    pub async fn close(&self) {
        // An error means that it is closed already.
        let _ = self.ask(|answer| Command::Ask(Question::Close(answer))).await;
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            // It has nothing left to do but to end; a panic in it was reported by the panic itself.
            let _ = thread.join();
        }
    }

    async fn ask<T>(
        &self,
        command: impl FnOnce(oneshot::Sender<T>) -> Command,
    ) -> Result<T, JournalError> {
        let (answer, answered) = oneshot::channel();
        self.queue.send(command(answer)).map_err(|_| JournalError::closed(&self.path))?;
        answered.await.map_err(|_| JournalError::closed(&self.path))
    }
}

// === impl Written ===

impl Written {
    /// What came of it, once it is durable or refused.
    ///
    /// # Errors
    /// The batch contradicts what is recorded (it alone is then left out), or the journal was closed.
    pub async fn outcome(self) -> Result<(), JournalError> {
        self.answered.await.map_err(|_| JournalError::closed(&self.path))?
    }
}

// === impl JournalError ===

impl JournalError {
    fn closed(path: &Path) -> JournalError {
        let cause = "it is closed; restart leafd if this is unexpected".to_owned();
        JournalError { path: path.to_path_buf(), cause, refused: false }
    }
}
