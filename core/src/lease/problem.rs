//! Why a host has no worker, or soon will have none: what was tried, what happened and what to do next.

use std::fmt;

use super::{Reference, Skew, Taken};
use crate::WorkerId;
use crate::registry::RegistryId;
use crate::store::{Reason, Why};

/// Why there is no worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeaseProblem {
    /// No id has been requested yet.
    Unused,
    /// The registry is being queried.
    Starting,
    /// The registry can't be reached.
    Away(Reason),
    /// The clock can't be trusted.
    Clock(Skew),
    /// Every worker is taken.
    Taken(Box<Taken>),
    /// Another live daemon has this host's identity.
    IdentityInUse {
        name: String,
        worker: WorkerId,
        /// How long ago it wrote, in milliseconds.
        written_ms_ago: u64,
        /// Whether the other is a Java Leaf, by the form of what it wrote.
        is_leaf: bool,
    },
    /// The registry may have lost writes. Hosts take no new leases for this long, in milliseconds.
    Settling(u64),
    /// Another host has the worker, or another life of this host had it.
    Lost(WorkerId),
    /// The registry that answers is not the one that granted the claim.
    Replaced(Box<(RegistryId, RegistryId)>),
    /// The host gets no worker until an operator fixes this.
    Refused(Reason),
    /// The worker is being released.
    GivingBack,
    Stopping,
}

impl LeaseProblem {
    /// The class of its reason.
    pub fn why(&self) -> Why {
        match self {
            LeaseProblem::Away(reason) | LeaseProblem::Refused(reason) => reason.why,
            _ => Why::Other,
        }
    }
}

impl fmt::Display for LeaseProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LeaseProblem::Unused => f.write_str("no snowflake id has been requested yet"),
            LeaseProblem::Starting => f.write_str("the worker registry has not answered yet"),
            LeaseProblem::Away(cause) | LeaseProblem::Refused(cause) => f.write_str(cause),
            LeaseProblem::Clock(skew) => {
                write!(f, "{skew}; correct the clock, and ids resume on their own")
            }
            LeaseProblem::Taken(taken) => write!(f, "{taken}"),
            LeaseProblem::IdentityInUse { name, worker, written_ms_ago, is_leaf: true } => write!(
                f,
                "a Java Leaf has the identity {name:?} and worker {worker} (it last wrote {written_ms_ago} ms ago): \
                 this daemon takes over 10 s after its last write; if it still runs, stop it, disable its supervisor \
                 and delete its workerID.properties, or give this daemon its own identity"
            ),
            LeaseProblem::IdentityInUse { name, worker, written_ms_ago, is_leaf: false } => write!(
                f,
                "another live daemon has the identity {name:?} and worker {worker} (it last wrote {written_ms_ago} ms \
                 ago): give each daemon its own identity, or stop the other one; this one retries on its own"
            ),
            LeaseProblem::Settling(left_ms) => write!(
                f,
                "the worker registry may have lost writes in a fail-over: no worker is leased for another {left_ms} \
                 ms, until every host has reported its lease (failover_settle)"
            ),
            LeaseProblem::Lost(worker) => {
                write!(f, "this host has lost worker {worker}; it is leasing another one")
            }
            LeaseProblem::Replaced(both) => {
                let (expected, found) = &**both;
                write!(
                    f,
                    "the worker registry is now {found}, but this host's lease is from {expected}: restore the latter"
                )
            }
            LeaseProblem::GivingBack => f.write_str("the worker is being released"),
            LeaseProblem::Stopping => f.write_str("the daemon is stopping"),
        }
    }
}

impl fmt::Display for Skew {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Skew { by_ms, ahead, .. } = self;
        let side = if *ahead { "ahead of" } else { "behind" };
        match self.of {
            Reference::Registry => {
                write!(f, "the host's clock is {by_ms} ms {side} the worker registry's")
            }
            Reference::Peers(count) => {
                write!(f, "the host's clock is {by_ms} ms {side} those of {count} live hosts")
            }
        }
    }
}
