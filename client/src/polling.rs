//! Decides what a waiting thread does before it sleeps: it may poll the socket for a moment, or let other threads run.
//!
//! Waking a sleeping core costs more than the rest of a round trip, so polling pays off while requests are sent back to
//! back and the daemon polls too. Otherwise it occupies a core that others could use, above all the daemon. Polling is
//! therefore limited, and each failed poll turns it off for more and more requests.
//!
//! If more threads send requests than there are cores, each yields its core once before it sleeps. The other threads
//! and the daemon run meanwhile, so the answer has usually arrived by then, and no thread had to sleep and wake up. But
//! a CPU-bound thread keeps a yielded core for milliseconds, whereas it would be preempted for a thread that wakes up.
//! So slow yields turn yielding off for a while, unless quick ones have saved enough time, and so do yields without an
//! answer.

use std::thread::available_parallelism;
use std::time::{Duration, Instant};

/// The longest poll. Also the longest pause between an answer and the next request that still counts as
/// back to back.
pub(crate) const WINDOW: Duration = Duration::from_micros(100);

/// How many requests skip polling after the first failed poll, and at most after many failed polls.
const PENALTY_MIN: u32 = 8;
const PENALTY_MAX: u32 = 4096;

/// If an attempt took longer, the core went to a CPU-bound thread, or to too many threads with requests.
pub(crate) const SLOW: Duration = Duration::from_millis(1);

/// About the time that a quick yield saves if it finds an answer, because no thread sleeps and wakes up.
const YIELD_WINS: Duration = Duration::from_micros(50);

/// The maximum of the remembered savings, which pays for some slow yields.
const WON_MAX: Duration = Duration::from_millis(20);

/// After a yield that costs more than was saved, yielding stops for this many times its duration.
const REST_PER_LOST: u32 = 100;

/// The longest such pause, because a yield also seems to take long if the process is stopped meanwhile.
const REST_MAX: Duration = Duration::from_secs(10);

/// What a thread does before it sleeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Before {
    /// Check repeatedly, for up to [`WINDOW`].
    pub(crate) polls: bool,
    /// Yield the core before each check.
    pub(crate) yields: bool,
}

/// How the attempt ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tried {
    /// Whether bytes, or the stream's end, had arrived.
    pub(crate) found: bool,
    pub(crate) took: Duration,
}

/// The policy, as learned on one connection. It reads no clock.
pub(crate) struct Polling {
    allowed: bool,
    daemon_awake: bool,
    answered_at: Option<Instant>,
    /// How many more requests must not poll.
    rest: u32,
    penalty: u32,
    /// The time saved by yields, minus the cost of failed and slow ones.
    won: Duration,
    yields_again_at: Option<Instant>,
}

// === impl Before ===

impl Before {
    pub(crate) const NOTHING: Before = Before { polls: false, yields: false };
}

// === impl Polling ===

impl Polling {
    pub(crate) fn new(allowed: bool) -> Polling {
        Polling {
            allowed,
            daemon_awake: false,
            answered_at: None,
            rest: 0,
            penalty: 0,
            won: Duration::ZERO,
            yields_again_at: None,
        }
    }

    /// What to do before sleeping until the answer to a request that is sent now.
    pub(crate) fn begin(&mut self, now: Instant) -> Before {
        let back_to_back =
            self.answered_at.is_some_and(|at| now.saturating_duration_since(at) < WINDOW);
        if !self.allowed || !back_to_back {
            return Before::NOTHING;
        }
        Before { polls: self.may_poll(), yields: self.may_yield(now) }
    }

    fn may_poll(&mut self) -> bool {
        // Counted even if the daemon is asleep: it falls asleep while this client pauses, and the two must not wait for
        // each other.
        let rests = self.rest > 0;
        self.rest = self.rest.saturating_sub(1);
        !rests && self.daemon_awake
    }

    fn may_yield(&self, now: Instant) -> bool {
        self.yields_again_at.is_none_or(|at| now >= at)
    }

    /// The result of an attempt. `now` may be later, if the thread has slept as well.
    pub(crate) fn end(&mut self, before: Before, tried: Tried, now: Instant) {
        if before.polls && tried.found {
            self.penalty /= 2;
        } else if before.polls {
            self.penalty = (self.penalty * 2).clamp(PENALTY_MIN, PENALTY_MAX);
            self.rest = self.penalty;
        }
        if !before.yields {
            return;
        }
        if tried.found && tried.took < SLOW {
            self.won = (self.won + YIELD_WINS).min(WON_MAX);
        } else if let Some(left) = self.won.checked_sub(tried.took) {
            self.won = left;
        } else {
            self.won = Duration::ZERO;
            self.yields_again_at = Some(now + (tried.took * REST_PER_LOST).min(REST_MAX));
        }
    }

