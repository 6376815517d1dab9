//! One connection to the daemon: sends bytes, receives frames, and waits for them. One thread at a time uses it.

use std::io;
use std::path::Path;
use std::thread;
use std::time::Instant;

use leafd_wire::flag;
use leafd_wire::frame::Frame;

use crate::error::Break;
use crate::interruption::{has_ended, is_ended, is_signalled, noticed};
use crate::polling::{Before, Polling, SLOW, Tried, WINDOW};
use crate::replies::{Replies, RequestOutcome};
use crate::socket::{Readiness, Socket};

/// How much is received at once.
const CHUNK_BYTES: usize = 16 * 1024;

/// The capacity kept for outgoing bytes; more is released.
const OUTGOING_KEPT_BYTES: usize = 64 * 1024;

pub(crate) struct Connection {
    socket: Socket,
    pub(crate) made: Instant,
    /// When it was last used, by the coarse clock.
    pub(crate) used_ns: u64,
    pub(crate) replies: Replies,
    polling: Polling,
    chunk: Box<[u8]>,
    arrived: Instant,
    /// Bytes that the system has not accepted yet, from `sent` on.
    outgoing: Vec<u8>,
    sent: usize,
    /// The peer accepts no more bytes. Bytes that it sent before can still be read.
    deaf: bool,
}

// === impl Connection ===

impl Connection {
    pub(crate) fn new(path: &Path, may_poll: bool) -> io::Result<Connection> {
        let socket = Socket::connect(path)?;
        let made = Instant::now();
        Ok(Connection {
            socket,
            made,
            used_ns: 0,
            replies: Replies::default(),
            polling: Polling::new(may_poll),
            chunk: vec![0; CHUNK_BYTES].into(),
            arrived: made,
            outgoing: Vec::new(),
            sent: 0,
            deaf: false,
        })
    }

    /// Whether further requests may use it.
    pub(crate) fn is_usable(&self) -> bool {
        !self.deaf && self.replies.may_follow()
    }

    /// Queues a request and returns its number; `put` writes its frame. The next [`Connection::send`] sends it.
    pub(crate) fn submit(&mut self, put: impl FnOnce(u32, &mut Vec<u8>)) -> u32 {
        let number = self.replies.next_number();
        put(number, &mut self.outgoing);
        number
    }

    /// Sends as much as the system accepts without waiting.
    pub(crate) fn send(&mut self) {
        while self.sent < self.outgoing.len() && !self.deaf {
            match self.socket.send(&self.outgoing[self.sent..]) {
                Ok(sent) => self.sent += sent,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // The peer may have sent a reason before it closed. Reading finds that reason, and then the end.
                Err(error) if broken_by(&error) == Break::End => self.deaf = true,
                Err(_) => {
                    self.socket.shut_down();
                    self.deaf = true;
                }
            }
        }
        self.outgoing.clear();
        self.outgoing.shrink_to(OUTGOING_KEPT_BYTES);
        self.sent = 0;
    }

    pub(crate) fn unsent_bytes(&self) -> usize {
        self.outgoing.len() - self.sent
    }

    /// Receives available bytes without waiting. Returns whether there were any.
    pub(crate) fn receive(&mut self) -> Result<bool, Break> {
        match self.socket.receive(&mut self.chunk) {
            Ok(0) => Err(Break::End),
            Ok(got) => {
                self.replies.buffer().extend_from_slice(&self.chunk[..got]);
                Ok(true)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(broken_by(&error)),
        }
    }

    /// The outcome of request `number`, if its answer was received.
    pub(crate) fn answer_to(
        &mut self,
        number: u32,
        opcode: u8,
    ) -> Result<Option<RequestOutcome>, Break> {
        self.take_frame(|frame| RequestOutcome::for_request(frame, number, opcode))
    }

    /// Takes the next received frame, if it is complete. See [`Replies::take`].
    pub(crate) fn take_frame<T>(
        &mut self,
        read: impl FnOnce(&Frame<'_>) -> Result<T, Break>,
    ) -> Result<Option<T>, Break> {
        let Connection { replies, polling, arrived, .. } = self;
        replies.take(|frame| {
            polling.answered(*arrived, frame.header.flags & flag::AWAKE != 0);
            read(frame)
        })
    }

    /// Sends and receives until `ready` returns a value. `None`: it returned none by `until`, or a signal has ended the
    /// call. `maybe_there`: the answer may have arrived already.
    pub(crate) fn wait<T>(
        &mut self,
        maybe_there: bool,
        until: Instant,
        mut ready: impl FnMut(&mut Connection) -> Result<Option<T>, Break>,
    ) -> Result<Option<T>, Break> {
        if let Some(found) = ready(self)? {
            return Ok(Some(found));
        }
        let mut now = Instant::now();
        if maybe_there && self.receive()? {
            self.arrived = now;
            if let Some(found) = ready(self)? {
                return Ok(Some(found));
            }
        }
        let mut before = self.polling.begin(now);
        while now < until && !has_ended() {
            self.send();
            let tried = self.fill(before, until)?;
            now = Instant::now();
            self.arrived = now;
            if let Some(tried) = tried {
                self.polling.end(before, tried, now);
                if !tried.found {
                    before = Before::NOTHING;
                }
            }
            if let Some(found) = ready(self)? {
                return Ok(Some(found));
            }
            if is_signalled() {
                is_ended();
            }
        }
        Ok(None)
    }

    /// Waits for bytes, or for space to send. Returns how the attempt before sleeping ended, if one was made.
    fn fill(&mut self, before: Before, until: Instant) -> Result<Option<Tried>, Break> {
        let mut tried = None;
        if before != Before::NOTHING {
            let ended = self.try_before(before)?;
            tried = Some(ended);
            // A signal that came during a slow yield won't end the sleep: its handlers run first.
            if ended.found || ended.took >= SLOW && noticed() {
                return Ok(tried);
            }
        }
        // This isn't a blocking receive, because that would also wake up when the daemon reads the request and thereby
        // makes space for writing.
        let wanted = Readiness { readable: true, writable: self.unsent_bytes() > 0 };
        let ready = self.socket.wait(wanted, until).map_err(|error| broken_by(&error))?;
        if ready.readable {
            self.receive()?;
        }
        Ok(tried)
    }

    /// Checks for bytes without sleeping.
    fn try_before(&mut self, before: Before) -> Result<Tried, Break> {
        let began = Instant::now();
        loop {
            if before.yields {
                thread::yield_now();
            } else {
                std::hint::spin_loop();
            }
            let found = self.receive()?;
            let tried = Tried { found, took: began.elapsed() };
            if found || !before.polls || tried.took >= WINDOW {
                return Ok(tried);
            }
        }
    }
}

/// Why a connection is broken, according to the error of a system call.
fn broken_by(error: &io::Error) -> Break {
    match error.raw_os_error() {
        Some(libc::EPIPE) | None => Break::End,
        Some(number) => Break::Os(number),
    }
}
