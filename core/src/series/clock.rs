//! What a host knows of the store's clock. The host's own wall clock is never used.

use jiff::tz::TimeZone;

use super::{Period, PeriodKind};
use crate::{BootMs, UnixMs};

/// A reading of the store's clock, and when it was asked for and received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    pub sent: BootMs,
    pub received: BootMs,
    pub store: UnixMs,
}

/// How fast two clocks can drift apart: by 1/`DRIFT` of the elapsed time. Clocks that are being corrected change their
/// speed by up to 500 in a million each.
const DRIFT: u64 = 1_000;

/// The resolution of clock readings, in milliseconds.
const GRAIN: u64 = 1;

impl Sample {
    /// The earliest and the latest time that the store's clock can show now.
    pub fn span(&self, now: BootMs) -> (u64, u64) {
        let (longest, shortest) = (now.0 - self.sent.0, now.0.saturating_sub(self.received.0));
        let (from, to) = (shortest - shortest / DRIFT, longest + longest / DRIFT + 3 * GRAIN);
        ((self.store.0 + from).saturating_sub(GRAIN), self.store.0 + to)
    }

    /// The current period, and the instant of the host's clock up to which it certainly lasts; `None` if the store's
    /// clock shows a year that no document number can name.
    ///
    /// # Errors
    /// The store's clock is too close to a boundary to tell the period. Returns the milliseconds after which the
    /// boundary has certainly passed.
    pub fn present(
        &self,
        kind: PeriodKind,
        zone: &TimeZone,
        now: BootMs,
    ) -> Option<Result<(Period, BootMs), u64>> {
        let (from, to) = self.span(now);
        let period = Period::at(kind, zone, UnixMs(from))?;
        let Some(UnixMs(end)) = period.end(zone) else {
            return Some(Ok((period, BootMs(u64::MAX))));
        };
        if to + 2 * GRAIN >= end {
            let left = end - from;
            return Some(Err(left + left / (DRIFT / 2) + GRAIN));
        }
        // The latest possible time advances a little faster than the host's clock.
        let left = (end - to).saturating_sub((end - to) / (DRIFT / 2) + GRAIN);
        Some(Ok((period, BootMs(now.0 + left))))
    }
}
