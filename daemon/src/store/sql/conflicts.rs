//! Counts conflicts with what others write at the same moment, and logs them now and then. The transactions are tried
//! again at once.
//!
//! In clusters whose servers all take writes, a conflict is found at the commit. Then nothing was done.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::SqlError;
use leafd_core::store::StoreError;

/// How often a transaction is tried that conflicts with other writers.
pub(super) const CONFLICT_TRIES_MAX: u32 = 12;

/// Longest pause after a conflict, in milliseconds.
const PAUSE_MAX_MS: u64 = 64;

/// Shortest time between two log lines about conflicts.
const SAID_EVERY: Duration = Duration::from_secs(60);

/// The counts of conflicts.
#[derive(Debug, Default)]
pub(super) struct Conflicts {
    /// All since the daemon started. Requests for the daemon's state read it.
    total: Arc<AtomicU64>,
    /// Those since the last log line.
    unsaid: u64,
    said: Option<Instant>,
}

impl Conflicts {
    /// The total, which goes on counting.
    pub(super) fn total(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.total)
    }

    /// Counts a conflict; `store` is the name that errors use for the store.
    pub(super) fn note(&mut self, store: &str, words: &str) {
        let total = self.total.fetch_add(1, Ordering::Relaxed) + 1;
        let Some(conflicts) = self.due(Instant::now()) else { return };
        tracing::info!(
            store,
            conflicts,
            total,
            "claims conflicted with writes of other hosts and were retried immediately ({words}); if this continues, list \
             the servers in the same order on all hosts"
        );
    }

    /// Counts one more conflict. If it is time for a log line, returns how many conflicts it reports.
    fn due(&mut self, now: Instant) -> Option<u64> {
        self.unsaid += 1;
        if self.said.is_some_and(|said| now.saturating_duration_since(said) < SAID_EVERY) {
            return None;
        }
        self.said = Some(now);
        Some(std::mem::take(&mut self.unsaid))
    }
}

/// How long to wait after this many conflicts in a row: a random time, so that the same two writers don't collide
/// again.
pub(super) fn pause_after_conflict(tries: u32) -> Result<Duration, SqlError> {
    let most_ms = (1_u64 << tries.min(10)).min(PAUSE_MAX_MS);
    let chance = crate::random::generation().map_err(StoreError::from)?;
    Ok(Duration::from_millis(chance.0 % (most_ms + 1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_said_once_a_minute_with_those_in_between() {
        let (mut conflicts, begun) = (Conflicts::default(), Instant::now());
        let at = |seconds: u64| begun + Duration::from_secs(seconds);
        let said: Vec<_> = [0, 1, 59, 60, 61, 300].map(|second| conflicts.due(at(second))).into();
        assert_eq!(said, [Some(1), None, None, Some(3), None, Some(2)]);
    }
}
