//! The journal's thread: it owns the file, puts all that is queued into one transaction, and answers
//! only after that is durable.
//!
//! After a fault nobody knows what is on the disk. So the file is closed, opened and verified anew before
//! anything more is acknowledged: tried with the next commit, at most once a second.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, mpsc, oneshot};

use super::db::{self, Db};
use super::fault::Fault;
use super::identity::Identity;
use super::rows::Meta;
use super::witness::Memory;
use super::{JournalError, LayoutRecord, TagRecord, Write};
use crate::state_dir::{StateDir, explain};
use leafd_core::Tag;
use leafd_core::store::{StartToken, StoreId};

/// Most batches in one transaction; more wait for the next.
const GROUP_BATCHES_MAX: usize = 1_024;

/// How long a fault stands before the file is tried again.
const REOPEN_INTERVAL: Duration = Duration::from_secs(1);

/// What is asked of the thread. The answer's receiver may be gone: nobody waits any more then.
#[derive(Debug)]
pub(super) enum Command {
    Commit(Vec<Write>, oneshot::Sender<Result<(), JournalError>>),
    Tag(StoreId, Tag, oneshot::Sender<Result<Option<TagRecord>, JournalError>>),
    Layout(Tag, oneshot::Sender<Result<Option<LayoutRecord>, JournalError>>),
    Ends(Page, oneshot::Sender<Result<Vec<(Tag, u64)>, JournalError>>),
    Close(oneshot::Sender<()>),
}

/// Which highest ends are asked for.
#[derive(Debug)]
pub(super) struct Page {
    pub store: StoreId,
    pub after: Option<Tag>,
    pub limit: u32,
}

/// The fault that stands, shared with whoever asks for the journal's state.
#[derive(Clone, Debug, Default)]
pub(super) struct Failure(Arc<Standing>);

#[derive(Debug, Default)]
struct Standing {
    /// Whether there is one, for those who ask at each request.
    stands: AtomicBool,
    error: Mutex<Option<JournalError>>,
    began: Notify,
}

#[derive(Debug)]
pub(super) struct Writer {
    pub path: PathBuf,
    /// Keeps the directory locked as long as this thread may write.
    pub dir: StateDir,
    pub identity: Identity,
    /// What the file must at least say when it is opened anew.
    pub acknowledged: Meta,
    pub link: Link,
    /// Notes each commit before it is acknowledged.
    pub memory: Option<Memory>,
    pub failure: Failure,
    /// The token of the clean stop, once it was entered.
    pub stopped: Arc<Mutex<Option<StartToken>>>,
    /// Once exact marks were asked for nothing else is entered: nothing may be issued any more.
    pub stopping: bool,
}

#[derive(Debug)]
pub(super) enum Link {
    Open(Box<Db>),
    Failed { fault: Fault, since: Instant },
}

// === impl Failure ===

impl Failure {
    /// Whether a fault stands.
    pub fn stands(&self) -> bool {
        self.0.stands.load(Ordering::Acquire)
    }

    /// The fault that stands.
    pub fn get(&self) -> Option<JournalError> {
        self.0.error.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits until a fault has come up since the last wait.
    pub async fn began(&self) {
        self.0.began.notified().await;
    }

    /// Returns whether a fault stood before.
    fn set(&self, now: Option<JournalError>) -> bool {
        let mut error = self.0.error.lock().unwrap_or_else(PoisonError::into_inner);
        self.0.stands.store(now.is_some(), Ordering::Release);
        let before = std::mem::replace(&mut *error, now).is_some();
        if error.is_some() && !before {
            self.0.began.notify_one();
        }
        before
    }
}

type Pending = (Vec<Write>, oneshot::Sender<Result<(), JournalError>>);

// === impl Writer ===

impl Writer {
    /// Works until the journal is closed or dropped.
    pub fn run(mut self, mut queue: mpsc::UnboundedReceiver<Command>) {
        let mut next = queue.blocking_recv();
        while let Some(command) = next.take() {
            match command {
                Command::Commit(writes, answer) => {
                    let mut group = vec![(writes, answer)];
                    // What follows a question must not change its answer: the group ends there.
                    while group.len() < GROUP_BATCHES_MAX && next.is_none() {
                        match queue.try_recv() {
                            Ok(Command::Commit(writes, answer)) => group.push((writes, answer)),
                            Ok(other) => next = Some(other),
                            Err(_) => break,
                        }
                    }
                    self.commit(group);
                }
                Command::Tag(store, tag, answer) => {
                    let record = self.on_db(|db| db.tag(&store, &tag));
                    let _ = answer.send(record.map_err(|fault| self.error(fault)));
                }
                Command::Layout(name, answer) => {
                    let record = self.on_db(|db| db.layout(&name));
                    let _ = answer.send(record.map_err(|fault| self.error(fault)));
                }
                Command::Ends(Page { store, after, limit }, answer) => {
                    let ends = self.on_db(|db| db.ends(&store, after.as_ref(), limit));
                    let _ = answer.send(ends.map_err(|fault| self.error(fault)));
                }
                Command::Close(answer) => {
                    self.close();
                    let _ = answer.send(());
                    return;
                }
            }
            next = next.or_else(|| queue.blocking_recv());
        }
        self.close();
    }

