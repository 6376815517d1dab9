//! A store as one daemon sees it: whether it is the expected one, whether it lost commits, which numbers were reported
//! to it, and when claims may continue.
//!
//! [`Monitor`] is a state machine, like the lease. Time and randomness are arguments. It returns one [`Step`] at a
//! time, and the daemon or a simulator reports each outcome to it.
//!
//! A store whose history has changed may have lost the last commits that it acknowledged: claims of numbers that are in
//! use. So every daemon pushes its high-water marks, the highest end that it has seen of each tag. No daemon claims
//! again until the others have had time to push, and each waits by its own clock. The first claim records in the store
//! that settling is over. A daemon that pushed before that keeps its held numbers. A late daemon may hold numbers that
//! have been claimed again, and drops them.
//!
//! - `state`: what to do next.
//! - `check_in`: the first contact with a store, and whether it is the expected one.
//! - `failover`: the steps from a changed history to new claims.
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

/// What a monitor needs to know at its start.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Where the store is, without secrets, for messages.
    pub url: Arc<str>,
    /// The role that the store should have.
    pub role: Role,
    /// Whether it is this host's own file: no other host claims from it.
    pub embedded: bool,
    /// The store that was last at this URL, and its trusted history, according to the journal.
    pub remembered: Option<(StoreId, History)>,
    /// How long claims wait after a fail-over, in milliseconds.
    pub settle_ms: u64,
    /// The longest time between two probes of an answering store, in milliseconds.
    pub probe_ms: u64,
    /// The longest time, in milliseconds, that a call may be pending before the store counts as unavailable.
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

/// A call to the store or the journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    Identity,
    /// Ask whether the store has, or remembers, any tag.
    HasTags,
    TakeRole(Identity, Role),
    /// Record this start of the host, and look up the journal's entry of this store.
    CheckIn(Identity),
    /// Ask whether claims were made in its current life, and record this host in it.
    IsSettled(Identity),
    /// Begin a new life, unless the store has already begun one, because it has or may have lost commits. The history
    /// is the one that this host trusts.
    Renew(Identity, Option<History>),
    /// Raise every tag to the highest end that this host has seen, according to the journal or the tags in use.
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
    /// To [`Request::PushHighWater`]: the number of tags that this host knows.
    PushHighWater(Result<usize, StoreError>),
    Record(Result<(), StoreError>),
}

/// A change for the journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// The store has recorded this start, and this history of it is trusted.
    CheckedIn(StoreId, History),
    /// This host has settled in the store's new history.
    History(StoreId, History),
}

/// What happened to a store, for the engine and the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A call failed, for the first time or for another reason than before.
    Away(StoreError),
    Back,
    /// It can be queried or claimed from again, so everything that waits for it continues.
    Resumed,
    /// It has recorded this host. Held ids of a former store in its place are dropped.
    CheckedIn(StoreId),
    /// Its history has changed to this one, and claims wait.
    FailedOver(History),
    /// It lost the beginning of the life that this host trusts, and everything since.
    WentBack(History),
    /// Its held numbers may have been claimed again, and are dropped.
    Distrusted,
    /// This many tags were pushed to it, and claims continue.
    Settled(usize),
    /// It is not the expected store, or not in the expected state: nothing is claimed from it.
    Refused(StoreError),
    /// It is a different database than the one that granted the held numbers. They are kept, but not issued.
    SetAside,
}
