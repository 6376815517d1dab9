//! The system calls on a connection. Only [`Socket::wait`] blocks, none is interrupted, and none raises
//! SIGPIPE.

use std::io::{self, Read as _};
use std::mem;
use std::net::Shutdown;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Instant;

use crate::interruption::noticed;

/// A connected, non-blocking, close-on-exec stream socket.
pub(crate) struct Socket {
    stream: UnixStream,
}

/// What to wait for, and what happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Readiness {
    pub(crate) readable: bool,
    pub(crate) writable: bool,
}

// === impl Socket ===

impl Socket {
    /// Connects without waiting: a full backlog returns [`io::ErrorKind::WouldBlock`]. The builder has checked the
    /// path.
    pub(crate) fn connect(path: &Path) -> io::Result<Socket> {
        // SAFETY: all zeros is a valid address structure.
        let mut address: libc::sockaddr_un = unsafe { mem::zeroed() };
        address.sun_family = libc::AF_UNIX as libc::sa_family_t;
        for (to, from) in address.sun_path.iter_mut().zip(path.as_os_str().as_bytes()) {
            *to = *from as libc::c_char;
        }
        let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // SAFETY: no memory is passed.
        let descriptor = check(unsafe { libc::socket(libc::AF_UNIX, kind, 0) })?;
        // SAFETY: the descriptor is new, and nothing else owns it.
        let stream = UnixStream::from(unsafe { OwnedFd::from_raw_fd(descriptor) });
        let length = mem::size_of_val(&address) as libc::socklen_t;
        uninterrupted(|| {
            // SAFETY: the address is valid for its length.
            check(unsafe { libc::connect(descriptor, (&raw const address).cast(), length) })
        })?;
        Ok(Socket { stream })
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

    /// Receives the available bytes; 0 means the end of the stream.
    pub(crate) fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        uninterrupted(|| (&self.stream).read(buffer))
    }

    /// Sleeps until one of `wanted` holds (an error or end counts as readable), until the time `until`, or
    /// until a signal that an interpreter must handle. It uses poll, not select, because a descriptor may be
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
        // It is fine if the connection has ended already.
        let _ = self.stream.shutdown(Shutdown::Both);
    }

    fn number(&self) -> RawFd {
        self.stream.as_raw_fd()
    }
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
