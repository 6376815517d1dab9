//! A connected Unix socket. Its readiness is watched only for the event that a task waits for.
//!
//! tokio's own stream always watches for space to write as well. On a Unix socket that is expensive, because each
//! answer that a client reads makes space, and wakes the daemon for nothing.

use std::cell::Cell;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{Shutdown, setsockopt, shutdown, sockopt};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::server::passed::Guarded;

/// How many bytes of answers the kernel buffers for a peer that does not read. It doubles the number, and may exceed
/// that by one piece of 4 KiB. This memory is charged to the daemon's cgroup. The default would be 208 KiB.
const SEND_BUFFER_BYTES: usize = 3_840;

/// How often to check whether a peer has read its last answers or has disconnected, which is not announced.
const UNREAD_CHECKED_FIRST: Duration = Duration::from_millis(5);
const UNREAD_CHECKED: Duration = Duration::from_millis(500);

/// A connected socket.
#[derive(Debug)]
pub struct Stream {
    /// The same socket, while there is no space to write. It is dropped first, so that the last close is the guarded
    /// one.
    writing: Option<AsyncFd<OwnedFd>>,
    reading: AsyncFd<Guarded>,
    /// Whether bytes may have arrived without a notification, because [`Stream::poll_gone`] consumed it.
    unannounced: Cell<bool>,
}

impl Stream {
    /// Takes over an accepted connection.
    ///
    /// # Errors
    /// The system can't watch another socket.
    pub fn new(accepted: Guarded) -> io::Result<Stream> {
        setsockopt(&accepted, sockopt::SndBuf, &SEND_BUFFER_BYTES)?;
        Ok(Stream {
            writing: None,
            reading: watch(accepted, Interest::READABLE)?,
            unannounced: Cell::new(false),
        })
    }

    /// Reads what has arrived into `buffer`; 0 is the stream's end.
    ///
    /// # Errors
    /// The socket's.
    pub fn poll_read(&self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        if self.unannounced.take() {
            match self.reading.get_ref().read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => {
                    // There may be more.
                    self.unannounced.set(true);
                    return Poll::Ready(read);
                }
            }
        }
        loop {
            let mut ready = ready!(self.reading.poll_read_ready(cx))?;
            if let Ok(read) = ready.try_io(|socket| socket.get_ref().read(buffer)) {
                if matches!(read, Ok(count) if 0 < count && count < buffer.len()) {
                    // The socket is empty now, and the next byte will cause a notification. This saves a read that
                    // finds nothing.
                    ready.clear_ready();
                }
                return Poll::Ready(read);
            }
        }
    }

    /// Waits, without reading, until the peer has closed both directions and accepts no answers. A peer that has only
    /// ended its requests still accepts them.
    ///
    /// # Errors
    /// The socket's.
    pub fn poll_gone(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            let mut ready = ready!(self.reading.poll_read_ready(cx))?;
            if self.is_gone()? {
                return Poll::Ready(Ok(()));
            }
            self.unannounced.set(true);
            ready.clear_ready();
        }
    }

    /// Whether the peer has closed both directions.
    ///
    /// # Errors
    /// The socket's.
    pub fn is_gone(&self) -> io::Result<bool> {
        let mut socket = [PollFd::new(self.reading.get_ref().as_fd(), PollFlags::empty())];
        poll(&mut socket, PollTimeout::ZERO)?;
        let found = socket[0].revents().unwrap_or(PollFlags::empty());
        Ok(found.intersects(PollFlags::POLLHUP | PollFlags::POLLERR))
    }

    /// Reads what has arrived so far.
    ///
    /// # Errors
    /// The socket's; [`io::ErrorKind::WouldBlock`] if nothing is there.
    pub fn read_now(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.reading.get_ref().read(buffer)
    }

    /// Ends the stream, and waits until the peer has read everything or has disconnected, because the kernel buffers
    /// the data until then, even if this socket is closed.
    pub async fn until_read(&self) {
        // A peer that has disconnected needs no end.
        let _ = self.end_answers();
        let mut pause = UNREAD_CHECKED_FIRST;
        // If the system can't report how much is unread, it counts as unread.
        while unread_bytes(self.reading.get_ref()).unwrap_or(usize::MAX) > 0 {
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(UNREAD_CHECKED);
        }
    }

    /// Writes as much as fits at this moment.
    ///
    /// # Errors
    /// The socket's.
    pub fn write_now(&self, bytes: &[u8]) -> io::Result<usize> {
        self.reading.get_ref().send(bytes)
    }

    /// Signals to the peer that no more answers follow.
    ///
    /// # Errors
    /// The socket's.
    pub fn end_answers(&self) -> io::Result<()> {
        Ok(shutdown(self.reading.get_ref().as_raw_fd(), Shutdown::Write)?)
    }

    /// Writes as much as fits.
    ///
    /// # Errors
    /// The socket's.
    pub fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        loop {
            match self.reading.get_ref().send(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                written => {
                    self.writing = None;
                    return Poll::Ready(written);
                }
            }
            if self.writing.is_none() {
                let again = self.reading.get_ref().as_fd().try_clone_to_owned()?;
                self.writing = Some(watch(again, Interest::WRITABLE)?);
            }
            if let Some(writing) = &self.writing {
                // The write above found it full, so only later space counts.
                ready!(writing.poll_write_ready(cx))?.clear_ready();
            }
        }
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.reading.get_ref().as_fd()
    }
}

#[expect(unsafe_code, reason = "no safe wrapper knows SIOCOUTQ")]
fn unread_bytes(socket: &Guarded) -> io::Result<usize> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: the descriptor is open, and the kernel writes one number to the address of a local.
    let outcome = unsafe { libc::ioctl(socket.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
    match outcome {
        0 => usize::try_from(bytes).map_err(io::Error::other),
        _ => Err(io::Error::last_os_error()),
    }
}

#[expect(unsafe_code, reason = "tokio can't check that a descriptor stays what it is")]
fn watch<S: AsRawFd>(socket: S, interest: Interest) -> io::Result<AsyncFd<S>> {
    // SAFETY: both kinds of sockets here own their descriptor and name the same one for their whole life.
    unsafe { AsyncFd::register_with_interest(socket, interest) }.map_err(io::Error::from)
}
