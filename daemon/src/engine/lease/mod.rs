//! The host's snowflake worker for the issuing code: its number, until when it may be used, and if there is none, why.
//!
//! - `driver`: drives the lease on a worker, in the background.
//! - `client`: calls the registry behind it.

mod client;
mod driver;
mod outlook;

use std::cell::RefCell;
use std::rc::Rc;

use leafd_checkup::snapshot::Lease;

use crate::registry::static_worker::StaticWorker;
use crate::reply::Failure;
use leafd_core::UnixMs;
use leafd_core::lease::{IssueWindow, LeaseProblem};
use leafd_core::snowflake::Now;

/// The name of a registry in ZooKeeper, in texts that everyone may read.
pub(crate) const ZOOKEEPER: &str = "zookeeper";

pub use client::{Backend, RegistryClient};
pub use driver::LeaseDriver;
use leafd_wire::Status;

/// Where the worker number comes from.
pub enum Worker {
    None,
    /// From the operator, or why the operator's number can't be used.
    Static(RefCell<Result<Rc<StaticWorker>, String>>),
    Leased(Rc<LeaseDriver>),
}

/// The error for a request when there is no worker.
pub(crate) const NO_WORKER: &str = "this daemon holds no snowflake worker; lease one with worker = \"store\" (with several \
    stores: worker = \"store:NAME\"), or give it a number that no other host has, with --worker static:N, \
    LEAFD_WORKER=static:N or worker = \"static:N\"";

impl Worker {
    /// The worker and the time for which ids may be issued now.
    pub fn claim(&self, now: Now) -> Option<IssueWindow> {
        match self {
            Worker::None => None,
            Worker::Static(worker) => {
                worker.borrow().as_ref().ok().map(|worker| IssueWindow::fixed(worker.worker()))
            }
            Worker::Leased(driver) => driver.lease.borrow().standing(now).ok(),
        }
    }

    /// The clock readings from which ids are made.
    pub fn believed_time(&self, now: Now) -> Now {
        match self {
            Worker::Leased(driver) => driver.lease.borrow().clock.believed_time(now),
            _ => now,
        }
    }

    /// Call this when an id is requested. Returns true if it is worth waiting for a worker.
    pub fn want(&self) -> bool {
        match self {
            Worker::Leased(driver) => driver.want(),
            _ => false,
        }
    }

    /// Why there is no worker, or none at the current time.
    pub fn unavailable_reason(&self) -> Failure {
        match self {
            Worker::Leased(driver) => driver.unavailable_reason(),
            Worker::Static(worker) => {
                let why = worker.borrow().as_ref().err().cloned();
                Failure::new(Status::NoWorker, why.unwrap_or_else(|| NO_WORKER.to_owned()))
            }
            Worker::None => Failure::new(Status::NoWorker, NO_WORKER),
        }
    }

    /// Call this when the journal has recorded this mark of a layout.
    ///
    /// # Errors
    /// Why ids up to the mark may not be issued: the mark could not be noted beside the lock of the operator's number.
    pub fn journal_reached(&self, mark: UnixMs) -> Result<(), String> {
        match self {
            Worker::Leased(driver) => driver.lease.borrow_mut().journal_reached(mark),
            Worker::Static(worker) => {
                if let Ok(worker) = &*worker.borrow() {
                    worker.note(mark).map_err(|error| {
                        format!(
                            "can't record in the lock file of worker {} up to which time ids may be issued: {error}; \
                             check the permissions and the free space of worker_lock_dir, then restart leafd",
                            worker.worker()
                        )
                    })?;
                }
            }
            Worker::None => {}
        }
        Ok(())
    }

    /// Stops using the operator's number, because this host may no longer use it.
    pub fn give_up(&self, why: String) {
        if let Worker::Static(worker) = self {
            *worker.borrow_mut() = Err(why);
        }
    }

    /// Whether ids can be issued, or could be if one were requested.
    pub fn ready(&self, now: Now) -> bool {
        match self {
            Worker::Leased(driver) => driver.ready(now),
            _ => self.claim(now).is_some(),
        }
    }

    /// The claim, the clock and any problem with either, for the status.
    pub fn lease_snapshot(&self, now: Now) -> Option<Lease> {
        match self {
            Worker::Leased(driver) => Some(driver.snapshot(now)),
            _ => None,
        }
    }

    /// The current problem, for the status.
    pub fn error(&self, now: Now) -> Option<String> {
        match self {
            Worker::Leased(driver) => driver.error(now),
            Worker::Static(worker) => worker.borrow().as_ref().err().cloned(),
            _ => None,
        }
    }
}

/// Whether a problem ends on its own.
fn passes_by_itself(trouble: &LeaseProblem) -> bool {
    !matches!(
        trouble,
        LeaseProblem::Refused(_) | LeaseProblem::Replaced(_) | LeaseProblem::Stopping
    )
}
