//! The plain types of a registry of worker numbers.
//!
//! A claim is a range of time: [`LeaseRecord::expires`] says until when its holder may issue; the next holder starts there. So
//! an entry is never removed, also when nobody holds its worker any more: its expiry must stay known.
//!
//! - `error`: why a call fails.
//! - `check`: which writes are possible at all, and what a compare-and-set comes to; the same for every backend.

mod check;
mod error;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::store::{History, Identity, StartToken, StoreId};
use crate::{UnixMs, WorkerId};

pub use check::{INSTANT_MAX, check_id, definition};
pub use error::RegistryError;

/// How the numbers of a registry that knows both ways are held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// For a while, over and over: whoever comes first takes a number whose expiry has passed.
    Leased,
    /// For good, as Leaf gives them: each identity keeps the number that it was once given.
    Permanent,
}

/// Which registry answers, and which of its lives it is in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegistryId {
    /// Which registry it is. Journal entries are keyed by it.
    pub id: StoreId,
    /// Changes whenever it may have lost what it acknowledged.
    pub history: History,
}

/// What a registry knows at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// Which registry answered.
    pub registry: RegistryId,
    /// How long ago, on its own clock, the present history was first noticed by anybody: for ever ago when it is the
    /// first one. `None` when the registry has never lost what it acknowledged.
    pub history_age: Option<Duration>,
    /// Its clock.
    pub now: UnixMs,
    /// The workers that ever had a holder.
    pub entries: Vec<Entry>,
}

/// What is recorded of a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its number.
    pub worker: WorkerId,
    /// Who has it until when.
    pub holding: LeaseRecord,
    /// The holder's own clock when it last wrote.
    pub seen: UnixMs,
    /// The registry's clock then.
    pub written: UnixMs,
}

/// Who has a worker, and until when. A write replaces one of these by another and is compared with all of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseRecord {
    /// Who; `None` when it was given back.
    pub holder: Option<Holder>,
    /// Ids whose whole tick lies before this instant may have been issued with it, and by its holder may still be;
    /// whoever is next starts here.
    pub expires: UnixMs,
}

/// Somebody who has a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Who: a host's journal by its id (leased), or the configured identity (permanent).
    /// 1 to [`HOLDER_BYTES_MAX`] bytes of printable ASCII without spaces.
    pub id: Arc<str>,
    /// What people call it: the configured identity or the host's name; the same characters and length.
    pub name: Arc<str>,
    /// Which of its lives: drawn anew at each start; see [`Holder::has_stopped`]. The same characters and length; empty
    /// in what a holder wrote that tells none, as Leaf's don't.
    pub incarnation: StartToken,
}

/// A worker was taken by somebody who did not have it before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taking {
    /// By whom. The incarnation is the one that took it.
    pub holder: Holder,
    /// Ids whose tick lies before this instant are earlier holders': where the holding before it ended. 0 where there was
    /// none.
    pub since: UnixMs,
    /// The registry's clock then.
    pub taken: UnixMs,
}

/// Who had a worker at an instant, as far as the registry remembers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Former {
    /// The last taking that began at that instant or before.
    pub taking: Option<Taking>,
    /// The one after it.
    pub next: Option<Taking>,
}

/// A compare-and-set of one worker's entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompareAndSet {
    /// Which worker.
    pub worker: WorkerId,
    /// What must be recorded now; `None`: nothing, no host ever had it.
    pub expected: Option<LeaseRecord>,
    /// What is to be recorded.
    pub next: LeaseRecord,
    /// The writer's own clock, to be recorded beside it.
    pub seen: UnixMs,
    /// How far the expiry may lie beyond the registry's clock.
    pub ahead_max: Duration,
}

/// Longest holder id and name in bytes.
pub const HOLDER_BYTES_MAX: usize = 255;

/// What an incarnation begins with once it has stopped.
const STOPPED: &str = "stopped-";

impl Entry {
    /// Whether somebody has the worker who has not stopped.
    #[must_use]
    pub fn in_use(&self) -> bool {
        self.holding.holder.as_ref().is_some_and(|holder| !holder.has_stopped())
    }
}

impl Holder {
    /// Whether this life of the holder is over by its own word: it issues nothing more.
    #[must_use]
    pub fn has_stopped(&self) -> bool {
        self.incarnation.0.starts_with(STOPPED)
    }

    /// The same holder after its end.
    #[must_use]
    pub fn to_stopped(&self) -> Holder {
        let mut stopped = self.clone();
        if !self.has_stopped() {
            stopped.incarnation = StartToken(format!("{STOPPED}{}", self.incarnation.0).into());
        }
        stopped
    }
}

impl fmt::Display for RegistryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} with history {}", self.id, self.history)
    }
}

impl From<Identity> for RegistryId {
    /// What the store is among several says nothing about its workers.
    fn from(store: Identity) -> RegistryId {
        RegistryId { id: store.id, history: store.history }
    }
}
