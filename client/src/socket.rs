//! The system calls on a connection. Only [`Socket::wait`] blocks, none is interrupted, and none raises
//! SIGPIPE.

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::time::Instant;

use crate::interruption::noticed;

/// A connected, non-blocking, close-on-exec stream socket.
pub(crate) struct Socket {
    descriptor: OwnedFd,
}

/// What to wait for, and what happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Readiness {
    pub(crate) readable: bool,
    pub(crate) writable: bool,
}

/// The descriptor of one of the process's connections, so that a forked child can close its copy.
///
/// Numbers are reused, and the child may have closed and opened any of them. So the child closes the number only if it
/// still refers to the same socket.
pub(crate) struct SocketRecord {
    descriptor: AtomicI32,
    device: AtomicU64,
    inode: AtomicU64,
}

/// A [`SocketRecord`] as it was at one time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Inherited {
    descriptor: RawFd,
    device: u64,
    inode: u64,
}

// === impl Socket ===

impl Socket {
    /// Connects without waiting: a full backlog is [`io::ErrorKind::WouldBlock`].
    pub(crate) fn connect(path: &Path) -> io::Result<Socket> {
        // SAFETY: all zeros is a valid address structure.
        let mut address: libc::sockaddr_un = unsafe { mem::zeroed() };
        address.sun_family = libc::AF_UNIX as libc::sa_family_t;
        let bytes = path.as_os_str().as_bytes();
        if bytes.is_empty() || bytes.contains(&0) || bytes.len() >= address.sun_path.len() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!(
                    "a socket path must have 1 to {} bytes, none of them zero",
                    address.sun_path.len() - 1
                ),
            ));
        }
        for (to, from) in address.sun_path.iter_mut().zip(bytes) {
            *to = *from as libc::c_char;
        }
        let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // SAFETY: no memory is passed.
        let descriptor = check(unsafe { libc::socket(libc::AF_UNIX, kind, 0) })?;
        let socket = Socket {
            // SAFETY: the descriptor is new, and nothing else owns it.
            descriptor: unsafe { OwnedFd::from_raw_fd(descriptor) },
        };
        let length = mem::size_of_val(&address) as libc::socklen_t;
        uninterrupted(|| {
            // SAFETY: the address is valid for its length.
            check(unsafe { libc::connect(descriptor, (&raw const address).cast(), length) })
        })?;
        Ok(socket)
    }

    /// Sends as much as fits immediately, and returns how much that was.
    pub(crate) fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        let flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
        uninterrupted(|| {
            // SAFETY: the buffer is valid for its length.
            let sent =
                unsafe { libc::send(self.number(), bytes.as_ptr().cast(), bytes.len(), flags) };
            usize::try_from(sent).map_err(|_| io::Error::last_os_error())
        })
    }

    /// Receives the available bytes; 0 is the stream's end.
    pub(crate) fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        uninterrupted(|| {
            // SAFETY: the buffer is valid for writes of its length.
            let got = unsafe {
                libc::recv(
                    self.number(),
                    buffer.as_mut_ptr().cast(),
                    buffer.len(),
                    libc::MSG_DONTWAIT,
                )
            };
            usize::try_from(got).map_err(|_| io::Error::last_os_error())
        })
    }

    /// Sleeps until one of `wanted` holds (an error or end counts as readable), until the time `until`, or
    /// until a signal that an interpreter must handle. It uses poll, not select, because descriptors may be
    /// any number.
    pub(crate) fn wait(&self, wanted: Readiness, until: Instant) -> io::Result<Readiness> {
        let mut events = 0;
        if wanted.readable {
            events |= libc::POLLIN;
        }
        if wanted.writable {
            events |= libc::POLLOUT;
        }
        let mut poll = libc::pollfd { fd: self.number(), events, revents: 0 };
        uninterrupted(|| {
            // Recomputed after an interruption.
            let left = until.saturating_duration_since(Instant::now());
            let timeout = libc::timespec {
                tv_sec: left.as_secs().try_into().unwrap_or(i32::MAX.into()),
                tv_nsec: left.subsec_nanos().into(),
            };
            // SAFETY: one valid pollfd, a valid time, and no signal mask.
            let ready =
                unsafe { libc::ppoll(&raw mut poll, 1, &raw const timeout, std::ptr::null()) };
            match check(ready) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted && noticed() => Ok(0),
                outcome => outcome,
            }
        })?;
        let failed = poll.revents & (libc::POLLERR | libc::POLLHUP | libc::POLLNVAL) != 0;
        Ok(Readiness {
            readable: poll.revents & libc::POLLIN != 0 || failed,
            writable: poll.revents & libc::POLLOUT != 0 || failed,
        })
    }

    /// Ends the connection, which wakes every thread that sleeps on it.
    pub(crate) fn shut_down(&self) {
        // SAFETY: no memory is passed. It is fine if the connection has ended already.
        unsafe { libc::shutdown(self.number(), libc::SHUT_RDWR) };
    }

    fn number(&self) -> RawFd {
        self.descriptor.as_raw_fd()
    }
}

// === impl SocketRecord ===

impl SocketRecord {
    pub(crate) fn new() -> SocketRecord {
        SocketRecord {
            descriptor: AtomicI32::new(-1),
            device: AtomicU64::new(0),
            inode: AtomicU64::new(0),
        }
    }

    /// Records a connection. After a fork in the middle, the child finds no descriptor and leaves it open.
    pub(crate) fn set(&self, socket: &Socket) {
        self.clear();
        if let Ok((device, inode)) = socket_identity(socket.number()) {
            self.device.store(device, Ordering::Release);
            self.inode.store(inode, Ordering::Release);
            self.descriptor.store(socket.number(), Ordering::Release);
        }
    }

    pub(crate) fn clear(&self) {
        self.descriptor.store(-1, Ordering::Release);
    }

    /// Forgets a parent's connection. Another thread may have recorded one of this process meanwhile.
    pub(crate) fn forget(&self, of_parent: &Inherited) {
        let known = of_parent.descriptor;
        let _ = self.descriptor.compare_exchange(known, -1, Ordering::AcqRel, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> Option<Inherited> {
        let descriptor = self.descriptor.load(Ordering::Acquire);
        (descriptor >= 0).then(|| Inherited {
            descriptor,
            device: self.device.load(Ordering::Acquire),
            inode: self.inode.load(Ordering::Acquire),
        })
    }
}

// === impl Inherited ===

impl Inherited {
    /// Closes the parent's socket in a child, if its number still refers to it.
    pub(crate) fn close(&self) {
        if socket_identity(self.descriptor).is_ok_and(|it| it == (self.device, self.inode)) {
            // SAFETY: the descriptor is this client's socket. Its owner is the parent's state, which the
            // child has leaked.
            unsafe { libc::close(self.descriptor) };
        }
    }
}

/// Device and inode of the socket that a number refers to.
fn socket_identity(descriptor: RawFd) -> io::Result<(u64, u64)> {
    // SAFETY: all zeros is a valid structure.
    let mut stat: libc::stat = unsafe { mem::zeroed() };
    // SAFETY: the structure is valid for writes.
    check(unsafe { libc::fstat(descriptor, &raw mut stat) })?;
    if stat.st_mode & libc::S_IFMT != libc::S_IFSOCK {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    Ok((stat.st_dev as u64, stat.st_ino as u64))
}

fn check(outcome: libc::c_int) -> io::Result<libc::c_int> {
    if outcome < 0 { Err(io::Error::last_os_error()) } else { Ok(outcome) }
}

fn uninterrupted<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            outcome => return outcome,
        }
    }
}
