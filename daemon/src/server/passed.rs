//! Handles descriptors that a peer passes (SCM_RIGHTS). The daemon never receives one, and never closes one on a thread
//! that answers requests.
//!
//! The last close of a passed descriptor can block for as long as the peer wants: a TCP socket with SO_LINGER and
//! unsent data does. From Linux 6.16 on, the kernel refuses them on the peer's side ([`refuse`]). Before that, and for
//! connections that are older than this option, [`Guarded`] finds them before they are read. Such a connection ends,
//! and a separate thread closes it.

use std::io::{self, IoSliceMut, Read};
use std::net::Shutdown;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd as _, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::{OnceLock, mpsc};

use nix::sys::socket::{
    ControlMessageOwned, MsgFlags, getsockopt, recvmsg, send, setsockopt, sockopt,
};
use nix::{getsockopt_impl, setsockopt_impl, sockopt_impl};
use tracing::warn;

/// SO_PASSRIGHTS, which `libc` does not name yet. The number is that of Linux's generic header; where it is another
/// option, as on SPARC, the call fails or changes nothing relevant.
const SO_PASSRIGHTS: libc::c_int = 83;

/// The maximum number of descriptors in one message (Linux's SCM_MAX_FD).
const DESCRIPTORS_MAX: usize = 253;

/// How much is read at once to empty a connection before it is closed.
const DRAINED_BYTES: usize = 4 * 1024;

/// The name of the thread that closes connections with passed descriptors.
const THREAD_NAME: &str = "leafd-close";

sockopt_impl!(
    /// Whether a peer may pass descriptors.
    PassRights,
    Both,
    libc::SOL_SOCKET,
    SO_PASSRIGHTS,
    bool
);

/// Makes the kernel refuse descriptors on a socket, and on connections that a listening socket accepts from now on.
/// Does nothing before Linux 6.16.
pub fn refuse(socket: &impl AsFd) {
    let _ = setsockopt(socket, PassRights, &false);
}

/// Whether the kernel has refused descriptors on this connection from the start.
fn are_refused(socket: &impl AsFd) -> bool {
    getsockopt(socket, PassRights).is_ok_and(|may_pass| !may_pass)
}

/// An accepted connection that never makes this thread close a passed descriptor.
#[derive(Debug)]
pub struct Guarded {
    /// `None` once it has been handed to the thread that closes.
    stream: Option<UnixStream>,
    /// Descriptors may be among what arrives.
    may_carry: bool,
}

impl Guarded {
    /// Guards a connection that was just accepted.
    pub fn new(stream: UnixStream) -> Guarded {
        let may_carry = !are_refused(&stream);
        if may_carry {
            // Out-of-band bytes may carry descriptors too, and peeking would skip them.
            let _ = setsockopt(&stream, sockopt::OobInline, &true);
        }
        Guarded { stream: Some(stream), may_carry }
    }

    fn stream(&self) -> &UnixStream {
        self.stream.as_ref().expect("a connection has its socket until it is dropped")
    }

    /// Reads what has arrived; 0 at the stream's end.
    ///
    /// # Errors
    /// The socket's, or descriptors arrived.
    pub fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut stream = self.stream();
        if !self.may_carry {
            return stream.read(buffer);
        }
        // Peeked bytes stay in the socket, and so do their descriptors.
        match look(stream, buffer)? {
            Arrived::Bytes(0) => Ok(0),
            Arrived::Bytes(count) => stream.read(&mut buffer[..count]),
            Arrived::Descriptors => Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the peer passed descriptors, which no request needs",
            )),
        }
    }

    /// Writes as much as fits.
    ///
    /// # Errors
    /// The socket's.
    pub fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
        Ok(send(self.as_raw_fd(), bytes, flags)?)
    }

    /// Whether closing the socket could close a passed descriptor. The peer can send no more afterwards.
    fn carries(&self) -> bool {
        let mut stream = self.stream();
        // From here on, the peer's messages are refused. An error means that the peer has disconnected.
        let _ = stream.shutdown(Shutdown::Read);
        let mut buffer = [0; DRAINED_BYTES];
        loop {
            match look(stream, &mut buffer) {
                Ok(Arrived::Descriptors) => return true,
                Ok(Arrived::Bytes(0)) | Err(_) => return false,
                Ok(Arrived::Bytes(count)) => {
                    if stream.read(&mut buffer[..count]).is_err() {
                        return false;
                    }
                }
            }
        }
    }
}

impl AsRawFd for Guarded {
    fn as_raw_fd(&self) -> RawFd {
        self.stream().as_raw_fd()
    }
}

