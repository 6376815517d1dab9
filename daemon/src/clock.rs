//! The only place that reads the host's clocks; the core gets their readings as arguments.

use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

use leafd_core::snowflake::Now;
use leafd_core::{BootMs, UnixMs};

pub fn now() -> Now {
    Now { unix: UnixMs(read_us(ClockId::CLOCK_REALTIME) / 1_000), boot: boot() }
}

/// The boot-time clock, which counts suspend and never steps.
pub fn boot() -> BootMs {
    BootMs(read_us(ClockId::CLOCK_BOOTTIME) / 1_000)
}

/// How often the daemon checks everything that can change without a request.
pub const TICK: Duration = Duration::from_secs(1);

/// Waits until this instant, but at most for [`TICK`]: timers stop while the host is suspended, so the caller must read
/// the clock again soon after a resume. `None` waits forever.
pub async fn wait_until(at: Option<BootMs>) {
    let Some(at) = at else { return std::future::pending().await };
    let left = Duration::from_millis(at.0.saturating_sub(boot().0).max(1));
    tokio::time::sleep(left.min(TICK)).await;
}

/// Microseconds of a clock that never steps, for short intervals.
pub fn monotonic_us() -> u64 {
    read_us(ClockId::CLOCK_MONOTONIC)
}

/// A span of time in whole milliseconds.
pub fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

fn read_us(clock: ClockId) -> u64 {
    let time = clock_gettime(clock).expect("the kernel has these clocks and the address is ours");
    // A wall clock before 1970 is read as 1970. That is before every layout's epoch, so ids are refused.
    let seconds = u64::try_from(time.tv_sec()).unwrap_or(0);
    let nanoseconds = u64::try_from(time.tv_nsec()).unwrap_or(0);
    seconds.saturating_mul(1_000_000).saturating_add(nanoseconds / 1_000)
}
