//! One connection to the daemon: bytes to it, frames from it, and how its user waits for them. One thread at a time
//! uses it.

use std::io;
use std::path::Path;
use std::thread;
use std::time::Instant;

use leafd_wire::frame::{Frame, frame_end};
use leafd_wire::{REPLY_LENGTH_MAX, Status, flag};

use crate::error::Break;
use crate::interruption::{has_ended, is_ended, is_signalled, noticed};
use crate::polling::{Before, Polling, SLOW, Tried, WINDOW};
use crate::replies::{Asked, RequestOutcome};
use crate::socket::{Readiness, Socket};

/// Room for received bytes at first. A longer frame gets more.
const BUFFER_BYTES: usize = 4 * 1024;

/// The capacity kept for outgoing bytes; more is given back.
const OUTGOING_KEPT_BYTES: usize = 64 * 1024;

/// With this many answers overdue, the connection counts as dead.
const OVERDUE_MAX: u32 = 256;

pub(crate) struct Connection {
    socket: Socket,
    pub(crate) made: Instant,
    /// When it was used last, by the coarse clock.
    pub(crate) used_ns: u64,
    /// Whether it has answered anything.
    pub(crate) served: bool,
    polling: Polling,
    /// Bytes that were received but not consumed: from `start` to `end`.
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    arrived: Instant,
    /// Bytes that the system has not taken, from `sent` on.
    outgoing: Vec<u8>,
    sent: usize,
    /// The peer reads no more bytes. What it sent before may still be read.
    deaf: bool,
    /// The daemon closes it after its last answer.
    closing: bool,
    last_number: u32,
    /// Requests that were given up and have no answer yet.
    overdue: u32,
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
            served: false,
            polling: Polling::new(may_poll),
            buffer: vec![0; BUFFER_BYTES],
            start: 0,
            end: 0,
            arrived: made,
            outgoing: Vec::new(),
            sent: 0,
            deaf: false,
            closing: false,
            last_number: 0,
            overdue: 0,
        })
    }

    pub(crate) fn socket(&self) -> &Socket {
        &self.socket
    }

    /// Whether further requests may use it.
    pub(crate) fn is_usable(&self) -> bool {
        // Bytes that nobody has asked for are no good sign.
        let is_in_step = self.start == self.end || self.overdue > 0;
        !self.closing && !self.deaf && is_in_step && self.overdue < OVERDUE_MAX
    }

    /// Gives up a request: its answer, should it come, is skipped.
    pub(crate) fn give_up_one(&mut self) {
        self.overdue += 1;
    }

    /// Queues a request and returns its number: `put` writes its frame. It goes out by the next [`Connection::send`].
    pub(crate) fn submit(&mut self, put: impl FnOnce(u32, &mut Vec<u8>)) -> u32 {
        // Never 0: with request id 0 a daemon addresses the connection as a whole.
        self.last_number = self.last_number.checked_add(1).unwrap_or(1);
        put(self.last_number, &mut self.outgoing);
        self.last_number
    }

    /// Sends as much as the system takes without waiting.
    pub(crate) fn send(&mut self) {
        while self.sent < self.outgoing.len() && !self.deaf {
            match self.socket.send(&self.outgoing[self.sent..]) {
                Ok(sent) => self.sent += sent,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // The peer may have sent a reason before it closed: reading finds that, then the end.
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

    /// Receives what is there, without waiting. Returns whether that was anything.
    pub(crate) fn receive(&mut self) -> Result<bool, Break> {
        self.make_room()?;
        match self.socket.receive(&mut self.buffer[self.end..]) {
            Ok(0) => Err(Break::End),
            Ok(got) => {
                self.end += got;
                Ok(true)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(broken_by(&error)),
        }
    }

    /// The outcome of request `number`, if its answer was received. Answers to requests that were given up are skipped.
    pub(crate) fn answer_to(
        &mut self,
        number: u32,
        asked: Asked,
    ) -> Result<Option<RequestOutcome>, Break> {
        loop {
            let taken = self.take_frame(|frame| {
                if frame.header.request_id == number {
                    RequestOutcome::of(frame, asked).map(Some)
                } else if frame.header.request_id == 0 {
                    RequestOutcome::failed(frame).map(Some)
                } else {
                    Ok(None)
                }
            })?;
            match taken {
                None => return Ok(None),
                Some(Some(outcome)) => return Ok(Some(outcome)),
                Some(None) => self.skip()?,
            }
        }
    }

    /// Skips an answer, which must be to a request that was given up.
    pub(crate) fn skip(&mut self) -> Result<(), Break> {
        let left = self.overdue.checked_sub(1);
        self.overdue = left.ok_or(Break::Protocol("a reply has the id of no request"))?;
        Ok(())
    }

    /// Takes the next received frame, if it is complete. One with the request id 0 is meant for the whole connection.
    pub(crate) fn take_frame<T>(
        &mut self,
        read: impl FnOnce(&Frame<'_>) -> Result<T, Break>,
    ) -> Result<Option<T>, Break> {
        let first = Frame::first(&self.buffer[self.start..self.end], REPLY_LENGTH_MAX)
            .map_err(|error| Break::FrameLength(error.length))?;
        let Some((frame, length)) = first else { return Ok(None) };
        let header = frame.header;
        let closes = Status::from_number(header.status).is_some_and(Status::closes);
        if header.request_id == 0 && !closes {
            return Err(Break::Protocol("a reply has the id of no request"));
        }
        let read = read(&frame);
        self.polling.answered(self.arrived, header.flags & flag::AWAKE != 0);
        self.served |= header.status == Status::Ok as u16;
        self.closing |= closes;
        self.start += length;
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
        read.map(Some)
    }

    /// Waits until `ready` returns something, and sends and receives meanwhile. `None`: not by `until`, or a signal
    /// has ended the call. `maybe_there`: the answer may have arrived already.
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

    /// Waits for bytes, or for room to send. Returns how the attempt before sleeping ended, if one was made.
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
        // Not by a blocking receive: that would wake once more when the daemon takes the request out of the socket,
        // which makes room for writing.
        let wanted = Readiness { readable: true, writable: self.unsent_bytes() > 0 };
        let ready = self.socket.wait(wanted, until).map_err(|error| broken_by(&error))?;
        if ready.readable {
            self.receive()?;
        }
        Ok(tried)
    }

    /// Looks for bytes without sleeping.
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

    /// Makes room for the rest of the current frame, whose length has been checked.
    fn make_room(&mut self) -> Result<(), Break> {
        let begun = &self.buffer[self.start..self.end];
        let needed = match frame_end(begun, REPLY_LENGTH_MAX) {
            Ok(end) => end.unwrap_or(0).max(begun.len() + 1).max(BUFFER_BYTES / 2),
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
