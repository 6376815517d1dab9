//! A connected Unix socket. Its readiness is watched only for what a task waits for.
//!
//! tokio's own stream always watches for room to write too. On a Unix socket that is expensive: each answer that a
//! client reads makes room, and wakes the daemon for nothing.

use std::cell::Cell;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::task::{Context, Poll, ready};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// A connected socket.
#[derive(Debug)]
pub struct Stream {
    reading: AsyncFd<UnixStream>,
    /// The same socket again, while there is no room to write.
    writing: Option<AsyncFd<UnixStream>>,
    /// Bytes may be there without a notice: [`Stream::poll_gone`] consumed it.
    unannounced: Cell<bool>,
}

impl Stream {
    /// Takes over an accepted connection.
    ///
    /// # Errors
    /// The system can't watch another socket.
    pub fn new(accepted: tokio::net::UnixStream) -> io::Result<Stream> {
        Ok(Stream {
            reading: watch(accepted.into_std()?, Interest::READABLE)?,
            writing: None,
            unannounced: Cell::new(false),
        })
    }

    /// Reads what is there into `buffer`; 0 is the stream's end.
    ///
    /// # Errors
    /// The socket's.
    pub fn poll_read(&self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        if self.unannounced.take() {
            match self.reading.get_ref().read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => {
                    // More may still be there.
                    self.unannounced.set(true);
                    return Poll::Ready(read);
                }
            }
        }
        loop {
            let mut ready = ready!(self.reading.poll_read_ready(cx))?;
            if let Ok(read) = ready.try_io(|socket| socket.get_ref().read(buffer)) {
                if matches!(read, Ok(count) if 0 < count && count < buffer.len()) {
                    // The socket is empty now, and the next byte will be announced. This saves a read that finds
                    // nothing.
                    ready.clear_ready();
                }
                return Poll::Ready(read);
            }
        }
    }

    /// Waits, without reading, until the peer has closed both directions and takes no answers. A peer that has only
    /// ended its requests still takes them.
    ///
    /// # Errors
    /// The socket's.
    pub fn poll_gone(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            let mut ready = ready!(self.reading.poll_read_ready(cx))?;
            let mut socket = [PollFd::new(self.reading.get_ref().as_fd(), PollFlags::empty())];
            poll(&mut socket, PollTimeout::ZERO)?;
            let found = socket[0].revents().unwrap_or(PollFlags::empty());
            if found.intersects(PollFlags::POLLHUP | PollFlags::POLLERR) {
                return Poll::Ready(Ok(()));
            }
            self.unannounced.set(true);
            ready.clear_ready();
        }
    }

    /// Reads what is there at this moment.
    ///
    /// # Errors
    /// The socket's; [`io::ErrorKind::WouldBlock`] if nothing is there.
    pub fn read_now(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.reading.get_ref().read(buffer)
    }

    /// Writes what there is room for.
    ///
    /// # Errors
    /// The socket's.
    pub fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        loop {
            match self.reading.get_ref().write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                written => {
                    self.writing = None;
                    return Poll::Ready(written);
                }
            }
            if self.writing.is_none() {
                let again = self.reading.get_ref().try_clone()?;
                self.writing = Some(watch(again, Interest::WRITABLE)?);
            }
            if let Some(writing) = &self.writing {
                // The write above found it full: only later room counts.
                ready!(writing.poll_write_ready(cx))?.clear_ready();
            }
        }
    }
}

#[expect(unsafe_code, reason = "tokio can't check that a descriptor stays what it is")]
fn watch(socket: UnixStream, interest: Interest) -> io::Result<AsyncFd<UnixStream>> {
    // SAFETY: a `UnixStream` owns its descriptor and names the same one for its whole life.
    unsafe { AsyncFd::register_with_interest(socket, interest) }.map_err(io::Error::from)
}
