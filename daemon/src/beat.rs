//! Waits that need not be exact. They all end at the same instants, so that an idle daemon wakes once a second, and
//! not for each wait.

use std::future::pending;
use std::sync::LazyLock;
use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until};

use crate::clock;
use leafd_core::BootMs;

/// The time between two beats. A shorter wait doesn't end at a beat.
pub const BEAT: Duration = Duration::from_secs(1);

/// The instant that beats are counted from.
static FIRST: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Waits for about this long, half a second more or less. A wait shorter than [`BEAT`] is exact.
pub async fn wait(about: Duration) {
    if about < BEAT {
        return sleep(about).await;
    }
    let now = Instant::now();
    sleep_until(now + until_beat(now.duration_since(*FIRST), about)).await;
}

/// Waits until this instant, `None` for ever. While the instant is far away, the wait ends early, at a beat. A timer
/// stops while the host sleeps, so the caller reads the clock again soon after the host wakes.
pub async fn wait_until(at: Option<BootMs>) {
    let Some(at) = at else { return pending().await };
    let left = Duration::from_millis(at.0.saturating_sub(clock::boot().0).max(1));
    if left < BEAT * 3 / 2 { sleep(left).await } else { wait(BEAT).await }
}

/// How long it is from `now`, counted from the first beat, until the beat that is nearest to the end of a wait.
fn until_beat(now: Duration, about: Duration) -> Duration {
    let end = now + about + BEAT / 2;
    let beat = Duration::from_secs(end.as_secs() / BEAT.as_secs() * BEAT.as_secs());
    beat.saturating_sub(now)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_end_at_beats_about_as_late_as_they_should() {
        let ms = Duration::from_millis;
        for now in (0..5_000).map(ms) {
            for about in [1_000, 1_300, 3_750, 10_000].map(ms) {
                let wait = until_beat(now, about);
                assert_eq!((now + wait).subsec_nanos(), 0, "{now:?} + {wait:?}");
                assert!(wait.abs_diff(about) <= BEAT / 2, "{wait:?} for {about:?} at {now:?}");
            }
        }
    }
}
