//! The journal's side of dispatch: changes gather while one transaction is under way and go into the next
//! together. A change's effect (a mark that may be used, a segment that is held) follows once it is durable.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use tokio::sync::Notify;
use tracing::{error, info};

use crate::journal::{Journal, JournalError, Write};
use crate::reply::Failure;

/// What to do when a change is durable, or refused because it contradicts what is recorded.
type Effect = Box<dyn FnOnce(Result<(), JournalError>)>;

/// Gathers changes and commits them.
pub struct Writer {
    journal: Journal,
    queue: RefCell<Vec<(Write, Effect)>>,
    queued: Notify,
    idle: Notify,
    committing: Cell<bool>,
    failure: RefCell<Option<Failure>>,
    commits: Cell<u64>,
}

/// How long to wait before a failed journal is tried again.
const RETRY: Duration = Duration::from_secs(1);

impl Writer {
    /// A writer to this journal. Nothing is committed before [`Writer::run`] runs.
    #[must_use]
    pub fn new(journal: Journal) -> Self {
        Writer {
            journal,
            queue: RefCell::default(),
            queued: Notify::new(),
            idle: Notify::new(),
            committing: Cell::new(false),
            failure: RefCell::default(),
            commits: Cell::new(0),
        }
    }

    /// The journal, to read from.
    #[must_use]
    pub fn journal(&self) -> &Journal {
        &self.journal
    }

    /// Queues a change; `effect` follows when it is durable. It is told of an error when the change contradicts what is
    /// recorded, and was left out.
    pub fn write(&self, write: Write, effect: impl FnOnce(Result<(), JournalError>) + 'static) {
        self.queue.borrow_mut().push((write, Box::new(effect)));
        self.queued.notify_one();
    }

    /// Why nothing may be issued: the journal fails, whoever met it.
    #[must_use]
    pub fn failure(&self) -> Option<Failure> {
        if !self.failed() {
            return None;
        }
        let own = self.failure.borrow().clone();
        own.or_else(|| self.journal.failure().as_ref().map(Failure::from))
    }

    /// Whether the journal fails. Cheap, for each request.
    #[must_use]
    pub fn failed(&self) -> bool {
        self.journal.failed() || self.failure.borrow().is_some()
    }

    /// Transactions committed.
    #[must_use]
    pub fn commits(&self) -> u64 {
        self.commits.get()
    }

    /// Waits until all that is queued is durable (or for ever, when the journal fails: bound it).
    pub async fn drained(&self) {
        while self.committing.get() || !self.queue.borrow().is_empty() {
            self.idle.notified().await;
        }
    }

    /// Commits what is queued, one transaction at a time. `on_failure` is called when the journal starts to
    /// fail, `on_recovery` when it works again.
    pub async fn run(&self, on_failure: impl Fn(&Failure), on_recovery: impl Fn()) {
        loop {
            let batch = std::mem::take(&mut *self.queue.borrow_mut());
            // A fault that somebody else met, who may not come again: an empty batch finds out when it is over.
            let met_elsewhere = batch.is_empty();
            if met_elsewhere && !self.journal.failed() {
                self.idle.notify_waiters();
                tokio::select! {
                    () = self.queued.notified() => continue,
                    () = self.journal.failing() => {}
                }
            }
            self.committing.set(true);
            let (writes, effects): (Vec<Write>, Vec<Effect>) = batch.into_iter().unzip();
            if self.commit(&writes, &on_failure).await.is_ok() {
                effects.into_iter().for_each(|effect| effect(Ok(())));
            } else {
                // One of them contradicts the journal: the others must not suffer for it.
                for (write, effect) in writes.into_iter().zip(effects) {
                    effect(self.commit(std::slice::from_ref(&write), &on_failure).await);
                }
            }
            self.committing.set(false);
            let failed = self.failure.take().is_some();
            if failed {
                info!("the journal can be written again; issuing resumes");
            }
            if failed || met_elsewhere {
                on_recovery();
            }
        }
    }

    /// Commits until it has worked. An error: the journal works and refuses.
    async fn commit(
        &self,
        writes: &[Write],
        on_failure: &impl Fn(&Failure),
    ) -> Result<(), JournalError> {
        // The same changes again until they are durable: a claim in them is already made.
        loop {
            match self.journal.commit(writes.to_vec()).await {
                Ok(()) => {
                    self.commits.set(self.commits.get() + 1);
                    return Ok(());
                }
                Err(error) if error.refused => return Err(error),
                Err(error) => {
                    let failure = Failure::from(&error);
                    if self.failure.borrow().is_none() {
                        error!("{error}; issuing stops until the journal can be written again");
                    }
                    *self.failure.borrow_mut() = Some(failure.clone());
                    on_failure(&failure);
                    tokio::time::sleep(RETRY).await;
                }
            }
        }
    }
}
