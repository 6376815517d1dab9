//! Decides how much to claim and to mark ahead of use: by time, at the tag's measured rate.

use std::rc::Rc;

use super::RateMeter;
use super::rate::SteadyRate;
use crate::BootMs;
use crate::store::ClaimWish;

/// How far ahead an allocator claims and marks.
#[derive(Clone, Copy, Debug)]
pub struct PrefetchPolicy {
    /// How long claimed numbers should last, in milliseconds.
    pub autonomy_ms: u64,
    /// The maximum held ahead of need. 0: only what requests wait for is claimed.
    pub step_max: u64,
    /// How far marks move ahead of use at most, in milliseconds at the tag's rate.
    pub mark_ahead_ms: u64,
    /// How long a host may hold a strict tag, in milliseconds; 0 for not at all.
    pub hold_ms: u64,
}

/// The held ids and the waiting requests at the time of a decision.
#[derive(Clone, Copy, Debug)]
pub(super) struct Need {
    /// Numbers held and not issued.
    pub(super) held: u64,
    /// How many segments hold them.
    pub(super) segments: usize,
    /// The minimum that all waiting requests need.
    pub(super) waited_for: u64,
    /// The minimum that the first of them needs.
    pub(super) head: u64,
}

/// Sizes one tag's claims and marks.
#[derive(Debug)]
pub(super) struct ClaimSizer {
    pub(super) provision: Rc<PrefetchPolicy>,
    pub(super) rate: RateMeter,
    steady: SteadyRate,
    /// The minimum claim, set by the store; at least 1.
    pub(super) step: u64,
    /// How large the last claim was.
    pub(super) claimed_last: u64,
    /// How many ids were issued since that claim.
    used: u64,
    /// How many ids to hold although no request waits for them yet. Reset by the next claim.
    pub(super) expected: u64,
    /// How long the journal's last mark move took, in milliseconds.
    pub(super) commit_ms: u64,
}

/// The minimum that a mark moves ahead, so that a burst of an idle tag rarely waits for a mark. A crash costs a tag at
/// most this many ids beyond the share in `MARK_SHARE`.
const MARK_AHEAD_MIN: u64 = 64;

/// How many times larger than the last claim the next one may be. A tag whose rate rises reaches its size in a few
/// claims, and a single burst does not consume ten million numbers.
const CLAIM_GROWTH: u64 = 8;

/// A claim may always grow to this size at once.
const CLAIM_GROWTH_FLOOR: u64 = 1_000;

/// 1/`USED_FIRST` of the last claim, or of what was left before it, must be used before the rate of a burst is trusted,
/// because the first few ids say little.
const USED_FIRST: u64 = 8;

/// No ids are claimed ahead while this many segments are held, because each takes memory.
const SEGMENTS_MAX: usize = 8;

/// Marks run ahead of use by at most 1/`MARK_SHARE` of the held ids, so the others survive a crash during a store
/// outage. A lasting burst moves marks in ever smaller steps, but needs few of them, because the rest shrinks
/// geometrically.
const MARK_SHARE: u64 = 4;

/// Marks run at most this many ids ahead of use, and a crash skips at most this many, unless the tag is so fast that
/// the next two limits allow more.
const MARK_AHEAD_MAX: u64 = 1_000_000;

/// Marks may run ahead by the ids of this time at the tag's rate, in milliseconds.
const MARK_AHEAD_MS: u64 = 1_000;

/// If the journal is slow, marks may run ahead by the ids that are drawn during this many of its commits.
const MARK_AHEAD_COMMITS: u64 = 4;

impl ClaimSizer {
    /// For a tag that has not been claimed yet.
    pub(super) fn new(provision: Rc<PrefetchPolicy>, now: BootMs) -> Self {
        let (rate, steady) = (RateMeter::new(now), SteadyRate::new(now));
        let (claimed_last, used, expected, commit_ms) = Default::default();
        ClaimSizer { provision, rate, steady, step: 1, claimed_last, used, expected, commit_ms }
    }

    #[inline]
    pub(super) fn count(&mut self, ids: u64) {
        self.used += ids;
        self.rate.count(ids);
        self.steady.count(ids);
    }

    /// Records a granted claim.
    pub(super) fn note_claim(&mut self, count: u32) {
        self.claimed_last = u64::from(count);
        (self.used, self.expected) = (0, 0);
    }

    /// What to claim now, if anything.
    pub(super) fn claim(&mut self, now: BootMs, need: Need) -> Option<ClaimWish> {
        let Need { held, segments, waited_for, head } = need;
        let PrefetchPolicy { autonomy_ms, step_max, .. } = *self.provision;
        let burst_need = self.rate.ids_in(now, autonomy_ms);
        let steady_need = self.steady.ids_in(now, autonomy_ms);
        let waited_for = waited_for.max(self.expected);
        let short = waited_for > held;
        // One request may ask for more than max_step. It must be served all the same.
        let least = head.saturating_sub(held).max(1);
        if step_max == 0 {
            let missing = waited_for.saturating_sub(held);
            return short.then(|| ClaimWish { least, ..ClaimWish::new(missing, 1) });
        }
        // At a steady rate, the reserve lasts for `autonomy`, whatever was claimed before.
        let steadily = held < steady_need.min(step_max / 2);
        // A new rate is trusted only as far as ids were used at it.
        let is_used = self.used >= self.claimed_last.max(held) / USED_FIRST;
        let in_burst = is_used && held <= burst_need.min(step_max / 2).max(self.step / 4);
        let prefetch = segments < SEGMENTS_MAX && (steadily || in_burst);
        if !(short || prefetch) {
            return None;
        }
        let grown = self.claimed_last.saturating_mul(CLAIM_GROWTH).max(CLAIM_GROWTH_FLOOR);
        let burst = if short || in_burst { burst_need.min(grown) } else { 0 };
        let ahead = match held == 0 && self.claimed_last == 0 {
            // For an unknown tag, claim only what was requested. The store adds the step, unless the tag is strict.
            true => 0,
            false => burst.max(steady_need).max(self.step),
        };
        let room = step_max.saturating_sub(held).max(1);
        let want = ahead.saturating_add(waited_for.saturating_sub(held)).min(room).max(least);
        Some(ClaimWish { least, ..ClaimWish::new(want, room) })
    }

    /// How many of the held ids should be marked ahead of use.
    pub(super) fn mark_target(&mut self, now: BootMs, held: u64, waited_for: u64) -> u64 {
        let spare = held.saturating_sub(waited_for);
        let commits_ms = MARK_AHEAD_MS.max(self.commit_ms.saturating_mul(MARK_AHEAD_COMMITS));
        let most = MARK_AHEAD_MAX.max(self.rate.ids_in(now, commits_ms)).min(spare / MARK_SHARE);
        let ahead = self.rate.ids_in(now, self.provision.mark_ahead_ms).min(most);
        ahead.max(MARK_AHEAD_MIN).saturating_add(waited_for)
    }
}
