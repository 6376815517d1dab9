//! The plain types of a registry of worker numbers.
//!
//! A claim is a range of time. Its holder may issue until [`LeaseRecord::expires`], and the next holder starts there.
//! So an entry is never removed, even if its worker no longer has a holder, because the expiry must be remembered.
//!
//! - `error`: why a call fails.
//! - `check`: which writes are possible, and the outcome of a compare-and-set; the same for every backend.

mod check;
mod error;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::store::{History, Identity, StartToken, StoreId};
use crate::{UnixMs, WorkerId};

pub use check::{INSTANT_MAX, check_id, new_layouts};
pub use error::RegistryError;

/// How a registry that supports both modes assigns its numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// For a limited time, renewed repeatedly. Any host may take a number whose expiry has passed.
    Leased,
    /// Permanently, as Leaf does: each identity keeps the number that it got first.
    Permanent,
}

/// Which registry answers, and in which of its lives.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct RegistryId {
    /// Which registry it is. Journal entries are keyed by it.
    pub id: StoreId,
    /// Changes whenever the registry may have lost acknowledged writes.
    pub history: History,
}

/// The content of a registry at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    pub registry: RegistryId,
    /// How long ago the current history was first noticed, by the registry's own clock; the maximum if it is the first
    /// history. `None` if the registry has never lost acknowledged writes.
    pub history_age: Option<Duration>,
    pub now: UnixMs,
    /// The workers that have ever had a holder.
    pub entries: Vec<Entry>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub worker: WorkerId,
    /// Who has it, and until when.
    pub holding: LeaseRecord,
    /// The holder's own clock when it last wrote.
    pub seen: UnixMs,
    /// The registry's clock at that time.
    pub written: UnixMs,
}

/// Who has a worker, and until when. A write replaces all of it, and succeeds only if all of it is as expected.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct LeaseRecord {
    /// The holder; `None` if the worker was released.
    pub holder: Option<Holder>,
    /// The holder may issue ids whose whole tick lies before this instant, and may have done so. The next holder starts
    /// here.
    pub expires: UnixMs,
}

/// The holder of a worker.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Holder {
    /// A host's journal by its id (leased), or the configured identity (permanent). 1 to [`HOLDER_BYTES_MAX`] bytes of
    /// printable ASCII without spaces.
    pub id: Arc<str>,
    /// The name for people: the configured identity or the host's name. The same characters and length are allowed.
    pub name: Arc<str>,
    /// Identifies a start of the holder: drawn again each time; see [`Holder::has_stopped`]. The same characters and
    /// length are allowed. Empty in an entry that names none, such as Leaf's.
    pub incarnation: StartToken,
}

/// The moment when a worker got a new holder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taking {
    /// The new holder, with the incarnation that took the worker.
    pub holder: Holder,
    /// Ids whose tick lies before this instant are earlier holders': the earlier claim ended here. 0 if there was none.
    pub since: UnixMs,
    /// The registry's clock at that time.
    pub taken: UnixMs,
}

/// Who had a worker at an instant, as far as the registry remembers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Former {
    /// The last taking that began at or before that instant.
    pub taking: Option<Taking>,
    pub next: Option<Taking>,
}

/// A compare-and-set on one worker's entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompareAndSet {
    pub worker: WorkerId,
    /// The expected entry; `None`: none, because no host has ever had the worker.
    pub expected: Option<LeaseRecord>,
    pub next: LeaseRecord,
    /// The writer's own clock, recorded with the entry.
    pub seen: UnixMs,
    /// How far the expiry may lie ahead of the registry's clock.
    pub ahead_max: Duration,
}

/// Longest holder id and name in bytes.
pub const HOLDER_BYTES_MAX: usize = 255;

/// The prefix of an incarnation that has stopped.
const STOPPED: &str = "stopped-";

impl Entry {
    /// Whether the worker has a holder that has not stopped.
    pub fn in_use(&self) -> bool {
        self.holding.holder.as_ref().is_some_and(|holder| !holder.has_stopped())
    }
}

impl Holder {
    /// Whether this life has reported its own end, so that it issues no more ids.
    pub fn has_stopped(&self) -> bool {
        self.incarnation.0.starts_with(STOPPED)
    }

    /// Whether this is the life of a daemon that drew this token at its start, which may have ended since.
    pub fn started_as(&self, token: &StartToken) -> bool {
        let incarnation = self.incarnation.0.strip_prefix(STOPPED);
        incarnation.unwrap_or(&self.incarnation.0) == &*token.0
    }

    /// The same holder, marked as stopped.
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
    /// The store's role is omitted, because it doesn't affect workers.
    fn from(store: Identity) -> RegistryId {
        RegistryId { id: store.id, history: store.history }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_holder_is_stopped_once_and_keeps_its_token() {
        let [token, other] = ["1", "2"].map(|token| StartToken(token.into()));
        let holder = Holder { id: "h".into(), name: "n".into(), incarnation: token.clone() };
        let stopped = holder.to_stopped();
        assert_eq!([holder.has_stopped(), stopped.has_stopped()], [false, true]);
        assert_eq!(stopped.to_stopped(), stopped);
        assert!([&holder, &stopped].iter().all(|one| one.started_as(&token)));
        assert!(![&holder, &stopped].iter().any(|one| one.started_as(&other)));
    }
}