impl AsFd for Guarded {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream().as_fd()
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        if self.may_carry
            && self.carries()
            && let Some(stream) = self.stream.take()
        {
            close_apart(stream);
        }
    }
}

/// What comes next on a connection.
enum Arrived {
    /// This many bytes without descriptors; 0 at the end.
    Bytes(usize),
    /// Descriptors are among it.
    Descriptors,
}

/// Copies what comes next without removing it.
fn look(stream: &UnixStream, buffer: &mut [u8]) -> io::Result<Arrived> {
    let mut parts = [IoSliceMut::new(buffer)];
    let flags = MsgFlags::MSG_PEEK | MsgFlags::MSG_DONTWAIT;
    let message = recvmsg::<()>(stream.as_raw_fd(), &mut parts, None, flags)?;
    // There is no space for descriptors, so the kernel reports them as truncated.
    Ok(match message.flags.contains(MsgFlags::MSG_CTRUNC) {
        true => Arrived::Descriptors,
        false => Arrived::Bytes(message.bytes),
    })
}

/// Closes a connection with passed descriptors on a thread that answers no requests.
fn close_apart(stream: UnixStream) {
    static CLOSER: OnceLock<Option<mpsc::Sender<UnixStream>>> = OnceLock::new();
    let closer = CLOSER.get_or_init(|| {
        let (closer, closing) = mpsc::channel::<UnixStream>();
        let begun = std::thread::Builder::new().name(THREAD_NAME.to_owned()).spawn(move || {
            closing.iter().for_each(close_linger_free);
        });
        begun.map(|_| closer).map_err(|error| warn!("cannot start {THREAD_NAME}: {error}")).ok()
    });
    match closer {
        Some(closer) => drop(closer.send(stream)),
        // Kept open rather than closed here.
        None => std::mem::forget(stream),
    }
}

/// Receives the descriptors and closes sockets among them without waiting for their peers, so that this thread can
/// proceed to the next connection.
#[expect(unsafe_code, reason = "a received descriptor is a number")]
fn close_linger_free(stream: UnixStream) {
    let mut buffer = [0; DRAINED_BYTES];
    let mut along = nix::cmsg_space!([RawFd; DESCRIPTORS_MAX]);
    loop {
        let mut parts = [IoSliceMut::new(&mut buffer)];
        let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_CMSG_CLOEXEC;
        let received = recvmsg::<()>(stream.as_raw_fd(), &mut parts, Some(&mut along), flags);
        let Ok(message) = received else { break };
        let Ok(messages) = message.cmsgs() else { break };
        for descriptor in messages.filter_map(|message| match message {
            ControlMessageOwned::ScmRights(descriptors) => Some(descriptors),
            _ => None,
        }) {
            for descriptor in descriptor {
                // SAFETY: the kernel has just opened it for this process, and nothing else owns it.
                let descriptor = unsafe { OwnedFd::from_raw_fd(descriptor) };
                let at_once = libc::linger { l_onoff: 0, l_linger: 0 };
                // Only sockets have this option.
                let _ = setsockopt(&descriptor, sockopt::Linger, &at_once);
            }
        }
        if message.bytes == 0 {
            break;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{IoSlice, Write as _};
    use std::time::Duration;

    use nix::sys::socket::{ControlMessage, sendmsg};

    use super::*;

    fn pass(stream: &UnixStream, bytes: &[u8], descriptor: &impl AsFd) {
        let numbers = [descriptor.as_fd().as_raw_fd()];
        let along = [ControlMessage::ScmRights(&numbers)];
        let bytes = [IoSlice::new(bytes)];
        sendmsg::<()>(stream.as_raw_fd(), &bytes, &along, MsgFlags::empty(), None).unwrap();
    }

    #[test]
    fn a_connection_with_descriptors_is_not_read_and_closed_elsewhere() {
        let (own, mut peer) = UnixStream::pair().unwrap();
        let (passed, mut other_end) = UnixStream::pair().unwrap();
        let guarded = Guarded::new(own);
        peer.write_all(b"before").unwrap();
        pass(&peer, b"with", &passed);
        drop(passed);
        let mut buffer = [0; 64];
        // Bytes that were peeked together with descriptors are not read.
        assert_eq!(guarded.read(&mut buffer).unwrap_err().kind(), io::ErrorKind::InvalidData);
        drop(guarded);
        // The thread that closes gets to it.
        other_end.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        assert_eq!(other_end.read(&mut buffer).unwrap(), 0);
    }
}