    fn commit(&mut self, mut group: Vec<Pending>) {
        let mut batches = Vec::with_capacity(group.len());
        let mut answers = Vec::with_capacity(group.len());
        for (writes, answer) in group.drain(..) {
            let stops = writes.contains(&Write::StoppedCleanly);
            if self.stopping && !stops {
                let why = "it has stopped: no id may be issued and nothing is recorded";
                let _ = answer.send(Err(self.error(Fault(why.to_owned()))));
                continue;
            }
            self.stopping |= stops;
            batches.push(writes);
            answers.push(answer);
        }
        if batches.is_empty() {
            return;
        }
        let outcome = self.on_db(|db| {
            let outcome = db.commit(&batches)?;
            Ok((outcome, db.meta.clone(), db.stopped_as.clone()))
        });
        match outcome {
            Ok((outcome, meta, stopped)) => {
                *self.stopped.lock().unwrap_or_else(PoisonError::into_inner) = stopped;
                if let Some(memory) = &mut self.memory {
                    memory.note(&meta.host, meta.commits);
                }
                self.acknowledged = meta;
                if self.failure.set(None) {
                    tracing::info!(path = %self.path.display(), "the journal can be written again");
                }
                for (answer, outcome) in answers.into_iter().zip(outcome) {
                    let outcome = outcome.map_err(|why| {
                        let fault = Fault(format!("it contradicts what is recorded: {why}"));
                        JournalError { refused: true, ..self.error(fault) }
                    });
                    let _ = answer.send(outcome);
                }
            }
            Err(fault) => {
                for answer in answers {
                    let _ = answer.send(Err(self.error(fault.clone())));
                }
            }
        }
    }

    /// Does something with the file, opened anew when that is due; a fault closes it.
    fn on_db<T>(&mut self, work: impl FnOnce(&mut Db) -> Result<T, Fault>) -> Result<T, Fault> {
        if let Link::Failed { fault, since } = &self.link {
            if since.elapsed() < REOPEN_INTERVAL {
                return Err(fault.clone());
            }
            match self.reopen() {
                Ok(db) => self.link = Link::Open(Box::new(db)),
                Err(fault) => return Err(self.fail(fault)),
            }
        }
        let Link::Open(db) = &mut self.link else {
            return Err(Fault("it is closed".to_owned()));
        };
        work(db).map_err(|fault| self.fail(fault))
    }

    /// Opens the file again and holds it against what was acknowledged.
    fn reopen(&self) -> Result<Db, Fault> {
        let known = &self.acknowledged;
        let impostor = || {
            Fault("another file took its place; put the original back, or restart leafd".to_owned())
        };
        // Before it is opened: opening would fold the original's log into whatever lies there.
        let fingerprint = self
            .identity
            .fingerprint(&db::file_in(&self.dir))
            .map_err(|e| Fault(explain("looking for it", &e)))?;
        if fingerprint != known.fingerprint {
            return Err(impostor());
        }
        let db = Db::open(&self.dir)?;
        let found = &db.meta;
        if found.fingerprint != known.fingerprint {
            return Err(impostor());
        }
        if found.commits < known.commits {
            return Err(Fault::damaged(format!(
                "it has {} commits, but {} were acknowledged",
                found.commits, known.commits
            )));
        }
        Ok(db)
    }

    /// Notes a fault and closes the file.
    fn fail(&mut self, fault: Fault) -> Fault {
        if !self.failure.set(Some(self.error(fault.clone()))) {
            tracing::error!(
                path = %self.path.display(), %fault,
                "the journal can't be written: only ids that it has recorded are issued"
            );
        }
        // The open files are still the right ones, wherever their names have gone: so what was
        // acknowledged is brought into the one that outlives this.
        if let Link::Open(db) = &self.link
            && let Err(fault) = db::fold(&db.conn)
        {
            tracing::warn!(%fault, "could not checkpoint the failed journal's write-ahead log");
        }
        self.link = Link::Failed { fault: fault.clone(), since: Instant::now() };
        fault
    }

    fn error(&self, fault: Fault) -> JournalError {
        JournalError { path: self.path.clone(), cause: fault.0, refused: false }
    }

    fn close(self) {
        if let Link::Open(db) = self.link {
            db.close();
        }
    }
}
