//! Decides whether the host's wall clock can be trusted. Each answer compares it with the registry's clock and with the
//! peers'. Between answers it is compared with the boot-time clock.
//!
//! A step forward is not trusted until the registry confirms it. Meanwhile, time advances at the boot-time clock's
//! pace, so a wrong step neither stops ids nor moves them into the future. A step back is left to the generator, which
//! keeps issuing as far as the drift allows.

use crate::UnixMs;
use crate::time::Now;

/// Judges the host's clock.
#[derive(Clone, Debug)]
pub struct Clock {
    threshold_ms: u64,
    /// The readings of the clocks when they were last trusted.
    basis: Now,
    /// Whether a registry has confirmed these clocks.
    confirmed: bool,
    /// How far ahead of the registry's clock the host's was at the last answer; negative when it was behind.
    pub offset_ms: Option<i64>,
    /// What was wrong at the last answer.
    pub skew: Option<Skew>,
}

/// How far off the host's clock is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Skew {
    /// The minimum difference, in milliseconds.
    pub by_ms: u64,
    /// Whether it is ahead; otherwise it is behind.
    pub ahead: bool,
    /// The clocks that it was compared with.
    pub of: Reference,
}

/// What the host's clock is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reference {
    Registry,
    /// The median of this many live peers' clocks.
    Peers(usize),
}

/// How many peers must agree before they cast doubt on a clock that was confirmed once. A single peer with a wrong
/// clock must not stop the others.
const PEERS_MIN_RUNNING: usize = 3;

/// Clocks are slewed by at most 1/`SLEW` of the elapsed time.
const SLEW: u64 = 1_000;

impl Clock {
    pub(super) fn new(now: Now, threshold_ms: u64) -> Clock {
        Clock { threshold_ms, basis: now, confirmed: false, offset_ms: None, skew: None }
    }

    /// The clocks that generators use, without an unconfirmed step forward.
    pub fn believed_time(&self, now: Now) -> Now {
        let (expected, tolerance) = self.expected(now);
        if now.unix.0 > expected.saturating_add(tolerance) {
            return Now { unix: UnixMs(expected), boot: now.boot };
        }
        now
    }

    /// How far the wall clock has stepped ahead of the trusted time, in milliseconds; 0 if it is trusted.
    pub fn held_back_ms(&self, now: Now) -> u64 {
        now.unix.0.saturating_sub(self.believed_time(now).unix.0)
    }

    /// Records an answer. The registry read its clock between the two instants `asked` and `answered`. `peers`: how far
    /// ahead of the registry's clock each live peer's clock was.
    pub(super) fn judge(
        &mut self,
        asked: Now,
        answered: Now,
        registry: UnixMs,
        mut peers: Vec<i64>,
    ) {
        // When the question was asked, by the current wall clock, so that a step since then doesn't count.
        let took_ms = answered.boot.0.saturating_sub(asked.boot.0);
        let latest = signed(answered.unix) - signed(registry);
        let earliest = latest - i64::try_from(took_ms).unwrap_or(i64::MAX);
        self.offset_ms = Some(earliest + (latest - earliest) / 2);
        self.skew = self.skew_of(earliest, latest, Reference::Registry);
        let peers_min = if self.confirmed { PEERS_MIN_RUNNING } else { 1 };
        if self.skew.is_none() && peers.len() >= peers_min {
            peers.sort_unstable();
            let middle = peers[peers.len() / 2];
            let of = Reference::Peers(peers.len());
            self.skew =
                self.skew_of(earliest.saturating_sub(middle), latest.saturating_sub(middle), of);
        }
        if self.skew.is_none() {
            self.basis = answered;
            self.confirmed = true;
        }
    }

    fn skew_of(&self, earliest: i64, latest: i64, of: Reference) -> Option<Skew> {
        let threshold = i64::try_from(self.threshold_ms).unwrap_or(i64::MAX);
        if earliest > threshold {
            return Some(Skew { by_ms: earliest.unsigned_abs(), ahead: true, of });
        }
        (latest < -threshold).then(|| Skew { by_ms: latest.unsigned_abs(), ahead: false, of })
    }

    /// Why no id may be issued and no worker claimed by this clock.
    ///
    /// A clock that was confirmed and has run evenly since is accepted, because then the other clocks moved.
    pub(super) fn refuses(&self, now: Now) -> Option<Skew> {
        let skew = self.skew?;
        let (expected, tolerance) = self.expected(now);
        let stepped_back = now.unix.0.saturating_add(tolerance) < expected;
        (!self.confirmed || stepped_back).then_some(skew)
    }

    /// The time that the wall clock should show, and the tolerance.
    fn expected(&self, now: Now) -> (u64, u64) {
        let passed_ms = now.boot.0.saturating_sub(self.basis.boot.0);
        let expected = self.basis.unix.0.saturating_add(passed_ms);
        (expected, self.threshold_ms.saturating_add(passed_ms / SLEW))
    }
}

pub(super) fn signed(time: UnixMs) -> i64 {
    i64::try_from(time.0).unwrap_or(i64::MAX)
}
