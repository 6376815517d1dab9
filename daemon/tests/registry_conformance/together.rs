//! Has threads go on at the same moment. Unlike the standard library's barrier it doesn't wait for ever for a thread that
//! has failed, so that its failure is told.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const WAIT_MAX: Duration = Duration::from_secs(30);

pub struct Together {
    of: usize,
    arrived: AtomicUsize,
}

impl Together {
    pub fn new(of: usize) -> Together {
        Together { of, arrived: AtomicUsize::new(0) }
    }

    pub fn wait(&self) {
        let begun = Instant::now();
        let round = self.arrived.fetch_add(1, Ordering::SeqCst) / self.of + 1;
        while self.arrived.load(Ordering::SeqCst) < round * self.of {
            assert!(begun.elapsed() < WAIT_MAX, "another thread has failed");
            thread::yield_now();
        }
    }
}
