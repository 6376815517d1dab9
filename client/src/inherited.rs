//! A parent's heap data in a forked child. The child must not touch it: its locks may be held forever.
//!
//! The pointer to the data is wiped. The data stays reachable from here, so that leak checkers see that it is left on
//! purpose.

use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

struct Kept {
    _what: *const (),
    _next: *const Kept,
}

static KEPT: AtomicPtr<Kept> = AtomicPtr::new(ptr::null_mut());

/// Keeps a parent's data reachable forever; ignores null.
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
        // SAFETY: the node is not in the list yet, so it belongs to this thread alone.
        unsafe { (*kept)._next = next };
    }
}
