//! The journal's thread. It owns the file, puts all queued batches into one transaction, and answers only after that
//! is durable.
//!
//! After a fault it is unknown what is on the disk, so the thread closes the file, and reopens and verifies it before
//! it acknowledges anything more. It tries this once a second. Changes are recorded in the order in which they arrived:
//! batches that wait for the end of a fault are recorded before later ones.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, oneshot};

use super::db::{self, Db};
use super::fault::Fault;
use super::identity::Identity;
use super::records::Meta;
use super::witness::Memory;
use super::{JournalError, Write, is_same};
use crate::busy::Busy;
use crate::histogram::Histogram;
use crate::state_dir::StateDir;
use leafd_core::store::StartToken;

/// The maximum number of batches in one transaction. The others wait for the next one.
const GROUP_BATCHES_MAX: usize = 16_384;

/// How long after a fault the file is reopened, even without requests.
const REOPEN_INTERVAL: Duration = Duration::from_secs(1);

/// A command for the thread.
pub(super) enum JournalCommand {
    Commit(Pending),
    /// Answer a query from the file, after everything that was queued before it.
    Ask(Box<dyn FnOnce(&mut JournalThread) + Send>),
    Close(oneshot::Sender<()>),
}

/// A batch of changes that waits to be recorded.
#[derive(Debug)]
pub(super) struct Pending {
    pub writes: Vec<Write>,
    /// Whether the batch waits for the end of a fault; otherwise it is tried once.
    pub kept: bool,
    pub answer: oneshot::Sender<Result<(), JournalError>>,
}

/// The current fault and the counters, shared with all readers of the journal's state.
#[derive(Debug, Default)]
pub(super) struct Shared {
    /// Whether there is a fault, for callers that check at each request.
    pub failed: AtomicBool,
    pub error: Mutex<Option<JournalError>>,
    /// Notified when a fault begins or ends.
    pub changed: Notify,
    /// How many transactions were committed.
    pub commits: AtomicU64,
    /// How many times the file was unusable.
    pub errors: AtomicU64,
    /// The durations of transactions.
    pub commit_times: Histogram,
    pub busy: Busy,
    /// The token of the clean stop, once it is recorded.
    pub stopped: Mutex<Option<StartToken>>,
}

#[derive(Debug)]
pub(super) struct JournalThread {
    pub path: PathBuf,
    /// Keeps the directory locked as long as this thread may write.
    pub dir: StateDir,
    pub identity: Identity,
    /// The minimum that the file must contain when it is reopened.
    pub acknowledged: Meta,
    pub link: Link,
    /// The batches to record, in order. After a fault, only those that wait for its end.
    pub pending: VecDeque<Pending>,
    /// Notes each commit before it is acknowledged.
    pub memory: Option<Memory>,
    pub shared: Arc<Shared>,
    /// Set by a batch with exact marks. After it nothing is recorded, because no more ids may be issued.
    pub stopping: bool,
}

#[derive(Debug)]
pub(super) enum Link {
    Open(Box<Db>),
    Failed { fault: Fault, since: Instant },
}

// === impl Shared ===

impl Shared {
    /// Sets or clears the fault, which the daemon's health reports.
    fn set(&self, now: Option<JournalError>) {
        let mut error = self.error.lock().unwrap_or_else(PoisonError::into_inner);
        self.failed.store(now.is_some(), Ordering::Release);
        if error.is_some() != now.is_some() {
            self.changed.notify_one();
        }
        *error = now;
    }
}

// === impl JournalThread ===

impl JournalThread {
    /// Works until the journal is closed or dropped.
    pub fn run(mut self, queue: mpsc::Receiver<JournalCommand>) {
        while let Some(mut command) = self.next(&queue) {
            self.shared.busy.begins();
            // A batch after a query must not change its answer, so the transaction ends before the query.
            while let Some(JournalCommand::Commit(pending)) = command {
                self.take_in(pending);
                let more = self.pending.len() < GROUP_BATCHES_MAX;
                command = if more { queue.try_recv().ok() } else { None };
            }
            // There is something to record, or a fault that may have ended.
            if !self.pending.is_empty() || matches!(self.link, Link::Failed { .. }) {
                self.commit();
            }
            match command {
                Some(JournalCommand::Ask(question)) => question(&mut self),
                Some(JournalCommand::Close(answer)) => {
                    // Closing the file moves the log into the database.
                    drop(self);
                    // The caller may have disconnected.
                    let _ = answer.send(());
                    return;
                }
                _ => {}
            }
            self.shared.busy.ends();
        }
    }

    /// The next command. `Some(None)`: there is none, and it is time to check whether a fault has ended. `None`: all
    /// senders are closed.
    fn next(&self, queue: &mpsc::Receiver<JournalCommand>) -> Option<Option<JournalCommand>> {
        let wait = match &self.link {
            Link::Failed { since, .. } => REOPEN_INTERVAL.saturating_sub(since.elapsed()),
            Link::Open(_) => return queue.recv().ok().map(Some),
        };
        match queue.recv_timeout(wait) {
            Ok(command) => Some(Some(command)),
            Err(RecvTimeoutError::Timeout) => Some(None),
            Err(RecvTimeoutError::Disconnected) => None,
        }
    }

    /// Reads from the file.
    pub fn read<T>(
        &mut self,
        read: impl FnOnce(&Db) -> Result<T, Fault>,
    ) -> Result<T, JournalError> {
        self.on_db(|db| read(db)).map_err(|fault| self.error(fault))
    }

