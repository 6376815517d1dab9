//! A store as one daemon sees it: whether it is the expected one, whether it lost commits, which numbers it has been
//! told of, and when claims may continue.
//!
//! [`Monitor`] is a state machine, like the lease. Time and chance are arguments. It emits one [`Step`] at a time and
//! is fed each outcome, by the daemon or by a simulator.
//!
//! A store whose history has changed may have lost the last commits that it acknowledged: claims of numbers that are in
//! use. So every daemon pushes its high-water marks, the highest end that it has seen of each tag. No daemon claims
//! again until the others have had time to push. Each waits by its own clock. The first claim records in the store that
//! the time is over. A daemon that pushed before that keeps what it holds. A late daemon may hold numbers that were
//! claimed anew, and drops them.
//!
//! - `state`: what to do next.
//! - `check_in`: the first meeting with a store, and whether it is the expected one.
//! - `failover`: from a changed history to new claims.
//! - `condition`: what the store can be used for now, and why not.

mod check_in;
mod condition;
mod failover;
mod state;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use crate::BootMs;
use crate::store::{History, Identity, Role, StoreError, StoreId};

pub use condition::{Away, Condition};
pub use state::Monitor;

/// What a monitor is told at its start.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Where the store is, without secrets, for messages.
    pub url: Arc<str>,
    /// The role that the store should have.
    pub role: Role,
    /// Whether it is this host's own file: no other host claims from it.
    pub embedded: bool,
    /// The store that was last at this URL, and its trusted history, by the journal.
    pub remembered: Option<(StoreId, History)>,
    /// How long claims wait after a fail-over, in milliseconds.
    pub settle_ms: u64,
    /// The longest time between two probes of an answering store, in milliseconds.
    pub probe_ms: u64,
    /// A call that is under way for so long, in milliseconds, takes longer than any may.
    pub answer_ms: u64,
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Call the store or the journal, and pass the outcome to [`Monitor::answered`].
    Request(Request),
    /// Act on this before taking the next step.
    Event(Event),
    /// Do nothing until then or until the next event; `None`: until the next event.
    Wait(Option<BootMs>),
}

/// A call of the store, or of the journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    Identity,
    /// Whether it has, or remembers, any tag.
    HasTags,
    TakeRole(Identity, Role),
    /// Record this start of the host, and look up the journal's entry of this store.
    CheckIn(Identity),
    /// Tell whether claims were made in its present life, and enter this host there.
    IsSettled(Identity),
    /// Begin a new life, unless it has begun one by now: it has lost commits, or may have. The history is the one that
    /// this host trusts.
    Renew(Identity, Option<History>),
    /// Raise every tag to the highest end that this host has seen, in the journal or in use.
    PushHighWater(Identity),
    /// Make this durable in the journal.
    Record(Record),
}

/// The outcome of a call.
#[derive(Clone, Debug)]
pub enum Response {
    Identity(Result<Identity, StoreError>),
    HasTags(Result<bool, StoreError>),
    TakeRole(Result<(), StoreError>),
    /// To [`Request::CheckIn`]: the journal's history of it.
    CheckIn(Result<Option<History>, StoreError>),
    /// To [`Request::IsSettled`]; `None` with Leaf's table only, which has no place for it.
    IsSettled(Result<Option<bool>, StoreError>),
    /// To [`Request::Renew`]: whether the store could record it.
    Renew(Result<bool, StoreError>),
    /// To [`Request::PushHighWater`]: how many tags this host knows.
    PushHighWater(Result<usize, StoreError>),
    Record(Result<(), StoreError>),
}

/// A change for the journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// The store has recorded this start, and this history of it is trusted.
    CheckedIn(StoreId, History),
    /// A store's new history has been dealt with.
    History(StoreId, History),
}

/// What happened to a store, for the engine and the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A call failed, for the first time or for another reason than before.
    Away(StoreError),
    Back,
    /// It can be asked or claimed from again: whatever waits for it continues.
    Resumed,
    /// It has recorded this host. What is held of a former store in its place is dropped.
    CheckedIn(StoreId),
    /// Its history has changed to this one, and claims wait.
    FailedOver(History),
    /// It lost everything since it began the life that this host trusts.
    WentBack(History),
    /// Numbers held of it may have been claimed anew, and are dropped.
    Distrusted,
    /// This many tags were pushed to it, and claims continue.
    Settled(usize),
    /// It is not the expected store, or not in the expected state: nothing is claimed from it.
    Refused(StoreError),
    /// It is another database than the one that numbers are held of. They are kept, but not issued.
    SetAside,
}
