//! What ends a wait early: signals, for bindings to interpreters with a lock, and callers that no longer need the
//! result.
//!
//! A signal does not interrupt this crate's calls: they keep waiting. But an interpreter runs a signal's handler only
//! while it holds its lock, and the handler may want to end the wait. So a binding can define how to release and take
//! the lock, and how to run handlers. A thread's waits then release the lock, and after a signal they ask the binding
//! whether to continue.

use std::cell::{Cell, RefCell};
use std::ffi::{c_int, c_void};
use std::mem::ManuallyDrop;
use std::sync::Weak;
use std::time::Duration;

/// What a thread does around its waits; see [`set_interpreter`].
#[derive(Clone, Copy, Debug)]
pub struct Interpreter {
    /// Releases the lock. Returns the argument for `enter`.
    pub leave: extern "C" fn() -> *mut c_void,
    /// Takes the lock again.
    pub enter: extern "C" fn(*mut c_void),
    /// Called with the lock held after a signal, to run the handlers. A result other than 0 ends the call.
    pub check: extern "C" fn() -> c_int,
}

/// How long a thread sleeps at a time while it waits for another thread, because no signal wakes it.
pub(crate) const SLICE: Duration = Duration::from_millis(20);

thread_local! {
    static INTERPRETER: Cell<Option<Interpreter>> = const { Cell::new(None) };
    /// The result of `leave`, while the thread doesn't hold the lock.
    static LEFT: Cell<Option<*mut c_void>> = const { Cell::new(None) };
    /// A signal arrived, and its handlers have not run yet.
    static SIGNALLED: Cell<bool> = const { Cell::new(false) };
    static ENDED: Cell<bool> = const { Cell::new(false) };
    static IN_HANDLERS: Cell<bool> = const { Cell::new(false) };
    /// The caller on whose behalf the thread makes a call, if that caller may be dropped. It has no destructor, because
    /// a forked child would leak the destructor's registration for each of its parent's threads.
    static CALLER: RefCell<ManuallyDrop<Option<Weak<()>>>> =
        const { RefCell::new(ManuallyDrop::new(None)) };
}

/// While this value exists, the thread's waits end if the caller is dropped.
#[cfg(feature = "tokio")]
pub(crate) struct OnBehalf;

/// While this value exists, the thread doesn't hold the interpreter's lock. It must be dropped last.
pub(crate) struct Outside {
    outermost: bool,
}

/// Sets what the calling thread does around its waits from now on. The thread must hold the lock whenever
/// it makes a call that may wait.
///
/// # Safety
/// The functions may be called in this way on this thread at any time, until others are set.
pub unsafe fn set_interpreter(interpreter: Option<Interpreter>) {
    INTERPRETER.set(interpreter);
}

/// Whether this thread's waits may end early.
pub(crate) fn is_watched() -> bool {
    LEFT.get().is_some() || CALLER.with_borrow(|caller| caller.is_some())
}

/// Whether a signal arrived that [`is_ended`] must handle.
pub(crate) fn noticed() -> bool {
    let watched = is_watched();
    SIGNALLED.set(watched);
    watched
}

/// Whether an unhandled signal is pending.
pub(crate) fn is_signalled() -> bool {
    SIGNALLED.get()
}

/// Asks whether to end the call. Handlers run and may use the same client, so the thread must not hold any resource of
/// this crate that they would wait for.
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
    let is_gone = |caller: &ManuallyDrop<Option<Weak<()>>>| {
        caller.as_ref().is_some_and(|caller| caller.strong_count() == 0)
    };
    ENDED.set(ENDED.get() || CALLER.with_borrow(is_gone));
    ENDED.get()
}

/// Whether this call is made by a handler while another call of the thread waits.
pub(crate) fn in_handler() -> bool {
    IN_HANDLERS.get()
}

/// Whether the interpreter has already ended the call.
pub(crate) fn has_ended() -> bool {
    ENDED.get()
}

#[cfg(feature = "tokio")]
impl OnBehalf {
    pub(crate) fn of(caller: Weak<()>) -> OnBehalf {
        CALLER.set(ManuallyDrop::new(Some(caller)));
        OnBehalf
    }
}

#[cfg(feature = "tokio")]
impl Drop for OnBehalf {
    fn drop(&mut self) {
        drop(ManuallyDrop::into_inner(CALLER.replace(ManuallyDrop::new(None))));
        ENDED.set(false);
    }
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
