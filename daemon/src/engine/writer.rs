//! What follows a change of the journal on the thread that answers: a mark that may be used, a segment that is held.
//!
//! The journal puts changes on the disk in the order in which they were written; their effects follow in the same order.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

use tokio::sync::Notify;

use crate::journal::{Journal, JournalError, Write, Written};
use crate::reply::Failure;

/// What to do when changes are durable, or refused because they contradict what is recorded.
type Effect = Box<dyn FnOnce(Result<(), JournalError>)>;

/// Writes changes to the journal, and does what follows.
pub struct Writer {
    journal: Journal,
    effects: RefCell<VecDeque<(Written, Effect)>>,
    queued: Notify,
    /// Effects that have not been done.
    owed: Cell<usize>,
    idle: Notify,
}

impl Writer {
    /// A writer to this journal. No effect is done before [`Writer::run`] runs.
    #[must_use]
    pub fn new(journal: Journal) -> Self {
        Writer {
            journal,
            effects: RefCell::default(),
            queued: Notify::new(),
            owed: Cell::new(0),
            idle: Notify::new(),
        }
    }

    /// The journal, to read from.
    #[must_use]
    pub fn journal(&self) -> &Journal {
        &self.journal
    }

    /// Writes changes, all of them or none; `effect` follows when they are durable. It is told of an error when they
    /// contradict what is recorded, and were left out.
    pub fn write(
        &self,
        writes: Vec<Write>,
        effect: impl FnOnce(Result<(), JournalError>) + 'static,
    ) {
        let written = self.journal.write(writes);
        self.effects.borrow_mut().push_back((written, Box::new(effect)));
        self.owed.set(self.owed.get() + 1);
        self.queued.notify_one();
    }

    /// Why nothing may be issued: the journal fails.
    #[must_use]
    pub fn failure(&self) -> Option<Failure> {
        if !self.failed() {
            return None;
        }
        self.journal.failure().as_ref().map(Failure::from)
    }

    /// Whether the journal fails. Cheap, for each request.
    #[must_use]
    pub fn failed(&self) -> bool {
        self.journal.failed()
    }

    /// Waits until all that was written is durable (or for ever, when the journal fails: bound it).
    pub async fn drained(&self) {
        while self.owed.get() > 0 {
            self.idle.notified().await;
        }
    }

    /// Does what follows from changes. `on_failure` is called when the journal starts to fail, `on_recovery` when it works
    /// again.
    pub async fn run(&self, on_failure: impl Fn(&Failure), on_recovery: impl Fn()) {
        let watching = async {
            loop {
                self.journal.fault_changed().await;
                match self.failure() {
                    Some(failure) => on_failure(&failure),
                    None => on_recovery(),
                }
            }
        };
        tokio::join!(self.follow(), watching);
    }

    async fn follow(&self) {
        loop {
            let next = self.effects.borrow_mut().pop_front();
            let Some((written, effect)) = next else {
                self.queued.notified().await;
                continue;
            };
            match written.outcome().await {
                // It was closed: the daemon is at its end.
                Err(error) if !error.refused => {}
                outcome => effect(outcome),
            }
            self.owed.set(self.owed.get() - 1);
            if self.owed.get() == 0 {
                self.idle.notify_waiters();
            }
        }
    }
}
