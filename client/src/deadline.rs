//! Until when a call may take.

use std::time::{Duration, Instant};

use leafd_wire::DEADLINE_MS_MAX;

use crate::error::Error;
use crate::state::GRACE;

/// A call's start, and how long it may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline {
    start: Instant,
    limit: Duration,
}

impl Deadline {
    /// From now on. Longer limits than the daemon honours are cut to that.
    pub(crate) fn after(limit: Duration) -> Deadline {
        let limit = limit.min(Duration::from_millis(u64::from(DEADLINE_MS_MAX)));
        Deadline { start: Instant::now(), limit }
    }

    /// When the daemon has to have answered.
    pub(crate) fn end(&self) -> Instant {
        self.start + self.limit
    }

    /// When the client stops to wait for the daemon's word.
    pub(crate) fn end_of_grace(&self) -> Instant {
        self.start + self.limit + GRACE
    }

    /// What is left, as the wire has it: in milliseconds, rounded up.
    pub(crate) fn left_ms(&self) -> u32 {
        as_ms(self.end().saturating_duration_since(Instant::now()))
    }

    /// What was left at the start.
    pub(crate) fn whole_ms(&self) -> u32 {
        as_ms(self.limit)
    }

    pub(crate) fn is_over(&self) -> bool {
        Instant::now() >= self.end()
    }

    /// The error of a call that waited in vain.
    pub(crate) fn missed(&self) -> Error {
        Error::Timeout { waited: self.start.elapsed() }
    }
}

fn as_ms(left: Duration) -> u32 {
    u32::try_from(left.as_micros().div_ceil(1000)).unwrap_or(DEADLINE_MS_MAX)
}
