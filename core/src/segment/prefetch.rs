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

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: BootMs = BootMs(8_000);

    /// A tag with a step of 100 and this policy, which burst and was steady at these ids per second.
    fn sizer(policy: PrefetchPolicy, burst: u64, steady: u64) -> ClaimSizer {
        let mut sizer = ClaimSizer::new(policy.into(), BootMs(0));
        sizer.step = 100;
        sizer.rate.count(8 * burst);
        sizer.steady.count(8 * steady);
        sizer
    }

    /// A rate of 1 id per second needs 100 ids.
    const POLICY: PrefetchPolicy =
        PrefetchPolicy { autonomy_ms: 100_000, step_max: 10_000, mark_ahead_ms: 5_000, hold_ms: 0 };

    #[test]
    fn claims_follow_the_rate_the_last_claim_and_who_waits() {
        // Ids per second in a burst and steadily, ids of the last claim and used since; held ids and their segments,
        // ids waited for, and by the first request.
        for (rates, last, (held, segments, waited_for, head), expected) in [
            // Of an unknown tag, only what is waited for.
            ((0, 0), (0, 0), (0, 0, 3, 2), Some((3, 2, 10_000))),
            ((1, 1), (0, 0), (0, 0, 3, 2), Some((3, 2, 10_000))),
            ((0, 0), (100, 0), (0, 0, 3, 2), Some((103, 2, 10_000))),
            ((0, 0), (0, 0), (5, 1, 8, 8), Some((103, 3, 9_995))),
            ((0, 0), (500, 0), (30, 1, 30, 30), None),
            ((0, 0), (500, 0), (30, 1, 31, 1), Some((101, 1, 9_970))),
            // A steady rate fills the reserve, whatever was used.
            ((0, 20), (1_000, 0), (1_999, 1, 0, 0), Some((2_000, 1, 8_001))),
            ((0, 20), (1_000, 0), (2_000, 1, 0, 0), None),
            ((50, 20), (1_000, 0), (1_999, 1, 0, 0), Some((2_000, 1, 8_001))),
            ((0, 200), (1_000, 0), (4_999, 1, 0, 0), Some((5_001, 1, 5_001))),
            ((0, 200), (1_000, 0), (5_000, 1, 0, 0), None),
            // A burst counts once enough was used at its rate.
            ((20, 0), (800, 250), (2_000, 1, 0, 0), Some((2_000, 1, 8_000))),
            ((20, 0), (800, 249), (2_000, 1, 0, 0), None),
            ((20, 0), (800, 251), (2_001, 1, 0, 0), None),
            ((20, 0), (4_000, 500), (100, 1, 0, 0), Some((2_000, 1, 9_900))),
            ((20, 0), (4_000, 499), (100, 1, 0, 0), None),
            ((50, 0), (1_000, 0), (0, 0, 10, 1), Some((5_010, 1, 10_000))),
            // It claims at most eight times as much as before, or a thousand.
            ((200, 0), (100, 625), (5_000, 1, 0, 0), Some((1_000, 1, 5_000))),
            ((200, 0), (200, 625), (5_000, 1, 0, 0), Some((1_600, 1, 5_000))),
            ((200, 0), (200, 626), (5_001, 1, 0, 0), None),
            // A quarter of the step is always held.
            ((0, 0), (100, 12), (25, 1, 0, 0), Some((100, 1, 9_975))),
            ((0, 0), (100, 12), (26, 1, 0, 0), None),
            // Many small segments are used first, unless somebody waits.
            ((0, 20), (1_000, 0), (1_000, 7, 0, 0), Some((2_000, 1, 9_000))),
            ((0, 20), (1_000, 0), (1_000, 8, 0, 0), None),
            ((0, 20), (1_000, 0), (1_000, 8, 1_001, 1), Some((2_001, 1, 9_000))),
            // A request is served even if it needs more than may be held.
            ((0, 0), (1_000, 0), (0, 0, 20_000, 20_000), Some((20_000, 20_000, 10_000))),
            ((0, 0), (1_000, 0), (10_000, 1, 10_001, 10_001), Some((1, 1, 1))),
        ] {
            let mut sizer = sizer(POLICY, rates.0, rates.1);
            (sizer.claimed_last, sizer.used) = last;
            let wish = sizer.claim(NOW, Need { held, segments, waited_for, head });
            let wish = wish.map(|wish| (wish.want, wish.least, wish.step_max));
            assert_eq!(wish, expected, "{rates:?} {last:?} {held} {segments} {waited_for} {head}");
        }
    }

    #[test]
    fn without_a_reserve_a_claim_is_what_is_missing() {
        let policy = PrefetchPolicy { step_max: 0, ..POLICY };
        for (held, waited_for, head, expected) in
            [(2, 5, 4, Some((3, 2, 1))), (5, 5, 5, None), (0, 5, 0, Some((5, 1, 1)))]
        {
            let wish = sizer(policy, 9, 9).claim(NOW, Need { held, segments: 1, waited_for, head });
            assert_eq!(wish.map(|wish| (wish.want, wish.least, wish.step_max)), expected);
        }
    }

    #[test]
    fn expected_ids_count_until_a_claim_is_granted() {
        let mut sizer = sizer(POLICY, 0, 0);
        (sizer.expected, sizer.claimed_last, sizer.used) = (50, 10, 80);
        let need = Need { held: 40, segments: 1, waited_for: 0, head: 0 };
        assert_eq!(sizer.claim(NOW, need).map(|wish| wish.want), Some(110));
        sizer.note_claim(500);
        assert_eq!((sizer.claimed_last, sizer.used, sizer.claim(NOW, need)), (500, 0, None));
        sizer.count(80);
        assert_eq!(sizer.used, 80);
        let later = BootMs(2 * NOW.0);
        assert_eq!((sizer.rate.ids_in(later, 2_000), sizer.steady.ids_in(later, 2_000)), (20, 20));
    }

    #[test]
    fn marks_run_ahead_by_time_and_within_bounds() {
        // Ids per second, duration of a commit, held ids, ids waited for.
        for (rate, commit_ms, held, waited_for, expected) in [
            (100, 0, 10_000, 0, 500),
            (1_000, 0, 10_000, 0, 2_500),
            (1_000, 0, 10_000, 400, 2_800),
            (1, 0, 10_000, 6, 70),
            (1, 0, 3, 6, 70),
            (1_000_000, 0, 100_000_000, 0, 1_000_000),
            (2_000_000, 0, 100_000_000, 0, 2_000_000),
            (1_000_000, 700, 100_000_000, 0, 2_800_000),
        ] {
            let mut sizer = sizer(POLICY, rate, 0);
            sizer.commit_ms = commit_ms;
            assert_eq!(sizer.mark_target(NOW, held, waited_for), expected, "{rate} {held}");
        }
    }
}
