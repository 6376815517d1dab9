//! Drives the lease on a worker: carries out its steps one after the other, and reports every change.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use leafd_checkup::snapshot;
use tokio::sync::{Notify, oneshot};
use tracing::info;

use super::{RegistryClient, passes_by_itself};
use crate::clock;
use crate::engine::{PendingCall, response};
use crate::journal::{Journal, Write};
use crate::reply::Failure;
use leafd_core::lease::{IssueWindow, Lease, LeaseProblem, Mode, Request, Response, Step};
use leafd_core::registry::RegistryError;
use leafd_core::snowflake::Now;
use leafd_core::{UnixMs, WorkerId};
use leafd_wire::Status;

/// Manages the lease of a worker.
pub struct LeaseDriver {
    pub(crate) lease: RefCell<Lease>,
    pub(crate) link: RegistryClient,
    /// The registry's name, without its address.
    pub(super) subject: Box<str>,
    journal: Journal,
    /// Notified when the lease has a new request.
    woken: Notify,
    /// Receives the outcome of the worker's release.
    releasing: RefCell<Option<oneshot::Sender<Result<(), RegistryError>>>>,
    ended: Cell<bool>,
    has_ended: Notify,
    /// The worker that was logged last.
    logged: Cell<Option<WorkerId>>,
}

impl LeaseDriver {
    /// Manages this lease in the registry behind `link`. Nothing happens before [`LeaseDriver::run`] is called.
    pub fn new(
        lease: Lease,
        link: RegistryClient,
        subject: &str,
        journal: Journal,
    ) -> Rc<LeaseDriver> {
        Rc::new(LeaseDriver {
            lease: RefCell::new(lease),
            link,
            subject: subject.into(),
            journal,
            woken: Notify::new(),
            releasing: RefCell::default(),
            ended: Cell::new(false),
            has_ended: Notify::new(),
            logged: Cell::default(),
        })
    }

    /// Carries out step after step, until the lease has ended for a stop. Calls `changed` whenever the right to issue
    /// ids may have changed.
    pub async fn run(self: &Rc<Self>, changed: impl Fn()) {
        let mut pending: PendingCall<Response> = None;
        loop {
            let step = self.lease.borrow_mut().next(clock::now(), fastrand::u64(..));
            self.log_worker();
            changed();
            self.report_release();
            match step {
                Step::Request(request) => pending = Some(Box::pin(Rc::clone(self).ask(request))),
                Step::Wait(until) => {
                    tokio::select! {
                        response = response(&mut pending) => {
                            let mut lease = self.lease.borrow_mut();
                            lease.answered(clock::now(), response, fastrand::u64(..));
                        }
                        () = clock::wait_until(until) => {}
                        () = self.woken.notified() => {}
                    }
                }
                Step::Done => break,
            }
        }
        self.ended.set(true);
        self.has_ended.notify_waiters();
    }

    async fn ask(self: Rc<Self>, request: Request) -> Response {
        match request {
            Request::Snapshot(pool) => Response::Snapshot(self.link.agreed_snapshot(pool).await),
            Request::CompareAndSet(under, swap) => {
                Response::CompareAndSet(self.link.compare_and_set(under, swap).await)
            }
            Request::Assign(under, pool, holding) => {
                Response::Assign(self.link.assign(under, pool, holding).await)
            }
            Request::Record(claim) => {
                let write = claim.map_or(Write::NoWorker, Write::Worker);
                let recorded = self.journal.write(vec![write]).outcome().await;
                Response::Record(recorded.map_err(|error| error.to_string()))
            }
        }
    }

    pub(crate) fn want(&self) -> bool {
        let mut lease = self.lease.borrow_mut();
        if lease.want() {
            self.woken.notify_one();
        }
        lease.trouble.as_ref().is_none_or(passes_by_itself)
    }

    pub(crate) fn ready(&self, now: Now) -> bool {
        let lease = self.lease.borrow();
        match lease.standing(now) {
            Ok(claim) => claim.limit > lease.clock.believed_time(now).unix,
            Err(trouble) => trouble == LeaseProblem::Unused,
        }
    }

    pub(crate) fn unavailable_reason(&self) -> Failure {
        let now = clock::now();
        let lease = self.lease.borrow();
        let place = &lease.settings.place;
        let because = match (lease.standing(now), &lease.trouble) {
            (Err(trouble), _) => format!("no snowflake worker is leased from {place}: {trouble}"),
            (Ok(claim), trouble) => {
                let why = trouble
                    .as_ref()
                    .map_or("it is being renewed".to_owned(), LeaseProblem::to_string);
                let worker = claim.worker;
                format!("this host's lease of worker {worker} from {place} has expired: {why}")
            }
        };
        Failure::soon_over(Status::NoWorker, because)
    }

    /// The current problem, even if ids can be issued.
    pub(crate) fn error(&self, now: Now) -> Option<String> {
        let lease = self.lease.borrow();
        match lease.standing(now) {
            Err(LeaseProblem::Unused) => None,
            Err(trouble) => Some(trouble.to_string()),
            Ok(_) => lease.trouble.as_ref().map(LeaseProblem::to_string),
        }
    }

    pub(crate) fn snapshot(&self, now: Now) -> snapshot::Lease {
        let lease = self.lease.borrow();
        let held = lease.held();
        let settings = &lease.settings;
        let permanent = settings.mode == Mode::Permanent;
        let until = held.map(|(_, until)| until).filter(|_| !permanent);
        snapshot::Lease {
            numbers: snapshot::LeaseNumbers {
                mode: if permanent { "permanent" } else { "leased" }.to_owned(),
                worker: held.map(|(worker, _)| worker.0),
                until_ms: until.map(|until| until.0),
                left_ms: until
                    .map(|until| until.0.saturating_sub(lease.clock.believed_time(now).unix.0)),
                renewed_ms_ago: lease.renewed.map(|at| now.boot.0.saturating_sub(at.0)),
                clock_offset_ms: lease.clock.offset_ms,
                clock_error: lease.clock.skew.map(|skew| skew.to_string()),
                clock_held_back_ms: lease.clock.held_back_ms(now),
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

    /// Releases the worker immediately, and reports the result. Call this after the last id was issued with it. Nothing
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

    /// Logs which worker this host has. The daemon's health reports problems.
    fn log_worker(&self) {
        let now = clock::now();
        let lease = self.lease.borrow();
        if let Ok(IssueWindow { worker, .. }) = lease.standing(now)
            && self.logged.replace(Some(worker)) != Some(worker)
        {
            let place = &lease.settings.place;
            info!(worker = %worker, registry = %place, "issuing snowflake ids as this worker");
        }
    }
}
