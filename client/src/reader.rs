//! The receiving half of a connection: bytes from the socket, and the frames in them.

use std::io;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use leafd_wire::REPLY_LENGTH_MAX;
use leafd_wire::frame::{Frame, frame_end};

use crate::error::Break;
use crate::interruption::noticed;
use crate::polling::{Before, SLOW, Tried, WINDOW};
use crate::socket::{Readiness, Socket};

/// Room for about a thousand replies of one run each. Untouched pages cost nothing.
const BUFFER_BYTES: usize = 64 * 1024;

/// Owned by the one thread that reads, outside any lock.
pub(crate) struct Reader {
    socket: Arc<Socket>,
    /// Bytes that were received but not consumed: from `start` to `end`.
    buffer: Vec<u8>,
    start: usize,
    end: usize,
}

/// How a thread waits for bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    pub(crate) before: Before,
    /// An answer may have arrived already, so check before sleeping.
    pub(crate) maybe_there: bool,
    /// Also return when bytes can be sent.
    pub(crate) writable: bool,
    pub(crate) until: Instant,
}

/// The outcome of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    Bytes,
    /// No bytes, but there may be room to send.
    Nothing,
}

// === impl Reader ===

impl Reader {
    pub(crate) fn new(socket: Arc<Socket>) -> Reader {
        Reader { socket, buffer: vec![0; BUFFER_BYTES], start: 0, end: 0 }
    }

    pub(crate) fn reads(&self, socket: &Arc<Socket>) -> bool {
        Arc::ptr_eq(&self.socket, socket)
    }

    /// Waits for bytes. Returns the outcome, and how the attempt before sleeping ended, if one was made.
    pub(crate) fn fill(&mut self, patience: Patience) -> (Result<Arrival, Break>, Option<Tried>) {
        if patience.maybe_there {
            match self.receive() {
                Ok(Arrival::Nothing) => {}
                outcome => return (outcome, None),
            }
        }
        let mut tried = None;
        if patience.before != Before::NOTHING {
            let (outcome, ended) = self.try_before(patience.before);
            tried = Some(ended);
            if ended.found {
                return (outcome, tried);
            }
            // A signal that came during a slow yield won't end the sleep: its handlers run first.
            if ended.took >= SLOW && noticed() {
                return (outcome, tried);
            }
        }
        // Not by a blocking receive: that would wake once more when the daemon takes the request out of
        // the socket, which makes room for writing.
        let wanted = Readiness { readable: true, writable: patience.writable };
        let outcome = match self.socket.wait(wanted, patience.until) {
            Ok(ready) if ready.readable => self.receive(),
            Ok(_) => Ok(Arrival::Nothing),
            Err(error) => Err(broken_by(&error)),
        };
        (outcome, tried)
    }

    /// The next complete frame, if there is one. The caller must then consume its length.
    pub(crate) fn frame(&self) -> Result<Option<(Frame<'_>, usize)>, Break> {
        Frame::first(&self.buffer[self.start..self.end], REPLY_LENGTH_MAX)
            .map_err(|error| Break::FrameLength(error.length))
    }

    pub(crate) fn consume(&mut self, length: usize) {
        self.start += length;
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
    }

    /// Receives what is there without waiting.
    pub(crate) fn receive(&mut self) -> Result<Arrival, Break> {
        self.make_room()?;
        match self.socket.receive(&mut self.buffer[self.end..]) {
            Ok(0) => Err(Break::End),
            Ok(got) => {
                self.end += got;
                Ok(Arrival::Bytes)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(Arrival::Nothing),
            Err(error) => Err(broken_by(&error)),
        }
    }

    /// Looks for bytes without sleeping.
    fn try_before(&mut self, before: Before) -> (Result<Arrival, Break>, Tried) {
        let began = Instant::now();
        loop {
            if before.yields {
                thread::yield_now();
            } else {
                std::hint::spin_loop();
            }
            let outcome = self.receive();
            let tried = Tried { found: outcome != Ok(Arrival::Nothing), took: began.elapsed() };
            if tried.found || !before.polls || tried.took >= WINDOW {
                return (outcome, tried);
            }
        }
    }

    /// Makes room for the rest of the current frame, whose length has been checked.
    fn make_room(&mut self) -> Result<(), Break> {
        let begun = &self.buffer[self.start..self.end];
        let needed = match frame_end(begun, REPLY_LENGTH_MAX) {
            Ok(end) => end.unwrap_or(0).max(begun.len() + 1),
            Err(error) => return Err(Break::FrameLength(error.length)),
        };
        if self.start + needed > self.buffer.len() {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
            if needed > self.buffer.len() {
                self.buffer.resize(needed, 0);
            }
        }
        Ok(())
    }
}

/// Why a connection is gone, by the error of a system call.
pub(crate) fn broken_by(error: &io::Error) -> Break {
    match error.raw_os_error() {
        Some(libc::EPIPE) | None => Break::End,
        Some(number) => Break::Os(number),
    }
}
