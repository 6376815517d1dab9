//! Writes changes to the journal, and then runs their effects on the thread that answers requests: a mark may be used,
//! or a segment is held.
//!
//! The journal makes changes durable in the order in which they were written. Their effects run in the same order.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::time::Duration;

use tokio::sync::Notify;

use crate::journal::{Journal, JournalError, Write, Written};
use crate::reply::Failure;

/// A disk that has not answered for this long counts as hanging.
const HANGS_FROM: Duration = Duration::from_secs(5);

/// What to do when changes are durable, or were refused because they contradict the journal's records.
type Effect = Box<dyn FnOnce(Result<(), JournalError>)>;

/// Writes changes to the journal, and runs their effects.
pub struct Writer {
    journal: Journal,
    effects: RefCell<VecDeque<(Written, Effect)>>,
    queued: Notify,
    /// How many effects have not run yet.
    owed: Cell<usize>,
    idle: Notify,
    /// Notified when the journal begins to fail.
    failing: Notify,
}

impl Writer {
    /// A writer to this journal. No effect runs before [`Writer::run`] is called.
    pub fn new(journal: Journal) -> Self {
        Writer {
            journal,
            effects: RefCell::default(),
            queued: Notify::new(),
            owed: Cell::new(0),
            idle: Notify::new(),
            failing: Notify::new(),
        }
    }

    /// The journal, for reading.
    pub fn journal(&self) -> &Journal {
        &self.journal
    }

    /// Writes changes, all of them or none. `effect` runs when they are durable. It gets an error if they contradict
    /// the journal's records and were not made.
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

    /// An error while the journal can't be used, when no ids may be issued.
    pub fn failure(&self) -> Option<Failure> {
        if !self.failed() {
            return None;
        }
        self.journal.failure().as_ref().map(Failure::from)
    }

    /// Whether the journal can't be used now. Cheap enough for each request.
    pub fn failed(&self) -> bool {
        self.journal.failed()
    }

    /// Why ids will run out: the journal fails, or its disk doesn't answer. In the second case, ids that the journal
    /// has already recorded are still issued.
    pub fn trouble(&self) -> Option<Failure> {
        self.failure().or_else(|| self.hangs().then(|| self.hanging()))
    }

    /// Whether the journal works, so that [`Writer::trouble`] reports nothing.
    pub fn works(&self) -> bool {
        !self.failed() && !self.hangs()
    }

    fn hangs(&self) -> bool {
        self.journal.busy_for() >= HANGS_FROM
    }

    fn hanging(&self) -> Failure {
        Failure::journal(format!(
            "the disk of the journal {} has not answered for more than {} s; until it does, only ids that the journal \
             has already recorded are issued",
            self.journal.path().display(),
            HANGS_FROM.as_secs()
        ))
    }

    /// Waits until the journal can't be written: it fails, or its disk doesn't answer.
    pub async fn stalled(&self) {
        loop {
            let failing = self.failing.notified();
            if !self.works() {
                return;
            }
            tokio::select! {
                () = failing => {}
                () = tokio::time::sleep(HANGS_FROM.saturating_sub(self.journal.busy_for())) => {}
            }
        }
    }

    /// Waits until everything that was written is durable. If the journal fails, this may take forever, so limit the
    /// time.
    pub async fn drained(&self) {
        while self.owed.get() > 0 {
            self.idle.notified().await;
        }
    }

    /// Runs the effects of changes. Calls `on_failure` when the journal begins to fail, and `on_recovery` when it
    /// works again.
    pub async fn run(&self, on_failure: impl Fn(&Failure), on_recovery: impl Fn()) {
        let watching = async {
            loop {
                self.journal.fault_changed().await;
                match self.failure() {
                    Some(failure) => {
                        self.failing.notify_waiters();
                        on_failure(&failure);
                    }
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
                // The journal was closed: the daemon ends.
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
