//! A thread's last failure, for callers that want more than its status.

use std::cell::RefCell;
use std::ffi::c_char;

use crate::error::whole_characters;
use crate::status::Failure;

/// A thread's last failure.
struct Last {
    message: String,
    retry_after_ms: u32,
    retryable: bool,
    os_error: i32,
}

thread_local! {
    static LAST: RefCell<Last> = const {
        RefCell::new(Last { message: String::new(), retry_after_ms: 0, retryable: false, os_error: 0 })
    };
}

pub(crate) fn remember(failure: Failure) {
    let last = Last {
        message: failure.message,
        retry_after_ms: failure.retry_after_ms,
        retryable: failure.retryable,
        os_error: failure.os_error,
    };
    // In a thread that is ending, nothing will read it.
    let _ = LAST.try_with(|place| place.replace(last));
}

fn read<T>(none: T, read: impl FnOnce(&Last) -> T) -> T {
    LAST.try_with(|last| read(&last.borrow())).unwrap_or(none)
}

/// Copies the error of this thread's last failed call: what was tried, what happened, what to do.
///
/// Writes at most `size` bytes to `buffer`, including the terminating zero; longer text is cut between
/// characters (it is UTF-8). `buffer` may be NULL if `size` is 0. Returns the length of the whole text without
/// the zero: 0 if no call has failed yet.
///
/// Successful calls don't change it. Each thread has its own. Not for signal handlers.
///
/// # Safety
/// `buffer` is valid for writes of `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leafd_error_message(buffer: *mut c_char, size: usize) -> usize {
    read(0, |last| {
        if !buffer.is_null() && size > 0 {
            let message = whole_characters(&last.message, size - 1);
            // SAFETY: the message and the zero after it lie within the buffer, as the caller says.
            unsafe {
                std::ptr::copy_nonoverlapping(message.as_ptr(), buffer.cast(), message.len());
                *buffer.add(message.len()) = 0;
            }
        }
        last.message.len()
    })
}

/// The milliseconds after which a retry of this thread's last failed call may succeed; 0: unknown. Not for
/// signal handlers.
#[unsafe(no_mangle)]
pub extern "C" fn leafd_error_retry_after_ms() -> u32 {
    read(0, |last| last.retry_after_ms)
}

/// Whether this thread's last failed call may succeed later without any repair. Not for signal handlers.
#[unsafe(no_mangle)]
pub extern "C" fn leafd_error_is_retryable() -> bool {
    read(false, |last| last.retryable)
}

/// The system's error number (an `errno`) that caused this thread's last failed call; 0: none. Not for signal
/// handlers.
#[unsafe(no_mangle)]
pub extern "C" fn leafd_error_errno() -> i32 {
    read(0, |last| last.os_error)
}
