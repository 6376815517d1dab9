//! A histogram of durations, to which any thread may add.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The upper bounds of the buckets, in seconds; each is four times the one before.
pub const BOUNDS_SECONDS: [f64; 12] =
    [64e-6, 256e-6, 1e-3, 4e-3, 16e-3, 64e-3, 0.25, 1.0, 4.0, 16.0, 64.0, f64::MAX];

#[derive(Debug, Default)]
pub struct Histogram {
    counts: [AtomicU64; BOUNDS_SECONDS.len()],
    sum_us: AtomicU64,
}

/// The counts at one moment.
#[derive(Clone, Debug, Default)]
pub struct Counted {
    /// Per bucket, not cumulative. The last one counts durations above all bounds.
    pub counts: [u64; BOUNDS_SECONDS.len()],
    /// The sum of all durations.
    pub sum_seconds: f64,
}

impl Histogram {
    pub fn observe(&self, took: Duration) {
        let seconds = took.as_secs_f64();
        let bucket = BOUNDS_SECONDS.iter().position(|bound| seconds <= *bound);
        self.counts[bucket.unwrap_or(BOUNDS_SECONDS.len() - 1)].fetch_add(1, Ordering::Relaxed);
        let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.sum_us.fetch_add(us, Ordering::Relaxed);
    }

    /// The counts so far.
    pub fn counted(&self) -> Counted {
        Counted {
            counts: std::array::from_fn(|bucket| self.counts[bucket].load(Ordering::Relaxed)),
            sum_seconds: self.sum_us.load(Ordering::Relaxed) as f64 / 1e6,
        }
    }
}

impl Counted {
    /// How many durations were counted.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_time_is_in_one_bucket_and_in_the_sum() {
        let histogram = Histogram::default();
        for ms in [0, 1, 3, 4, 5, 1_000, 1_000_000_000] {
            histogram.observe(Duration::from_millis(ms));
        }
        let counted = histogram.counted();
        assert_eq!(counted.counts, [1, 0, 1, 2, 1, 0, 0, 1, 0, 0, 0, 1]);
        assert_eq!((counted.count(), counted.sum_seconds.round()), (7, 1_000_001.0));
    }
}