    /// Appends a batch to the queue, or refuses it.
    fn take_in(&mut self, pending: Pending) {
        let stops = pending.writes.contains(&Write::StoppedCleanly);
        if self.stopping && !stops {
            let why = "it has stopped: no id may be issued and nothing is recorded";
            let _ = pending.answer.send(Err(self.error(Fault(why.to_owned()))));
            return;
        }
        self.stopping |= stops;
        match self.fault_for_now() {
            Some(fault) if !pending.kept => {
                let _ = pending.answer.send(Err(self.error(fault)));
            }
            _ => self.pending.push_back(pending),
        }
    }

    /// The current fault, until it is time to reopen the file, so that new batches don't cause work for all waiting
    /// ones. A stop tries at once.
    fn fault_for_now(&self) -> Option<Fault> {
        match &self.link {
            Link::Failed { fault, since }
                if since.elapsed() < REOPEN_INTERVAL && !self.stopping =>
            {
                Some(fault.clone())
            }
            _ => None,
        }
    }

    /// Makes the queued batches durable, which also shows whether the journal works.
    fn commit(&mut self) {
        if self.fault_for_now().is_some() {
            return;
        }
        loop {
            let count = self.pending.len().min(GROUP_BATCHES_MAX);
            let group: Vec<Pending> = self.pending.drain(..count).collect();
            let batches: Vec<&[Write]> = group.iter().map(|pending| &*pending.writes).collect();
            let begun = Instant::now();
            let outcome = self.reopen_after_fault().and_then(|()| {
                self.on_db(|db| {
                    let outcome = db.commit(&batches)?;
                    Ok((outcome, db.meta.clone(), db.stopped_as.clone()))
                })
            });
            match outcome {
                Ok((outcome, meta, stopped)) => {
                    self.shared.commit_times.observe(begun.elapsed());
                    self.committed(meta, stopped);
                    for (pending, outcome) in group.into_iter().zip(outcome) {
                        let outcome = outcome.map_err(|why| {
                            let fault = Fault(format!("it contradicts what is recorded: {why}"));
                            JournalError { refused: true, ..self.error(fault) }
                        });
                        let _ = pending.answer.send(outcome);
                    }
                }
                Err(fault) => return self.keep_pending(group, &fault),
            }
            if self.pending.is_empty() {
                return;
            }
        }
    }

    fn committed(&mut self, meta: Meta, stopped: Option<StartToken>) {
        if let Some(memory) = &mut self.memory {
            memory.note(&meta.host, meta.commits, stopped.as_ref());
        }
        *self.shared.stopped.lock().unwrap_or_else(PoisonError::into_inner) = stopped;
        self.acknowledged = meta;
        self.shared.commits.fetch_add(1, Ordering::Relaxed);
        self.shared.set(None);
    }

    /// After a fault: keeps the batches that wait for its end, in order, and answers the others. After a stop no batch
    /// waits: exact marks may be on the disk, and nothing may be recorded after them.
    fn keep_pending(&mut self, group: Vec<Pending>, fault: &Fault) {
        let rest = std::mem::take(&mut self.pending);
        for pending in group.into_iter().chain(rest) {
            if pending.kept && !self.stopping {
                self.pending.push_back(pending);
            } else {
                let _ = pending.answer.send(Err(self.error(fault.clone())));
            }
        }
    }

    /// Runs `work` on the file. A fault closes the file.
    fn on_db<T>(&mut self, work: impl FnOnce(&mut Db) -> Result<T, Fault>) -> Result<T, Fault> {
        match &mut self.link {
            Link::Open(db) => work(db).map_err(|fault| self.fail(fault)),
            Link::Failed { fault, .. } => Err(fault.clone()),
        }
    }

    /// Reopens the file after a fault. Only a commit does this, so that waiting batches are recorded before a query is
    /// answered.
    fn reopen_after_fault(&mut self) -> Result<(), Fault> {
        if let Link::Failed { .. } = self.link {
            let db = self.reopen().map_err(|fault| self.fail(fault))?;
            self.link = Link::Open(Box::new(db));
        }
        Ok(())
    }

    /// Reopens the file, and checks it against what was acknowledged.
    fn reopen(&self) -> Result<Db, Fault> {
        let known = &self.acknowledged;
        let impostor = || {
            Fault("another file took its place; put the original back, or restart leafd".to_owned())
        };
        // This must precede opening the file, because SQLite would move the original's log into the file that is there
        // now.
        let fingerprint = self
            .identity
            .fingerprint(&db::file_in(&self.dir))
            .map_err(Fault::io("inspecting it"))?;
        if !is_same(&fingerprint, &known.fingerprint) {
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

    /// Records a fault, and closes the file.
    fn fail(&mut self, fault: Fault) -> Fault {
        self.shared.errors.fetch_add(1, Ordering::Relaxed);
        self.shared.set(Some(self.error(fault.clone())));
        // The open files are still the right ones, even if their names now refer to others, so acknowledged changes are
        // moved from the log into the database, which is kept.
        if let Link::Open(db) = &self.link
            && let Err(fault) = db::fold(&db.conn)
        {
            tracing::warn!(%fault, "could not checkpoint the failed journal's write-ahead log");
        }
        self.link = Link::Failed { fault: fault.clone(), since: Instant::now() };
        fault
    }

    fn error(&self, fault: Fault) -> JournalError {
        JournalError::of(&self.path, fault)
    }
}
