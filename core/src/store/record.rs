//! A store's record of a claim: who made it, and when.

use std::sync::Arc;

use leafd_wire::Run;

use super::{Generation, HostId, StartToken};
use crate::UnixMs;

/// The claiming host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimedBy {
    /// The host's journal, by its id.
    pub host: HostId,
    /// The host's name for people: the configured identity or the host's name, at most [`NAME_BYTES_MAX`] bytes of
    /// printable ASCII.
    pub name: Arc<str>,
    /// The lowest id of the tag that the host still holds from earlier claims there; `None`: it holds none. Everything
    /// that it claimed below that has been issued.
    pub holds_from: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimRecord {
    pub run: Run,
    /// The tag's generation at that time.
    pub generation: Generation,
    pub by: ClaimedBy,
    /// The store's clock at that time.
    pub at: UnixMs,
}

/// A host that has used a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostRecord {
    pub host: String,
    /// The token of its daemon's last start.
    pub start: StartToken,
    /// Its name in its last recent claim.
    pub name: Option<String>,
    /// How long ago that was by the store's clock; `None` if it has not claimed recently.
    pub claimed_ms_ago: Option<u64>,
}

/// The longest name of a host in bytes: what a registry of workers can hold.
pub const NAME_BYTES_MAX: usize = crate::registry::HOLDER_BYTES_MAX;

impl ClaimRecord {
    /// Whether the claim took this id.
    pub fn has(&self, id: u64) -> bool {
        let Run { first, stride, .. } = self.run;
        self.run.range().contains(&id) && (id - first).is_multiple_of(u64::from(stride))
    }
}
