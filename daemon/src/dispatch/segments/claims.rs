//! Claims: what the allocator wants from the store, and what comes of it.

use std::rc::Rc;

use tracing::error;

use super::supply::Supply;
use super::{Lane, SegmentTag, Segments};
use crate::clock;
use crate::dispatch::Failure;
use crate::dispatch::backoff::Backoff;
use crate::dispatch::underway::Begun;
use crate::id::BootMs;
use crate::id::segment::Cut;
use crate::journal::Write;
use crate::store::{Claim, ClaimWish, Identity, StoreError};

/// How long a claim's refusal is repeated without asking the store again, in milliseconds.
const REFUSED_MS: u64 = 1_000;

/// Of how much of a tag's numbers the operator hears that they are claimed, in percent.
const CLAIMED_WARNINGS: [u64; 4] = [80, 90, 95, 99];

/// A claim as it was sent.
pub(super) struct Sent {
    pub(super) lane: usize,
    pub(super) under: Identity,
    pub(super) want: u64,
    /// The daemon's stop waits until this is dropped.
    pub(super) _begun: Begun,
}

impl Segments {
    /// The lane to claim from next: the host's own first choice, or the next one whose store is there.
    pub(super) fn lane_to_claim(&self, tag: &SegmentTag) -> Option<(usize, Identity)> {
        let lanes = tag.lanes.len();
        let now = clock::boot();
        (0..lanes).map(|turn| (self.first_lane + turn) % lanes).find_map(|index| {
            let lane = &tag.lanes[index];
            let open = lane.taken_up.get() && lane.may_have_some(now);
            lane.home.claimable().filter(|_| open).map(|under| (index, under))
        })
    }

    /// Claims numbers and has the journal record them.
    pub(super) async fn claim(self: Rc<Self>, tag: Rc<SegmentTag>, sent: Sent) {
        let wish = ClaimWish { want: sent.want, step_max: self.provision.get().step_max };
        *tag.waited_for.borrow_mut() = "the store has not answered a claim yet".to_owned();
        let store = &tag.lanes[sent.lane].home.store;
        match store.claim(&sent.under, &tag.tag, wish).await {
            Ok(claim) => self.claimed(&tag, claim, sent).await,
            Err(error) => self.claim_failed(&tag, sent.lane, &error),
        }
    }

    async fn claimed(self: &Rc<Self>, tag: &Rc<SegmentTag>, claim: Claim, sent: Sent) {
        self.claims.set(self.claims.get() + 1);
        if tag.dead.get() {
            // Removed meanwhile: nobody may use the numbers.
            return;
        }
        let lane = &tag.lanes[sent.lane];
        *tag.backoff.borrow_mut() = Backoff::default();
        *tag.refused.borrow_mut() = None;
        *tag.waited_for.borrow_mut() = "the journal has not recorded a claim yet".to_owned();
        if lane
            .generation
            .replace(Some(claim.generation))
            .is_some_and(|known| known != claim.generation)
        {
            self.made_anew(tag, sent.lane);
        }
        if lane.home.present().as_ref() != Some(&sent.under) {
            // The store has failed over since: what it gave may be given again before it is told.
            let error = StoreError::Unavailable {
                store: lane.home.url.to_string(),
                cause: "it failed over while it answered a claim".to_owned(),
            };
            return self.retry_claim(tag, Failure::from(&error));
        }
        warn_of_ceiling(tag, lane, &claim);
        if claim.strict {
            return self.share_out(tag, lane, &claim, sent.lane).await;
        }
        let number = lane_number(sent.lane);
        let cut = tag.supply.borrow_mut().set_terms(number, claim.step, claim.ceiling);
        self.journal_cut(tag, sent.lane, cut);
        let now = clock::boot();
        let marked = match &mut *tag.supply.borrow_mut() {
            Supply::Held(allocator) => allocator.claimed(now, number, &claim.numbers, claim.step),
            // A strict tag's row was made anew as a plain one.
            Supply::Strict(_) => return self.start_over(tag),
        };
        match marked {
            Ok(moved) => {
                let Some(store) = lane.home.key() else { return };
                let write = Write::Segment {
                    store,
                    tag: tag.tag.clone(),
                    generation: claim.generation,
                    numbers: claim.numbers.clone(),
                    mark: moved.mark,
                };
                let (segments, tag) = (Rc::clone(self), Rc::clone(tag));
                self.writer.write(write, move || {
                    let lane = lane_number(sent.lane);
                    let cut = match &mut *tag.supply.borrow_mut() {
                        Supply::Held(allocator) => allocator.hold(lane, &claim.numbers, moved.mark),
                        Supply::Strict(_) => Cut::default(),
                    };
                    segments.journal_cut(&tag, sent.lane, cut);
                    drop(sent);
                    segments.attend(&tag);
                });
            }
            Err(seen) => self.claimed_too_low(tag, lane, seen).await,
        }
    }

