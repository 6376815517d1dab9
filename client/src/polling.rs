//! When a waiting thread polls the socket for a moment before it sleeps.
//!
//! Waking a sleeping core costs more than all the rest of a round trip. So polling pays while requests come
//! back to back and the daemon polls too. Otherwise it burns a core that others could use, the daemon first
//! of all. So polling is bounded, and each vain poll turns it off for more and more requests.

use std::fs;
use std::mem;
use std::path::Path;
use std::time::{Duration, Instant};

/// The longest poll. Also the longest pause between an answer and the next request that still counts as
/// back to back.
pub(crate) const WINDOW: Duration = Duration::from_micros(100);

/// How many requests go without a poll after the first vain one, and the most after many.
const PENALTY_MIN: u32 = 8;
const PENALTY_MAX: u32 = 4096;

/// The policy, as learned on one connection. It reads no clock.
pub(crate) struct Polling {
    allowed: bool,
    daemon_awake: bool,
    answered_at: Option<Instant>,
    /// How many more requests must not poll.
    rest: u32,
    penalty: u32,
}

// === impl Polling ===

impl Polling {
    pub(crate) fn new(allowed: bool) -> Polling {
        Polling { allowed, daemon_awake: false, answered_at: None, rest: 0, penalty: 0 }
    }

    /// Whether to poll for the answer of a request that is sent now.
    pub(crate) fn begin(&mut self, now: Instant) -> bool {
        let back_to_back =
            self.answered_at.is_some_and(|at| now.saturating_duration_since(at) < WINDOW);
        if !self.allowed || !back_to_back {
            return false;
        }
        // Counted even if the daemon is asleep. It falls asleep while this client rests, and the two must
        // not wait for each other.
        if self.rest > 0 {
            self.rest -= 1;
            return false;
        }
        self.daemon_awake
    }

    /// How a poll ended.
    pub(crate) fn end(&mut self, hit: bool) {
        if hit {
            self.penalty /= 2;
        } else {
            self.penalty = (self.penalty * 2).clamp(PENALTY_MIN, PENALTY_MAX);
            self.rest = self.penalty;
        }
    }

    /// An answer came in.
    pub(crate) fn answered(&mut self, now: Instant, daemon_awake: bool) {
        self.daemon_awake = daemon_awake;
        self.answered_at = Some(now);
    }
}

/// Whether this process may use more than one core, by its threads' affinity and the control groups'
/// quotas. With one core, polling only keeps the daemon from running.
pub(crate) fn has_cores_to_spare() -> bool {
    affinity_cores().is_none_or(|cores| cores > 1) && quota_cores().is_none_or(|cores| cores > 1.0)
}

fn affinity_cores() -> Option<i32> {
    // SAFETY: all zeros is the empty set.
    let mut set: libc::cpu_set_t = unsafe { mem::zeroed() };
    // SAFETY: the set is valid for writes of its size.
    let outcome = unsafe { libc::sched_getaffinity(0, mem::size_of_val(&set), &raw mut set) };
    // More cores than the set can hold are an error, but no reason not to poll.
    // SAFETY: the set is a valid set.
    (outcome == 0).then(|| unsafe { libc::CPU_COUNT(&set) })
}

/// The smallest quota of the process's control group and those above it (version 2 only).
fn quota_cores() -> Option<f64> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let group = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let root = Path::new("/sys/fs/cgroup");
    root.join(group)
        .ancestors()
        .take_while(|folder| folder.starts_with(root))
        .filter_map(|folder| parse_quota(&fs::read_to_string(folder.join("cpu.max")).ok()?))
        .reduce(f64::min)
}

/// `max 100000`, or quota and period in microseconds.
fn parse_quota(text: &str) -> Option<f64> {
    let (quota, period) = text.trim().split_once(' ')?;
    let (quota, period): (f64, f64) = (quota.parse().ok()?, period.parse().ok()?);
    (period > 0.0).then_some(quota / period)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn polls_only_back_to_back_with_a_daemon_that_is_awake() {
        let mut polling = Polling::new(true);
        let start = Instant::now();
        assert!(!polling.begin(start));
        polling.answered(start, true);
        assert!(polling.begin(start + WINDOW / 2));
        assert!(!polling.begin(start + WINDOW * 2));
        polling.answered(start, false);
        assert!(!polling.begin(start));
        let mut never = Polling::new(false);
        never.answered(start, true);
        assert!(!never.begin(start));
    }

    #[test]
    fn polls_in_vain_get_rarer() {
        let mut polling = Polling::new(true);
        let now = Instant::now();
        polling.answered(now, true);
        let polls = (0..100_000)
            .filter(|_| {
                let polls = polling.begin(now);
                if polls {
                    polling.end(false);
                }
                polls
            })
            .count();
        assert!(polls < 40, "{polls}");
    }

    #[test]
    fn quotas_are_read() {
        assert_eq!(parse_quota("max 100000\n"), None);
        assert_eq!(parse_quota("150000 100000\n"), Some(1.5));
        assert_eq!(parse_quota("nonsense"), None);
    }
}
