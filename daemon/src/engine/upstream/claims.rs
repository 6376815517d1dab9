//! The results of claims since the start, and the last claims.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use crate::histogram::Histogram;
use leafd_core::Tag;
use leafd_core::store::StoreError;
use leafd_wire::Run;

/// Claims by result, and the time that the store took for them.
#[derive(Debug, Default)]
pub struct ClaimCounts {
    recent: RefCell<VecDeque<(Tag, Run)>>,
    counts: [Cell<u64>; RESULTS.len()],
    /// The duration of claims, whatever their result.
    pub took: Histogram,
}

/// The results of a claim.
const RESULTS: [&str; 8] = [
    "granted",
    "unavailable",
    "unknown_tag",
    "exhausted",
    "refused",
    "overloaded",
    "changed",
    "held",
];

/// How many claims are remembered, to report them first after a fail-over, and to detect whether another host claimed the
/// same ids.
const RECENT_MAX: usize = 1_000;

impl ClaimCounts {
    pub fn remember(&self, tag: &Tag, run: Run) {
        let mut recent = self.recent.borrow_mut();
        if recent.len() == RECENT_MAX {
            recent.pop_front();
        }
        recent.push_back((tag.clone(), run));
    }

    /// Removes and returns the remembered claims of each tag.
    pub fn take_recent(&self) -> BTreeMap<Tag, Vec<Run>> {
        let mut by_tag: BTreeMap<Tag, Vec<Run>> = BTreeMap::new();
        for (tag, run) in self.recent.take() {
            by_tag.entry(tag).or_default().push(run);
        }
        by_tag
    }

    /// The end of each remembered claim, the latest first.
    pub fn recent_ends(&self) -> Vec<(Tag, u64)> {
        let recent = self.recent.borrow();
        recent.iter().rev().map(|(tag, run)| (tag.clone(), run.end())).collect()
    }

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
            Err(StoreError::Held { .. }) => 7,
        };
        self.counts[result].set(self.counts[result].get() + 1);
        self.took.observe(took);
    }

    /// The counts, with the names of the results.
    pub fn by_result(&self) -> impl Iterator<Item = (&'static str, u64)> {
        RESULTS.into_iter().zip(self.counts.iter().map(Cell::get))
    }
}