    /// An answer arrived.
    pub(crate) fn answered(&mut self, now: Instant, daemon_awake: bool) {
        self.daemon_awake = daemon_awake;
        self.answered_at = Some(now);
    }
}

/// Whether this process may use more than one core, according to its threads' affinity and the control groups' quotas.
/// With one core, polling only keeps the daemon from running, and so do threads that yield to each other.
pub(crate) fn has_cores_to_spare() -> bool {
    available_parallelism().is_ok_and(|cores| cores.get() > 1)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn polls_only_back_to_back_with_a_daemon_that_is_awake() {
        let mut polling = Polling::new(true);
        let start = Instant::now();
        assert_eq!(polling.begin(start), Before::NOTHING);
        polling.answered(start, true);
        assert_eq!(polling.begin(start + WINDOW / 2), Before { polls: true, yields: true });
        assert_eq!(polling.begin(start + WINDOW * 2), Before::NOTHING);
        polling.answered(start, false);
        assert_eq!(polling.begin(start), Before { polls: false, yields: true });
        let mut never = Polling::new(false);
        never.answered(start, true);
        assert_eq!(never.begin(start), Before::NOTHING);
    }

    #[test]
    fn polls_in_vain_get_rarer() {
        let mut polling = Polling::new(true);
        let now = Instant::now();
        polling.answered(now, true);
        let polls = (0..100_000)
            .filter(|_| {
                let before = polling.begin(now);
                polling.end(before, Tried { found: false, took: WINDOW }, now);
                before.polls
            })
            .count();
        assert!(polls < 40, "{polls}");
    }

    /// Simulates a second of back-to-back requests; `took` returns how long each yield takes. Returns the number of
    /// yields, and how long they took in total.
    fn a_second_of_yields(took: impl Fn(u32) -> Duration) -> (u32, Duration) {
        const SLEEPS: Duration = Duration::from_micros(80);
        let mut polling = Polling::new(true);
        let start = Instant::now();
        let (mut now, mut yields, mut yielded) = (start, 0, Duration::ZERO);
        while now - start < Duration::from_secs(1) {
            polling.answered(now, false);
            let before = polling.begin(now);
            let took = if before.yields { took(yields) } else { SLEEPS };
            now += took;
            if before.yields {
                yields += 1;
                yielded += took;
                polling.end(before, Tried { found: true, took }, now);
            }
        }
        (yields, yielded)
    }

    const QUICK: Duration = Duration::from_micros(30);
    const SLICE: Duration = Duration::from_millis(4);

    #[test]
    fn beside_a_thread_that_computes_yields_take_little_of_the_time() {
        let (yields, yielded) = a_second_of_yields(|_| SLICE);
        assert!((1..=3).contains(&yields) && yielded <= 3 * SLICE, "{yields}");
    }

    #[test]
    fn what_was_won_before_pays_for_few_slow_yields() {
        let (yields, _) = a_second_of_yields(|count| if count < 10_000 { QUICK } else { SLICE });
        assert!((10_002..10_010).contains(&yields), "{yields}");
    }

    #[test]
    fn a_slow_yield_among_many_quick_ones_is_forgiven() {
        let slow = |every| move |count| if count % every == every - 1 { SLICE } else { QUICK };
        let (yields, _) = a_second_of_yields(slow(200));
        assert!(yields > 15_000, "{yields}");
        let (yields, yielded) = a_second_of_yields(slow(10));
        assert!(yields > 10 && yielded < Duration::from_millis(100), "{yields} in {yielded:?}");
    }

    #[test]
    fn yields_in_vain_get_rarer() {
        let mut polling = Polling::new(true);
        let mut now = Instant::now();
        let vain = Tried { found: false, took: Duration::from_micros(1) };
        let mut yields = 0;
        for _ in 0..1_000 {
            polling.answered(now, false);
            let before = polling.begin(now);
            now += Duration::from_micros(40);
            if before.yields {
                yields += 1;
                polling.end(before, vain, now);
            }
        }
        assert!((100..400).contains(&yields), "{yields}");
    }

    #[test]
    fn a_process_that_was_stopped_yields_again_soon() {
        let mut polling = Polling::new(true);
        let now = Instant::now();
        let yields = Before { polls: false, yields: true };
        polling.end(yields, Tried { found: true, took: Duration::from_secs(600) }, now);
        polling.answered(now + REST_MAX, false);
        assert_eq!(polling.begin(now + REST_MAX), yields);
    }
}
