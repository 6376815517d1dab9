//! leafd's client for C and every language that calls C: opaque handles, numbered statuses, no panics.
//!
//! The contract is the header's preamble (`cbindgen.toml`). By file:
//!
//! - `client`, `tag`: the calls on the two handles; `known`: tags by the address of their name;
//! - `error`: the calls that report errors to the caller instead of the thread;
//! - `event_loop`: held runs for loops that talk to the daemon themselves;
//! - `interpreter`: signals that end a call, for interpreters with a lock;
//! - `layout`: taking snowflake ids apart;
//! - `public_ids`: dense ids to public ones and back;
//! - `status`, `last`: what a call returns, and what it leaves behind about a failure;
//! - `handle`: pointers that are distinguished from freed and foreign ones;
//! - `call`: how every call treats pointers, failures and panics.

mod call;
mod client;
mod error;
mod event_loop;
mod handle;
mod interpreter;
mod known;
mod last;
mod layout;
mod public_ids;
mod status;
mod tag;

use std::ffi::{CStr, c_char};

/// The ABI that this header describes. It is the number in the library's name (`libleafd.so.1`), and changes only if
/// programs must be recompiled. `leafd_abi_version()` returns the library's.
pub const LEAFD_ABI_VERSION: u32 = 1;

/// As a timeout: the client's own, as given to `leafd_new()`.
pub const LEAFD_TIMEOUT_DEFAULT: u32 = u32::MAX;

/// For `leafd_new()` and `leafd_tag_new()`: every id is drawn directly, by a request of its own. Ids of a tag are then
/// strictly increasing on this host, and take microseconds instead of nanoseconds.
pub const LEAFD_DIRECT: u32 = 1;

/// For `leafd_new()`: a waiting thread sleeps at once. Otherwise, and only while requests come back to back, it may
/// first poll the socket for up to 100 microseconds, or yield its core to other threads and look again.
pub const LEAFD_NO_POLLING: u32 = 2;

/// Room for the message in a `leafd_error`, including its zero.
pub const LEAFD_ERROR_MESSAGE_BYTES: usize = 1024;

const VERSION: &CStr =
    match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
        Ok(text) => text,
        Err(_) => panic!("a version without zeros"),
    };

/// The library's `LEAFD_ABI_VERSION`. Safe at any time, also in signal handlers.
#[unsafe(no_mangle)]
pub extern "C" fn leafd_abi_version() -> u32 {
    LEAFD_ABI_VERSION
}

/// The library's release, such as "0.1.0". The text stays valid for ever. Safe at any time, also in signal handlers.
#[unsafe(no_mangle)]
pub extern "C" fn leafd_version() -> *const c_char {
    VERSION.as_ptr()
}
