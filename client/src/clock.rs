//! Two readings of the clock that held ids grow old by, which counts the time that the machine is suspended:
//! exact for slow paths, coarse for the hot one.
//!
//! The kernel has a coarse clock, which costs a few loads, but only one that stands still in suspend. What both
//! clocks are apart changes by a suspend alone: it is measured once a tick of the coarse one and remembered.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// What the clocks of this process are apart.
static ASLEEP: Asleep = Asleep::new();

/// What the clock that counts suspend is ahead of the one that doesn't, as of a tick of the coarse clock.
struct Asleep {
    /// The coarse clock's reading when it was measured. In another time namespace, where a child may go on with
    /// this memory, that clock reads differently.
    measured_at_ns: AtomicU64,
    ahead_ns: AtomicI64,
}

/// Now, exactly, in nanoseconds since the machine started, suspend included.
pub(crate) fn exact_ns() -> u64 {
    read_ns(libc::CLOCK_BOOTTIME)
}

/// Now as of the kernel's last tick (1 to 10 ms ago), in nanoseconds. It costs a few loads and is
/// never ahead of [`exact_ns`].
#[inline]
pub(crate) fn coarse_ns() -> u64 {
    ASLEEP.add_to(read_ns(libc::CLOCK_MONOTONIC_COARSE), measure)
}

/// The clock that counts suspend is read first: if the thread stops between the two, the outcome is too small for
/// a tick, and no run lives longer for good.
#[cold]
fn measure() -> i64 {
    let counting_ns = exact_ns();
    counting_ns.wrapping_sub(read_ns(libc::CLOCK_MONOTONIC)) as i64
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
    // Neither field of these clocks is negative.
    (time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64)
}

// === impl Asleep ===

impl Asleep {
    const fn new() -> Asleep {
        Asleep { measured_at_ns: AtomicU64::new(u64::MAX), ahead_ns: AtomicI64::new(0) }
    }

    /// The coarse clock's reading with suspend counted. `measure` is called once a tick.
    #[inline]
    fn add_to(&self, coarse_ns: u64, measure: impl FnOnce() -> i64) -> u64 {
        // Acquire pairs with the Release below: whoever sees the tick sees what was measured in it, or later.
        if self.measured_at_ns.load(Ordering::Acquire) != coarse_ns {
            // The end of time stays what it is: it says that there is no clock.
            let ahead_ns = if coarse_ns == u64::MAX { 0 } else { measure() };
            self.ahead_ns.store(ahead_ns, Ordering::Relaxed);
            self.measured_at_ns.store(coarse_ns, Ordering::Release);
        }
        coarse_ns.wrapping_add_signed(self.ahead_ns.load(Ordering::Relaxed))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_coarse_clock_lags_by_a_few_milliseconds_at_most() {
        for _ in 0..1000 {
            let before = coarse_ns();
            let exact = exact_ns();
            let after = coarse_ns();
            assert!(before <= exact, "{before} {exact}");
            assert!(exact <= after + 20_000_000, "{exact} {after}");
        }
    }

    #[test]
    fn suspend_is_measured_once_a_tick_and_counts_from_the_next_one_on() {
        let asleep = Asleep::new();
        assert_eq!(asleep.add_to(1_000, || 50), 1_050);
        assert_eq!(asleep.add_to(1_000, || panic!("measured twice in a tick")), 1_050);
        assert_eq!(asleep.add_to(2_000, || 3_600_000), 3_602_000);
        // A time namespace may set the clocks against one another as it likes.
        assert_eq!(asleep.add_to(3_000, || -2_000), 1_000);
        assert_eq!(asleep.add_to(u64::MAX, || 7), u64::MAX);
    }
}
