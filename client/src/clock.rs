//! Two readings of the same monotonic clock: exact for slow paths, coarse for the hot one.

/// Now, exactly, in nanoseconds.
pub(crate) fn exact_ns() -> u64 {
    read_ns(libc::CLOCK_MONOTONIC)
}

/// Now as of the kernel's last tick (1 to 10 ms ago), in nanoseconds. It costs a few loads and is
/// never ahead of [`exact_ns`].
#[inline]
pub(crate) fn coarse_ns() -> u64 {
    read_ns(libc::CLOCK_MONOTONIC_COARSE)
}

#[inline]
fn read_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is valid for writes.
    let outcome = unsafe { libc::clock_gettime(clock, &raw mut time) };
    if outcome != 0 {
        // Every run is over at the end of time: without a clock nothing is held.
        return u64::MAX;
    }
    // Neither field of a monotonic clock is negative.
    (time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_coarse_clock_lags_by_a_few_milliseconds_at_most() {
        let before = coarse_ns();
        let exact = exact_ns();
        let after = coarse_ns();
        assert!(before <= exact);
        assert!(exact <= after + 20_000_000, "{exact} {after}");
    }
}
