//! Totals of the answers of all connections.

use std::cell::Cell;
use std::time::Duration;

use leafd_wire::{Run, Status, flag};

use super::given::RecentDraws;
use super::users::{Drawn, Users};
use crate::clock::monotonic_us;
use crate::histogram::Histogram;

/// Counts answers.
#[derive(Debug)]
pub struct Tally {
    /// By the status's index in [`Status::ALL`].
    refusals: Box<[Cell<u64>]>,
    /// The waiting times of requests that were not answered at once.
    pub waits: Histogram,
    held_runs: Cell<u64>,
    in_held_runs: Cell<u64>,
    direct: Cell<u64>,
    /// What each user of the host draws.
    pub users: Users,
    /// Which processes drew the most recent ids.
    pub given: RecentDraws,
}

fn add(counter: &Cell<u64>, more: u64) {
    counter.set(counter.get().wrapping_add(more));
}

impl Tally {
    /// An empty one that remembers this many draws.
    pub fn new(draws_kept: usize) -> Tally {
        Tally {
            refusals: Status::ALL.iter().map(|_| Cell::default()).collect(),
            waits: Histogram::default(),
            held_runs: Cell::default(),
            in_held_runs: Cell::default(),
            direct: Cell::default(),
            users: Users::default(),
            given: RecentDraws::new(draws_kept),
        }
    }

    /// Counts a request that failed with this status.
    pub(super) fn refused(&self, status: Status) {
        if let Some(place) = Status::ALL.iter().position(|known| *known == status) {
            add(&self.refusals[place], 1);
        }
    }

    /// Counts the ids that a request with these flags got for this user.
    pub(super) fn drawn(&self, user: &Drawn, flags: u8, runs: &[Run]) {
        let ids = runs.iter().map(|run| u64::from(run.count)).sum();
        user.count(ids);
        if flags & flag::HOLD == 0 {
            add(&self.direct, ids);
        } else {
            add(&self.held_runs, 1);
            add(&self.in_held_runs, ids);
        }
    }

    /// Counts the wait of a request that arrived at `came_us` and was answered now.
    pub(super) fn waited(&self, came_us: u64) {
        self.waits.observe(Duration::from_micros(monotonic_us().saturating_sub(came_us)));
    }

    /// Failures by status, for every status.
    pub fn refusals(&self) -> impl Iterator<Item = (Status, u64)> {
        let counted = Status::ALL.iter().copied().zip(self.refusals.iter().map(Cell::get));
        counted.filter(|(status, _)| *status != Status::Ok)
    }

    /// Runs given to processes to hold, the ids in them, and ids drawn directly.
    pub fn ids(&self) -> [u64; 3] {
        [self.held_runs.get(), self.in_held_runs.get(), self.direct.get()]
    }
}
