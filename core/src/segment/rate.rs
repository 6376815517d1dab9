//! The rate at which a tag's ids are drawn. It follows a rise quickly and a fall slowly.
//!
//! Claims are sized by this rate. So a burst must count within a tenth of a second, and a quiet minute must not shrink
//! the supply for the next busy one.

use crate::BootMs;

#[derive(Clone, Debug)]
pub struct RateMeter {
    window_start: BootMs,
    window_ids: u64,
    ids_per_second: f64,
}

/// How long ids are counted before they affect the rate.
const WINDOW_MS: u64 = 1_000;

/// The shortest time over which a burst is spread.
const BURST_MS: u64 = 100;

/// How long a rate takes to halve while nothing is drawn.
const HALF_LIFE_MS: f64 = 60_000.0;

impl RateMeter {
    /// A rate of zero at `now`.
    pub fn new(now: BootMs) -> Self {
        RateMeter { window_start: now, window_ids: 0, ids_per_second: 0.0 }
    }

    /// Counts ids drawn. Cheap: the rate itself is computed only when it is read.
    pub fn count(&mut self, ids: u64) {
        self.window_ids = self.window_ids.saturating_add(ids);
    }

    /// The rate at `now`, in ids per second.
    pub fn per_second(&mut self, now: BootMs) -> f64 {
        let elapsed_ms = now.0.saturating_sub(self.window_start.0);
        let seen = self.window_ids as f64 * 1_000.0 / elapsed_ms.max(BURST_MS) as f64;
        let decayed = self.ids_per_second * (-(elapsed_ms as f64) / HALF_LIFE_MS).exp2();
        let rate = seen.max(decayed);
        if elapsed_ms >= WINDOW_MS {
            *self = RateMeter { window_start: now, window_ids: 0, ids_per_second: rate };
        }
        rate
    }

    /// How many ids the rate yields in this time.
    pub fn ids_in(&mut self, now: BootMs, ms: u64) -> u64 {
        // The cast saturates, which is right for absurdly high rates.
        (self.per_second(now) * ms as f64 / 1_000.0).ceil() as u64
    }
}

/// The rate over some seconds, which rises slowly, and hardly at all after a single burst.
#[derive(Debug)]
pub(super) struct SteadyRate {
    window_start: BootMs,
    window_ids: u64,
    ids_per_second: f64,
}

/// The shortest time over which ids are counted. The caller checks a tag in use at least every ten seconds.
const STEADY_WINDOW_MS: u64 = 8_000;

impl SteadyRate {
    pub(super) fn new(now: BootMs) -> Self {
        SteadyRate { window_start: now, window_ids: 0, ids_per_second: 0.0 }
    }

    pub(super) fn count(&mut self, ids: u64) {
        self.window_ids = self.window_ids.saturating_add(ids);
    }

    /// How many ids the rate of the last window yields in this time.
    pub(super) fn ids_in(&mut self, now: BootMs, ms: u64) -> u64 {
        let elapsed_ms = now.0.saturating_sub(self.window_start.0);
        if elapsed_ms >= STEADY_WINDOW_MS {
            let ids_per_second = self.window_ids as f64 * 1_000.0 / elapsed_ms as f64;
            *self = SteadyRate { window_start: now, window_ids: 0, ids_per_second };
        }
        (self.ids_per_second * ms as f64 / 1_000.0).ceil() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_counts_at_once_and_fades_slowly() {
        let mut rate = RateMeter::new(BootMs(0));
        rate.count(1_000);
        assert_eq!(rate.per_second(BootMs(1)), 10_000.0);
        assert_eq!(rate.per_second(BootMs(1_000)), 1_000.0);
        assert_eq!(rate.per_second(BootMs(61_000)), 500.0);
        assert!(rate.per_second(BootMs(3_600_000)) < 0.001);
    }

    #[test]
    fn a_rate_is_kept_from_window_to_window() {
        let mut rate = RateMeter::new(BootMs(500));
        rate.count(u64::MAX);
        rate.count(1);
        assert_eq!(rate.ids_in(BootMs(600), 1_000), u64::MAX);
        let mut rate = RateMeter::new(BootMs(500));
        rate.count(100);
        // Half a second is no window yet, a whole one is.
        assert_eq!([1_499, 1_500].map(|ms| rate.ids_in(BootMs(ms), 2_000)), [201, 200]);
        assert_eq!(rate.window_start, BootMs(1_500));
        rate.count(10);
        assert_eq!([1_600, 2_000].map(|ms| rate.ids_in(BootMs(ms), 500)), [50, 50]);
    }

    #[test]
    fn the_steady_rate_is_that_of_the_last_eight_seconds() {
        let mut rate = SteadyRate::new(BootMs(1_000));
        rate.count(300);
        rate.count(180);
        assert_eq!([8_999, 9_000, 9_001].map(|ms| rate.ids_in(BootMs(ms), 2_500)), [0, 150, 150]);
        rate.count(u64::MAX);
        rate.count(1);
        assert_eq!([16_999, 25_000].map(|ms| rate.ids_in(BootMs(ms), 16_000)), [960, u64::MAX]);
    }

    #[test]
    fn a_steady_rate_reads_as_itself() {
        let mut rate = RateMeter::new(BootMs(0));
        for tenth in 1..=100 {
            rate.count(500);
            rate.per_second(BootMs(tenth * 100));
        }
        assert!((4_900.0..=5_600.0).contains(&rate.per_second(BootMs(10_000))));
    }
}
