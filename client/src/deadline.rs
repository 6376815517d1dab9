//! A call's deadline.

use std::time::{Duration, Instant};

use leafd_wire::DEADLINE_MS_MAX;

use crate::error::Error;

/// How much longer than the daemon's deadline a client waits for the daemon's answer, which explains the timeout.
const GRACE: Duration = Duration::from_millis(250);

/// The longest wait for a missing daemon; see [`crate::Builder::wait`].
pub const WAIT_MAX: Duration = Duration::from_secs(3600);

/// A call's start, and how long it may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline {
    start: Instant,
    limit: Duration,
    /// The time by which the daemon must have answered.
    pub(crate) end: Instant,
    /// The time by which the client must be connected. It is later than `end` if the call waits longer for a missing
    /// daemon.
    pub(crate) connect_by: Instant,
    /// Whether the call waits for a daemon that has never run.
    pub(crate) waits: bool,
}

impl Deadline {
    /// A deadline that starts now, capped at the daemon's maximum.
    pub(crate) fn after(limit: Duration) -> Deadline {
        let limit = limit.min(Duration::from_millis(u64::from(DEADLINE_MS_MAX)));
        let start = Instant::now();
        Deadline { start, limit, end: start + limit, connect_by: start + limit, waits: false }
    }

    /// Like [`Deadline::after`], for a call that waits for a missing daemon: up to `wait`, or `limit` if that is
    /// longer. It doesn't wait if `wait` is zero.
    pub(crate) fn waiting(limit: Duration, wait: Duration) -> Deadline {
        let deadline = Deadline::after(limit);
        let connect_by = deadline.connect_by.max(deadline.start + wait.min(WAIT_MAX));
        Deadline { connect_by, waits: !wait.is_zero(), ..deadline }
    }

    /// Records a connection made at `at`. If the call waited for it, the daemon's time to answer starts then.
    pub(crate) fn connected(&mut self, at: Instant) {
        if self.waits {
            self.end = self.end.max(at + self.limit);
        }
    }

    /// When the client stops waiting for the daemon's answer.
    pub(crate) fn end_of_grace(&self) -> Instant {
        self.end + GRACE
    }

    /// When a call stops waiting for another thread, which may be waiting for a connection.
    pub(crate) fn last_moment(&self) -> Instant {
        let last = if self.waits { self.connect_by + self.limit } else { self.end };
        last.max(self.end) + GRACE
    }

    /// The remaining time for the request's deadline field: in milliseconds, rounded up.
    pub(crate) fn left_ms(&self) -> u32 {
        as_ms(self.end.saturating_duration_since(Instant::now()))
    }

    /// The time limit at the start of the call.
    pub(crate) fn whole_ms(&self) -> u32 {
        as_ms(self.limit)
    }

    pub(crate) fn is_over(&self) -> bool {
        Instant::now() >= self.end
    }

    /// The error of a call that timed out.
    pub(crate) fn missed(&self) -> Error {
        if crate::interruption::has_ended() {
            return Error::Interrupted;
        }
        Error::Timeout { waited: self.start.elapsed() }
    }
}

fn as_ms(left: Duration) -> u32 {
    u32::try_from(left.as_micros().div_ceil(1000)).unwrap_or(DEADLINE_MS_MAX)
}
