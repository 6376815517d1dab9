//! Whether ids of segment tags can be had now, and for how long: what each store's last answers came to, and how long
//! what is held of it lasts. A connection that stands says nothing of either.

use std::rc::Rc;

use super::{SegmentTag, Segments};
use crate::clock;
use crate::engine::upstream::Upstream;
use leafd_checkup::NEAR_PERCENT;
use leafd_core::health::{Code, Lasts};
use leafd_core::store::{StoreError, percent_used};
use leafd_core::upstream::Condition;
use leafd_core::{BootMs, Tag};

/// How long an estimate of what is held serves everybody who asks, in milliseconds.
const ESTIMATE_LASTS_MS: u64 = 100;

/// Below this rate, in ids per second, nobody is drawing a tag.
const DRAWN_RATE_MIN: f64 = 0.01;

/// What keeps a store from giving numbers.
pub struct StoreTrouble {
    /// What.
    pub code: Code,
    /// In words.
    pub message: String,
    /// When it began, if that is known.
    pub since: Option<BootMs>,
    /// When a claim, or at least a question, was last answered as it should be.
    pub last_success: Option<BootMs>,
}

/// How far a tag has come that has few numbers left.
#[derive(Clone, Copy, Debug)]
pub struct NearCeiling {
    /// The highest number that is known to be claimed.
    pub claimed_to: u64,
    /// The largest one that may be.
    pub ceiling: u64,
    /// How much of it is used.
    pub percent: u64,
}

/// So many of these tags are told of: who has more has them for a reason.
const NEAR_CEILINGS_MAX: usize = 32;

impl Segments {
    /// Notes how far a tag has come.
    pub(super) fn note_ceiling(&self, tag: &SegmentTag, claimed_to: u64, ceiling: u64) {
        let percent = percent_used(claimed_to, ceiling);
        let mut near = self.near_ceilings.borrow_mut();
        if percent >= NEAR_PERCENT {
            near.insert(tag.tag.clone(), NearCeiling { claimed_to, ceiling, percent });
        } else {
            near.remove(&tag.tag);
        }
    }

    /// Tags in use that come to the end of their numbers, the first of them by name.
    #[must_use]
    pub fn near_ceilings(&self) -> Vec<(Tag, NearCeiling)> {
        let near = self.near_ceilings.borrow();
        near.iter().take(NEAR_CEILINGS_MAX).map(|(tag, near)| (tag.clone(), *near)).collect()
    }

    /// Notes what a claim came to.
    pub(super) fn note_outcome(
        &self,
        tag: &SegmentTag,
        upstream: &Rc<Upstream>,
        outcome: Result<(), &StoreError>,
    ) {
        let Some(store) = self.index_of(upstream) else { return };
        let (mut outcomes, now) = (self.outcomes.borrow_mut(), clock::boot());
        match outcome {
            Ok(()) => outcomes.succeeded(now, store, &tag.tag),
            Err(error) => outcomes.failed(now, store, &tag.tag, error),
        }
    }

    fn index_of(&self, upstream: &Rc<Upstream>) -> Option<usize> {
        self.upstreams.iter().position(|known| Rc::ptr_eq(known, upstream))
    }

    /// What keeps a store from giving numbers, if anything does. `index` is its place in the configuration.
    #[must_use]
    pub fn store_trouble(&self, index: usize, now: BootMs) -> Option<StoreTrouble> {
        let upstream = &self.upstreams[index];
        let condition = upstream.condition();
        let mut outcomes = self.outcomes.borrow_mut();
        if let (None, Some(answered_at)) = (&condition, upstream.answered_at()) {
            outcomes.found_trusted(answered_at, index);
        }
        let claims = outcomes.of_store(now, index);
        let claimed_at = outcomes.succeeded_at(index);
        let unanswered =
            claims.filter(|claims| matches!(claims.error, StoreError::Unavailable { .. }));
        if let Some((condition, away_since)) = condition {
            let away = matches!(condition, Condition::Away(_));
            let claims_since = unanswered.filter(|_| away).map(|claims| claims.since);
            return Some(StoreTrouble {
                code: Code::of_store(&condition),
                message: condition.describe(&upstream.url),
                since: claims_since.into_iter().chain(away_since).min(),
                last_success: claimed_at.max(upstream.answered_at()),
            });
        }
        let claims = claims?;
        // Its probes are answered and its claims are not, in turns: that is one fault.
        let code = if unanswered.is_some() { Code::StoreAway } else { Code::ClaimsFailing };
        Some(StoreTrouble {
            code,
            message: claims.error.to_string(),
            since: Some(claims.since),
            last_success: claimed_at,
        })
    }

    /// For how long ids can be had although a store gives no more: until the first of its tags that are drawn runs dry.
    #[must_use]
    pub fn lasts_without(&self, index: usize, now: BootMs) -> Lasts {
        let mut estimates = self.estimates.borrow_mut();
        let (at, estimate) = &mut estimates[index];
        if estimate.is_none() || now.0.saturating_sub(at.0) >= ESTIMATE_LASTS_MS {
            (*at, *estimate) = (now, Some(self.estimate(index, now)));
        }
        estimate.unwrap_or(Lasts::Over)
    }

    fn estimate(&self, index: usize, now: BootMs) -> Lasts {
        let upstream = &self.upstreams[index];
        let serves = |other: &Rc<Upstream>| {
            let other = self.index_of(other).filter(|other| *other != index);
            other.is_some_and(|other| self.store_trouble(other, now).is_none())
        };
        if self.upstreams_beside(index).iter().any(serves) {
            // Its tags are fed by another independent primary.
            return Lasts::NoEnd;
        }
        let tags = self.tags.borrow();
        let of_store = tags.all().iter().filter(|tag| {
            let lives_there = tag.shards.iter().any(|shard| Rc::ptr_eq(&shard.upstream, upstream));
            // Anybody can make up a name.
            lives_there && tag.unconfirmed.borrow().is_none()
        });
        of_store.filter_map(|tag| tag.lasts(now)).reduce(Lasts::min).unwrap_or(Lasts::Over)
    }

    /// Whether ids can be had of any store's tags.
    #[must_use]
    pub fn ready(&self) -> bool {
        let now = clock::boot();
        (0..self.upstreams.len()).any(|index| {
            self.store_trouble(index, now).is_none()
                || self.lasts_without(index, now) != Lasts::Over
        })
    }

    /// Which stores give no numbers, and why; `None` when all do.
    #[must_use]
    pub fn store_failure(&self) -> Option<String> {
        let now = clock::boot();
        let troubles = (0..self.upstreams.len()).filter_map(|index| self.store_trouble(index, now));
        let texts: Vec<String> = troubles.map(|trouble| trouble.message).collect();
        (!texts.is_empty()).then(|| texts.join("; "))
    }
}

impl SegmentTag {
    /// How long what is held of it lasts at its present rate; `None`: nothing is held, and nobody asks for any.
    pub(crate) fn lasts(&self, now: BootMs) -> Option<Lasts> {
        let mut allocator = self.allocator.borrow_mut();
        let rate = allocator.ids_per_second(now);
        let held = if self.may_issue() { allocator.unissued() } else { 0 };
        let waits = allocator.waiting() > 0 && !allocator.has_enough();
        match held {
            _ if waits => Some(Lasts::Over),
            0 if rate < DRAWN_RATE_MIN => None,
            0 => Some(Lasts::Over),
            _ if rate < DRAWN_RATE_MIN => Some(Lasts::NoEnd),
            // The cast saturates.
            held => Some(Lasts::of_ms((held as f64 * 1_000.0 / rate) as u64)),
        }
    }
}
