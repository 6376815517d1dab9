//! The calls for event loops that talk to the daemon themselves. The library holds the runs that they fetch.

use leafd_client::Tag;

use crate::call::{call, output};
use crate::status::{Failure, LeafdStatus};
use crate::tag::{LeafdTag, get};

/// This bit in the result of `leafd_loop_take()`, beside the id, means: ask for the next run now.
pub const LEAFD_LOOP_REFILL: u64 = 0x8000_0000_0000_0000;

/// An id of the run that the process holds, without waiting. For an event loop that talks to the daemon on its own
/// socket (leafd's protocol is a page to read). 0: no id is held, or `tag` is no live handle.
///
/// If `LEAFD_LOOP_REFILL` is set in the result, half of the run is used, and the loop should ask for the next one now:
/// it sends a request for `leafd_loop_wish()` ids with the flag HOLD, and passes the reply to `leafd_loop_hold()`.
/// After 0, try `leafd_loop_advance()`, and ask if that has none either. Any thread; not for signal handlers.
///
/// # Safety
/// `tag` is a live tag.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leafd_loop_take(tag: *const LeafdTag) -> u64 {
    // SAFETY: as the caller says.
    unsafe {
        number_of(tag, 0, |tag| {
            tag.take_for_loop().map_or(0, |held| held.id | refill(held.refill_due))
        })
    }
}

/// The first id of the next run that was passed to `leafd_loop_hold()`; 0: there is none, or `tag` is no live handle.
/// Never waits for the daemon. Any thread; not for signal handlers.
///
/// # Safety
/// `tag` is a live tag.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leafd_loop_advance(tag: *const LeafdTag) -> u64 {
    // SAFETY: as the caller says.
    unsafe { number_of(tag, 0, |tag| tag.advance().unwrap_or(0)) }
}

/// How many ids a loop should ask for when `waiting` of its callers have none, by the rate of use so far. At least 1.
/// Any thread; not for signal handlers.
///
/// # Safety
/// `tag` is a live tag.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leafd_loop_wish(tag: *const LeafdTag, waiting: u32) -> u32 {
    // SAFETY: as the caller says.
    unsafe { number_of(tag, 1, |tag| tag.wish(waiting)) }
}

/// Takes in the reply, with status OK, to a request for `asked` ids with the flag HOLD.
///
/// `reply`: its body, of `length` bytes, as received. `asked_ns`: when the request was sent, in nanoseconds of
/// CLOCK_BOOTTIME. Pass each reply on only once, and before the process can fork.
///
/// Writes 0 to `id`. If these ids may not be held, or the reply came too late for it, this writes one drawn id and skips
/// the rest. The id is for a call that began before the request was sent. If there is none, skip the id. So that no call
/// waits in vain where replies are late, serve such a call at once, by this id or by `leafd_loop_advance()`.
///
/// Errors: `NULL_POINTER`, `HANDLE`, `PROTOCOL` for a body that doesn't answer such a request. Any thread; not for signal
/// handlers.
///
/// # Safety
/// `tag` is a live tag, `reply` is valid for reads of `length` bytes, `id` is valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leafd_loop_hold(
    tag: *const LeafdTag,
    reply: *const u8,
    length: usize,
    asked: u32,
    asked_ns: u64,
    id: *mut u64,
) -> LeafdStatus {
    call(|| {
        // SAFETY: as the caller says.
        let (tag, id) = unsafe { (get(tag)?, output(id, "id")?) };
        if reply.is_null() {
            return Err(Failure::null("reply"));
        }
        // SAFETY: as the caller says.
        let body = unsafe { std::slice::from_raw_parts(reply, length) };
        *id = tag.hold(body, asked, asked_ns)?.unwrap_or(0);
        Ok(())
    })
}

fn refill(due: bool) -> u64 {
    if due { LEAFD_LOOP_REFILL } else { 0 }
}

/// The result of `body` for a tag; `none` if there is no tag.
///
/// # Safety
/// As for [`get`].
unsafe fn number_of<T>(tag: *const LeafdTag, none: T, body: impl FnOnce(&Tag) -> T) -> T {
    let mut number = none;
    call(|| {
        // SAFETY: as the caller says.
        number = body(unsafe { get(tag) }?);
        Ok(())
    });
    number
}
