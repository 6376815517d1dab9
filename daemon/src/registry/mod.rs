//! Where the snowflake worker number comes from.
//!
//! [`Registry`] is what a backend implements, blocking: a table of workers that changes by compare-and-set alone,
//! and a clock. It decides nothing: which worker to take, for how long and when to let go is for the core
//! (`id::worker`), so that every backend behaves alike and the core can be simulated whole.
//!
//! A claim is a range of time: [`Holding::bound`] says until when its holder may issue; the next holder starts there. So
//! an entry is never removed, also when nobody holds its worker any more: its bound must stay known.
//!
//! - `error`: why a call fails.
//! - `check`: which writes are possible at all, and what a compare-and-set comes to; pure, the same for every backend.
//! - [`fixed`]: a number from the configuration, with no registry behind it.
//! - [`thread`]: a registry on a thread of its own.
//! - [`zookeeper`]: workers in ZooKeeper.
//!
//! Those in a store's database are `store::workers`, on the store's own connection.

mod check;
mod error;
pub mod fixed;
pub mod thread;
pub mod zookeeper;

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use leafd_wire::Layout;

use crate::id::{Tag, UnixMs, WorkerId};
use crate::store::{History, StartToken, StoreId};

pub(crate) use check::{INSTANT_MAX, check_id, definition};
pub use error::RegistryError;
pub use thread::{RegistryHandle, RegistryThread};

/// A registry of workers. Calls block; each returns within the backend's own time bound.
///
/// Every call opens or reopens the connection when there is none. A call that fails with
/// [`RegistryError::Unavailable`] may have been carried out, or may still be later: look again before concluding
/// anything from it.
pub trait Registry: Send {
    /// Records the layouts that are not recorded yet, and checks the others: all hosts of a registry must mean the
    /// same by a layout's name, because their ids are told apart by the worker field alone.
    ///
    /// # Errors
    /// [`RegistryError::Refused`] when one is recorded with another definition (it shows both);
    /// others as for every call.
    fn agree(&mut self, layouts: &[(Tag, Layout)]) -> Result<(), RegistryError>;

    /// Everything there is: the registry's clock and every entry whose worker lies in `pool`, in ascending order.
    ///
    /// # Errors
    /// As for every call.
    fn look(&mut self, pool: Range<u64>) -> Result<Look, RegistryError>;

    /// Replaces what is recorded of a worker if it still is `expected`, in one transaction that is durable when this
    /// returns; answers the registry's clock.
    ///
    /// # Errors
    /// [`RegistryError::Conflict`] when something else is recorded (it has what);
    /// [`RegistryError::TooFarAhead`] when the bound lies more than `ahead_max` beyond the registry's own clock: a
    /// host whose clock is ahead must not take a worker away from everybody for years;
    /// [`RegistryError::Changed`] when the registry is not what `under` says; others as for every call.
    fn swap(&mut self, under: &RegistryId, swap: &Swap) -> Result<UnixMs, RegistryError>;

    /// Enters a holder under a worker of `pool` that the registry chooses and that never had another holder, for
    /// good: this is how permanent numbers are given. The same holder again gets the entry that it has.
    ///
    /// # Errors
    /// [`RegistryError::Exhausted`] when every worker of the pool was given; [`RegistryError::Changed`];
    /// [`RegistryError::Refused`] where numbers can only be leased; others as for every call.
    fn bind(
        &mut self,
        under: &RegistryId,
        pool: Range<u64>,
        holding: &Holding,
    ) -> Result<Entry, RegistryError>;
}

/// How the numbers of a registry that knows both ways are held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// For a while, over and over: whoever comes first takes a number whose bound has passed.
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
pub struct Look {
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
    pub holding: Holding,
    /// The holder's own clock when it last wrote.
    pub seen: UnixMs,
    /// The registry's clock then.
    pub written: UnixMs,
}

/// Who has a worker, and until when. A write replaces one of these by another and is compared with all of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holding {
    /// Who; `None` when it was given back.
    pub holder: Option<Holder>,
    /// Ids whose whole tick lies before this instant may have been issued with it, and by its holder may still be;
    /// whoever is next starts here.
    pub bound: UnixMs,
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

/// A compare-and-set of one worker's entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Swap {
    /// Which worker.
    pub worker: WorkerId,
    /// What must be recorded now; `None`: nothing, no host ever had it.
    pub expected: Option<Holding>,
    /// What is to be recorded.
    pub next: Holding,
    /// The writer's own clock, to be recorded beside it.
    pub seen: UnixMs,
    /// How far the bound may lie beyond the registry's clock.
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
