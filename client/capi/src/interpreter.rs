//! Signals that end a call, for bindings to interpreters with a lock.

use std::ffi::{c_int, c_void};

use leafd_client::{Interpreter, set_interpreter};

use crate::call::call;
use crate::status::{Failure, LeafdStatus};

/// How an interpreter's lock is let go of and taken again, and how its handlers of signals are run. None may be NULL.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct LeafdInterpreter {
    /// Lets go of the lock. Returns what `enter` takes.
    pub leave: Option<extern "C" fn() -> *mut c_void>,
    /// Takes the lock again.
    pub enter: Option<extern "C" fn(*mut c_void)>,
    /// Asked with the lock after a signal: runs what handlers there are. Not 0: the call ends, with `INTERRUPTED`.
    pub check: Option<extern "C" fn() -> c_int>,
}

/// Has the calling thread's waits let go of an interpreter's lock, and ask the interpreter after a signal whether to go
/// on: otherwise a handler, which runs in the interpreter, has to wait for the call's end. The thread must have the lock
/// from now on when it makes a call that may wait. For Python's main thread, these are `PyEval_SaveThread`,
/// `PyEval_RestoreThread` and `PyErr_CheckSignals`.
///
/// `interpreter`: NULL for none, as it is at first. Errors: `NULL_POINTER`. It holds for this thread alone, and in a child
/// that the thread forks. Not for signal handlers.
///
/// # Safety
/// `interpreter` is NULL or valid for a read, and its functions may be called so on this thread.
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
