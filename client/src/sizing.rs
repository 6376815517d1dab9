//! Decides how many ids the next run should have.
//!
//! Snowflake ids expire within milliseconds. Their run should last about three milliseconds at the process's rate.
//! Segment ids don't: their runs start small, double while a run is too short to request the next one in time, and
//! shrink if it lasts too long. So on average, a process that exits skips fewer ids than it has drawn.

use crate::slot::RUN_COUNT_MAX;

/// The size of a tag's first run. It is small, because a process may draw a few ids, exit, and skip the rest.
const FIRST: u32 = 4;

/// The minimum size of a run of long-lived ids.
const LONG_FLOOR: u32 = 4;

/// Ids that may be held for less than this are short-lived.
const SHORT_HOLD_MS: u32 = 1000;

/// How long a run of short-lived ids should last.
const SHORT_RUN_NS: u64 = 3_000_000;

/// The minimum duration of a long-lived run. At a thousand ids a second, fewer than one in a hundred then waits for a
/// request.
const LONG_RUN_MIN_NS: u64 = 250_000_000;
/// The maximum duration of a long-lived run.
const LONG_RUN_MAX_NS: u64 = 2_000_000_000;

/// The maximum growth in one step. It is limited, because a single measurement may be off.
const GROWTH_MAX: u32 = 16;

/// The size to request, as learned so far. This reads no clock.
#[derive(Debug)]
pub(crate) struct Sizing {
    wish: u32,
}

impl Sizing {
    pub(crate) fn new() -> Sizing {
        Sizing { wish: FIRST }
    }

    /// How many ids to request now.
    pub(crate) fn wish(&self) -> u32 {
        self.wish
    }

    /// Learns that `used` ids of a run of `count` were used in `lasted_ns`.
    pub(crate) fn observe(&mut self, hold_ms: u32, count: u32, used: u32, lasted_ns: u64) {
        let (used, lasted_ns) = (u64::from(used.max(1)), lasted_ns.max(1));
        let target_ns = if hold_ms < SHORT_HOLD_MS {
            Some(SHORT_RUN_NS.min(u64::from(hold_ms) * 1_000_000 / 2))
        } else {
            None
        };
        let (floor, wish) = match target_ns {
            Some(target_ns) => (1, used.saturating_mul(target_ns) / lasted_ns),
            None => {
                let whole_ns = lasted_ns.saturating_mul(u64::from(count)) / used;
                let wish = u64::from(self.wish);
                let wish = if whole_ns < LONG_RUN_MIN_NS {
                    wish * 2
                } else if whole_ns > LONG_RUN_MAX_NS {
                    wish / 2
                } else {
                    wish
                };
                (LONG_FLOOR, wish)
            }
        };
        let ceiling = self.wish.saturating_mul(GROWTH_MAX).clamp(floor, RUN_COUNT_MAX);
        self.wish = u32::try_from(wish).unwrap_or(RUN_COUNT_MAX).clamp(floor, ceiling);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Draws runs of the wished size at a steady rate until the wish settles.
    fn settled(hold_ms: u32, ids_a_second: u64) -> u32 {
        let mut sizing = Sizing::new();
        for _ in 0..64 {
            let count = sizing.wish();
            let lasted_ns = u64::from(count) * 1_000_000_000 / ids_a_second;
            sizing.observe(hold_ms, count, count, lasted_ns);
        }
        sizing.wish()
    }

    #[test]
    fn short_lived_runs_last_three_milliseconds() {
        assert_eq!(settled(8, 1_000_000), 3000);
        assert_eq!(settled(8, 1_000), 3);
        assert_eq!(settled(8, 10), 1);
        assert_eq!(settled(2, 1_000_000), 1000);
        assert_eq!(settled(8, 1_000_000_000), RUN_COUNT_MAX);
    }

    #[test]
    fn long_lived_runs_last_a_quarter_of_a_second_and_have_a_floor() {
        assert_eq!(settled(60_000, 1), LONG_FLOOR);
        let wish = settled(60_000, 1_000);
        assert!((250..=500).contains(&wish), "{wish}");
        assert_eq!(settled(60_000, 1_000_000), RUN_COUNT_MAX);
        assert_eq!(settled(60_000, 1_000_000_000), RUN_COUNT_MAX);
    }

    #[test]
    fn a_tag_that_goes_idle_shrinks() {
        let mut sizing = Sizing { wish: RUN_COUNT_MAX };
        for _ in 0..16 {
            sizing.observe(60_000, 1000, 1, 60_000_000_000);
        }
        assert_eq!(sizing.wish(), LONG_FLOOR);
    }
}
