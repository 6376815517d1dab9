//! Drives the lease on a worker: carries out its steps one after the other, and reports every change.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;

use leafd_checkup::snapshot;
use tokio::sync::{Notify, oneshot};
use tracing::info;

use super::{RegistryClient, passes_by_itself};
use crate::clock;
use crate::journal::{Journal, Write};
use crate::reply::Failure;
use leafd_core::lease::{IssueWindow, JournalChange, Lease, LeaseProblem, Response, Step};
use leafd_core::registry::{RegistryError, RegistryId};
use leafd_core::snowflake::Now;
use leafd_core::{UnixMs, WorkerId};
use leafd_wire::Status;

/// Keeps the lease of a worker.
pub struct LeaseDriver {
    pub(crate) lease: RefCell<Lease>,
    pub(crate) link: Rc<RegistryClient>,
    /// The registry's name, without where it is.
    pub(super) subject: Box<str>,
    journal: Journal,
    /// The registry with which the layouts were agreed on.
    agreed: RefCell<Option<RegistryId>>,
    /// Notified when something was requested of the lease.
    woken: Notify,
    /// Where to report that the worker was given back.
    releasing: RefCell<Option<oneshot::Sender<Result<(), RegistryError>>>>,
    ended: Cell<bool>,
    has_ended: Notify,
    /// The worker that was logged last.
    logged: Cell<Option<WorkerId>>,
}

/// The result of a step.
enum StepOutcome {
    Response(Response),
    Recorded(Result<(), String>),
}

type Work = Pin<Box<dyn Future<Output = StepOutcome>>>;

impl LeaseDriver {
    /// Keeps this lease at the registry behind `link`. Nothing happens before [`LeaseDriver::run`] is called.
    #[must_use]
    pub fn new(
        lease: Lease,
        link: RegistryClient,
        subject: &str,
        journal: Journal,
    ) -> Rc<LeaseDriver> {
        Rc::new(LeaseDriver {
            lease: RefCell::new(lease),
            link: Rc::new(link),
            subject: subject.into(),
            journal,
            agreed: RefCell::default(),
            woken: Notify::new(),
            releasing: RefCell::default(),
            ended: Cell::new(false),
            has_ended: Notify::new(),
            logged: Cell::default(),
        })
    }

    /// Carries out step after step, until the lease was given back for a stop. Calls `changed` whenever the right to
    /// issue ids may have changed.
    pub async fn run(self: &Rc<Self>, changed: impl Fn()) {
        let mut work: Option<Work> = None;
        loop {
            let step = self.lease.borrow_mut().next(clock::now(), fastrand::u64(..));
            self.log_worker();
            changed();
            self.report_release();
            match step {
                Step::Request(ask) => {
                    let asked = Rc::clone(&self.link).ask(ask, self.agreed.borrow().clone());
                    work = Some(Box::pin(async { StepOutcome::Response(asked.await) }));
                }
                Step::JournalChange(record) => {
                    let recorded = Rc::clone(self).record(record);
                    work = Some(Box::pin(async { StepOutcome::Recorded(recorded.await) }));
                }
                Step::Wait(until) => {
                    tokio::select! {
                        outcome = finish(&mut work) => {
                            work = None;
                            self.finished(outcome);
                        }
                        () = clock::wait_until(until) => {}
                        () = self.woken.notified() => {}
                        () = self.link.written() => self.lease.borrow_mut().doubt(),
                    }
                }
                Step::Done => break,
            }
        }
        self.ended.set(true);
        self.has_ended.notify_waiters();
    }

    fn finished(&self, outcome: StepOutcome) {
        let now = clock::now();
        match outcome {
            StepOutcome::Response(answer) => {
                if let Response::Snapshot(Ok(look)) = &answer {
                    *self.agreed.borrow_mut() = Some(look.registry.clone());
                }
                self.lease.borrow_mut().answered(now, answer, fastrand::u64(..));
            }
            StepOutcome::Recorded(recorded) => self.lease.borrow_mut().recorded(now, recorded),
        }
    }

    async fn record(self: Rc<Self>, record: JournalChange) -> Result<(), String> {
        let write = match record {
            JournalChange::Claim(claim) => Write::Worker(claim),
            JournalChange::Forget => Write::NoWorker,
        };
        self.journal.write(vec![write]).outcome().await.map_err(|error| error.to_string())
    }

    pub(crate) fn want(&self) -> bool {
        let mut lease = self.lease.borrow_mut();
        if lease.want() {
            self.woken.notify_one();
        }
        lease.trouble().is_none_or(passes_by_itself)
    }

