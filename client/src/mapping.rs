//! A shared run's pages as this process maps them.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::AtomicPtr;

use leafd_wire::share::{DESCRIPTORS, RunPage, TicketPage};

/// How far the ticket page lies behind the run page: no system's pages are larger.
const REACH: usize = 64 * 1024;

/// What the daemon has promised of both files: they never get shorter, or a read would kill the process.
const SEALS: libc::c_int = libc::F_SEAL_SHRINK;

/// Two pages that are mapped beside each other. Dropping it unmaps them.
pub(crate) struct Mapping {
    run: NonNull<RunPage>,
}

/// Both pages, of a mapping that lives as long.
#[derive(Clone, Copy)]
pub(crate) struct Pages<'a> {
    pub(crate) run: &'a RunPage,
    pub(crate) tickets: &'a TicketPage,
}

// SAFETY: the pages hold nothing but atomics, and are unmapped by the sole owner.
unsafe impl Send for Mapping {}

// === impl Mapping ===

impl Mapping {
    /// Maps what came with the daemon's answer. `Ok(None)`: it is not what this build knows to draw from.
    pub(crate) fn new(
        descriptors: [BorrowedFd<'_>; DESCRIPTORS],
        number: u64,
    ) -> io::Result<Option<Mapping>> {
        let [run, tickets] = descriptors.map(|descriptor| descriptor.as_raw_fd());
        if !holds(run, size_of::<RunPage>())? || !holds(tickets, size_of::<TicketPage>())? {
            return Ok(None);
        }
        let nowhere = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new private mapping touches no memory that is in use.
        let place = unsafe { map(ptr::null_mut(), 2 * REACH, libc::PROT_NONE, nowhere, -1) }?;
        let mapping = Mapping { run: place.cast() };
        let (shared, both) =
            (libc::MAP_SHARED | libc::MAP_FIXED, libc::PROT_READ | libc::PROT_WRITE);
        // SAFETY: both replace parts of the mapping made above, which nobody else knows of. A child of a fork finds none of
        // it, as it finds no way to it either.
        unsafe {
            map(place.as_ptr(), size_of::<RunPage>(), libc::PROT_READ, shared, run)?;
            map(place.as_ptr().add(REACH), size_of::<TicketPage>(), both, shared, tickets)?;
            if libc::madvise(place.as_ptr().cast(), 2 * REACH, libc::MADV_DONTFORK) != 0 {
                return Err(io::Error::last_os_error());
            }
        }
        let run = mapping.pages().run;
        Ok((run.is_known() && run.number() == number).then_some(mapping))
    }

    fn pages(&self) -> Pages<'_> {
        // SAFETY: mapped as long as `self` lives.
        unsafe { Pages::at(self.run) }
    }

    /// The number that the daemon gave the pages.
    pub(crate) fn number(&self) -> u64 {
        self.pages().run.number()
    }

    /// Where the way to the pages is kept.
    pub(crate) fn address(&self) -> *mut RunPage {
        self.run.as_ptr()
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped by `new` with this length, and its owner is the last user.
        unsafe { libc::munmap(self.run.as_ptr().cast(), 2 * REACH) };
    }
}

impl<'a> Pages<'a> {
    /// The pages of the mapping whose address is kept here, if there is one.
    ///
    /// # Safety
    /// The mapping must live for `'a`.
    #[inline]
    pub(crate) unsafe fn kept(place: &AtomicPtr<RunPage>) -> Option<Pages<'a>> {
        // Acquire pairs with the Release that stored it.
        let run = NonNull::new(place.load(std::sync::atomic::Ordering::Acquire))?;
        // SAFETY: the caller's.
        Some(unsafe { Pages::at(run) })
    }

    #[inline]
    unsafe fn at(run: NonNull<RunPage>) -> Pages<'a> {
        // SAFETY: the caller says that a mapping is there, which holds both pages at these places; others change them
        // through atomics, and any bits are valid in these.
        unsafe { Pages { run: run.as_ref(), tickets: run.byte_add(REACH).cast().as_ref() } }
    }
}

/// Whether a descriptor is of sealed memory that is large enough.
fn holds(descriptor: RawFd, bytes: usize) -> io::Result<bool> {
    // SAFETY: all zeros is a valid structure.
    let mut found: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: the structure is valid for writes.
    if unsafe { libc::fstat(descriptor, &raw mut found) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: no memory is passed.
    let seals = unsafe { libc::fcntl(descriptor, libc::F_GET_SEALS) };
    let large = usize::try_from(found.st_size).is_ok_and(|size| size >= bytes);
    Ok(large && seals >= 0 && seals & SEALS == SEALS)
}

unsafe fn map(
    at: *mut u8,
    bytes: usize,
    access: libc::c_int,
    flags: libc::c_int,
    descriptor: RawFd,
) -> io::Result<NonNull<u8>> {
    // SAFETY: the caller's.
    let place = unsafe { libc::mmap(at.cast(), bytes, access, flags, descriptor, 0) };
    if place == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    NonNull::new(place.cast()).ok_or_else(|| io::ErrorKind::OutOfMemory.into())
}
