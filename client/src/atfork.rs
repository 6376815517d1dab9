//! The second-best way to wipe memory in a forked child: a handler that runs in the child.
//!
//! The parent's other threads may have stopped anywhere, so the handler takes no lock. It walks a
//! list whose nodes are reused but never freed.

use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};

struct Node {
    /// Null while the node is free.
    memory: AtomicPtr<u8>,
    length: AtomicUsize,
    next: *const Node,
}

static NODES: AtomicPtr<Node> = AtomicPtr::new(ptr::null_mut());
static HANDLER_SET: AtomicBool = AtomicBool::new(false);

/// Zeroes `length` bytes from `memory` on in every future child. Returns `false` if that is
/// impossible.
pub(crate) fn register(memory: NonNull<u8>, length: usize) -> bool {
    if !HANDLER_SET.load(Ordering::Acquire) {
        // Two threads may get here together. The memory is then zeroed twice, which does no harm.
        // SAFETY: the handler does only what is allowed in a fork handler.
        if unsafe { libc::pthread_atfork(None, None, Some(wipe_all)) } != 0 {
            return false;
        }
        HANDLER_SET.store(true, Ordering::Release);
    }
    for node in nodes() {
        // Claim the node by its length first: the handler skips a node with a length but no memory.
        let claim = node.length.compare_exchange(0, length, Ordering::Relaxed, Ordering::Relaxed);
        if claim.is_ok() {
            node.memory.store(memory.as_ptr(), Ordering::Release);
            return true;
        }
    }
    let node = Box::into_raw(Box::new(Node {
        memory: AtomicPtr::new(memory.as_ptr()),
        length: AtomicUsize::new(length),
        next: NODES.load(Ordering::Acquire),
    }));
    loop {
        // SAFETY: the node is not in the list yet, so it is this thread's alone.
        let next = unsafe { (*node).next.cast_mut() };
        match NODES.compare_exchange(next, node, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => return true,
            // SAFETY: as above.
            Err(head) => unsafe { (*node).next = head },
        }
    }
}

/// Removes memory that is about to be unmapped.
pub(crate) fn unregister(memory: NonNull<u8>) {
    if let Some(node) = nodes().find(|node| node.memory.load(Ordering::Acquire) == memory.as_ptr())
    {
        node.memory.store(ptr::null_mut(), Ordering::Release);
        node.length.store(0, Ordering::Release);
    }
}

fn nodes() -> impl Iterator<Item = &'static Node> {
    let mut next = NODES.load(Ordering::Acquire).cast_const();
    std::iter::from_fn(move || {
        // SAFETY: nodes are never freed, and only a node outside the list changes its `next`.
        let node = unsafe { next.as_ref() }?;
        next = node.next;
        Some(node)
    })
}

extern "C" fn wipe_all() {
    for node in nodes() {
        let memory = node.memory.load(Ordering::Acquire);
        if !memory.is_null() {
            // SAFETY: memory is unregistered before it is unmapped. So at the instant of the fork
            // it was mapped, with this length. The child has no other thread that could use it.
            unsafe { ptr::write_bytes(memory, 0, node.length.load(Ordering::Relaxed)) };
        }
    }
}
