//! The clock by which held ids expire, read in two ways: exact for slow paths, coarse for the hot one. It includes the
//! time during which the machine is suspended.
//!
//! The kernel's coarse clock costs a few loads, but stops during suspend. Only a suspend changes the difference
//! between the two clocks. The difference is therefore measured once per tick of the coarse clock, and cached.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// The difference between this process's two clocks.
static ASLEEP: Asleep = Asleep::new();

/// How far the clock that counts suspend is ahead of the other one, as of a tick of the coarse clock.
struct Asleep {
    /// The coarse clock's reading at that measurement. In another time namespace, where a child may continue with this
    /// memory, that clock reads differently.
    measured_at_ns: AtomicU64,
    ahead_ns: AtomicI64,
}

/// The exact time in nanoseconds since the machine started, suspend included.
pub(crate) fn exact_ns() -> u64 {
    read_ns(libc::CLOCK_BOOTTIME)
}

/// The time of the kernel's last tick (1 to 10 ms ago), in nanoseconds. It costs a few loads and is never ahead
/// of [`exact_ns`].
#[inline]
pub(crate) fn coarse_ns() -> u64 {
    ASLEEP.add_to(read_ns(libc::CLOCK_MONOTONIC_COARSE), measure)
}

/// The clock that counts suspend is read first. If the thread is preempted between the two readings, the result is too
/// small, for one tick only, so no run is kept too long.
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
        // At `u64::MAX` every run has expired, so without a clock no ids are held.
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

    /// The coarse clock's reading plus the suspended time. `measure` is called once per tick.
    #[inline]
    fn add_to(&self, coarse_ns: u64, measure: impl FnOnce() -> i64) -> u64 {
        // Acquire pairs with the Release below: a thread that sees the tick sees its measurement, or a later one.
        if self.measured_at_ns.load(Ordering::Acquire) != coarse_ns {
            // `u64::MAX` is returned unchanged, because it means that there is no clock.
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
        // A time namespace may shift the clocks relative to each other.
        assert_eq!(asleep.add_to(3_000, || -2_000), 1_000);
        assert_eq!(asleep.add_to(u64::MAX, || 7), u64::MAX);
    }
}
