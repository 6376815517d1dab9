//! The calls that draw ids, by a client and by a handle of a tag.

use std::ffi::c_char;

use leafd_client::Tag;

use crate::LEAFD_DIRECT;
use crate::call::{call, call_for, limit, number_or, text, write};
use crate::connect::{self, LeafdClient, with};
use crate::error::{CallError, LeafdError, LeafdStatus};
use crate::handle::{self, FreedHandles, Handle, HandleKind};

/// A handle for one tag of a client, which is the fastest way to draw many ids.
pub struct LeafdTag {
    _handle: Handle<Tag>,
}

impl HandleKind for Tag {
    const MARK: u64 = 0x7461_6766_6461_656c;
    const NAME: &'static str = "tag";
    fn freed() -> &'static FreedHandles<Tag> {
        static FREED: FreedHandles<Tag> = FreedHandles::new();
        &FREED
    }
}

#[inline]
pub(crate) unsafe fn get<'a>(tag: *const LeafdTag) -> Result<&'a Tag, CallError> {
    // SAFETY: as the caller's caller says.
    unsafe { handle::get(tag.cast::<Handle<Tag>>()) }
}

/// Runs `body` with the tag, limited by the call's timeout.
fn with_tag<T>(
    tag: &Tag,
    timeout_ms: u32,
    body: impl FnOnce(&Tag) -> leafd_client::Result<T>,
) -> Result<T, CallError> {
    Ok(match limit(timeout_ms) {
        Some(limit) => body(&tag.clone().within(limit))?,
        None => body(tag)?,
    })
}

/// Draws the next id of `tag`: a unique number from 1 to 2^63 - 1. Most ids come from a run that the process holds, in
/// nanoseconds. Such ids are not in chronological order across threads and processes.
///
/// `tag`: UTF-8, 1 to 128 characters, no control characters. A client uses at most 65536 different tags. Errors:
/// `NULL_POINTER`, `HANDLE`, `INVALID_ARGUMENT`, and the request's errors. `leafd_tag_next()` avoids looking up the
/// name.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leafd_next(
    client: *const LeafdClient,
    tag: *const c_char,
    timeout_ms: u32,
    id: *mut u64,
    error: *mut LeafdError,
) -> LeafdStatus {
    // SAFETY: as the header says.
    unsafe {
        call_for(error, id, "id", || {
            let tag = text(tag, "tag")?;
            with(client, timeout_ms, |client| client.next(tag))
        })
    }
}

/// Draws the next id of `tag` directly, with a separate request. It is higher than any id drawn directly on this host
/// before, and takes microseconds. Otherwise the call is like `leafd_next()`.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leafd_next_direct(
    client: *const LeafdClient,
    tag: *const c_char,
    timeout_ms: u32,
    id: *mut u64,
    error: *mut LeafdError,
) -> LeafdStatus {
    // SAFETY: as the header says.
    unsafe {
        call_for(error, id, "id", || {
            let tag = text(tag, "tag")?;
            with(client, timeout_ms, |client| client.next_direct(tag))
        })
    }
}

/// Creates a handle for a tag, without checking whether the tag exists.
///
/// `name`: as for `leafd_next()`. `flags`: 0, or `LEAFD_DIRECT` to draw this handle's ids directly. Free the handle
/// with `leafd_tag_free()`. It remains valid after the client is freed. Errors: `NULL_POINTER`, `HANDLE`,
/// `INVALID_ARGUMENT`, `RESOURCES`.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leafd_tag_new(
    client: *const LeafdClient,
    name: *const c_char,
    flags: u32,
    tag: *mut *mut LeafdTag,
    error: *mut LeafdError,
) -> LeafdStatus {
    // SAFETY: as the header says.
    unsafe {
        call_for(error, tag, "tag", || {
            let name = text(name, "name")?;
            if flags & !LEAFD_DIRECT != 0 {
                return Err(LeafdError::invalid(&format!(
                    "flags are {flags:#x}; a tag supports 1"
                )));
            }
            let made = connect::get(client)?.tag(name)?;
            Ok(handle::make(if flags == 0 { made } else { made.direct() }).cast())
        })
    }
}

/// Frees a tag's handle. NULL is allowed. Errors: `HANDLE`. No other thread may be in a call with it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leafd_tag_free(tag: *mut LeafdTag) -> LeafdStatus {
    // SAFETY: as the header says.
    unsafe { call(std::ptr::null_mut(), || handle::free(tag.cast::<Handle<Tag>>())) }
}

/// Draws the next id; see `leafd_next()`.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leafd_tag_next(
    tag: *const LeafdTag,
    timeout_ms: u32,
    id: *mut u64,
    error: *mut LeafdError,
) -> LeafdStatus {
    // SAFETY: as the header says.
    unsafe {
        call_for(error, id, "id", || {
            let tag = get(tag)?;
            match tag.take() {
                Some(id) => Ok(id),
                None => with_tag(tag, timeout_ms, Tag::next),
            }
        })
    }
}

/// Returns an id from the held run without waiting, or 0 if no id is held or `tag` is not a live handle. Bindings use
/// it if they must do something before they wait, such as releasing an interpreter's lock, and then call
/// `leafd_tag_next()`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leafd_tag_take(tag: *const LeafdTag) -> u64 {
    // SAFETY: as the header says.
    number_or(0, || Ok(unsafe { get(tag) }?.take().unwrap_or(0)))
}

/// Draws `count` ids of `tag` from the daemon, in the order of issue: all of them within the timeout, or none.
///
/// `ids` has room for `count` numbers, and may be NULL if `count` is 0. `count` is at most 1000000000; more than
/// 1000000 take several requests. Errors are those of `leafd_next()`.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leafd_next_many(
    client: *const LeafdClient,
    tag: *const c_char,
    timeout_ms: u32,
    ids: *mut u64,
    count: usize,
    error: *mut LeafdError,
) -> LeafdStatus {
    // SAFETY: as the header says.
    unsafe {
        call(error, || {
            let tag = text(tag, "tag")?;
            write(ids, "ids", count, || {
                with(client, timeout_ms, |client| client.next_batch(tag, count as u64))
            })
        })
    }
}

/// Draws `count` ids; see `leafd_next_many()`.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leafd_tag_next_many(
    tag: *const LeafdTag,
    timeout_ms: u32,
    ids: *mut u64,
    count: usize,
    error: *mut LeafdError,
) -> LeafdStatus {
    // SAFETY: as the header says.
    unsafe {
        call(error, || {
            let tag = get(tag)?;
            write(ids, "ids", count, || {
                with_tag(tag, timeout_ms, |tag| tag.next_batch(count as u64))
            })
        })
    }
}
