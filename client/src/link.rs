//! The connection, guarded by its lock: bytes to send, requests in flight, sleeping threads.

use std::io;
use std::sync::{Arc, Condvar};
use std::time::{Duration, Instant};

use leafd_wire::frame::Frame;
use leafd_wire::{Status, flag};

use crate::error::{Break, Error, Result};
use crate::polling::Polling;
use crate::reader::{Reader, broken_by};
use crate::requests::{Asked, For, Group, IN_FLIGHT_MAX, Requests, Ticket};
use crate::socket::Socket;
use crate::state::Awaited;

/// The first pause before another attempt to connect, and the longest.
const BACK_OFF_MIN: Duration = Duration::from_millis(2);
const BACK_OFF_MAX: Duration = Duration::from_millis(100);

/// The capacity kept for outgoing bytes; more is given back.
const OUTGOING_KEPT_BYTES: usize = 256 * 1024;

/// Everything about a connection except reading.
pub(crate) struct Link {
    socket: Option<Arc<Socket>>,
    /// When the present connection was made.
    connected_at: Option<Instant>,
    /// The reading thread takes it; also `None` without a connection.
    pub(crate) reader: Option<Reader>,
    pub(crate) requests: Requests,
    pub(crate) polling: Polling,
    /// Threads that wait while another one reads.
    sleeping: Vec<Sleeper>,
    /// How many of them are on their way out: one that finds no other thread reading takes care of it.
    roused: usize,
    /// Their conditions, to be notified once the lock is free: a thread that is woken earlier only waits for it.
    to_notify: Vec<Arc<Condvar>>,
    spare_beds: Vec<Arc<Condvar>>,
    /// Bytes that the system has not taken, from `sent_bytes` on.
    outgoing: Vec<u8>,
    sent_bytes: usize,
    /// The peer reads no more bytes. What it sent before may still be read.
    deaf: bool,
    /// Whether this connection has answered anything.
    served: bool,
    next_try: Option<Instant>,
    back_off: Duration,
    polling_allowed: bool,
}

/// How many threads are woken without the lock at once.
const ROUSED_MAX: usize = 16;

/// Conditions to notify. Not on the heap: in a child that another thread forks meanwhile, they would be lost.
pub(crate) type Roused = [Option<Arc<Condvar>>; ROUSED_MAX];

/// A thread that waits, with a condition of its own.
struct Sleeper {
    awaited: Awaited,
    bed: Arc<Condvar>,
    roused: bool,
}

// === impl Link ===

impl Link {
    pub(crate) fn new(polling_allowed: bool) -> Link {
        Link {
            socket: None,
            connected_at: None,
            reader: None,
            requests: Requests::default(),
            polling: Polling::new(polling_allowed),
            sleeping: Vec::new(),
            roused: 0,
            to_notify: Vec::new(),
            spare_beds: Vec::new(),
            outgoing: Vec::new(),
            sent_bytes: 0,
            deaf: false,
            served: false,
            next_try: None,
            back_off: BACK_OFF_MIN,
            polling_allowed,
        }
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.socket.is_some()
    }

    /// When the connection was made, if there is one.
    pub(crate) fn connected_at(&self) -> Option<Instant> {
        self.connected_at.filter(|_| self.is_connected())
    }

    pub(crate) fn may_try(&self, now: Instant) -> bool {
        self.next_try.is_none_or(|at| now >= at)
    }

    pub(crate) fn next_try(&self, now: Instant) -> Instant {
        self.next_try.unwrap_or(now)
    }

    /// Notes a failed attempt to connect. Pauses double. Part of each comes from the clock's last
    /// digits, so that a host's processes don't all retry at once.
    pub(crate) fn refused(&mut self, now: Instant) {
        let jitter_percent = crate::clock::exact_ns() / 64 % 50;
        self.next_try = Some(now + self.back_off * (75 + jitter_percent as u32) / 100);
        self.back_off = (self.back_off * 2).min(BACK_OFF_MAX);
    }

    pub(crate) fn adopt(&mut self, socket: Socket, at: Instant) {
        let socket = Arc::new(socket);
        self.reader = Some(Reader::new(Arc::clone(&socket)));
        self.socket = Some(socket);
        self.connected_at = Some(at);
        self.polling = Polling::new(self.polling_allowed);
        self.outgoing.clear();
        (self.sent_bytes, self.deaf, self.served) = (0, false, false);
    }

    /// Ends the connection and every request on it.
    pub(crate) fn break_off(&mut self, why: Break) {
        let Some(socket) = self.socket.take() else { return };
        socket.shut_down();
        self.reader = None;
        self.outgoing.clear();
        self.sent_bytes = 0;
        self.requests.fail_all(why, self.served);
        if !self.served {
            // A connection that never answered counts as a failed attempt.
            self.refused(Instant::now());
        }
        for place in 0..self.sleeping.len() {
            self.rouse(place);
        }
    }

    /// Queues a request: `put` writes its frame. It goes out by the next [`Link::send`].
    pub(crate) fn submit(
        &mut self,
        asked: Asked,
        group: Option<(Group, u64)>,
        put: impl FnOnce(u32, &mut Vec<u8>),
    ) -> Result<Ticket> {
        let ticket = self.requests.begin(asked, group).ok_or_else(|| {
            Error::invalid(format!(
                "at most {IN_FLIGHT_MAX} requests may await an answer; read some answers first"
            ))
        })?;
        put(ticket.request_id(), &mut self.outgoing);
        Ok(ticket)
    }

