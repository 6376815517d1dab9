//! The worker number of a host: claimed as a range of time, recorded before use, renewed ahead, given back.
//!
//! [`Lease`] is the whole life of it as a state machine. Time and chance are arguments; what it wants done it says
//! as a [`Step`], one at a time, and what came of that it is told: so the daemon can drive it and a simulator too.
//! The order is the same everywhere: the registry first, then the journal, then use. [`Lease::standing`] says what may
//! be issued now; a [`Generator`](crate::snowflake::Generator) per layout follows it.
//!
//! - `selection`: which worker of a pool to claim.
//! - `clock`: whether the host's clock can be believed.
//! - `state`: what to do next.
//! - `reconcile`: what a look at the registry means for what is held.
//! - `responses`: what a write's answer means.
//! - `release`: a clean stop, and giving a worker back.
//! - `problem`: why there is no worker.

mod clock;
mod problem;
mod reconcile;
mod release;
mod responses;
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

pub use clock::{Reference, Skew};
pub use problem::LeaseProblem;
pub use selection::Taken;
pub use state::Lease;

/// What a lease is told once.
#[derive(Clone, Debug)]
pub struct Settings {
    /// For how long workers are claimed.
    pub mode: Mode,
    /// The workers that may be claimed; all fit every layout's worker field.
    pub pool: Range<u64>,
    /// Who claims: leased, the journal's host id; permanent, the configured identity. Its incarnation is this start's.
    pub holder: Holder,
    /// Whether the holder's name was configured. Two live holders of one configured name are a mistake.
    pub named: bool,
    /// Where the registry is, without secrets: a recorded claim counts only for the same place.
    pub place: Arc<str>,
    /// Whether the registry is this host's own file: then another one in its place is no other fleet.
    pub embedded: bool,
    /// How far ahead a worker is claimed, in milliseconds; it is also how long the registry may be away.
    pub lease_ms: u64,
    /// How long after a clean stop the same host finds its worker unclaimed, in milliseconds.
    pub restart_grace_ms: u64,
    /// How far the host's clock may be off the registry's and its peers', and may step forward unconfirmed.
    pub clock_threshold_ms: u64,
    /// How far the logical clock may run ahead of the wall clock.
    pub drift_max_ms: u64,
    /// How long after a registry may have lost writes nobody claims anew, in milliseconds; `None` for one that never
    /// loses any.
    pub settle_ms: Option<u64>,
}

/// A claim as the journal has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// Where the registry was.
    pub place: Arc<str>,
    /// Which registry it was.
    pub registry: RegistryId,
    /// The worker.
    pub worker: WorkerId,
    /// Ids below may be an earlier holder's.
    pub start: UnixMs,
    /// What the registry has of it. Ids up to its bound may be issued.
    pub holding: LeaseRecord,
    /// What the registry has of it unless it has the above: a stop's last write may not have arrived.
    pub earlier: Option<LeaseRecord>,
}

/// A change for the journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// The claim is this; it replaces what was recorded.
    LeaseGrant(Recorded),
    /// There is no claim any more.
    Forget,
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Call the registry and pass its answer to [`Lease::answered`].
    Request(Request),
    /// Make this durable, then call [`Lease::recorded`].
    Record(Record),
    /// Nothing until then, or until something else happens; `None`: until something happens.
    Wait(Option<BootMs>),
    /// The claim was given back as far as possible: nothing more will follow.
    Done,
}

/// A call of the registry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Agree on the layouts, if that was not done with this registry yet, and look at these workers.
    Snapshot(Range<u64>),
    /// Replace an entry.
    CompareAndSet(RegistryId, CompareAndSet),
    /// Enter a holder for good.
    Assign(RegistryId, Range<u64>, LeaseRecord),
}

/// What a call came to.
#[derive(Clone, Debug)]
pub enum Response {
    /// To [`Request::Snapshot`].
    Snapshot(Result<Snapshot, RegistryError>),
    /// To [`Request::CompareAndSet`].
    CompareAndSet(Result<UnixMs, RegistryError>),
    /// To [`Request::Assign`].
    Assign(Result<Entry, RegistryError>),
}

/// What may be issued now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseGrant {
    /// With which worker.
    pub worker: WorkerId,
    /// From here.
    pub start: UnixMs,
    /// Only ids whose whole tick lies before this instant.
    pub limit: UnixMs,
}

impl LeaseGrant {
    /// A worker without a registry: whoever gives it answers for it.
    #[must_use]
    pub fn fixed(worker: WorkerId) -> LeaseGrant {
        LeaseGrant { worker, start: UnixMs(0), limit: FOREVER }
    }
}

/// The limit of a claim that never ends.
pub const FOREVER: UnixMs = UnixMs(u64::MAX);

impl Settings {
    /// How often a claim is renewed, in milliseconds. A registry that may have lost its last writes must hear of every
    /// holder before anybody claims anew, so it is well within the settling time.
    #[must_use]
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

    /// For how long after a write on the registry's clock its writer passes for alive, in milliseconds.
    fn alive_ms(&self) -> u64 {
        self.renew_every_ms().saturating_mul(3).max(ALIVE_MS_MIN)
    }

    /// How far a bound may lie beyond the registry's clock, in milliseconds.
    fn ahead_max_ms(&self) -> u64 {
        self.lease_ms.saturating_add(self.clock_threshold_ms)
    }
}

/// Bounds of the time between renewals.
const RENEW_MS_MIN: u64 = 1_000;
const RENEW_MS_MAX: u64 = 10_000;

/// Leaf's own pace.
const PERMANENT_RENEW_MS: u64 = 3_000;

/// How far ahead the time recorded for a permanent worker lies: beyond the next renewal.
const PERMANENT_AHEAD_MS: u64 = 5_000;

/// Nobody is taken for dead sooner, however fast renewals are.
const ALIVE_MS_MIN: u64 = 5_000;
