//! Claims: what the allocator wants from the store, and what comes of it.

use std::rc::Rc;

use tracing::warn;

use super::{SegmentTag, Segments};
use crate::clock;
use crate::dispatch::Failure;
use crate::dispatch::backoff::Backoff;
use crate::dispatch::underway::Begun;
use crate::id::BootMs;
use crate::journal::Write;
use crate::store::{Claim, ClaimWish, StoreError};

/// How long a claim's refusal is repeated without asking the store again, in milliseconds.
const REFUSED_MS: u64 = 1_000;

impl Segments {
    /// Claims numbers and has the journal record them.
    pub(super) async fn claim(self: Rc<Self>, tag: Rc<SegmentTag>, want: u64, begun: Begun) {
        let wish = ClaimWish { want, step_max: self.settings.provision.step_max };
        *tag.waited_for.borrow_mut() = "the store has not answered a claim yet".to_owned();
        match self.store.claim(&self.identity, &tag.tag, wish).await {
            Ok(claim) => self.claimed(&tag, claim, begun).await,
            Err(error) => self.claim_failed(&tag, &error),
        }
    }

    async fn claimed(self: &Rc<Self>, tag: &Rc<SegmentTag>, claim: Claim, begun: Begun) {
        self.claims.set(self.claims.get() + 1);
        if tag.dead.get() {
            // Removed meanwhile: nobody may use the numbers.
            return;
        }
        *self.store_failure.borrow_mut() = None;
        *tag.backoff.borrow_mut() = Backoff::default();
        *tag.refused.borrow_mut() = None;
        *tag.waited_for.borrow_mut() = "the journal has not recorded a claim yet".to_owned();
        if tag
            .generation
            .replace(Some(claim.generation))
            .is_some_and(|known| known != claim.generation)
        {
            warn!(tag = %tag.tag, "the tag was made anew: numbers held of the old one are dropped");
            tag.allocator.borrow_mut().forget();
            self.forget(tag);
        }
        let now = clock::boot();
        let marked = tag.allocator.borrow_mut().claimed(now, &claim.numbers, claim.step);
        match marked {
            Ok(moved) => {
                let write = Write::Segment {
                    store: self.store_id.clone(),
                    tag: tag.tag.clone(),
                    generation: claim.generation,
                    numbers: claim.numbers.clone(),
                    mark: moved.mark,
                };
                let (segments, tag) = (Rc::clone(self), Rc::clone(tag));
                self.writer.write(write, move || {
                    tag.allocator.borrow_mut().hold(&claim.numbers, moved.mark);
                    drop(begun);
                    segments.attend(&tag);
                });
            }
            Err(end) => {
                warn!(
                    tag = %tag.tag, claimed = ?claim.numbers, seen = end,
                    "the store gave numbers that were claimed before: it has lost commits; raising it"
                );
                let error =
                    match self.store.raise(&self.identity, vec![(tag.tag.clone(), end)]).await {
                        Ok(_) => StoreError::Refused(format!(
                            "the store had lost claims of tag {:?}; it was raised to {end}",
                            tag.tag
                        )),
                        Err(error) => error,
                    };
                self.retry_claim(tag, Failure::from(&error));
            }
        }
    }

    fn claim_failed(self: &Rc<Self>, tag: &Rc<SegmentTag>, error: &StoreError) {
        let failure = Failure::from(error);
        if !matches!(error, StoreError::Unavailable { .. } | StoreError::Overloaded { .. }) {
            // It has answered.
            *self.store_failure.borrow_mut() = None;
        }
        match error {
            StoreError::UnknownTag { .. } => {
                tag.allocator.borrow_mut().claim_failed(clock::boot());
                self.remove(tag, &failure);
            }
            StoreError::Exhausted { .. }
            | StoreError::Refused(_)
            | StoreError::Changed { .. }
            | StoreError::TagExists { .. } => {
                let until = BootMs(clock::boot().0 + REFUSED_MS);
                *tag.refused.borrow_mut() = Some((failure.clone(), until));
                self.serve(tag);
                for reply in tag.allocator.borrow_mut().abandon() {
                    reply.failure(&failure);
                }
                self.retry_claim(tag, failure);
            }
            StoreError::Overloaded { .. } => self.retry_claim(tag, failure),
            StoreError::Unavailable { .. } => {
                if self.store_failure.replace(Some(failure.clone())).is_none() {
                    warn!("{error}; issuing goes on from what is claimed");
                }
                self.retry_claim(tag, failure);
            }
        }
    }

    fn retry_claim(self: &Rc<Self>, tag: &Rc<SegmentTag>, failure: Failure) {
        let wait_ms = tag.backoff.borrow_mut().next_ms();
        *tag.waited_for.borrow_mut() = failure.message;
        tag.allocator.borrow_mut().claim_failed(BootMs(clock::boot().0 + wait_ms));
        self.unsettle(tag);
    }
}
