//! The host's journal: what this host has claimed and how much of it may be out, on disk before use.
//!
//! A SQLite database (WAL, `synchronous=FULL`) in the state directory, written by a thread of its own.
//! Requests never wait for it while ids below the marks last; marks of all tags move in one
//! transaction. A restart goes on at the marks without asking anybody.
//!
//! A journal belongs to one host ([`Identity`]). One that is found to be a copy is set aside and a new
//! one is begun, which makes this a new host: of the copy only what limits ids from below is carried over,
//! bounds of layouts and highest ends of tags, because a limit that is too high never lets an id out
//! twice. It may be too low, though: a restored copy is as old as its backup, and a state directory
//! that was lost leaves no bound at all. So whoever issues under a worker number that outlives the journal
//! (`static:N`) must start a layout that the journal has no bound of, or an old one, above everything that
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
//! (is its log whole?) and `verify` (is every row what was written?); `writer` is the thread; `apply`
//! checks and enters changes; `rows` knows the tables' rows, `stores` those about stores and starts, and `claim` that
//! about the worker.

mod apply;
mod begin;
mod db;
mod fault;
mod identity;
mod lease;
mod recovered;
mod rows;
mod schema;
mod stores;
#[cfg(test)]
mod tests;
mod verify;
mod wal;
mod witness;
mod writer;

use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use leafd_wire::{Layout, Run};
use tokio::sync::{mpsc, oneshot};

pub use self::identity::{Identity, MACHINE_ID_FILE};
pub use self::recovered::{Recovered, StoreRecord};
use self::witness::{Memory, Verdict, Witnesses};
pub use self::witness::{Outside, SetAside};
use self::writer::{Command, Failure, Link, Page, Writer};
use crate::state_dir::{StateDir, explain};
use leafd_core::lease::Recorded;
use leafd_core::store::{Generation, HostId, StartToken, StoreId};
use leafd_core::{Tag, UnixMs};

/// A handle to the open journal. Clones are handles to the same one; it closes with the last.
#[derive(Clone, Debug)]
pub struct Journal {
    path: Arc<PathBuf>,
    queue: mpsc::UnboundedSender<Command>,
    failure: Failure,
    stopped: Arc<Mutex<Option<StartToken>>>,
    thread: Arc<Mutex<Option<JoinHandle<()>>>>,
}

/// The longest history that can be recorded, in bytes.
pub const HISTORY_BYTES_MAX: usize = 1_024;

/// A layout as recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayoutRecord {
    /// Its name.
    pub name: Tag,
    /// Its definition; another one under the same name is refused.
    pub layout: Layout,
    /// Ids whose tick ends at or before this instant may have been issued; later ones have not.
    pub bound: UnixMs,
}

/// What the journal has of a tag.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TagRecord {
    /// The generation that the segments belong to.
    pub generation: Generation,
    /// The highest end of any claim ever made by this host, whatever the generation; of an embedded store
    /// also under the identities that it had before it was lost, restored or adopted.
    pub highest_end: u64,
    /// Ids claimed and certainly not issued, ascending: those of each segment from its mark on.
    pub unissued: Vec<Run>,
}

