//! The memory of a shared run: two sealed pages without a file name. Processes may read one, and also write the other.
#![expect(unsafe_code, reason = "memory that other processes write is mapped by hand")]

use std::fs::File;
use std::io;
use std::num::NonZeroUsize;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::ptr::NonNull;

use leafd_wire::share::{RunPage, TicketPage};
use nix::fcntl::{FcntlArg, OFlag, SealFlag, fcntl, open, posix_fallocate};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};
use nix::sys::stat::{Mode, fchmod};
use nix::unistd::{SysconfVar, sysconf};

use crate::reply::outbox::Descriptors;

/// The flag of `memfd_create` for memory that is never executed.
const MFD_NOEXEC_SEAL: u32 = 8;

/// Both pages. Dropping this unmaps them in the daemon; processes keep what they have mapped.
#[derive(Debug)]
pub(super) struct Memory {
    run: NonNull<RunPage>,
    tickets: NonNull<TicketPage>,
    page_bytes: NonZeroUsize,
    descriptors: std::rc::Rc<Descriptors>,
}

impl Memory {
    /// Makes pages with this number, which is never used again.
    ///
    /// # Errors
    /// Those of the kernel. An old kernel can't seal memory against writing by others.
    pub(super) fn new(number: u64) -> io::Result<Memory> {
        let page_bytes = sysconf(SysconfVar::PAGE_SIZE)?.and_then(|bytes| bytes.try_into().ok());
        let page_bytes: NonZeroUsize =
            page_bytes.and_then(NonZeroUsize::new).ok_or(io::ErrorKind::Unsupported)?;
        let written = sealable("leafd-run", page_bytes)?;
        // Nobody can undo this seal, neither a process that has the descriptor nor one that opens the file again.
        fchmod(&written, Mode::from_bits_truncate(0o444))?;
        let path = format!("/proc/self/fd/{}", written.as_raw_fd());
        let read_only = open(path.as_str(), OFlag::O_RDONLY | OFlag::O_CLOEXEC, Mode::empty())?;
        let run = map(&written, page_bytes)?.cast::<RunPage>();
        let tickets_of = || {
            let sealed = SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW | SealFlag::F_SEAL_SEAL;
            // From here on nobody can write the file or map it for writing, not even the daemon's own user. The
            // mapping that was made before stays writable.
            seal(&written, sealed | SealFlag::F_SEAL_FUTURE_WRITE)?;
            let tickets = sealable("leafd-tickets", page_bytes)?;
            seal(&tickets, sealed)?;
            Ok::<_, io::Error>((map(&tickets, page_bytes)?.cast::<TicketPage>(), tickets))
        };
        match tickets_of() {
            Ok((mapped, tickets)) => {
                let descriptors = std::rc::Rc::new(Descriptors([read_only, tickets.into()]));
                let memory = Memory { run, tickets: mapped, page_bytes, descriptors };
                memory.run().begin(number);
                Ok(memory)
            }
            Err(error) => {
                // SAFETY: mapped above with this length, and no other code knows of it.
                let _ = unsafe { munmap(run.cast(), page_bytes.get()) };
                Err(error)
            }
        }
    }

    /// The page that only the daemon writes.
    pub(super) fn run(&self) -> &RunPage {
        // SAFETY: mapped by `new` for as long as `self` lives, large enough (the layout is checked where it is
        // defined), at a page's boundary, zeroed or written through atomics only.
        unsafe { self.run.as_ref() }
    }

    /// The page that processes write.
    pub(super) fn tickets(&self) -> &TicketPage {
        // SAFETY: as above; others may write any bits, which an atomic number takes.
        unsafe { self.tickets.as_ref() }
    }

    /// The descriptors that processes get.
    pub(super) fn descriptors(&self) -> std::rc::Rc<Descriptors> {
        std::rc::Rc::clone(&self.descriptors)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: both were mapped by `new` with this length, and no reference outlives `self`.
        unsafe {
            let _ = munmap(self.run.cast(), self.page_bytes.get());
            let _ = munmap(self.tickets.cast(), self.page_bytes.get());
        }
    }
}

/// A page of memory that can be sealed. The memory is reserved at once, so that no process is killed later because
/// there is none.
fn sealable(name: &str, bytes: NonZeroUsize) -> io::Result<File> {
    // A system may allow no other kind of such memory. Kernels before 6.3 don't know the flag.
    let no_exec = MFdFlags::from_bits_retain(MFD_NOEXEC_SEAL);
    let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
    let made: OwnedFd =
        memfd_create(name, flags | no_exec).or_else(|_| memfd_create(name, flags))?;
    let length = bytes.get().try_into().map_err(io::Error::other)?;
    posix_fallocate(&made, 0, length)?;
    Ok(File::from(made))
}

fn seal(file: &File, seals: SealFlag) -> io::Result<()> {
    fcntl(file, FcntlArg::F_ADD_SEALS(seals))?;
    Ok(())
}

fn map(file: impl AsFd, bytes: NonZeroUsize) -> io::Result<NonNull<u8>> {
    let access = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
    // SAFETY: a new mapping touches no memory that is in use.
    Ok(unsafe { mmap(None, bytes, access, MapFlags::MAP_SHARED, file, 0) }?.cast())
}
