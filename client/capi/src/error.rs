//! The calls that report errors to the caller instead of the thread, for runtimes whose calls move between threads.

use std::ffi::c_char;

use crate::call::{call_told, fill, limit, output, outputs, text};
use crate::client::{LeafdClient, get};
use crate::status::{Failure, LeafdStatus};
use crate::{LEAFD_DIRECT, LEAFD_ERROR_MESSAGE_BYTES};

/// A call's error. After `LEAFD_STATUS_OK` it has that status, an empty message and zeros.
#[repr(C)]
pub struct LeafdError {
    /// The status that the call returned.
    pub status: u32,
    /// After how many milliseconds a retry may succeed; 0: unknown.
    pub retry_after_ms: u32,
    /// The system's error number (an `errno`) that caused it; 0: none.
    pub os_error: i32,
    /// Whether the same call may succeed later without any repair.
    pub retryable: bool,
    /// What was tried, what happened, what to do: UTF-8 that ends with a zero, cut between characters if need be.
    pub message: [c_char; LEAFD_ERROR_MESSAGE_BYTES],
}

/// As much of a text as fits into `bytes_max`, in whole characters.
pub(crate) fn whole_characters(text: &str, bytes_max: usize) -> &str {
    let longest = text.len().min(bytes_max);
    // 0 is always the start of a character.
    let end = (0..=longest).rev().find(|&end| text.is_char_boundary(end));
    &text[..end.unwrap_or(0)]
}

impl LeafdError {
    /// Records a call's outcome.
    pub(crate) fn tell(&mut self, failure: Option<&Failure>) {
        self.status = failure.map_or(LeafdStatus::Ok, |failure| failure.status) as u32;
        self.retry_after_ms = failure.map_or(0, |failure| failure.retry_after_ms);
        self.os_error = failure.map_or(0, |failure| failure.os_error);
        self.retryable = failure.is_some_and(|failure| failure.retryable);
        let message = failure.map_or("", |failure| &failure.message);
        let message = whole_characters(message, self.message.len() - 1);
        for (place, byte) in self.message.iter_mut().zip(message.bytes().chain([0])) {
            *place = byte as c_char;
        }
    }
}

/// As `leafd_connect()`, with the error in `error`, which may be NULL.
///
/// # Safety
/// `client` is a live client, `error` is NULL or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leafd_connect_e(
    client: *const LeafdClient,
    error: *mut LeafdError,
) -> LeafdStatus {
    // SAFETY: as the caller says.
    unsafe {
        call_told(error, || {
            get(client)?.info()?;
            Ok(())
        })
    }
}

/// The next id of `tag`, as `leafd_next_within()`, with the error in `error`, which may be NULL. `flags`: 0, or
/// `LEAFD_DIRECT` to draw as `leafd_next_direct()`. For runtimes whose calls move between threads, so that the thread's
/// last failure may be another call's.
///
/// # Safety
/// As for `leafd_next()`; `error` is NULL or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leafd_next_e(
    client: *const LeafdClient,
    tag: *const c_char,
    flags: u32,
    timeout_ms: u32,
    id: *mut u64,
    error: *mut LeafdError,
) -> LeafdStatus {
    // SAFETY: as the caller says.
    unsafe {
        call_told(error, || {
            let (client, tag, id) = (get(client)?, text(tag, "tag")?, output(id, "id")?);
            if flags & !LEAFD_DIRECT != 0 {
                return Err(Failure::invalid(format!(
                    "flags are {flags:#x}; this call supports 1"
                )));
            }
            *id = match (flags & LEAFD_DIRECT != 0, limit(timeout_ms)) {
                (false, None) => client.next(tag)?,
                (false, Some(limit)) => client.next_within(tag, limit)?,
                (true, None) => client.next_direct(tag)?,
                (true, Some(limit)) => client.next_direct_within(tag, limit)?,
            };
            Ok(())
        })
    }
}

/// As `leafd_next_many()`, with the error in `error`, which may be NULL.
///
/// # Safety
/// As for `leafd_next_many()`; `error` is NULL or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leafd_next_many_e(
    client: *const LeafdClient,
    tag: *const c_char,
    timeout_ms: u32,
    ids: *mut u64,
    count: usize,
    error: *mut LeafdError,
) -> LeafdStatus {
    // SAFETY: as the caller says.
    unsafe {
        call_told(error, || {
            let (client, tag) = (get(client)?, text(tag, "tag")?);
            fill(&client.tag(tag)?, timeout_ms, outputs(ids, count)?)
        })
    }
}
