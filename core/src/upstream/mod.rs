//! A store as one daemon knows it: whether it is the one that is meant, whether it lost commits, who has told it what,
//! and when claims may go on.
//!
//! [`Monitor`] is a state machine in the form of the lease's. Time and chance are arguments; it emits one [`Step`] at a
//! time and is fed each outcome, by the daemon or by a simulator.
//!
//! A store whose history has changed may have lost the last commits that it had acknowledged: claims of numbers that are
//! in use. So every daemon pushes its high-water marks, the highest end that it has seen of each tag, and only when all
//! have had the time to does any of them claim again. The time counts from when the first daemon noted the new history,
//! and the store's own clock alone measures it: whoever has pushed before it is over, says the store, has pushed before
//! anybody claims, and keeps what it holds. Whoever is late may hold numbers that were claimed anew, and drops them.
//!
//! - `state`: what to do next.
//! - `check_in`: the first meeting with a store, and whether it is the one that is meant.
//! - `failover`: from a changed history to claims that go on.
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

/// What a monitor is told once.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where the store is, without secrets, for messages.
    pub url: Arc<str>,
    /// What it should say about its place among the stores.
    pub role: Role,
    /// Whether it is this host's own file: nobody else claims from it.
    pub embedded: bool,
    /// The store that the journal says was last at this URL, and the history that was trusted.
    pub remembered: Option<(StoreId, History)>,
    /// How long claims wait after a fail-over, in milliseconds, from when the first daemon noted it.
    pub settle_ms: u64,
    /// The longest time between two probes of a store that answers, in milliseconds.
    pub probe_ms: u64,
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Call the store and pass its answer to [`Monitor::answered`].
    Request(Request),
    /// Make this durable, then call [`Monitor::recorded`].
    Record(Record),
    /// Act on this before the next step is taken.
    Event(Event),
    /// Nothing until then, or until something else happens; `None`: until something happens.
    Wait(Option<BootMs>),
}

/// A call of the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Which store answers.
    Identity,
    /// Whether it has, or remembers, any tag.
    HasTags,
    /// Record its place among the stores.
    TakeRole(Identity, Role),
    /// Enter this start of the host, and look up what the journal has of this store.
    CheckIn(Identity),
    /// How long ago its history was first noted; note it if nobody has.
    NoteHistory(Identity),
    /// Tell everybody that it has lost commits.
    DeclareLoss(Identity),
    /// Lift every tag to the highest end that this host has seen, in the journal or in use.
    PushHighWater(Identity),
}

/// What a call came to.
#[derive(Clone, Debug)]
pub enum Response {
    /// To [`Request::Identity`].
    Identity(Result<Identity, StoreError>),
    /// To [`Request::HasTags`].
    HasTags(Result<bool, StoreError>),
    /// To [`Request::TakeRole`].
    TakeRole(Result<(), StoreError>),
    /// To [`Request::CheckIn`]: the history that the journal has of it.
    CheckIn(Result<Option<History>, StoreError>),
    /// To [`Request::NoteHistory`], in milliseconds; `None` where only Leaf's table is, which has no place for it.
    NoteHistory(Result<Option<u64>, StoreError>),
    /// To [`Request::DeclareLoss`]: whether there was anybody to tell.
    DeclareLoss(Result<bool, StoreError>),
    /// To [`Request::PushHighWater`]: how many tags this host knows.
    PushHighWater(Result<usize, StoreError>),
}

/// A change for the journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// This start is entered in a store, whose history is trusted to be this.
    CheckedIn(StoreId, History),
    /// A store's new history has been dealt with.
    History(StoreId, History),
}

/// What became of a store, for those who live in it and for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A call failed, for the first time or for another reason than before.
    Away(StoreError),
    /// It answers again.
    Back,
    /// It can be asked again, or claimed from: whatever waits for it goes on.
    Resumed,
    /// This host is entered in it. What is held of another store that was here before is dropped.
    CheckedIn(StoreId),
    /// Its history has changed; `noted_ms` ago somebody noted it first, and claims wait for another `left_ms`.
    FailedOver {
        /// The new history.
        to: History,
        /// How long ago it was noted.
        noted_ms: u64,
        /// For how long claims wait.
        left_ms: u64,
    },
    /// It is back at a history that this host had left: it lost what was done since.
    WentBack(History),
    /// Numbers held of it may have been claimed anew: they are dropped.
    Distrusted,
    /// It was told of so many tags, and is claimed from again.
    Settled(usize),
    /// It is not what it should be: nothing is claimed from it.
    Refused(StoreError),
    /// It is another database than the one that numbers are held of: they are not issued, but kept.
    SetAside,
}
