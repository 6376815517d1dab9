//! leafd's client for C and every language that can call C: opaque handles, numbered statuses, and no panics.
//!
//! The contract is the header's preamble (`cbindgen.toml`). The header's sections follow the order of the modules.

// The header's preamble describes the pointers of all calls, for readers of C.
#![allow(clippy::missing_safety_doc)]

// Clients: how they are created, what they report, and how they are freed.
mod connect;

// Ids, one by one and in batches, by client and by tag.
mod draw;

// Conversion of dense ids to public ids, and back.
mod public_ids;

// Document numbers.
mod series;

// Decoding snowflake ids.
mod layout;

// Statuses, and the structure that describes a failure.
mod error;

// Held runs for event loops, and signals for interpreters with a lock.
mod event_loop;

// Handles, and the detection of freed and foreign pointers.
mod handle;

// How every call treats pointers, failures and panics.
mod call;

use std::ffi::{CStr, c_char};

/// The ABI that this header describes. It is the number in the library's name (`libleafd.so.1`), and changes only if
/// programs must be recompiled. `leafd_abi_version()` returns the library's.
pub const LEAFD_ABI_VERSION: u32 = 1;

/// Pass this as a call's timeout to use the client's timeout.
pub const LEAFD_TIMEOUT_DEFAULT: u32 = u32::MAX;

/// A flag of `leafd_settings` and `leafd_tag_new()`: draw each id directly, with a separate request. The ids of a tag
/// then increase strictly on this host, and take microseconds instead of nanoseconds.
pub const LEAFD_DIRECT: u32 = 1;

/// A flag of `leafd_settings`: waiting threads sleep at once. Without it, and only while requests are sent back to
/// back, they may first poll the socket for up to 100 microseconds, or yield the core to other threads and check again.
pub const LEAFD_NO_POLLING: u32 = 2;

const VERSION: &CStr =
    match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
        Ok(text) => text,
        Err(_) => panic!("a version without zeros"),
    };

/// Returns the library's `LEAFD_ABI_VERSION`. Safe at any time, even in signal handlers.
#[unsafe(no_mangle)]
pub extern "C" fn leafd_abi_version() -> u32 {
    LEAFD_ABI_VERSION
}

/// Returns the library's release, such as "0.1.0". The string stays valid forever. Safe at any time, even in signal
/// handlers.
#[unsafe(no_mangle)]
pub extern "C" fn leafd_version() -> *const c_char {
    VERSION.as_ptr()
}
