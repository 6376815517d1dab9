//! Waits that need not be exact. They all end at the same instants, so that an idle daemon wakes about once a second,
//! and not for each wait.

use std::future::pending;
use std::sync::LazyLock;
use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until};

use crate::clock;
use leafd_core::BootMs;

/// The time between two beats, about a second. A shorter wait doesn't end at a beat.
///
/// tokio keeps timers that end within 64 ms in slots of a millisecond, later ones in slots of 64 ms, counted from the
/// runtime's start. It wakes at the beginning of a longer slot to sort what is in it, and again for what is due later.
/// A beat is always such a beginning, so one wake-up does for both.
pub const BEAT: Duration = Duration::from_millis(16 * 64);

/// A longer slot. A wait that ends at the beginning of one wakes the runtime once.
const SLOT: Duration = Duration::from_millis(64);

/// The instant that beats are counted from.
static FIRST: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Counts beats from now. To be called right before the runtime is made: less than a millisecond is rounded away, and
/// with more each beat wakes the runtime twice.
pub fn begin() {
    LazyLock::force(&FIRST);
}

/// Waits for about this long, half a second more or less. A wait shorter than [`BEAT`] is exact.
pub async fn wait(about: Duration) {
    if about < BEAT {
        return sleep(about).await;
    }
    let now = Instant::now();
    sleep_until(now + until_beat(now.duration_since(*FIRST), about)).await;
}

/// Waits until this instant, or up to 64 ms longer; `None` for ever. While the instant is far away, the wait ends early,
/// at a beat. A timer stops while the host sleeps, so the caller reads the clock again soon after the host wakes.
pub async fn wait_until(at: Option<BootMs>) {
    let Some(at) = at else { return pending().await };
    let left = Duration::from_millis(at.0.saturating_sub(clock::boot().0).max(1));
    if left >= BEAT * 3 / 2 {
        wait(BEAT).await;
    } else if left >= SLOT {
        let now = Instant::now();
        sleep_until(now + until_slot(now.duration_since(*FIRST), left)).await;
    } else {
        sleep(left).await;
    }
}

/// How long it is from `now`, counted from the first beat, until the first slot that begins after a wait or with its
/// end.
fn until_slot(now: Duration, left: Duration) -> Duration {
    let slots = (now + left).as_nanos().div_ceil(SLOT.as_nanos());
    (SLOT * u32::try_from(slots).unwrap_or(u32::MAX)).saturating_sub(now)
}

/// How long it is from `now`, counted from the first beat, until the beat that is nearest to the end of a wait.
fn until_beat(now: Duration, about: Duration) -> Duration {
    let end = now + about + BEAT / 2;
    let beats = end.as_millis() / BEAT.as_millis();
    (BEAT * u32::try_from(beats).unwrap_or(u32::MAX)).saturating_sub(now)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_end_at_beats_about_as_late_as_they_should() {
        let ms = Duration::from_millis;
        for now in (0..5_000).map(ms) {
            for about in [1_024, 1_300, 3_750, 10_000].map(ms) {
                let wait = until_beat(now, about);
                let into_beat = (now + wait).as_nanos() % BEAT.as_nanos();
                assert_eq!(into_beat, 0, "{now:?} + {wait:?}");
                assert!(wait.abs_diff(about) <= BEAT / 2, "{wait:?} for {about:?} at {now:?}");
            }
        }
    }

    #[test]
    fn waits_for_an_instant_end_where_a_slot_begins_and_never_early() {
        let ms = Duration::from_millis;
        for now in (0..5_000).map(|tenths| ms(tenths) / 10) {
            for left in [64, 65, 127, 128, 1_000, 1_535].map(ms) {
                let wait = until_slot(now, left);
                assert_eq!((now + wait).as_nanos() % SLOT.as_nanos(), 0, "{now:?} + {wait:?}");
                assert!(wait >= left && wait < left + SLOT, "{wait:?} for {left:?} at {now:?}");
            }
        }
    }
}
