//! Has the store remember which host claimed which ids, for as long as `claims_kept` says.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use tracing::warn;

use super::tag::shard_number;
use super::{SegmentTag, Segments};
use crate::store::StoreHandle;
use leafd_core::store::ClaimedBy;

/// One of this many claims is followed by the deletion of old records. It is chosen at random, so that hosts don't
/// delete at the same time.
const CLAIMS_A_DELETION: u32 = 16;

/// How many old records that deletes at most: more than were made in between, so that their number goes down.
const DELETED_AT_ONCE: u32 = 64;

/// How this host's claims are recorded.
#[derive(Debug)]
pub struct ClaimLog {
    name: Arc<str>,
    /// How long records are kept. Zero: nothing is recorded.
    kept: Duration,
    /// Whether the log already says that old records can't be deleted.
    warned: Cell<bool>,
}

impl ClaimLog {
    /// Records claims under this name of the host, and keeps them for `kept`; zero for no records.
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
    /// What to record of a claim from a tag's shard; `None` if claims are not recorded.
    pub(crate) fn claimed_by(&self, tag: &SegmentTag, shard: usize) -> Option<ClaimedBy> {
        let ClaimLog { name, kept, .. } = &self.claim_log;
        let by = || ClaimedBy {
            host: self.host.borrow().clone(),
            name: Arc::clone(name),
            holds_from: tag.holds_from(shard),
        };
        (!kept.is_zero()).then(by)
    }

    /// Now and then deletes some records that are older than `kept`. Call this after the claim was answered.
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
