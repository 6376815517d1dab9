//! What a forked child has of its parent's on the heap, and must not touch: locks in it may be held for ever.
//!
//! The way to it is wiped. It is kept reachable from here, so that tools that look for leaks see that it
//! is left on purpose.

use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

struct Kept {
    _what: *const (),
    _next: *const Kept,
}

static KEPT: AtomicPtr<Kept> = AtomicPtr::new(ptr::null_mut());

/// Keeps what a parent made reachable, for ever; null is nothing.
#[cold]
pub(crate) fn keep<T>(what: *const T) {
    if what.is_null() {
        return;
    }
    let mut next = KEPT.load(Ordering::Relaxed);
    let kept = Box::into_raw(Box::new(Kept { _what: what.cast(), _next: next }));
    while let Err(now) =
        KEPT.compare_exchange_weak(next, kept, Ordering::Release, Ordering::Relaxed)
    {
        next = now;
        // SAFETY: it is not in the list yet, so it is this thread's alone.
        unsafe { (*kept)._next = next };
    }
}
