//! Memory that is all zeros in a forked child.
//!
//! Everything that can yield an id, and the pointer to every lock, is in such memory: each tag's slot, and the pointers
//! to the process's heap data for the client and its tags. So a child finds empty slots and null pointers, and creates
//! its own data, whatever the parent's threads were doing at the fork.
//!
//! The kernel wipes it (`MADV_WIPEONFORK`). If the kernel refuses, or accepts without effect, no runs are held.

use std::io;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use crate::pool::Pool;
use crate::slot::Slot;
use crate::supply::Supply;

/// The part of a tag that is kept in wiped memory.
#[repr(C)]
pub(crate) struct Cell {
    pub(crate) slot: Slot,
    /// The process's supply of the tag; null until it is needed.
    pub(crate) supply: AtomicPtr<Supply>,
}

/// A client's wiped memory. It only grows, until the client is dropped.
pub(crate) struct Arena {
    chunks: AtomicPtr<Chunk>,
    root: NonNull<Root>,
    is_wiped: bool,
}

/// Also wiped: the pointer to the process's connections.
#[repr(C)]
struct Root {
    pool: AtomicPtr<Pool>,
}

struct Chunk {
    memory: NonNull<u8>,
    /// Whether every child finds it zeroed, however the child was created.
    is_wiped: bool,
    /// How many cells were allocated, plus how many requests for one failed.
    used: AtomicUsize,
    next: *mut Chunk,
}

/// Invalid advice, which kernels refuse. A system that accepts it accepts and ignores any advice, as qemu does when it
/// emulates another architecture.
const NO_SUCH_ADVICE: libc::c_int = -1;

const CHUNK_BYTES: usize = 64 * 1024;
const CELL_BYTES: usize = size_of::<Cell>();
const CHUNK_CELLS: usize = CHUNK_BYTES / CELL_BYTES;

// The first cell of the first chunk is the root's.
const _: () = assert!(size_of::<Root>() <= CELL_BYTES && align_of::<Root>() <= align_of::<Cell>());

// SAFETY: the chunks are plain memory that any thread may use. Their list changes only by compare-and-swap, and is
// freed by its sole owner.
unsafe impl Send for Arena {}
// SAFETY: as above; cells and root contain only atomics.
unsafe impl Sync for Arena {}

// === impl Arena ===

impl Arena {
    pub(crate) fn new() -> io::Result<Arena> {
        let chunk = Chunk::map()?;
        chunk.used.store(1, Ordering::Relaxed);
        let (root, is_wiped) = (chunk.memory.cast(), chunk.is_wiped);
        Ok(Arena { chunks: AtomicPtr::new(Box::into_raw(Box::new(chunk))), root, is_wiped })
    }

    /// Whether every child finds it zeroed. If not, no ids may be held in it.
    pub(crate) fn is_wiped(&self) -> bool {
        self.is_wiped
    }

    /// The process's pool of connections; null until it is created.
    pub(crate) fn pool(&self) -> &AtomicPtr<Pool> {
        // SAFETY: the root lies in the first chunk, which lives as long as the arena, is zeroed
        // or written through atomics only, and a null pointer is a valid value for it.
        unsafe { &self.root.as_ref().pool }
    }

    /// A new cell. It lives as long as the arena.
    pub(crate) fn cell(&self) -> io::Result<NonNull<Cell>> {
        loop {
            let head = self.chunks.load(Ordering::Acquire);
            // SAFETY: the list is never empty, and every chunk lives as long as the arena.
            let index = unsafe { (*head).used.fetch_add(1, Ordering::Relaxed) };
            if index < CHUNK_CELLS {
                // SAFETY: as above; the offset stays within the chunk.
                return Ok(unsafe { (*head).memory.add(index * CELL_BYTES).cast() });
            }
            let mut chunk = Chunk::map()?;
            if self.is_wiped && !chunk.is_wiped {
                return Err(io::Error::from(io::ErrorKind::Unsupported));
            }
            chunk.next = head;
            let chunk = Box::into_raw(Box::new(chunk));
            let swap =
                self.chunks.compare_exchange(head, chunk, Ordering::Release, Ordering::Relaxed);
            if swap.is_err() {
                // SAFETY: no other thread has seen it.
                drop(unsafe { Box::from_raw(chunk) });
            }
        }
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        let mut chunk = *self.chunks.get_mut();
        while !chunk.is_null() {
            // SAFETY: each was made by `Box::into_raw` and is freed once, by the sole owner.
            let taken = unsafe { Box::from_raw(chunk) };
            chunk = taken.next;
        }
    }
}

// === impl Chunk ===

impl Chunk {
    fn map() -> io::Result<Chunk> {
        // SAFETY: a new private mapping touches no memory that is in use.
        let memory = unsafe {
            libc::mmap(
                ptr::null_mut(),
                CHUNK_BYTES,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if memory == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let memory = NonNull::new(memory.cast::<u8>()).ok_or(io::ErrorKind::OutOfMemory)?;
        // Miri doesn't know the call.
        let accepts = |advice| {
            // SAFETY: the advice is about the mapping made above.
            !cfg!(miri)
                && unsafe { libc::madvise(memory.as_ptr().cast(), CHUNK_BYTES, advice) == 0 }
        };
        let is_wiped = !accepts(NO_SUCH_ADVICE) && accepts(libc::MADV_WIPEONFORK);
        Ok(Chunk { memory, is_wiped, used: AtomicUsize::new(0), next: ptr::null_mut() })
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `map` with this length, and its owner is the last user.
        unsafe { libc::munmap(self.memory.as_ptr().cast(), CHUNK_BYTES) };
    }
}