    /// Sends as much as the system takes without waiting.
    pub(crate) fn send(&mut self) {
        let Some(socket) = &self.socket else { return };
        while self.sent_bytes < self.outgoing.len() && !self.deaf {
            match socket.send(&self.outgoing[self.sent_bytes..]) {
                Ok(sent) => self.sent_bytes += sent,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // The peer may have sent a reason before it closed: reading finds that, then the
                // end.
                Err(error) if broken_by(&error) == Break::End => self.deaf = true,
                Err(_) => {
                    socket.shut_down();
                    self.deaf = true;
                }
            }
        }
        self.outgoing.clear();
        self.outgoing.shrink_to(OUTGOING_KEPT_BYTES);
        self.sent_bytes = 0;
    }

    pub(crate) fn is_sent(&self) -> bool {
        self.sent_bytes == self.outgoing.len()
    }

    pub(crate) fn unsent_bytes(&self) -> usize {
        self.outgoing.len() - self.sent_bytes
    }

    pub(crate) fn unsent_socket(&self) -> Option<Arc<Socket>> {
        if self.is_sent() { None } else { self.socket.clone() }
    }

    /// Takes the reader back. Returns `false` if its connection has been given up meanwhile.
    pub(crate) fn put_back(&mut self, reader: Reader) -> bool {
        let current = self.socket.as_ref().is_some_and(|socket| reader.reads(socket));
        if current {
            self.reader = Some(reader);
        }
        current
    }

    /// If no thread reads or is about to, has one of the waiting threads woken to read.
    pub(crate) fn pass_reading_on(&mut self) {
        if self.reader.is_some() && self.roused == 0 && !self.sleeping.is_empty() {
            self.rouse(0);
        }
    }

    /// A bed for a thread that waits for this, until [`Link::get_up`].
    pub(crate) fn lie_down(&mut self, awaited: Awaited) -> Arc<Condvar> {
        let bed = self.spare_beds.pop().unwrap_or_default();
        self.sleeping.push(Sleeper { awaited, bed: Arc::clone(&bed), roused: false });
        bed
    }

    /// The thread in this bed is awake.
    pub(crate) fn get_up(&mut self, bed: Arc<Condvar>) {
        let place = self.sleeping.iter().position(|sleeper| Arc::ptr_eq(&sleeper.bed, &bed));
        if let Some(place) = place {
            self.roused -= usize::from(self.sleeping.remove(place).roused);
        }
        self.spare_beds.push(bed);
    }

    pub(crate) fn nobody_to_notify(&self) -> bool {
        self.to_notify.is_empty()
    }

    /// The conditions to notify without the lock. Those that don't fit are notified at once.
    pub(crate) fn take_roused(&mut self) -> Roused {
        let mut roused = Roused::default();
        let fit = self.to_notify.len().min(ROUSED_MAX);
        self.to_notify.drain(fit..).for_each(|bed| bed.notify_one());
        for (place, bed) in roused.iter_mut().zip(self.to_notify.drain(..)) {
            *place = Some(bed);
        }
        roused
    }

    fn rouse(&mut self, place: usize) {
        let sleeper = &mut self.sleeping[place];
        if !sleeper.roused {
            sleeper.roused = true;
            self.roused += 1;
            self.to_notify.push(Arc::clone(&sleeper.bed));
        }
    }

    /// Hands each received frame to the thread that waits for it.
    pub(crate) fn dispatch(&mut self, now: Instant) -> std::result::Result<(), Break> {
        let Some(mut reader) = self.reader.take() else { return Ok(()) };
        let outcome = loop {
            match reader.frame() {
                Ok(Some((frame, length))) => {
                    let outcome = self.dispatch_frame(&frame, now);
                    reader.consume(length);
                    if let Err(why) = outcome {
                        break Err(why);
                    }
                }
                Ok(None) => break Ok(()),
                Err(why) => break Err(why),
            }
        };
        self.reader = Some(reader);
        outcome
    }

    fn dispatch_frame(
        &mut self,
        frame: &Frame<'_>,
        now: Instant,
    ) -> std::result::Result<(), Break> {
        let closes = Status::from_number(frame.header.status).is_some_and(Status::closes);
        if closes && frame.header.request_id == 0 {
            // Meant for the connection, not for one request.
            self.requests.refuse_all(frame)?;
            return Err(Break::End);
        }
        self.polling.answered(now, frame.header.flags & flag::AWAKE != 0);
        if frame.header.status == Status::Ok as u16 {
            self.served = true;
            self.back_off = BACK_OFF_MIN;
        }
        if let Some(whose) = self.requests.complete(frame)? {
            self.wake(whose);
        }
        if closes { Err(Break::End) } else { Ok(()) }
    }

    fn wake(&mut self, whose: For) {
        let awaited = Awaited::Answer(whose);
        if let Some(place) = self.sleeping.iter().position(|sleeper| sleeper.awaited == awaited) {
            self.rouse(place);
        }
    }
}
