//! A host's worker number: claimed as a range of time, recorded before use, renewed ahead of time, and released.
//!
//! [`Lease`] is a state machine for its whole life. Time and randomness are arguments. It returns one [`Step`] at a
//! time, and the caller reports each outcome to it, so both a daemon and a simulator can drive it. The order is always
//! the same: first the registry, then the journal, then use. [`Lease::standing`] returns what may be issued now, and
//! one [`Generator`](crate::snowflake::Generator) per layout follows it. A *life* of a host is the time from a start of
//! its daemon to the end of that daemon.
//!
//! - `selection`: which worker of a pool to claim.
//! - `clock`: whether the host's clock can be trusted.
//! - `state`: what to do next, and what each outcome means.
//! - `reconcile`: what the registry's entries mean for the held worker.
//! - `release`: a clean stop, and the release of a worker.
//! - `problem`: why there is no worker.

mod clock;
mod problem;
mod reconcile;
mod release;
mod selection;
mod state;
#[cfg(test)]
mod tests;

use std::ops::Range;
use std::sync::Arc;

use crate::registry::{
    CompareAndSet, Entry, Holder, LeaseRecord, RegistryError, RegistryId, Snapshot,
};
use crate::{BootMs, UnixMs, WorkerId};

pub use crate::registry::Mode;

pub use clock::{Clock, Reference, Skew};
pub use problem::LeaseProblem;
pub use selection::Taken;
pub use state::Lease;

/// The settings of a lease.
#[derive(Clone, Debug)]
pub struct LeaseSettings {
    /// Whether workers are claimed for a limited time or permanently.
    pub mode: Mode,
    /// The workers that may be claimed. All fit every layout's worker field.
    pub pool: Range<u64>,
    /// The claimant: the journal's host id (leased), or the configured identity (permanent). The incarnation identifies
    /// this start.
    pub holder: Holder,
    /// Whether the holder's name was configured. Two live holders with the same configured name are a misconfiguration.
    pub named: bool,
    /// Where the registry is, without secrets. A recorded claim is used only with the registry at the same place.
    pub place: Arc<str>,
    /// Whether the registry is this host's own file. If so, a new file in its place doesn't belong to another fleet.
    pub embedded: bool,
    /// How far ahead a worker is claimed, in milliseconds. Ids survive a registry outage of this length.
    pub lease_ms: u64,
    /// How long after a clean stop the worker is kept for this host, in milliseconds.
    pub restart_grace_ms: u64,
    /// How far the host's clock may differ from the registry's and the peers', and may step forward without
    /// confirmation.
    pub clock_threshold_ms: u64,
    /// How far the logical clock may run ahead of the wall clock.
    pub drift_max_ms: u64,
    /// How long hosts take no new leases after the registry may have lost writes, in milliseconds; `None` for a
    /// registry that never loses any.
    pub settle_ms: Option<u64>,
}

/// A claim as the journal records it.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Recorded {
    /// Where the registry was.
    pub place: Arc<str>,
    /// Which registry it was.
    pub registry: RegistryId,
    pub worker: WorkerId,
    /// Ids before this instant may be an earlier holder's.
    pub start: UnixMs,
    /// The registry's entry. Ids up to its expiry may be issued.
    pub holding: LeaseRecord,
    /// The registry's entry if it may still differ from `holding`, because a stop's last write may not have arrived.
    pub earlier: Option<LeaseRecord>,
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Call the registry or the journal, and pass the outcome to [`Lease::answered`].
    Request(Request),
    /// Do nothing until then or until the next event; `None`: until the next event.
    Wait(Option<BootMs>),
    /// The claim was released as far as possible. No further step follows.
    Done,
}

/// A call to the registry or the journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Register the layouts, unless this registry has them already, and read these workers' entries.
    Snapshot(Range<u64>),
    CompareAndSet(RegistryId, CompareAndSet),
    /// Assign a permanent worker to a holder.
    Assign(RegistryId, Range<u64>, LeaseRecord),
    /// Record this claim in the journal; `None`: record that there is none.
    Record(Option<Recorded>),
}

/// The outcome of a call.
#[derive(Clone, Debug)]
pub enum Response {
    Snapshot(Result<Snapshot, RegistryError>),
    CompareAndSet(Result<UnixMs, RegistryError>),
    Assign(Result<Entry, RegistryError>),
    /// The answer to [`Request::Record`]. An error is the journal's reason for refusing.
    Record(Result<(), String>),
}

/// What may be issued now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IssueWindow {
    pub worker: WorkerId,
    /// Ids may be issued from this instant on.
    pub start: UnixMs,
    /// Only ids whose whole tick lies before this instant may be issued.
    pub limit: UnixMs,
}

impl IssueWindow {
    /// A worker without a registry. The operator who configured it must make sure that it is unique.
    pub fn fixed(worker: WorkerId) -> IssueWindow {
        IssueWindow { worker, start: UnixMs(0), limit: FOREVER }
    }
}

/// The end of a claim that never expires.
pub const FOREVER: UnixMs = UnixMs(u64::MAX);

impl LeaseSettings {
    /// How often a claim is renewed, in milliseconds. If a registry may have lost its last writes, every holder must
    /// renew before any host takes a new lease. So the interval is well below the settling time.
    pub fn renew_every_ms(&self) -> u64 {
        let within_settling =
            self.settle_ms.map_or(u64::MAX, |settle| settle / 3).max(RENEW_MS_MIN);
        match self.mode {
            Mode::Leased => {
                (self.lease_ms / 60).clamp(RENEW_MS_MIN, RENEW_MS_MAX).min(within_settling)
            }
            Mode::Permanent => PERMANENT_RENEW_MS,
        }
    }

    /// How long a holder counts as alive after its last write, by the registry's clock, in milliseconds.
    fn alive_ms(&self) -> u64 {
        self.renew_every_ms().saturating_mul(3).max(ALIVE_MS_MIN)
    }

    /// How far an expiry may lie ahead of the registry's clock, in milliseconds.
    fn ahead_max_ms(&self) -> u64 {
        self.lease_ms.saturating_add(self.clock_threshold_ms)
    }
}

/// Bounds of the time between renewals.
const RENEW_MS_MIN: u64 = 1_000;
const RENEW_MS_MAX: u64 = 10_000;

/// Leaf's own interval.
const PERMANENT_RENEW_MS: u64 = 3_000;

/// How far ahead of the clock a permanent worker's recorded time is set, in milliseconds. It must outlast the next
/// renewal.
const PERMANENT_AHEAD_MS: u64 = 5_000;

/// The minimum time for which a holder counts as alive after a write, in milliseconds, however often it renews.
const ALIVE_MS_MIN: u64 = 5_000;
