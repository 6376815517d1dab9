//! Conflicts with what others write at the same moment: tried again at once, and said now and then.
//!
//! In clusters whose servers all take writes a conflict is found at the commit. Nothing was done then.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::Failure;
use leafd_core::store::StoreError;

/// How often something is tried that conflicts with what others write.
pub(super) const CONFLICT_TRIES_MAX: u32 = 12;

/// Longest pause after a conflict, in milliseconds.
const PAUSE_MAX_MS: u64 = 64;

/// Shortest time between two lines in the log.
const SAID_EVERY: Duration = Duration::from_secs(60);

/// How many there were.
#[derive(Debug, Default)]
pub(super) struct Conflicts {
    /// Since this began; whoever asks for the daemon's state reads it.
    total: Arc<AtomicU64>,
    /// Since something was said of them.
    unsaid: u64,
    said: Option<Instant>,
}

impl Conflicts {
    /// How many there were, now and later.
    pub(super) fn total(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.total)
    }

    /// Counts one; `store` is what errors call the store.
    pub(super) fn note(&mut self, store: &str, words: &str) {
        let total = self.total.fetch_add(1, Ordering::Relaxed) + 1;
        let Some(conflicts) = self.due(Instant::now()) else { return };
        tracing::info!(
            store,
            conflicts,
            total,
            "claims conflicted with writes of other hosts and were retried at once ({words}); if this continues, list \
             the servers in the same order on all hosts"
        );
    }

    /// How many are to be said with the one that is counted now, if it is time.
    fn due(&mut self, now: Instant) -> Option<u64> {
        self.unsaid += 1;
        if self.said.is_some_and(|said| now.saturating_duration_since(said) < SAID_EVERY) {
            return None;
        }
        self.said = Some(now);
        Some(std::mem::take(&mut self.unsaid))
    }
}

/// How long to wait after so many conflicts in a row: a random time, so that the same two don't meet again.
pub(super) fn pause_after_conflict(tries: u32) -> Result<Duration, Failure> {
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
