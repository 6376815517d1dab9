//! How a snowflake id is composed: a sign bit of 0, then time, worker and sequence.
//!
//! Time counts ticks of `unit_ms` milliseconds since the layout's epoch.

use std::fmt;

/// A snowflake layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Layout {
    /// Bits of the time field, from 1.
    pub time_bits: u8,
    /// Bits of the worker field, from 0.
    pub worker_bits: u8,
    /// Bits of the sequence field, from 1. All three fields together have at most 63 bits.
    pub sequence_bits: u8,
    /// Length of a tick in milliseconds, from 1 to [`UNIT_MS_MAX`].
    pub unit_ms: u32,
    /// The epoch, at which tick 0 starts, in milliseconds of Unix time.
    pub epoch_ms: u64,
}

/// The parts of an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parts {
    /// Ticks since the layout's epoch.
    pub tick: u64,
    /// The worker that issued it.
    pub worker: u64,
    /// Its sequence number within its tick and worker.
    pub sequence: u64,
}

/// Why a layout or an id is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayoutError {
    /// What is wrong.
    pub what: &'static str,
}

/// Longest tick, in milliseconds.
pub const UNIT_MS_MAX: u32 = 3_600_000;

impl Layout {
    /// Leaf's layout: 41 bits for the milliseconds since 2010-11-04T01:42:54.657Z, 10 bits for the worker and 12 bits
    /// for the sequence.
    pub const LEAF: Layout = Layout {
        time_bits: 41,
        worker_bits: 10,
        sequence_bits: 12,
        unit_ms: 1,
        epoch_ms: 1_288_834_974_657,
    };

    /// A layout for JavaScript's numbers, which hold 53 bits exactly: 37 bits for the units of 10 ms since
    /// 2025-01-01T00:00:00Z (until 2068), 8 bits for the worker and 8 bits for the sequence.
    pub const JS53: Layout = Layout {
        time_bits: 37,
        worker_bits: 8,
        sequence_bits: 8,
        unit_ms: 10,
        epoch_ms: 1_735_689_600_000,
    };

    /// Checks that the layout's ids are positive, and that its instants fit the arithmetic.
    ///
    /// # Errors
    /// See [`LayoutError`].
    pub fn check(&self) -> Result<(), LayoutError> {
        if self.time_bits == 0 || self.sequence_bits == 0 {
            return refused("time and sequence need at least one bit each");
        }
        let bits =
            u32::from(self.time_bits) + u32::from(self.worker_bits) + u32::from(self.sequence_bits);
        if bits > 63 {
            return refused("time, worker and sequence have more than 63 bits together");
        }
        if self.unit_ms == 0 || self.unit_ms > UNIT_MS_MAX {
            return refused("a tick lasts from 1 ms to 3600000 ms");
        }
        // Half the range, so that adding a bound and a margin can't overflow.
        let end = u128::from(self.epoch_ms)
            + (u128::from(self.tick_max()) + 1) * u128::from(self.unit_ms);
        if end > u128::from(u64::MAX / 2) {
            return refused("the time bits reach beyond the last instant that can be represented");
        }
        Ok(())
    }

    /// The last tick that the time bits hold.
    pub fn tick_max(&self) -> u64 {
        mask(self.time_bits)
    }

    /// The largest worker number.
    pub fn worker_max(&self) -> u64 {
        mask(self.worker_bits)
    }

    /// The largest sequence number.
    pub fn sequence_max(&self) -> u64 {
        mask(self.sequence_bits)
    }

    /// The tick of an instant; `None` before the epoch. It may exceed [`Layout::tick_max`].
    pub fn tick_at(&self, unix_ms: u64) -> Option<u64> {
        Some(unix_ms.checked_sub(self.epoch_ms)? / u64::from(self.unit_ms))
    }

    /// The smallest id that this layout can have at an instant, as a bound for queries by time. `None` if it has no ids
    /// at that time.
    pub fn first_id_at(&self, unix_ms: u64) -> Option<u64> {
        let tick = self.tick_at(unix_ms).filter(|tick| *tick <= self.tick_max())?;
        Some(self.compose(Parts { tick, worker: 0, sequence: 0 }))
    }

    /// The start of a tick, in milliseconds of Unix time. The tick ends where the next one starts.
    pub fn tick_start_ms(&self, tick: u64) -> u64 {
        self.epoch_ms.saturating_add(tick.saturating_mul(u64::from(self.unit_ms)))
    }

    /// The id with these parts.
    ///
    /// # Panics
    /// If a part does not fit its field, because the id would then have different parts.
    pub fn compose(&self, parts: Parts) -> u64 {
        assert!(parts.tick <= self.tick_max(), "tick {} overflows its field", parts.tick);
        assert!(parts.worker <= self.worker_max(), "worker {} overflows its field", parts.worker);
        assert!(
            parts.sequence <= self.sequence_max(),
            "sequence {} overflows its field",
            parts.sequence
        );
        (((parts.tick << self.worker_bits) | parts.worker) << self.sequence_bits) | parts.sequence
    }

    /// Splits an id into its parts.
    ///
    /// # Errors
    /// An id with bits that this layout doesn't have.
    pub fn decompose(&self, id: u64) -> Result<Parts, LayoutError> {
        let sequence = id & self.sequence_max();
        let worker = (id >> self.sequence_bits) & self.worker_max();
        let tick = id >> (self.worker_bits + self.sequence_bits);
        if tick > self.tick_max() {
            return refused("the id has bits above those of the layout");
        }
        Ok(Parts { tick, worker, sequence })
    }
}

fn refused<T>(what: &'static str) -> Result<T, LayoutError> {
    Err(LayoutError { what })
}

fn mask(bits: u8) -> u64 {
    (1 << bits) - 1
}

impl fmt::Display for LayoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.what)
    }
}

impl std::error::Error for LayoutError {}
