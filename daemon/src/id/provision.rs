//! How much to claim and to mark ahead of use: by time, at the tag's measured rate.

use super::{BootMs, RateMeter};

/// How an allocator provides for the future.
#[derive(Clone, Copy, Debug)]
pub struct Provision {
    /// How long claimed numbers should last, in milliseconds.
    pub autonomy_ms: u64,
    /// The most that is claimed ahead of need at once.
    pub step_max: u64,
    /// How far marks move ahead of use, in milliseconds of the tag's rate.
    pub mark_ahead_ms: u64,
}

/// What is on hand and who waits, when a claim is considered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Need {
    /// Numbers held and not issued.
    pub(super) held: u64,
    /// In how many segments.
    pub(super) segments: usize,
    /// Numbers that the waiting requests need at least.
    pub(super) waited_for: u64,
    /// Numbers that the first of them needs at least.
    pub(super) head: u64,
}

/// Sizes one tag's claims and marks.
#[derive(Debug)]
pub(super) struct Sizing {
    pub(super) provision: Provision,
    pub(super) rate: RateMeter,
    /// What the store says to claim at least, from 1.
    pub(super) step: u64,
    /// How large the last claim was.
    pub(super) claimed_last: u64,
}

/// The least that a mark moves ahead, so that an idle tag's burst outruns few marks.
const MARK_AHEAD_MIN: u64 = 64;

/// How much larger than the last one a claim may be: a tag that turns hot gets there in a few claims,
/// and one burst does not burn ten million numbers.
const CLAIM_GROWTH: u64 = 8;

/// Claims below this need not grow step by step.
const CLAIM_GROWTH_FLOOR: u64 = 1_000;

impl Sizing {
    /// For a tag that was not claimed yet.
    pub(super) fn new(provision: Provision, now: BootMs) -> Self {
        Sizing { provision, rate: RateMeter::new(now), step: 1, claimed_last: 0 }
    }

    /// How many numbers to claim now, if any.
    pub(super) fn claim(&mut self, now: BootMs, need: Need) -> Option<u64> {
        let Need { held, segments, waited_for, head } = need;
        let rate_need = self.rate.ids_in(now, self.provision.autonomy_ms);
        let low = rate_need.min(self.provision.step_max).max(self.step / 4);
        let short = waited_for > held;
        let prefetch = segments < 2 && held <= low;
        if !(short || prefetch) {
            return None;
        }
        let grown = self.claimed_last.saturating_mul(CLAIM_GROWTH).max(CLAIM_GROWTH_FLOOR);
        let ahead = rate_need.min(grown.max(self.step)).max(self.step);
        let want = ahead
            .saturating_add(waited_for.saturating_sub(held))
            .min(self.provision.step_max)
            // One request may ask for more than max_step; it must be served all the same.
            .max(head.saturating_sub(held))
            .max(1);
        Some(want)
    }

    /// How many numbers should be marked ahead of use.
    pub(super) fn mark_target(&mut self, now: BootMs, waited_for: u64) -> u64 {
        let ahead = self.rate.ids_in(now, self.provision.mark_ahead_ms).max(MARK_AHEAD_MIN);
        ahead.saturating_add(waited_for)
    }
}
