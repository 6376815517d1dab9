//! Decodes snowflake ids.

use std::ffi::c_char;

use leafd_client::{Decoded, Layout, Parts, decode};

use crate::call::{call_for, text};
use crate::connect::{LeafdClient, with};
use crate::error::{CallError, LeafdError, LeafdStatus};

/// How snowflake ids are composed: a sign bit of 0, then time, worker and sequence. Time counts ticks.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct LeafdLayout {
    /// Bits of the time field, from 1.
    pub time_bits: u8,
    /// Bits of the worker field, from 0.
    pub worker_bits: u8,
    /// Bits of the sequence field, from 1. All three fields together have at most 63 bits.
    pub sequence_bits: u8,
    /// Length of a tick in milliseconds, 1 to 3600000.
    pub tick_ms: u32,
    /// The epoch, at which tick 0 starts, in milliseconds of Unix time.
    pub epoch_ms: u64,
}

/// The parts of a snowflake id.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct LeafdParts {
    /// Ticks since the layout's epoch.
    pub tick: u64,
    /// The worker that issued it.
    pub worker: u64,
    /// Its sequence number within its tick and worker.
    pub sequence: u64,
    /// The start of its tick, in milliseconds of Unix time.
    pub unix_ms: u64,
}

/// Returns the layout of Leaf's own snowflake ids: 41 bits for the milliseconds since 2010-11-04T01:42:54.657Z, 10 bits
/// for the worker and 12 bits for the sequence. Safe at any time, even in signal handlers.
#[unsafe(no_mangle)]
pub extern "C" fn leafd_layout_leaf() -> LeafdLayout {
    Layout::LEAF.into()
}

/// Asks the daemon for the layout of the snowflake ids drawn under the tag name `name`, such as "snowflake".
///
/// Errors: `NULL_POINTER`, `HANDLE`, `INVALID_ARGUMENT` if the daemon has no layout of this name, and the request's
/// errors.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leafd_layout_of(
    client: *const LeafdClient,
    name: *const c_char,
    timeout_ms: u32,
    layout: *mut LeafdLayout,
    error: *mut LeafdError,
) -> LeafdStatus {
    // SAFETY: as the header says.
    unsafe {
        call_for(error, layout, "layout", || {
            let name = text(name, "name")?;
            Ok(with(client, timeout_ms, |client| client.layout(name))?.into())
        })
    }
}

/// Decodes a snowflake id by its layout.
///
/// Errors: `NULL_POINTER`, `INVALID_ARGUMENT` for an invalid layout or an id with bits that the layout doesn't have.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leafd_decode(
    id: u64,
    layout: *const LeafdLayout,
    parts: *mut LeafdParts,
    error: *mut LeafdError,
) -> LeafdStatus {
    // SAFETY: as the header says.
    unsafe {
        call_for(error, parts, "parts", || {
            let Decoded { parts: Parts { tick, worker, sequence }, unix_ms } =
                decode(id, &valid(layout)?)?;
            Ok(LeafdParts { tick, worker, sequence, unix_ms })
        })
    }
}

/// Computes the smallest id that a layout can have at a given time, as a bound for queries by time. `unix_ms`: the
/// time, in milliseconds of Unix time.
///
/// Errors: `NULL_POINTER`, `INVALID_ARGUMENT` for an invalid layout or a time for which it has no ids.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leafd_first_id_at(
    unix_ms: u64,
    layout: *const LeafdLayout,
    id: *mut u64,
    error: *mut LeafdError,
) -> LeafdStatus {
    // SAFETY: as the header says.
    unsafe {
        call_for(error, id, "id", || {
            valid(layout)?.first_id_at(unix_ms).ok_or_else(|| {
                LeafdError::invalid(&format!("the layout has no ids at {unix_ms} ms of Unix time"))
            })
        })
    }
}

/// The layout that the caller passed.
unsafe fn valid(layout: *const LeafdLayout) -> Result<Layout, CallError> {
    // SAFETY: as the caller's caller says.
    let layout = unsafe { layout.as_ref() }.ok_or_else(|| LeafdError::null("layout"))?;
    let layout = Layout::from(*layout);
    let invalid = |error| LeafdError::invalid(&format!("the layout is not valid: {error}"));
    layout.check().map_err(invalid)?;
    Ok(layout)
}

// === impl LeafdLayout ===

impl From<Layout> for LeafdLayout {
    fn from(layout: Layout) -> LeafdLayout {
        let Layout { time_bits, worker_bits, sequence_bits, unit_ms, epoch_ms } = layout;
        LeafdLayout { time_bits, worker_bits, sequence_bits, tick_ms: unit_ms, epoch_ms }
    }
}

impl From<LeafdLayout> for Layout {
    fn from(layout: LeafdLayout) -> Layout {
        let LeafdLayout { time_bits, worker_bits, sequence_bits, tick_ms, epoch_ms } = layout;
        Layout { time_bits, worker_bits, sequence_bits, unit_ms: tick_ms, epoch_ms }
    }
}
