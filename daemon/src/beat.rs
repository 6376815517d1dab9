//! Waits that need not be exact. They all end at the same instants, so that an idle daemon wakes about once a second,
//! and not for each wait. When nobody has asked for a minute it rests, and wakes half as often. The next request ends
//! the rest: whoever waits then looks at the clock again, as on a day with requests.

use std::future::pending;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::sync::futures::Notified;
use tokio::time::{Instant, sleep, sleep_until};

use crate::clock;
use leafd_core::BootMs;

/// Slots of tokio's timers, in milliseconds, and in a beat.
const SLOT_MS: u64 = 64;
const SLOTS_IN_BEAT: u64 = 16;

/// The time between two beats, about a second. A shorter wait doesn't end at a beat.
///
/// tokio keeps timers that end within 64 ms in slots of a millisecond, later ones in slots of 64 ms, counted from the
/// runtime's start. It wakes at the beginning of a longer slot to sort what is in it, and again for what is due later.
/// A beat is always such a beginning, so one wake-up does for both.
pub const BEAT: Duration = Duration::from_millis(SLOTS_IN_BEAT * SLOT_MS);

/// The time between two beats at which a daemon at rest wakes.
const BEAT_AT_REST: Duration = Duration::from_millis(2 * SLOTS_IN_BEAT * SLOT_MS);

/// The longest wait for a beat at rest.
pub const REST_LONGEST: Duration = Duration::from_millis(3 * SLOTS_IN_BEAT * SLOT_MS);

/// The daemon rests after so many beats without a request: about a minute.
pub const REST_AFTER: u32 = 60;

/// A longer slot. A wait that ends at the beginning of one wakes the runtime once.
const SLOT: Duration = Duration::from_millis(SLOT_MS);

/// The instant that beats are counted from.
static FIRST: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Whether waits end at every second beat only.
static AT_REST: AtomicBool = AtomicBool::new(false);

/// Notified when a request ends the rest.
static RESUMED: Notify = Notify::const_new();

/// Tells by the count of requests when the daemon is at rest.
#[derive(Debug)]
pub struct Rest {
    requests: u64,
    /// The beats without a request that it still takes.
    beats_left: u32,
}

impl Default for Rest {
    /// Nobody has asked a daemon that starts. It need not wait for a minute.
    fn default() -> Self {
        Rest { requests: 0, beats_left: 1 }
    }
}

impl Rest {
    /// Takes note of how many requests there were by now. Call this at each beat.
    pub fn note(&mut self, requests: u64) {
        AT_REST.store(self.begins(requests), Relaxed);
    }

    fn begins(&mut self, requests: u64) -> bool {
        let asked = requests != self.requests;
        self.requests = requests;
        self.beats_left = if asked { REST_AFTER } else { self.beats_left.saturating_sub(1) };
        self.beats_left == 0
    }
}

/// Counts beats from now. To be called right before the runtime is made: less than a millisecond is rounded away, and
/// with more each beat wakes the runtime twice.
pub fn begin() {
    LazyLock::force(&FIRST);
}

/// A request has come: ends the rest. Returns whether the daemon rested.
pub fn resume() -> bool {
    let rested = AT_REST.load(Relaxed) && AT_REST.swap(false, Relaxed);
    if rested {
        RESUMED.notify_waiters();
    }
    rested
}

/// Waits for about this long, half a second more or less. At rest two seconds are the shortest wait, and it takes a
/// second more or less; the end of the rest makes it one of awake days again. A wait shorter than [`BEAT`] is exact.
pub async fn wait(about: Duration) {
    if about < BEAT {
        return sleep(about).await;
    }
    let begun = FIRST.elapsed();
    loop {
        let (beat, resumed) = beat();
        let now = FIRST.elapsed();
        tokio::select! {
            () = sleep_until(*FIRST + now + until_beat(now, begun + about.max(beat), beat)) => return,
            () = resumed => {}
        }
    }
}

/// The time between two beats at which the daemon wakes now, and the wait for the end of a rest.
fn beat() -> (Duration, Notified<'static>) {
    // The other way round, a rest could end in between.
    let resumed = RESUMED.notified();
    (if AT_REST.load(Relaxed) { BEAT_AT_REST } else { BEAT }, resumed)
}

/// Waits until this instant, or up to 64 ms longer; `None` for ever. It ends early when a rest does, and at a beat while
/// the instant is far away. A timer stops while the host sleeps, so the caller reads the clock again soon
/// after the host wakes.
pub async fn wait_until(at: Option<BootMs>) {
    let Some(at) = at else { return pending().await };
    let left = Duration::from_millis(at.0.saturating_sub(clock::boot().0).max(1));
    let (beat, resumed) = beat();
    let now = Instant::now();
    let wait = if left >= beat * 3 / 2 {
        let now = now.duration_since(*FIRST);
        until_beat(now, now + beat, beat)
    } else if left >= SLOT {
        until_slot(now.duration_since(*FIRST), left)
    } else {
        left
    };
    tokio::select! {
        () = sleep_until(now + wait) => {}
        () = resumed => {}
    }
}

