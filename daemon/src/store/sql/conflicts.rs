//! Conflicts with what others write at the same moment: tried again at once, and said now and then.
//!
//! In clusters whose servers all take writes a conflict is found at the commit. Nothing was done then.

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
    /// Since this began.
    total: u64,
    /// Since something was said of them.
    unsaid: u64,
    said: Option<Instant>,
}

impl Conflicts {
    /// Counts one; `store` is what errors call the store.
    pub(super) fn note(&mut self, store: &str, words: &str) {
        self.total += 1;
        self.unsaid += 1;
        if self.said.is_some_and(|said| said.elapsed() < SAID_EVERY) {
            return;
        }
        let (conflicts, total) = (self.unsaid, self.total);
        tracing::info!(
            store,
            conflicts,
            total,
            "claims conflicted with writes of other hosts and were retried at once ({words}); if this continues, list \
             the servers in the same order on all hosts"
        );
        self.unsaid = 0;
        self.said = Some(Instant::now());
    }
}

/// How long to wait after so many conflicts in a row: a random time, so that the same two don't meet again.
pub(super) fn pause_after_conflict(tries: u32) -> Result<Duration, Failure> {
    let most_ms = (1_u64 << tries.min(10)).min(PAUSE_MAX_MS);
    let chance = crate::random::generation().map_err(StoreError::from)?;
    Ok(Duration::from_millis(chance.0 % (most_ms + 1)))
}