/// A change to be made durable. A batch of them is one transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Write {
    /// A claim: nothing in it below `mark` is certain to be unissued. Raises the tag's highest end.
    /// Segments of another generation of the tag are forgotten. The same claim once more moves its
    /// mark (or, on a clean stop, brings back one that was forgotten too early; then it may also be named
    /// by what an earlier start found left of it); one that overlaps another is refused.
    Segment {
        /// Where it was claimed.
        store: StoreId,
        /// Whose numbers.
        tag: Tag,
        /// The tag's generation.
        generation: Generation,
        /// The ids.
        run: Run,
        /// Numbers of the segment below this may be issued once this is durable.
        mark: u64,
    },
    /// Moves a mark up (on a clean stop also down, to exactly the first unissued number). A mark at
    /// the segment's end forgets the segment, and of a forgotten segment any mark is true.
    Mark {
        /// Where the segment was claimed.
        store: StoreId,
        /// Whose numbers.
        tag: Tag,
        /// The segment's end, which names it.
        end: u64,
        /// See [`Write::Segment`].
        mark: u64,
    },
    /// Moves a segment's mark down: nothing from it on was issued, nor will be before it is moved up again. Brings a segment
    /// back that was forgotten because it was marked to its end.
    DrawBack {
        /// Where the segment was claimed.
        store: StoreId,
        /// Whose ids.
        tag: Tag,
        /// The tag's generation.
        generation: Generation,
        /// The segment, or what an earlier start found left of it.
        run: Run,
        /// Ids of the segment below this may be issued.
        mark: u64,
    },
    /// Forgets a tag's segments: the tag is gone or made anew. Its highest end stays.
    Forget {
        /// Where they were claimed.
        store: StoreId,
        /// Whose numbers.
        tag: Tag,
    },
    /// Forgets all segments of a store: they are not this host's any more, because the store knows a later
    /// start of it or lost its last commits while this host was off. The highest ends stay.
    ForgetAll {
        /// Where they were claimed.
        store: StoreId,
    },
    /// Records a layout or moves its bound (down only on a clean stop).
    Bound(LayoutRecord),
    /// A store has taken this start's token: of earlier ones it can have none any more. Records where it was
    /// found; the URL leads to no other store from now on. Refused when a text is too long.
    CheckedIn {
        /// Where it was found, without secrets; at most 8 KiB.
        url: Arc<str>,
        /// Which store it is; at most 1 KiB.
        store: StoreId,
        /// Its history, up to [`HISTORY_BYTES_MAX`]. Taken only of a store that is not recorded yet: a
        /// change is entered by [`Write::History`].
        history: Arc<str>,
    },
    /// A store's history changed, and that was dealt with: every highest end was pushed, and the others had
    /// their time to do so. Refused for a store that never checked in, or when it is too long.
    History {
        /// Which store.
        store: StoreId,
        /// Its history now, up to [`HISTORY_BYTES_MAX`].
        history: Arc<str>,
    },
    /// A worker is claimed, renewed or kept for a restart; it replaces what was recorded. Refused when a text is too
    /// long.
    Worker(Recorded),
    /// No worker is claimed any more.
    NoWorker,
    /// This host goes on as a new one, because a store knows a later start of the old one than the journal does: no
    /// number of an earlier start is this host's, and no store knows any start of it. What limits ids from below stays.
    BeginAnew {
        /// The new host.
        host: HostId,
    },
    /// Every mark and bound in this batch is exact, and nothing is issued any more: the journal refuses
    /// every later batch but another of this kind, whether or not this one came through.
    StoppedCleanly,
}

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
        let mut verdict = witnesses.judge(&db).map_err(failed)?;
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
            let is = if restored { "an old one, restored" } else { "a copy of another one" };
            tracing::error!(
                journal = %path.display(), why, kept = %kept.display(),
                "the journal is {is}: it was set aside, this host starts with a new one, and the ids that it held are skipped"
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
                "the last daemon did not stop cleanly, and nothing outside the state directory shows whether this is \
                 its latest journal: the ids that it held are skipped"
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
        let (queue, commands) = mpsc::unbounded_channel();
        let failure = Failure::default();
        let stopped = Arc::default();
        let writer = Writer {
            path: path.clone(),
            dir: dir.clone(),
            identity: identity.clone(),
            acknowledged: db.meta.clone(),
            link: Link::Open(Box::new(db)),
            memory,
            failure: failure.clone(),
            stopped: Arc::clone(&stopped),
            stopping: false,
        };
        let thread = std::thread::Builder::new()
            .name("leafd-journal".to_owned())
            .stack_size(THREAD_STACK_BYTES)
            .spawn(move || writer.run(commands))?;
        let thread = Arc::new(Mutex::new(Some(thread)));
        Ok(Journal { path: Arc::new(path), queue, failure, stopped, thread })
    }

    /// Makes a batch durable; all of it or nothing. What is queued meanwhile shares one transaction.
    ///
    /// An empty batch is a way to find out whether the journal works (again).
    ///
    /// # Errors
    /// When the batch contradicts what is recorded (it alone is then left out), or when the journal can't
    /// be written to. In the latter case the batch may or may not be on the disk: nothing may be issued
    /// on its strength, and repeating it is safe.
    pub async fn commit(&self, batch: Vec<Write>) -> Result<(), JournalError> {
        self.ask(|answer| Command::Commit(batch, answer)).await?
    }

    /// What is recorded of a tag: to be asked once, before the tag is first used after a start.
    ///
    /// # Errors
    /// When the journal can't be read.
    pub async fn tag(&self, store: &StoreId, tag: &Tag) -> Result<Option<TagRecord>, JournalError> {
        self.ask(|answer| Command::Tag(store.clone(), tag.clone(), answer)).await?
    }

    /// What is recorded of a layout.
    ///
    /// # Errors
    /// When the journal can't be read.
    pub async fn layout(&self, name: &Tag) -> Result<Option<LayoutRecord>, JournalError> {
        self.ask(|answer| Command::Layout(name.clone(), answer)).await?
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
        self.ask(|answer| Command::Ends(page, answer)).await?
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

    /// Waits until a fault has come up, whoever met it; for one who waits at a time.
    pub async fn failing(&self) {
        self.failure.began().await;
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
        let _ = self.ask(Command::Close).await;
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
        let closed = || JournalError {
            path: self.path.to_path_buf(),
            cause: "it is closed; restart leafd if this is unexpected".to_owned(),
            refused: false,
        };
        self.queue.send(command(answer)).map_err(|_| closed())?;
        answered.await.map_err(|_| closed())
    }
}
