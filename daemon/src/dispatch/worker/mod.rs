//! The host's snowflake worker, as those see it who issue ids: which one, until when, and if there is none, why.
//!
//! - `keeper`: drives the lease on a worker, in the background.
//! - `link`: the registry behind it.
//! - `admin`: what operators ask about workers.

mod admin;
mod keeper;
mod link;

use std::cell::Cell;
use std::rc::Rc;

use serde_json::{Value, json};

use super::Failure;
use crate::id::snowflake::Now;
use crate::id::worker::{Claim, Trouble};
use crate::id::{UnixMs, WorkerId};

pub use keeper::Keeper;
use leafd_wire::Status;
pub use link::Link;

/// Where the worker comes from.
pub enum Worker {
    /// Nowhere.
    None,
    /// From the operator; `None` once it was lost.
    Fixed(Cell<Option<WorkerId>>),
    /// From a registry.
    Kept(Rc<Keeper>),
}

/// What a request is told when no worker id is to be had.
const NO_WORKER: &str = "this daemon holds no snowflake worker id; have it claim one with worker = \"store\" (of several stores \
                         worker = \"store:NAME\"), or name one that no other host has, with --worker static:N, \
                         LEAFD_WORKER=static:N or worker = \"static:N\"";

impl Worker {
    /// What may be issued now.
    #[must_use]
    pub fn claim(&self, now: Now) -> Option<Claim> {
        match self {
            Worker::None => None,
            Worker::Fixed(worker) => worker.get().map(Claim::fixed),
            Worker::Kept(keeper) => keeper.claim(now),
        }
    }

    /// The clocks as ids are to be made of them.
    #[must_use]
    pub fn hold(&self, now: Now) -> Now {
        match self {
            Worker::Kept(keeper) => keeper.hold(now),
            _ => now,
        }
    }

    /// An id was asked for. True: it is worth waiting for a worker.
    pub fn want(&self) -> bool {
        match self {
            Worker::Kept(keeper) => keeper.want(),
            _ => false,
        }
    }

    /// Why there is no worker, or none for the present time.
    #[must_use]
    pub fn excuse(&self) -> Failure {
        match self {
            Worker::Kept(keeper) => keeper.excuse(),
            _ => Failure::new(Status::NoWorker, NO_WORKER),
        }
    }

    /// The journal has this bound of a layout.
    pub fn journal_reached(&self, bound: UnixMs) {
        if let Worker::Kept(keeper) = self {
            keeper.journal_reached(bound);
        }
    }

    /// The operator's number is this host's no longer.
    pub fn give_up(&self) {
        if let Worker::Fixed(worker) = self {
            worker.set(None);
        }
    }

    /// Whether ids can be had, or could be by asking for one.
    #[must_use]
    pub fn ready(&self, now: Now) -> bool {
        match self {
            Worker::Kept(keeper) => keeper.ready(now),
            _ => self.claim(now).is_some(),
        }
    }

    /// For the status: the number that is held.
    #[must_use]
    pub fn number(&self, now: Now) -> Option<u64> {
        self.claim(now).map(|claim| claim.worker.0)
    }

    /// For the status: the claim, the clock and what is wrong with either.
    #[must_use]
    pub fn details(&self, now: Now) -> Value {
        match self {
            Worker::Kept(keeper) => keeper.details(now),
            _ => json!(null),
        }
    }

    /// For the status: what is wrong.
    #[must_use]
    pub fn error(&self, now: Now) -> Option<String> {
        match self {
            Worker::Kept(keeper) => keeper.error(now),
            Worker::Fixed(worker) if worker.get().is_none() => Some(NO_WORKER.to_owned()),
            _ => None,
        }
    }
}

/// Whether a trouble ends without anybody doing something.
fn passes_by_itself(trouble: &Trouble) -> bool {
    !matches!(trouble, Trouble::Refused(_) | Trouble::Replaced(_) | Trouble::Stopping)
}
