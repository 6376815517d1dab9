//! Has the store remember which host claimed what, for as long as `claims_kept` says.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use tracing::warn;

use super::tag::shard_number;
use super::{SegmentTag, Segments};
use crate::store::StoreHandle;
use leafd_core::store::ClaimedBy;

/// Of how many claims one is followed by the deletion of old ones: at random, so that hosts don't do it together.
const CLAIMS_A_DELETION: u32 = 16;

/// How many old claims that deletes at most: more than were made in between, so that their number comes down.
const DELETED_AT_ONCE: u32 = 64;

/// What is remembered of this host's claims.
#[derive(Debug)]
pub struct ClaimLog {
    name: Arc<str>,
    /// How long; zero: nothing is.
    kept: Duration,
    /// Whether the log has been told that old claims can't be deleted.
    warned: Cell<bool>,
}

impl ClaimLog {
    /// Under this name of the host, and for so long; zero for not at all.
    #[must_use]
    pub fn new(name: Arc<str>, kept: Duration) -> ClaimLog {
        ClaimLog { name, kept, warned: Cell::new(false) }
    }
}

impl SegmentTag {
    /// The lowest id of a shard that is held and not issued.
    pub(crate) fn holds_from(&self, shard: usize) -> Option<u64> {
        let allocator = self.allocator.borrow();
        let held = allocator.exact_marks().filter(|(of, ..)| *of == shard_number(shard));
        held.map(|(.., first)| first).min()
    }
}

impl Segments {
    /// As whom this host claims from a tag's shard, if claims are to be remembered.
    pub(crate) fn claimed_by(&self, tag: &SegmentTag, shard: usize) -> Option<ClaimedBy> {
        let ClaimLog { name, kept, .. } = &self.claim_log;
        let by = || ClaimedBy {
            host: self.host.borrow().clone(),
            name: Arc::clone(name),
            holds_from: tag.holds_from(shard),
        };
        (!kept.is_zero()).then(by)
    }

    /// Deletes some claims that are older than is wanted, now and then. Whoever made the last one has its answer already.
    pub(crate) async fn forget_claims(&self, store: &StoreHandle) {
        let ClaimLog { kept, warned, .. } = &self.claim_log;
        if kept.is_zero() || fastrand::u32(..CLAIMS_A_DELETION) != 0 {
            return;
        }
        if let Err(error) = store.forget_claims(*kept, DELETED_AT_ONCE).await
            && !warned.replace(true)
        {
            warn!("old claims were not deleted from leafd_claim: {error}");
        }
    }
}
