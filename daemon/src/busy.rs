//! Measures how long a thread has worked on its current task, because a hanging disk or server reports no error.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::clock::monotonic_us;

/// Publishes a thread's current work. Time in suspend does not count.
#[derive(Debug, Default)]
pub struct Busy {
    /// The start in microseconds of [`monotonic_us`]; 0 while idle.
    since_us: AtomicU64,
}

impl Busy {
    /// Records that work begins.
    pub fn begins(&self) {
        self.since_us.store(monotonic_us().max(1), Ordering::Relaxed);
    }

    /// Records that the current work has ended.
    pub fn ends(&self) {
        self.since_us.store(0, Ordering::Relaxed);
    }

    /// The duration of the current work so far; zero while idle.
    pub fn lasts(&self) -> Duration {
        match self.since_us.load(Ordering::Relaxed) {
            0 => Duration::ZERO,
            since_us => Duration::from_micros(monotonic_us().saturating_sub(since_us)),
        }
    }
}
