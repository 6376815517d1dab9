//! The call that draws document numbers.

use std::ffi::c_char;

use crate::call::{call, text, write_text};
use crate::connect::{LeafdClient, with};
use crate::error::{LeafdError, LeafdStatus};

/// Size of the buffer for a document number, including the terminating NUL.
pub const LEAFD_NUMBER_BYTES: usize = 256;

/// Draws `count` document numbers of a series, such as "INV-2026-000123". Each text is NUL-terminated. The numbers
/// may span two periods.
///
/// `tenant` is the tenant of a series with tenants, otherwise NULL or "". `timeout_ms` applies to the whole call, which
/// makes one request for every 1,000 numbers.
///
/// Writes to `texts`, which has room for `count` numbers, and to `error`, which may be NULL. Errors: `TAG_UNKNOWN`
/// if there is no such series; `VALUE_REFUSED` for a tenant that the series can't have; `STORE_UNAVAILABLE` during
/// a store outage if the daemon doesn't know the period or holds no numbers for it; otherwise like
/// `leafd_next_many()`.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leafd_series_next(
    client: *const LeafdClient,
    series: *const c_char,
    tenant: *const c_char,
    timeout_ms: u32,
    texts: *mut [c_char; LEAFD_NUMBER_BYTES],
    count: u32,
    error: *mut LeafdError,
) -> LeafdStatus {
    // SAFETY: as the header says.
    unsafe {
        call(error, || {
            let name = text(series, "series")?;
            let tenant = if tenant.is_null() { "" } else { text(tenant, "tenant")? };
            if texts.is_null() && count > 0 {
                return Err(LeafdError::null("texts"));
            }
            let series = with(client, timeout_ms, |client| Ok(client.series(name)))?;
            let numbers = series.tenant(tenant).next_batch(count)?;
            for (index, number) in numbers.iter().enumerate() {
                // The client checks that there are as many texts as requested. The daemon's texts have at most 160
                // bytes.
                write_text(number, &mut *texts.add(index));
            }
            Ok(())
        })
    }
}