    pub(crate) fn ready(&self, now: Now) -> bool {
        let lease = self.lease.borrow();
        match lease.standing(now) {
            Ok(claim) => claim.limit > lease.believed_time(now).unix,
            Err(trouble) => trouble == LeaseProblem::Unused,
        }
    }

    pub(crate) fn unavailable_reason(&self) -> Failure {
        let now = clock::now();
        let lease = self.lease.borrow();
        let place = &lease.settings().place;
        let because = match (lease.standing(now), lease.trouble()) {
            (Err(trouble), _) => format!("no snowflake worker is leased from {place}: {trouble}"),
            (Ok(claim), trouble) => {
                let why = trouble.map_or("it is being renewed".to_owned(), LeaseProblem::to_string);
                let worker = claim.worker;
                format!("this host's lease of worker {worker} from {place} has expired: {why}")
            }
        };
        Failure::soon_over(Status::NoWorker, because)
    }

    /// What is wrong, even if ids can be issued.
    pub(crate) fn error(&self, now: Now) -> Option<String> {
        let lease = self.lease.borrow();
        match lease.standing(now) {
            Err(LeaseProblem::Unused) => None,
            Err(trouble) => Some(trouble.to_string()),
            Ok(_) => lease.trouble().map(LeaseProblem::to_string),
        }
    }

    pub(crate) fn snapshot(&self, now: Now) -> snapshot::Lease {
        let lease = self.lease.borrow();
        let held = lease.held();
        let settings = lease.settings();
        let permanent = settings.mode == leafd_core::registry::Mode::Permanent;
        let until = held.map(|(_, until)| until).filter(|_| !permanent);
        snapshot::Lease {
            numbers: snapshot::LeaseNumbers {
                mode: if permanent { "permanent" } else { "leased" }.to_owned(),
                worker: held.map(|(worker, _)| worker.0),
                until_ms: until.map(|until| until.0),
                left_ms: until.map(|until| until.0.saturating_sub(lease.believed_time(now).unix.0)),
                renewed_ms_ago: lease.renewed().map(|at| now.boot.0.saturating_sub(at.0)),
                clock_offset_ms: lease.offset_ms(),
                clock_error: lease.skew().map(|skew| skew.to_string()),
                clock_held_back_ms: lease.held_back_ms(now),
            },
            place: settings.place.to_string(),
            registry_id: lease.registry().map(|registry| registry.id.to_string()),
            holder: settings.holder.id.to_string(),
            name: settings.holder.name.to_string(),
        }
    }

    /// Keeps the worker for a restart. Call this after the last id was issued. `issued_below`: see [`Lease::stop`].
    pub fn stop(&self, issued_below: UnixMs) {
        self.lease.borrow_mut().stop(issued_below);
        drop(self.releasing.take());
        self.woken.notify_one();
    }

    /// Gives the worker back at once, and reports the result. Call this after the last id was issued with it. Nothing
    /// is reported if the daemon stops meanwhile. `issued_below`: see [`Lease::release`].
    pub fn release(&self, issued_below: UnixMs) -> oneshot::Receiver<Result<(), RegistryError>> {
        let (report, outcome) = oneshot::channel();
        *self.releasing.borrow_mut() = Some(report);
        self.lease.borrow_mut().release(issued_below);
        self.woken.notify_one();
        outcome
    }

    fn report_release(&self) {
        if let Some(outcome) = self.lease.borrow_mut().released()
            && let Some(releasing) = self.releasing.take()
        {
            // The caller may have disconnected.
            let _ = releasing.send(outcome);
        }
    }

    /// Waits until a stop is complete.
    pub async fn ended(&self) {
        while !self.ended.get() {
            self.has_ended.notified().await;
        }
    }

    /// Closes what only the lease uses.
    pub async fn close(&self) {
        self.link.close().await;
    }

    /// Logs which worker this host has. The daemon's health reports what is wrong.
    fn log_worker(&self) {
        let now = clock::now();
        let lease = self.lease.borrow();
        if let Ok(IssueWindow { worker, .. }) = lease.standing(now)
            && self.logged.replace(Some(worker)) != Some(worker)
        {
            let place = &lease.settings().place;
            info!(worker = %worker, registry = %place, "issuing snowflake ids as this worker");
        }
    }
}

/// The result of the work under way. Never returns if there is none.
async fn finish(work: &mut Option<Work>) -> StepOutcome {
    match work {
        Some(work) => work.await,
        None => std::future::pending().await,
    }
}