    /// Answers those who shared a strict tag's claim.
    async fn share_out(
        self: &Rc<Self>,
        tag: &Rc<SegmentTag>,
        lane: &Lane,
        claim: &Claim,
        index: usize,
    ) {
        if tag.lanes.len() > 1 {
            let error = StoreError::Refused(format!(
                "tag {:?} is strict, which it can't be in independent primaries; make it anew without",
                tag.tag.as_str()
            ));
            return self.claim_failed(tag, index, &error);
        }
        let shared = tag.supply.borrow_mut().strict().claimed(claim.numbers.clone());
        match shared {
            Ok(shared) => {
                for (reply, run) in shared.served {
                    reply.ids(0, &[run]);
                }
                // Nothing of it is left to issue; what counts is how far the store has come.
                if let Some(store) = lane.home.key() {
                    let write = Write::Segment {
                        store,
                        tag: tag.tag.clone(),
                        generation: claim.generation,
                        numbers: claim.numbers.clone(),
                        mark: claim.numbers.end,
                    };
                    self.writer.write(write, || {});
                }
                self.attend(tag);
            }
            Err(seen) => self.claimed_too_low(tag, lane, seen).await,
        }
    }

    /// The store gave numbers below what it had given before.
    async fn claimed_too_low(self: &Rc<Self>, tag: &Rc<SegmentTag>, lane: &Lane, seen: u64) {
        let lost = StoreError::Unavailable {
            store: lane.home.url.to_string(),
            cause: format!("it had lost claims of tag {:?} and is being told", tag.tag.as_str()),
        };
        let error = match self.lost_commits(&lane.home, tag, seen).await {
            Ok(()) => lost,
            Err(error) => error,
        };
        self.retry_claim(tag, Failure::from(&error));
    }

    fn claim_failed(self: &Rc<Self>, tag: &Rc<SegmentTag>, lane: usize, error: &StoreError) {
        let index = lane;
        let lane = &tag.lanes[index];
        let failure = Failure::from(&in_ids(error, lane));
        let now = clock::boot();
        match error {
            StoreError::UnknownTag { .. } => {
                tag.supply.borrow_mut().claim_failed(now);
                self.missing(tag, lane, &failure);
            }
            // The other primaries may have some.
            StoreError::Exhausted { .. } if tag.others_may_have_some(index, now) => {
                lane.used_up_until.set(BootMs(now.0 + REFUSED_MS));
                self.retry_claim(tag, failure);
            }
            // What is held already is issued first.
            StoreError::Exhausted { .. } | StoreError::Refused(_)
                if tag.supply.borrow().has_enough() =>
            {
                self.retry_claim(tag, failure);
            }
            StoreError::Exhausted { .. }
            | StoreError::Refused(_)
            | StoreError::TagExists { .. } => {
                let until = BootMs(now.0 + REFUSED_MS);
                *tag.refused.borrow_mut() = Some((failure.clone(), until));
                self.serve(tag);
                for reply in tag.supply.borrow_mut().abandon() {
                    reply.failure(&failure);
                }
                self.retry_claim(tag, failure);
            }
            StoreError::Overloaded { .. } => self.retry_claim(tag, failure),
            StoreError::Changed { .. } => {
                lane.home.look_soon();
                self.retry_claim(tag, failure);
            }
            StoreError::Unavailable { .. } => {
                lane.home.fails(error);
                lane.home.look_soon();
                self.retry_claim(tag, failure);
            }
        }
    }

    fn retry_claim(self: &Rc<Self>, tag: &Rc<SegmentTag>, failure: Failure) {
        let wait_ms = tag.backoff.borrow_mut().next_ms();
        *tag.waited_for.borrow_mut() = failure.message;
        tag.supply.borrow_mut().claim_failed(BootMs(clock::boot().0 + wait_ms));
        self.unsettle(tag);
    }
}

impl SegmentTag {
    fn others_may_have_some(&self, index: usize, now: BootMs) -> bool {
        let mut others = self.lanes.iter().enumerate().filter(|(other, _)| *other != index);
        others.any(|(_, lane)| lane.may_have_some(now))
    }
}

impl Lane {
    /// Whether numbers can be hoped for from its store, once that answers.
    fn may_have_some(&self, now: BootMs) -> bool {
        !self.missing.get() && now >= self.used_up_until.get()
    }

    /// The id that a number of its store's stands for.
    fn id(&self, number: u64) -> u64 {
        self.home.primary.map_or(number, |primary| primary.id(number))
    }
}

/// What a store says of its own numbers, in ids.
fn in_ids(error: &StoreError, lane: &Lane) -> StoreError {
    match error {
        StoreError::Exhausted { tag, ceiling } => {
            StoreError::Exhausted { tag: tag.clone(), ceiling: lane.id(*ceiling) }
        }
        other => other.clone(),
    }
}

/// The allocator's number of a lane; there are at most as many as there are stores.
pub(super) fn lane_number(index: usize) -> u32 {
    u32::try_from(index).expect("there are at most 64 lanes")
}

/// Tells the operator early that a tag's numbers come to an end.
fn warn_of_ceiling(tag: &SegmentTag, lane: &Lane, claim: &Claim) {
    let percent =
        |number: u64| (u128::from(number) * 100 / u128::from(claim.ceiling.max(1))) as u64;
    let claimed = percent(claim.numbers.end);
    let passed = CLAIMED_WARNINGS.iter().rev().find(|warning| claimed >= **warning).copied();
    if passed > lane.warned_percent.replace(passed) {
        error!(
            tag = %tag.tag, ceiling = lane.id(claim.ceiling), claimed_to = lane.id(claim.numbers.end - 1), percent = claimed,
            "the tag's numbers come to an end: raise its ceiling with leafctl tag set {:?} --ceiling N, or move to a new tag",
            tag.tag
        );
    }
}
