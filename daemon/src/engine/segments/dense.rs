//! Tags that a host draws from without holding ids: each draw is one claim of exactly the ids that it needs. So an id is
//! missing only if its claim was not answered: after a crash, a lost connection or a fail-over, or because the period
//! had ended. The claim's record shows which one.

use std::rc::Rc;
use std::time::Instant;

use leafd_wire::{Run, Status};
use tokio::sync::oneshot;

use super::claims::UnderWay;
use super::{Cause, SegmentTag, Segments};
use crate::journal::Write;
use crate::reply::Failure;
use crate::store::Store;
use leafd_core::shares::Claimant;
use leafd_core::store::{ClaimWish, StoreError};
use leafd_core::{Backoff, Tag};

/// A dense claim under way. It keeps the tag in use, and the daemon from stopping, until it is answered.
struct ExactClaim {
    tag: Rc<SegmentTag>,
    _under_way: UnderWay,
}

impl ExactClaim {
    fn begin(segments: &Rc<Segments>, tag: &Rc<SegmentTag>) -> ExactClaim {
        tag.claims_exactly.set(true);
        ExactClaim { tag: Rc::clone(tag), _under_way: UnderWay::new(segments) }
    }
}

impl Drop for ExactClaim {
    fn drop(&mut self) {
        self.tag.claims_exactly.set(false);
    }
}

impl SegmentTag {
    /// Refuses draws that don't come through a series.
    pub(super) fn refuses_runs(&self) -> Option<Failure> {
        self.is_dense().then(|| {
            let words =
                format!("tag {:?} counts a dense series: draw with leafctl series next", self.tag);
            Failure::new(Status::ValueRefused, words)
        })
    }
}

impl Segments {
    /// Claims ids of a tag for one draw. No other draw may go through here until this returns.
    ///
    /// # Errors
    /// The failure for the client.
    pub async fn claim_exactly(
        self: &Rc<Self>,
        name: &Tag,
        count: u32,
        claimant: Claimant,
    ) -> Result<Run, Failure> {
        let tag = self.loaded(name, claimant).await?;
        let _claim = ExactClaim::begin(self, &tag);
        let [shard] = &tag.shards[..] else {
            return Err(Failure::new(
                Status::StoreRefused,
                format!("tag {name:?} can't be dense: it lives in independent primaries"),
            ));
        };
        let upstream = &shard.upstream;
        upstream.reachable().await.map_err(|error| Failure::from(&error))?;
        let Some(under) = upstream.claimable() else {
            let reason = upstream.unavailable_reason();
            return Err(reason.unwrap_or_else(|| Failure::store_away("the store is not known yet")));
        };
        let wish = ClaimWish { least: count.into(), ..ClaimWish::new(count.into(), 1) };
        let (by, sent_at) = (self.claimed_by(&tag, 0), Instant::now());
        let (sent_under, sent_name) = (under.clone(), name.clone());
        let claim =
            move |store: &mut Store| store.claim(by.as_ref(), &sent_under, &sent_name, wish);
        let outcome = upstream.store.call(claim).await;
        upstream.claims.answered(&outcome, sent_at.elapsed());
        let claim = outcome.map_err(|error| {
            // It may have been made all the same: the next claim shows what is missing.
            tag.trouble.borrow_mut().backoff.next_ms(0);
            if matches!(error, StoreError::Unavailable { .. }) {
                upstream.call_failed(&error);
            }
            Failure::from(&error)
        })?;
        self.claims.set(self.claims.get() + 1);
        self.note_unanswered(&tag, 0, &claim);
        tag.trouble.borrow_mut().backoff = Backoff::default();
        tag.trouble.borrow_mut().after_crash = false;
        let seen = tag.allocator.borrow().highest_end(0);
        if claim.run.first < seen {
            upstream.lost_commits(&**self, name, seen);
        }
        let lost = claim.run.first < seen || tag.evicted.get() || !upstream.counts(&under);
        let lose = || {
            self.losses.lose(name, Cause::Store, claim.run);
            Failure::store_away(format!(
                "the store of tag {name:?} failed over, or may have, or the tag was deleted, while a claim was in flight; \
                 retry"
            ))
        };
        let Some(store) = upstream.key().filter(|_| !lost) else { return Err(lose()) };
        tag.unconfirmed.take();
        shard.generation.set(Some(claim.generation));
        self.note_ceiling(&tag, claim.run.end() - 1, claim.ceiling);
        super::claims::warn_of_ceiling(&tag, shard, &claim);
        upstream.claims.remember(name, claim.run);
        let (generation, run) = (claim.generation, claim.run);
        tag.allocator.borrow_mut().issued_exactly(run);
        let write = Write::Segment { store, tag: name.clone(), generation, run, mark: run.end() };
        let (recorded, record) = oneshot::channel();
        self.write_journal(&tag, shard, vec![write], move || {
            let _ = recorded.send(());
        });
        // Without the record, a fail-over of the store could repeat the ids.
        record.await.map_err(|_| {
            Failure::journal(format!("the journal has not recorded a claim of tag {name:?}; retry"))
        })?;
        // If the daemon was stopped meanwhile, the store may have failed over without this host's report.
        if upstream.may_issue() { Ok(run) } else { Err(lose()) }
    }
}
