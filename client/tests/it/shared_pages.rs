//! The pages of a shared run as the daemon makes them, for tests that are the daemon.

use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};
use std::{mem, ptr};

use leafd_client::Run;
use leafd_wire::share::{
    DESCRIPTORS, Published, RunPage, TICKETS_PER_ENTRY, TicketPage, VALID_MAX_NS,
};

const PAGE_BYTES: usize = 4_096;

/// A shared run, valid for as long as one may be.
pub struct Pages {
    pub number: u64,
    pub run: &'static RunPage,
    pub tickets: &'static TicketPage,
    descriptors: [OwnedFd; DESCRIPTORS],
}

impl Pages {
    /// Pages without ids.
    pub fn new(number: u64) -> Pages {
        let ((run_file, run), (ticket_file, tickets)) = (sealed_page(), sealed_page());
        // SAFETY: both are mapped for good, zeroed, and large enough; others change them through atomics.
        let (run, tickets) = unsafe { (&*run.cast::<RunPage>(), &*tickets.cast::<TicketPage>()) };
        run.begin(number);
        let pages = Pages { number, run, tickets, descriptors: [run_file, ticket_file] };
        pages.renew();
        pages
    }

    /// Publishes ids in the next entry.
    pub fn publish(&self, first: u64, count: u32) {
        self.renew();
        let base = self.run.published();
        assert!(base.is_multiple_of(TICKETS_PER_ENTRY));
        self.run.publish(Published { base, run: Run { first, count, stride: 1 } });
    }

    pub fn renew(&self) {
        self.run.renew(boot_ns() + VALID_MAX_NS);
    }

    /// Draws all that is left, as another process.
    pub fn drain(&self) -> Vec<u64> {
        self.renew();
        let draw = || Some(self.run.draw(self.tickets, boot_ns())?.ok()?.id);
        std::iter::from_fn(draw).collect()
    }

    pub fn descriptors(&self) -> [BorrowedFd<'_>; DESCRIPTORS] {
        self.descriptors.each_ref().map(AsFd::as_fd)
    }
}

fn sealed_page() -> (OwnedFd, *mut libc::c_void) {
    // SAFETY: the name ends in a zero; the file is this process's own, and so is the new mapping.
    unsafe {
        let number = libc::memfd_create(c"page".as_ptr(), libc::MFD_ALLOW_SEALING);
        assert!(number >= 0, "{}", std::io::Error::last_os_error());
        let file = OwnedFd::from_raw_fd(number);
        assert_eq!(libc::ftruncate(number, PAGE_BYTES as libc::off_t), 0);
        assert_eq!(libc::fcntl(number, libc::F_ADD_SEALS, libc::F_SEAL_SHRINK), 0);
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let place = libc::mmap(ptr::null_mut(), PAGE_BYTES, access, libc::MAP_SHARED, number, 0);
        assert_ne!(place, libc::MAP_FAILED);
        (file, place)
    }
}

/// Now, on the clock that counts suspend.
pub fn boot_ns() -> u64 {
    // SAFETY: all zeros is a valid time, and its address is a local's.
    let time = unsafe {
        let mut time: libc::timespec = mem::zeroed();
        assert_eq!(libc::clock_gettime(libc::CLOCK_BOOTTIME, &raw mut time), 0);
        time
    };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
