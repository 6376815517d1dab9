//! Handles that C holds. Freed handles and foreign pointers are detected where possible.
//!
//! A handle's memory begins with a mark of its kind, and is never returned to the system. So the mark of a freed handle
//! can still be read. The memory is reused for another handle of the same kind only after [`QUARANTINE`] others were
//! freed.

use std::collections::VecDeque;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{CallError, LeafdError, LeafdStatus};

/// How many other handles must be freed before a freed handle's memory is reused.
const QUARANTINE: usize = 1024;

/// The mark of a freed handle of any kind.
const FREED: u64 = 0x6465_6572_6664_6561;

/// A kind of handle.
pub(crate) trait HandleKind: Sized + 'static {
    /// Marks handles of this kind. Other memory begins with it only by chance.
    const MARK: u64;
    /// Its name in messages.
    const NAME: &'static str;
    /// The freed handles of this kind.
    fn freed() -> &'static FreedHandles<Self>;
}

/// The memory of a handle.
#[repr(C)]
pub(crate) struct Handle<T> {
    mark: AtomicU64,
    value: ManuallyDrop<T>,
}

/// Freed handles, the oldest first.
pub(crate) struct FreedHandles<T>(Mutex<VecDeque<FreedHandle<T>>>);

struct FreedHandle<T>(NonNull<Handle<T>>);

// SAFETY: a place in the queue contains no value, and belongs to the thread that removes it from the queue.
unsafe impl<T> Send for FreedHandle<T> {}

/// A new handle.
pub(crate) fn make<T: HandleKind>(value: T) -> *mut Handle<T> {
    let cell = Handle { mark: AtomicU64::new(T::MARK), value: ManuallyDrop::new(value) };
    match T::freed().take() {
        Some(FreedHandle(place)) => {
            // SAFETY: the place was made by `Box::into_raw`, and its value was dropped.
            unsafe { place.write(cell) };
            place.as_ptr()
        }
        None => Box::into_raw(Box::new(cell)),
    }
}

/// The value of a handle.
///
/// # Safety
/// `handle` is null, or points to readable memory; a handle must not be freed during the call.
#[inline]
pub(crate) unsafe fn get<'a, T: HandleKind>(handle: *const Handle<T>) -> Result<&'a T, CallError> {
    // SAFETY: as the caller says; a mark of this kind is at the head of a live cell.
    unsafe {
        if !handle.is_null()
            && handle.is_aligned()
            && (*handle).mark.load(Ordering::Acquire) == T::MARK
        {
            return Ok(&(*handle).value);
        }
        Err(refused(handle))
    }
}

/// Frees a handle; null is allowed.
///
/// # Safety
/// As for [`get`]; no other thread uses the handle.
pub(crate) unsafe fn free<T: HandleKind>(handle: *mut Handle<T>) -> Result<(), CallError> {
    let Some(place) = NonNull::new(handle) else { return Ok(()) };
    // SAFETY: as in `get`. Only one thread changes the mark, so only one drops the value.
    unsafe {
        get(handle)?;
        let mark = &(*handle).mark;
        if mark.compare_exchange(T::MARK, FREED, Ordering::AcqRel, Ordering::Acquire).is_err() {
            return Err(refused(handle));
        }
        ManuallyDrop::drop(&mut (*handle).value);
    }
    T::freed().put(FreedHandle(place));
    Ok(())
}

/// The error for a pointer that is not a handle.
#[cold]
unsafe fn refused<T: HandleKind>(handle: *const Handle<T>) -> CallError {
    let name = T::NAME;
    if handle.is_null() {
        let message = format!("the {name} is NULL; create one first");
        return LeafdError::new(LeafdStatus::NullPointer, &message);
    }
    let aligned = handle.is_aligned();
    // SAFETY: as in `get`.
    let what = if aligned && unsafe { (*handle).mark.load(Ordering::Acquire) } == FREED {
        "has been freed"
    } else {
        "is not one that this library created"
    };
    LeafdError::new(LeafdStatus::Handle, &format!("the pointer given as {name} {what}"))
}

// === impl FreedHandles ===

impl<T> FreedHandles<T> {
    pub(crate) const fn new() -> FreedHandles<T> {
        FreedHandles(Mutex::new(VecDeque::new()))
    }

    /// This never waits, because in a forked child the lock may be held forever. If it is held, the place is lost.
    fn put(&self, place: FreedHandle<T>) {
        if let Ok(mut places) = self.0.try_lock() {
            places.push_back(place);
        }
    }

    fn take(&self) -> Option<FreedHandle<T>> {
        let mut places = self.0.try_lock().ok()?;
        if places.len() > QUARANTINE { places.pop_front() } else { None }
    }
}
