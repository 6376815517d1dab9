//! How long to wait before retrying a failed call.

/// Exponential backoff: waits double from at most 50 ms to just under a second. The jitter keeps many hosts from
/// retrying at the same instant when their store comes back.
#[derive(Clone, Copy, Debug, Default)]
pub struct Backoff {
    failures: u32,
}

const FIRST_MS: u64 = 50;

/// Timers may end a wait up to 64 ms late, so this keeps two tries at most a second apart.
const LONGEST_MS: u64 = 1_000 - 64;

impl Backoff {
    /// Whether a call has failed since the last reset.
    pub fn failing(&self) -> bool {
        self.failures > 0
    }

    /// Counts a failure that the caller retries immediately.
    pub fn note_failure(&mut self) {
        self.failures = self.failures.saturating_add(1);
    }

    /// The next wait, in milliseconds: a random time between half the current step and the whole step. Pass a fresh
    /// `random` to each call.
    pub fn next_ms(&mut self, random: u64) -> u64 {
        let step_ms = (FIRST_MS << self.failures.min(10)).min(LONGEST_MS);
        self.note_failure();
        step_ms / 2 + random % (step_ms / 2 + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_almost_a_second_and_are_at_most_halved() {
        let mut backoff = Backoff::default();
        assert!(!backoff.failing());
        let longest = [25, 50, 100, 200, 400].map(|random| backoff.next_ms(random));
        assert_eq!(longest, [50, 100, 200, 400, 800]);
        assert_eq!([467, 468, 469].map(|random| backoff.next_ms(random)), [935, 936, 468]);
        backoff.failures = u32::MAX;
        assert_eq!((backoff.next_ms(0), backoff.failing()), (468, true));
        backoff = Backoff::default();
        backoff.note_failure();
        assert!(backoff.failing());
    }
}
