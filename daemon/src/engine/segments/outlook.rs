//! Whether ids of segment tags can be issued now, and for how long. This depends on each store's last
//! answers and on how long the held ids last, not on open connections.

use std::rc::Rc;

use tracing::error;

use super::{SegmentTag, Segments};
use crate::clock;
use crate::engine::upstream::Upstream;
use leafd_checkup::NEAR_PERCENT;
use leafd_core::health::{Code, Lasts};
use leafd_core::series::counts_tenants;
use leafd_core::store::{StoreError, Why, ceiling_remedy, percent_used};
use leafd_core::upstream::Condition;
use leafd_core::{BootMs, Tag};

/// How long an estimate of the held ids is reused, in milliseconds.
const ESTIMATE_LASTS_MS: u64 = 100;

/// A tag with a lower rate, in ids per second, counts as unused.
const DRAWN_RATE_MIN: f64 = 0.01;

/// A problem that keeps a store from granting ids.
pub struct StoreTrouble {
    pub code: Code,
    /// The class of its reason.
    pub why: Why,
    pub message: String,
    /// When it began, if that is known.
    pub since: Option<BootMs>,
    /// When a claim, or at least a probe, last succeeded.
    pub last_success: Option<BootMs>,
}

/// The claimed part of a tag with few ids left.
#[derive(Clone, Copy, Debug)]
pub struct NearCeiling {
    /// The highest id that is known to be claimed.
    pub claimed_to: u64,
    /// The largest id that may be claimed.
    pub ceiling: u64,
    /// The claimed part of them, in percent.
    pub percent: u64,
}

/// The log warns when this much of a tag's ids is claimed, in percent.
const CLAIMED_WARNINGS: [u64; 4] = [NEAR_PERCENT, 90, 95, 99];

/// At most this many such tags are reported. A host with more has them on purpose.
const NEAR_CEILINGS_MAX: usize = 32;

impl Segments {
    /// Remembers how many of a tag's ids are claimed, and warns the operator early that it is running out of them.
    pub(super) fn note_ceiling(&self, tag: &SegmentTag, claimed_to: u64, ceiling: u64) {
        // Another independent primary may have granted higher ids.
        let claimed_to = claimed_to.max(tag.allocator.borrow().claimed_to());
        let percent = percent_used(claimed_to, ceiling);
        let mut near = self.near_ceilings.borrow_mut();
        if percent < NEAR_PERCENT || counts_tenants(tag.tag.as_str()) {
            near.remove(&tag.tag);
            return;
        }
        let before = near.insert(tag.tag.clone(), NearCeiling { claimed_to, ceiling, percent });
        let passed = |percent| CLAIMED_WARNINGS.iter().filter(|bound| percent >= **bound).count();
        if passed(percent) > before.map_or(0, |before| passed(before.percent)) {
            error!(
                tag = %tag.tag, ceiling, claimed_to, percent,
                "the tag is {percent}% used: {}", ceiling_remedy(tag.tag.as_str())
            );
        }
    }

    /// Tags in use that have few ids left, in the order of their names.
    pub fn near_ceilings(&self) -> Vec<(Tag, NearCeiling)> {
        let near = self.near_ceilings.borrow();
        near.iter().take(NEAR_CEILINGS_MAX).map(|(tag, near)| (tag.clone(), *near)).collect()
    }

    /// Remembers the result of a claim.
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
            Err(StoreError::Exhausted { .. }) if counts_tenants(tag.tag.as_str()) => {}
            Err(error) => outcomes.failed(now, store, &tag.tag, error),
        }
    }

    fn index_of(&self, upstream: &Rc<Upstream>) -> Option<usize> {
        self.upstreams.iter().position(|known| Rc::ptr_eq(known, upstream))
    }

    /// The problem that keeps a store from granting ids, if there is one. `index` is its place in the configuration.
    pub fn store_trouble(&self, index: usize, now: BootMs) -> Option<StoreTrouble> {
        let upstream = &self.upstreams[index];
        let condition = upstream.condition();
        let answered_at = upstream.monitor.borrow().answered_at;
        let mut outcomes = self.outcomes.borrow_mut();
        if let (None, Some(answered_at)) = (&condition, answered_at) {
            outcomes.found_trusted(answered_at, index);
        }
        let claims = outcomes.of_store(now, index);
        let claimed_at = outcomes.succeeded_at(index);
        let unanswered =
            claims.filter(|claims| matches!(claims.error, StoreError::Unavailable { .. }));
        if let Some((condition, away_since)) = condition
            && let Some(code) = Code::of_store(&condition)
        {
            let away = matches!(condition, Condition::Away(_));
            let claims_since = unanswered.filter(|_| away).map(|claims| claims.since);
            return Some(StoreTrouble {
                code,
                why: condition.why(),
                message: condition.describe(&upstream.url),
                since: claims_since.into_iter().chain(away_since).min(),
                last_success: claimed_at.max(answered_at),
            });
        }
        let denied = upstream.denied.borrow();
        let denied = denied.as_ref().filter(|_| claimed_at.is_none());
        let error = claims.map(|claims| &claims.error).or(denied)?;
        // If its probes succeed and its claims fail in turns, that counts as one problem.
        let code = if unanswered.is_some() { Code::StoreAway } else { Code::ClaimsFailing };
        Some(StoreTrouble {
            code,
            why: error.why(),
            message: error.to_string(),
            since: claims.map(|claims| claims.since),
            last_success: claimed_at,
        })
    }

    /// How long ids can be issued if a store grants no more: until the first of its tags in use runs out. Strict tags
    /// and tags without ids left below their ceilings don't count, because they have no reserve, and one of them must
    /// not stop the others.
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
            // Another independent primary grants ids of its tags.
            return Lasts::NoEnd;
        }
        let tags = self.tags.borrow();
        let of_store = tags.values().filter(|tag| {
            let lives_there = tag.shards.iter().any(|shard| Rc::ptr_eq(&shard.upstream, upstream));
            // Any user can request a tag that doesn't exist.
            lives_there && tag.unconfirmed.borrow().is_none() && tag.keeps_a_reserve()
        });
        of_store.filter_map(|tag| tag.lasts(now)).reduce(Lasts::min).unwrap_or(Lasts::Over)
    }

    /// Whether ids of any store's tags can be issued.
    pub fn ready(&self) -> bool {
        let now = clock::boot();
        (0..self.upstreams.len()).any(|index| {
            self.store_trouble(index, now).is_none()
                || self.lasts_without(index, now) != Lasts::Over
        })
    }
}

impl SegmentTag {
    /// Whether its ids are held ahead of use.
    fn keeps_a_reserve(&self) -> bool {
        let allocator = self.allocator.borrow();
        !allocator.is_strict() && allocator.ceiling_used() < 1.0
    }

    /// How long the held ids last at the current rate; `None` if nothing is held and none are requested.
    pub(crate) fn lasts(&self, now: BootMs) -> Option<Lasts> {
        let mut allocator = self.allocator.borrow_mut();
        let rate = allocator.ids_per_second(now);
        let held = if self.may_issue() { allocator.held.unissued() } else { 0 };
        let waits = !allocator.waiting.is_empty() && !allocator.has_enough();
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