/// How long it is from `now`, counted from the first beat, until the first slot that begins after a wait or with its
/// end.
fn until_slot(now: Duration, left: Duration) -> Duration {
    times(SLOT, (now + left).as_nanos().div_ceil(SLOT.as_nanos())).saturating_sub(now)
}

/// How long it is from `now` until the beat that is nearest to `end`, both counted from the first beat; nothing if that
/// beat is over. Beats come each `beat`.
fn until_beat(now: Duration, end: Duration, beat: Duration) -> Duration {
    times(beat, (end + beat / 2).as_nanos() / beat.as_nanos()).saturating_sub(now)
}

/// Whole milliseconds, so many times over.
fn times(duration: Duration, count: u128) -> Duration {
    let millis = duration.as_millis().saturating_mul(count);
    Duration::from_millis(u64::try_from(millis).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use std::future::{Future as _, poll_fn};
    use std::pin::pin;
    use std::task::Poll;

    use super::*;

    #[test]
    fn waits_end_at_beats_about_as_late_as_they_should() {
        let ms = Duration::from_millis;
        for now in [0, 946_080_000_000].into_iter().flat_map(|from| from..from + 5_000).map(ms) {
            for about in [1_024, 1_300, 3_750, 10_000].map(ms) {
                for beat in [BEAT, BEAT_AT_REST] {
                    let about = about.max(beat);
                    let wait = until_beat(now, now + about, beat);
                    let into_beat = (now + wait).as_nanos() % beat.as_nanos();
                    assert_eq!(into_beat, 0, "{now:?} + {wait:?}");
                    let off = wait.abs_diff(about);
                    assert!(off <= beat / 2, "{wait:?} for {about:?} at {now:?}");
                }
            }
        }
    }

    #[test]
    fn a_wait_in_which_a_rest_ends_ends_as_if_there_had_been_none_or_at_once() {
        let ms = Duration::from_millis;
        for (begun, about) in (0..4_100).flat_map(|begun| [(begun, 1_024), (begun, 3_750)]) {
            let (begun, about) = (ms(begun), ms(about));
            let at_rest = until_beat(begun, begun + about.max(BEAT_AT_REST), BEAT_AT_REST);
            for asked in (begun.as_millis()..(begun + at_rest).as_millis()).step_by(50) {
                let asked = ms(u64::try_from(asked).unwrap());
                let ends = asked + until_beat(asked, begun + about, BEAT);
                assert!(ends == asked || ends == begun + until_beat(begun, begun + about, BEAT));
            }
        }
    }

    #[test]
    fn it_rests_a_minute_after_the_last_request_or_when_there_was_none() {
        let mut rest = Rest::default();
        assert!(rest.begins(0), "nobody has asked since the start");
        for requests in [1, 5] {
            for beat in 0..REST_AFTER {
                assert!(!rest.begins(requests), "beat {beat} after request {requests}");
            }
            assert!(rest.begins(requests));
            assert!(rest.begins(requests));
        }
    }

    #[tokio::test]
    async fn a_request_ends_a_rest_and_whoever_waits_looks_at_the_clock() {
        let mut waits = pin!(wait_until(Some(BootMs(clock::boot().0 + 3_600_000))));
        let mut looks = async || poll_fn(|cx| Poll::Ready(waits.as_mut().poll(cx))).await;
        assert!(!resume(), "there was no rest");
        AT_REST.store(true, Relaxed);
        assert_eq!(looks().await, Poll::Pending);
        assert!(resume());
        assert_eq!(looks().await, Poll::Ready(()));
        assert!(!resume(), "the rest is over");
    }

    #[test]
    fn waits_for_an_instant_end_where_a_slot_begins_and_never_early() {
        let ms = Duration::from_millis;
        // From a start, and of a daemon that has run for thirty years.
        for now in [0, 9_460_800_000_000].into_iter().flat_map(|from| from..from + 5_000) {
            let now = ms(now) / 10;
            for left in [64, 65, 127, 128, 1_000, 1_535].map(ms) {
                let wait = until_slot(now, left);
                assert_eq!((now + wait).as_nanos() % SLOT.as_nanos(), 0, "{now:?} + {wait:?}");
                assert!(wait >= left && wait < left + SLOT, "{wait:?} for {left:?} at {now:?}");
            }
        }
    }
}
