//! For how long a thread has been at what it does now: a disk or a server that hangs reports no fault.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::clock::monotonic_us;

/// What a thread tells others of its work. The time in which the host sleeps does not count.
#[derive(Debug, Default)]
pub struct Busy {
    /// In microseconds of [`monotonic_us`]; 0 while it has nothing to do.
    since_us: AtomicU64,
}

impl Busy {
    /// It begins something.
    pub fn begins(&self) {
        self.since_us.store(monotonic_us().max(1), Ordering::Relaxed);
    }

    /// It has done it.
    pub fn ends(&self) {
        self.since_us.store(0, Ordering::Relaxed);
    }

    /// For how long it has been at it; zero while it has nothing to do.
    #[must_use]
    pub fn lasts(&self) -> Duration {
        match self.since_us.load(Ordering::Relaxed) {
            0 => Duration::ZERO,
            since_us => Duration::from_micros(monotonic_us().saturating_sub(since_us)),
        }
    }
}
