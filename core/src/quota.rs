//! How many ids a user may draw: a bucket that fills at a steady rate and holds a burst.

use crate::BootMs;

/// A quota as it is configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// How many ids the user regains each second; from 1.
    pub ids_per_second: u64,
    /// The maximum number of ids in a burst; from 1.
    pub burst: u64,
}

/// What remains of a quota. A new bucket is full.
#[derive(Clone, Copy, Debug)]
pub struct Bucket {
    /// The quota that it keeps.
    pub quota: Quota,
    /// In thousandths of an id, so that slow rates lose nothing between two draws.
    left_milli: u128,
    filled: BootMs,
}

impl Bucket {
    pub fn new(quota: Quota, now: BootMs) -> Bucket {
        Bucket { quota, left_milli: u128::from(quota.burst) * 1_000, filled: now }
    }

    /// Draws `count` ids.
    ///
    /// # Errors
    /// The milliseconds until `count` ids are available. `None`: never, because the burst is smaller than `count`. In
    /// both cases, nothing is drawn.
    pub fn draw(&mut self, count: u64, now: BootMs) -> Result<(), Option<u64>> {
        let full = self.fill(now);
        let wanted = u128::from(count) * 1_000;
        if wanted > full {
            return Err(None);
        }
        match self.left_milli.checked_sub(wanted) {
            Some(left) => {
                self.left_milli = left;
                Ok(())
            }
            None => {
                let missing = wanted - self.left_milli;
                let wait_ms = missing.div_ceil(u128::from(self.quota.ids_per_second.max(1)));
                Err(Some(u64::try_from(wait_ms).unwrap_or(u64::MAX)))
            }
        }
    }

    /// How many ids can be drawn now.
    pub fn available(&mut self, now: BootMs) -> u64 {
        self.fill(now);
        u64::try_from(self.left_milli / 1_000).unwrap_or(u64::MAX)
    }

    /// Whether it is full again, so that the caller need not keep it.
    pub fn is_full(&mut self, now: BootMs) -> bool {
        self.fill(now) == self.left_milli
    }

    /// Adds what has been regained since the last call. Returns how much a full bucket holds.
    fn fill(&mut self, now: BootMs) -> u128 {
        let full = u128::from(self.quota.burst) * 1_000;
        let elapsed_ms = u128::from(now.0.saturating_sub(self.filled.0));
        let filled = elapsed_ms.saturating_mul(u128::from(self.quota.ids_per_second));
        self.left_milli = self.left_milli.saturating_add(filled).min(full);
        self.filled = self.filled.max(now);
        full
    }
}
