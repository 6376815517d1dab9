//! Signals that end a wait, for bindings to interpreters with a lock.
//!
//! Signals interrupt no call of this crate: it goes on waiting. But an interpreter runs a signal's
//! handler only when it has its lock, and the handler may want to end what its thread waits for. So
//! a binding can say how the lock is let go of and taken again, and how handlers are run: then a thread's
//! waits let go of the lock, and after a signal the binding is asked whether to go on.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::time::Duration;

/// What a thread does around its waits; see [`set_interpreter`].
#[derive(Clone, Copy, Debug)]
pub struct Interpreter {
    /// Lets go of the lock. Returns what `enter` takes.
    pub leave: extern "C" fn() -> *mut c_void,
    /// Takes the lock again.
    pub enter: extern "C" fn(*mut c_void),
    /// Asked with the lock after a signal: runs what handlers there are. Not 0: the call is to end.
    pub check: extern "C" fn() -> c_int,
}

/// How long a thread sleeps that no signal wakes, because it waits for another thread.
pub(crate) const SLICE: Duration = Duration::from_millis(20);

thread_local! {
    static INTERPRETER: Cell<Option<Interpreter>> = const { Cell::new(None) };
    /// Set while the thread is without the lock: what `leave` returned.
    static LEFT: Cell<Option<*mut c_void>> = const { Cell::new(None) };
    /// A signal came that handlers were not run for.
    static SIGNALLED: Cell<bool> = const { Cell::new(false) };
    static ENDED: Cell<bool> = const { Cell::new(false) };
    static IN_HANDLERS: Cell<bool> = const { Cell::new(false) };
}

/// While it lives, the thread is without the interpreter's lock. It has to be the last to go.
pub(crate) struct Outside {
    outermost: bool,
}

/// Sets what the calling thread does around its waits from now on. It must have the lock whenever
/// it makes a call that may wait.
///
/// # Safety
/// The functions may be called so on this thread at any time until others are set.
pub unsafe fn set_interpreter(interpreter: Option<Interpreter>) {
    INTERPRETER.set(interpreter);
}

/// Whether signals may end this thread's waits.
pub(crate) fn is_watched() -> bool {
    LEFT.get().is_some()
}

/// Whether a signal that came is to be looked after by [`is_ended`].
pub(crate) fn noticed() -> bool {
    let watched = is_watched();
    SIGNALLED.set(watched);
    watched
}

/// Whether there is a signal to look after.
pub(crate) fn is_signalled() -> bool {
    SIGNALLED.get()
}

/// Asks whether the call is to end. Handlers run, which may use the same client: nothing of this crate
/// may be held that they would wait for.
pub(crate) fn is_ended() -> bool {
    if let (Some(interpreter), Some(left)) = (INTERPRETER.get(), LEFT.get()) {
        SIGNALLED.set(false);
        (interpreter.enter)(left);
        LEFT.set(None);
        let was_in_handlers = IN_HANDLERS.replace(true);
        let ended = (interpreter.check)() != 0;
        IN_HANDLERS.set(was_in_handlers);
        LEFT.set(Some((interpreter.leave)()));
        ENDED.set(ended || ENDED.get());
    }
    ENDED.get()
}

/// Whether this call is made in a handler, while another call of the thread waits.
pub(crate) fn in_handler() -> bool {
    IN_HANDLERS.get()
}

/// Whether the call is to end, as far as is known.
pub(crate) fn has_ended() -> bool {
    ENDED.get()
}

impl Outside {
    pub(crate) fn new() -> Outside {
        let interpreter = INTERPRETER.get().filter(|_| LEFT.get().is_none());
        if let Some(interpreter) = interpreter {
            LEFT.set(Some((interpreter.leave)()));
        }
        Outside { outermost: interpreter.is_some() }
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        if self.outermost {
            if let (Some(interpreter), Some(left)) = (INTERPRETER.get(), LEFT.take()) {
                (interpreter.enter)(left);
            }
            ENDED.set(false);
        }
    }
}
