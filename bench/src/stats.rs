//! The numbers of a row, and how its rounds are combined.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::processes::CpuClock;

/// What a number measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Metric {
    /// The latency that half of the calls stay below, in microseconds.
    P50Us,
    /// The same for 99 of 100 calls.
    P99Us,
    /// The same for 999 of 1,000 calls.
    P999Us,
    IdsPerSecond,
    /// Time per id, counted over all threads together.
    NsPerId,
    /// A thread's time for each of its ids.
    NsPerIdOfThread,
    /// How far the 99.9th percentile is above that of the same loop without the call.
    TailExcessUs,
    /// The server's processor time, in percent of one core.
    ServerCpuPercent,
}

/// The numbers of one round of a row.
pub(crate) type Stats = BTreeMap<Metric, f64>;

/// A measured stretch of time, with the server's processor time.
#[derive(Debug)]
pub(crate) struct Stretch {
    server: Option<CpuClock>,
    began: Instant,
    cpu_before: Option<Duration>,
}

// === impl Stretch ===

impl Stretch {
    pub(crate) fn begin(server: Option<CpuClock>) -> Stretch {
        let cpu_before = server.and_then(CpuClock::used);
        Stretch { server, began: Instant::now(), cpu_before }
    }

    /// Ends it and records the rate of `ids` and the server's share of a core.
    pub(crate) fn end(self, ids: usize) -> Stats {
        let seconds = self.began.elapsed().as_secs_f64();
        let cpu_after = self.server.and_then(CpuClock::used);
        let mut stats = Stats::new();
        stats.insert(Metric::IdsPerSecond, ids as f64 / seconds);
        if let (Some(before), Some(after)) = (self.cpu_before, cpu_after) {
            let percent = (after.saturating_sub(before)).as_secs_f64() / seconds * 100.0;
            stats.insert(Metric::ServerCpuPercent, percent);
        }
        stats
    }
}

/// Records the percentiles of latencies in nanoseconds; none if there were no calls.
pub(crate) fn put_percentiles(latencies_ns: &mut [u32], stats: &mut Stats) {
    latencies_ns.sort_unstable();
    for (metric, share) in [(Metric::P50Us, 0.5), (Metric::P99Us, 0.99), (Metric::P999Us, 0.999)] {
        if let Some(ns) = percentile(latencies_ns, share) {
            stats.insert(metric, f64::from(ns) / 1000.0);
        }
    }
}

/// The value that this share of all values does not exceed, by the nearest rank.
pub(crate) fn percentile(sorted: &[u32], share: f64) -> Option<u32> {
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied()
}

/// The value in the middle.
pub(crate) fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        odd if odd % 2 == 1 => Some(values[middle]),
        _ => Some(f64::midpoint(values[middle - 1], values[middle])),
    }
}

/// The duration of one call in nanoseconds.
pub(crate) fn call_ns(took: Duration) -> u32 {
    u32::try_from(took.as_nanos()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_of_the_nearest_rank() {
        let sorted: Vec<u32> = (1..=1000).collect();
        assert_eq!(percentile(&sorted, 0.5), Some(500));
        assert_eq!(percentile(&sorted, 0.999), Some(999));
        assert_eq!(percentile(&[7], 0.999), Some(7));
        assert_eq!(percentile(&[], 0.5), None);
    }

    #[test]
    fn the_median_of_rounds_ignores_one_that_went_wrong() {
        assert_eq!(median(vec![1.0, 100.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![1.0, 2.0]), Some(1.5));
        assert_eq!(median(Vec::new()), None);
    }
}
