//! Counts the results of claims since the start.

use std::cell::Cell;
use std::time::Duration;

use crate::histogram::Histogram;
use leafd_core::store::StoreError;

/// Claims by their result, and how long the store took for them.
#[derive(Debug, Default)]
pub struct ClaimCounts {
    counts: [Cell<u64>; RESULTS.len()],
    /// The time that claims took, whatever their result.
    pub took: Histogram,
}

/// The results of a claim.
const RESULTS: [&str; 7] =
    ["granted", "unavailable", "unknown_tag", "exhausted", "refused", "overloaded", "changed"];

impl ClaimCounts {
    /// Counts a claim that the store has answered, or that failed.
    pub fn answered<T>(&self, outcome: &Result<T, StoreError>, took: Duration) {
        let result = match outcome {
            Ok(_) => 0,
            Err(StoreError::Unavailable { .. }) => 1,
            Err(StoreError::UnknownTag { .. }) => 2,
            Err(StoreError::Exhausted { .. }) => 3,
            Err(StoreError::Refused(_) | StoreError::TagExists { .. }) => 4,
            Err(StoreError::Overloaded { .. }) => 5,
            Err(StoreError::Changed { .. }) => 6,
        };
        self.counts[result].set(self.counts[result].get() + 1);
        self.took.observe(took);
    }

    /// The counts, with the names of the results.
    pub fn by_result(&self) -> impl Iterator<Item = (&'static str, u64)> {
        RESULTS.into_iter().zip(self.counts.iter().map(Cell::get))
    }
}
