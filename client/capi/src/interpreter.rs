//! Signals that end a call, for bindings to interpreters with a lock.

use std::ffi::{c_int, c_void};

use leafd_client::{Interpreter, set_interpreter};

use crate::call::call;
use crate::status::{Failure, LeafdStatus};

/// How to release and take an interpreter's lock, and how to run its signal handlers. None may be NULL.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct LeafdInterpreter {
    /// Releases the lock. Returns the argument for `enter`.
    pub leave: Option<extern "C" fn() -> *mut c_void>,
    /// Takes the lock again.
    pub enter: Option<extern "C" fn(*mut c_void)>,
    /// Called with the lock after a signal: runs the handlers. Not 0: the call ends, with `INTERRUPTED`.
    pub check: Option<extern "C" fn() -> c_int>,
}

/// Makes the calling thread release an interpreter's lock while it waits, and ask the interpreter after a signal
/// whether to continue. Otherwise a handler, which runs in the interpreter, must wait until the call ends. From now on
/// the thread must have the lock when it makes a call that may wait. For Python's main thread, the functions are
/// `PyEval_SaveThread`, `PyEval_RestoreThread` and `PyErr_CheckSignals`.
///
/// `interpreter`: NULL for none, the initial state. Errors: `NULL_POINTER`. Applies to this thread only, and to the
/// thread in a child that it forks. Not for signal handlers.
///
/// # Safety
/// `interpreter` is NULL or valid for a read, and its functions may be called in this way on this thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leafd_set_interpreter(
    interpreter: *const LeafdInterpreter,
) -> LeafdStatus {
    call(|| {
        // SAFETY: as the caller says.
        let given = unsafe { interpreter.as_ref() };
        let interpreter = match given {
            None => None,
            Some(LeafdInterpreter { leave, enter, check }) => Some(Interpreter {
                leave: leave.ok_or_else(|| Failure::null("leave"))?,
                enter: enter.ok_or_else(|| Failure::null("enter"))?,
                check: check.ok_or_else(|| Failure::null("check"))?,
            }),
        };
        // SAFETY: as the caller says.
        unsafe { set_interpreter(interpreter) };
        Ok(())
    })
}
