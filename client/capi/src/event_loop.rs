//! The calls for event loops that talk to the daemon themselves, and for interpreters whose signals end a call.

use std::ffi::{c_int, c_void};

use leafd_client::{Interpreter, set_interpreter};

use crate::call::{call, call_for, number_or};
use crate::draw::{LeafdTag, get};
use crate::error::{LeafdError, LeafdStatus};

/// A bit in the result of `leafd_loop_take()`, in addition to the id. It is set when the loop should request the next
/// run.
pub const LEAFD_LOOP_REFILL: u64 = 0x8000_0000_0000_0000;

/// Returns an id from the held run without waiting, for an event loop with its own connection to the daemon (see
/// leafd's protocol.md). Returns 0 if no id is held, or `tag` is not a live handle.
///
/// If `LEAFD_LOOP_REFILL` is set in the result, the loop should request the next run now: it sends a request for
/// `leafd_loop_wish()` ids with the flag HOLD, and passes the reply to `leafd_loop_hold()`. After 0, try
/// `leafd_loop_advance()`, and send a request if that returns 0 too.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leafd_loop_take(tag: *const LeafdTag) -> u64 {
    number_or(0, || {
        // SAFETY: as the header says.
        let held = unsafe { get(tag) }?.take_for_loop();
        Ok(held.map_or(0, |held| held.id | refill(held.refill_due)))
    })
}

/// Returns the first id of the next run that was passed to `leafd_loop_hold()`, or 0 if there is none or `tag` is not a
/// live handle. This never waits for the daemon.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leafd_loop_advance(tag: *const LeafdTag) -> u64 {
    // SAFETY: as the header says.
    number_or(0, || Ok(unsafe { get(tag) }?.advance().unwrap_or(0)))
}

/// Returns how many ids a loop should request if `waiting` callers have none, based on the rate so far. The result is
/// at least 1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leafd_loop_wish(tag: *const LeafdTag, waiting: u32) -> u32 {
    // SAFETY: as the header says.
    number_or(1, || Ok(unsafe { get(tag) }?.wish(waiting)))
}

/// Accepts the reply, with status OK, to a request for `asked` ids with the flag HOLD.
///
/// `reply` is its body, of `length` bytes, as received. `asked_ns` is the time when the request was sent, in
/// nanoseconds of CLOCK_BOOTTIME. Pass each reply only once, and before the process can fork.
///
/// Writes 0 to `id`, unless these ids can't be held or the reply came too late to hold them. Then it writes one drawn
/// id and skips the rest. Use this id for a call that began before the request was sent; if there is none, skip the id.
/// Serve such a call at once, with this id or with `leafd_loop_advance()`, so that it doesn't wait forever if replies
/// are late.
///
/// Errors: `NULL_POINTER`, `HANDLE`, `PROTOCOL` for a body that doesn't answer such a request.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leafd_loop_hold(
    tag: *const LeafdTag,
    reply: *const u8,
    length: usize,
    asked: u32,
    asked_ns: u64,
    id: *mut u64,
    error: *mut LeafdError,
) -> LeafdStatus {
    // SAFETY: as the header says.
    unsafe {
        call_for(error, id, "id", || {
            if reply.is_null() {
                return Err(LeafdError::null("reply"));
            }
            let body = std::slice::from_raw_parts(reply, length);
            Ok(get(tag)?.hold(body, asked, asked_ns)?.unwrap_or(0))
        })
    }
}

fn refill(due: bool) -> u64 {
    if due { LEAFD_LOOP_REFILL } else { 0 }
}

/// How to release and take an interpreter's lock, and how to run its signal handlers. No member may be NULL.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct LeafdInterpreter {
    /// Releases the lock. Returns the argument for `enter`.
    pub leave: Option<extern "C" fn() -> *mut c_void>,
    /// Takes the lock again.
    pub enter: Option<extern "C" fn(*mut c_void)>,
    /// Called with the lock held after a signal, to run the handlers. If it returns a value other than 0, the call ends
    /// with `INTERRUPTED`.
    pub check: Option<extern "C" fn() -> c_int>,
}

/// Makes the calling thread release an interpreter's lock while it waits, and ask the interpreter after a signal
/// whether to continue. Without this, a handler, which runs in the interpreter, has to wait until the call ends. From
/// now on, the thread must hold the lock when it makes a call that may wait. For Python's main thread, the functions
/// are `PyEval_SaveThread`, `PyEval_RestoreThread` and `PyErr_CheckSignals`.
///
/// `interpreter`: NULL for none, which is the initial state. Errors: `NULL_POINTER`. The call applies only to this
/// thread, and to the thread in a child that it forks.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leafd_set_interpreter(
    interpreter: *const LeafdInterpreter,
    error: *mut LeafdError,
) -> LeafdStatus {
    // SAFETY: as the header says.
    unsafe {
        call(error, || {
            let given = interpreter.as_ref();
            let interpreter = match given {
                None => None,
                Some(LeafdInterpreter { leave, enter, check }) => Some(Interpreter {
                    leave: leave.ok_or_else(|| LeafdError::null("leave"))?,
                    enter: enter.ok_or_else(|| LeafdError::null("enter"))?,
                    check: check.ok_or_else(|| LeafdError::null("check"))?,
                }),
            };
            set_interpreter(interpreter);
            Ok(())
        })
    }
}
