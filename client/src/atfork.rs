//! Wipes memory in a forked child without the kernel's help: by a handler that runs in the child.
//!
//! The parent's other threads may have stopped anywhere, so the handler takes no lock. It walks a
//! list whose regions are reused but never freed.

use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};

struct WipedRegion {
    /// Null while the region is free.
    memory: AtomicPtr<u8>,
    length: AtomicUsize,
    next: *const WipedRegion,
}

static REGIONS: AtomicPtr<WipedRegion> = AtomicPtr::new(ptr::null_mut());
static HANDLER_SET: AtomicBool = AtomicBool::new(false);

/// Zeroes `length` bytes from `memory` in every future child. Returns `false` if that is impossible.
pub(crate) fn register(memory: NonNull<u8>, length: usize) -> bool {
    if !HANDLER_SET.load(Ordering::Acquire) {
        // Two threads may get here at the same time. The memory is then zeroed twice, which is harmless. SAFETY: the
        // handler does only what is allowed in a fork handler.
        if unsafe { libc::pthread_atfork(None, None, Some(wipe_all)) } != 0 {
            return false;
        }
        HANDLER_SET.store(true, Ordering::Release);
    }
    for region in regions() {
        // Claim the region by its length first: the handler skips a region with a length but no memory.
        let claim = region.length.compare_exchange(0, length, Ordering::Relaxed, Ordering::Relaxed);
        if claim.is_ok() {
            region.memory.store(memory.as_ptr(), Ordering::Release);
            return true;
        }
    }
    let region = Box::into_raw(Box::new(WipedRegion {
        memory: AtomicPtr::new(memory.as_ptr()),
        length: AtomicUsize::new(length),
        next: REGIONS.load(Ordering::Acquire),
    }));
    loop {
        // SAFETY: the region is not in the list yet, so it is this thread's alone.
        let next = unsafe { (*region).next.cast_mut() };
        match REGIONS.compare_exchange(next, region, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => return true,
            // SAFETY: as above.
            Err(head) => unsafe { (*region).next = head },
        }
    }
}

/// Removes memory that is about to be unmapped.
pub(crate) fn unregister(memory: NonNull<u8>) {
    if let Some(region) =
        regions().find(|region| region.memory.load(Ordering::Acquire) == memory.as_ptr())
    {
        region.memory.store(ptr::null_mut(), Ordering::Release);
        region.length.store(0, Ordering::Release);
    }
}

fn regions() -> impl Iterator<Item = &'static WipedRegion> {
    let mut next = REGIONS.load(Ordering::Acquire).cast_const();
    std::iter::from_fn(move || {
        // SAFETY: regions are never freed, and only a region outside the list changes its `next`.
        let region = unsafe { next.as_ref() }?;
        next = region.next;
        Some(region)
    })
}

extern "C" fn wipe_all() {
    for region in regions() {
        let memory = region.memory.load(Ordering::Acquire);
        if !memory.is_null() {
            // SAFETY: memory is unregistered before it is unmapped. So at the instant of the fork
            // it was mapped, with this length. The child has no other thread that could use it.
            unsafe { ptr::write_bytes(memory, 0, region.length.load(Ordering::Relaxed)) };
        }
    }
}
