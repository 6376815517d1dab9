//! One client's connection: bytes in, requests to the dispatcher, answers out.
//!
//! Memory stays bounded whatever the peer does. Reading stops while too many requests wait for their answers, or too
//! many answers wait for the peer. A peer that reads nothing for a long time is disconnected. When a peer disconnects,
//! its waiting requests are dropped.

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use leafd_wire::frame::Frame;
use leafd_wire::{FrameError, Header, PIPELINE_MAX, REQUEST_LENGTH_MAX, Status, opcode};
use tokio::sync::watch;
use tracing::debug;

use crate::clock::monotonic_us;
use crate::reply::Failure;
use crate::reply::backlog::{IDLE_BYTES, used_bytes};
use crate::requests::{Dispatcher, Session};
use crate::server::busy_poll::ConnectionPoll;
use crate::server::limits::{Part, WAITING_BYTES};
use crate::server::peer;
use crate::server::stream::Stream;
use crate::server::turns::{TURN_US, Turns};

/// How many bytes of answers may wait for a peer. One more answer may always be added.
const OUTBOX_BYTES_MAX: usize = 256 * 1024;

/// How long a peer may leave answers unread.
const STALL_MAX: Duration = Duration::from_secs(30);

/// How much is read at once.
const READ_BYTES: usize = 64 * 1024;

/// How much is read at once while the user's share of memory is almost exhausted, because requests that can't be
/// answered yet should stay in the sockets.
const READ_BYTES_SPENT: usize = 1024;

/// How many requests for ids are answered before the clock is read, because together they take far less than a turn.
/// Any other request may take long.
const REQUESTS_UNTIMED: u32 = 15;

thread_local! {
    /// The single buffer into which everything is read, and from which requests are answered. A connection keeps only
    /// requests that could not be answered immediately.
    static ARRIVALS: RefCell<Vec<u8>> = RefCell::new(vec![0; READ_BYTES]);
}

/// One client's connection.
pub struct Connection {
    stream: Stream,
    session: Session,
    dispatcher: Rc<Dispatcher>,
    pace: ConnectionPoll,
    /// Its part of the shared limits.
    part: Part,
    turns: Rc<Turns>,
    /// When the current turn ends.
    turn_ends_us: u64,
    /// When the clock was read last: at the beginning of the turn, when requests had been answered, or before ids were
    /// masked.
    looked_us: u64,
    /// Bytes that were read but not answered yet: an incomplete frame, or requests that arrived when the turn ended or
    /// the connection was full.
    held: Vec<u8>,
    /// Bytes that the peer's socket has taken.
    written_bytes: u64,
    /// The edition of the access rules for which the peer's groups are known.
    groups_known: Option<u64>,
    /// Becomes false when no more requests come in, because the peer has closed its side or sent garbage, or the daemon
    /// stops.
    reading: bool,
}

/// How a turn ended.
enum Turn {
    /// Everything is answered, and no more requests will come.
    Done,
    /// Others get a turn, then this connection continues.
    Again,
}

impl Connection {
    /// A newly accepted connection.
    pub fn new(
        stream: Stream,
        session: Session,
        dispatcher: Rc<Dispatcher>,
        pace: ConnectionPoll,
        part: Part,
        turns: Rc<Turns>,
    ) -> Self {
        Connection {
            stream,
            session,
            dispatcher,
            pace,
            part,
            turns,
            turn_ends_us: 0,
            looked_us: 0,
            held: Vec::new(),
            written_bytes: 0,
            groups_known: None,
            reading: true,
        }
    }

    /// Serves the client until it disconnects, or until `stopping` turns true and its requests are answered.
    pub async fn serve(mut self, mut stopping: watch::Receiver<bool>) {
        let mut rules = self.dispatcher.watch_access();
        let outcome = loop {
            tokio::select! {
                biased;
                // This precedes an answer that the new rules forbid. The client reconnects and learns why. If nothing
                // waits, the peer's groups are read with its next request, in its user's turn.
                Ok(()) = rules.changed() => {
                    if self.session.outbox.awaiting.get() > 0 {
                        self.know_groups();
                    }
                    if self.session.waits_in_vain(&rules.borrow_and_update()) {
                        break Err(io::Error::other("the right to a tag that it waits for was revoked"));
                    }
                }
                turn = self.turn() => match turn {
                    Ok(Turn::Done) => break Ok(()),
                    Ok(Turn::Again) => tokio::task::yield_now().await,
                    Err(error) => break Err(error),
                },
                // This runs only once, because the connection then no longer reads and the branch is off.
                _ = stopping.wait_for(|stopping| *stopping), if self.reading => self.stop_reading(),
            }
        };
        if let Err(error) = outcome {
            debug!(uid = self.session.peer.uid, "a connection ended: {error}");
        }
        self.session.outbox.close();
        self.dispatcher.left(&self.session);
        self.held = Vec::new();
        self.part.set_bytes(0);
        // It keeps its place as long as the kernel buffers its answers.
        tokio::select! {
            biased;
            _ = stopping.wait_for(|stopping| *stopping) => {}
            () = self.stream.until_read() => {}
        }
    }

    /// Reads, answers and writes until there is nothing left to do.
    async fn turn(&mut self) -> io::Result<Turn> {
        let mut stall = pin!(tokio::time::sleep(STALL_MAX));
        let mut stalled_at = None;
        poll_fn(|cx| {
            let outcome = self.poll_in_turn(cx);
            if outcome.is_ready() || self.session.outbox.is_empty() {
                stalled_at = None;
                return outcome;
            }
            if stalled_at != Some(self.written_bytes) {
                // A peer that reads some answers is slow, but not stalled.
                stalled_at = Some(self.written_bytes);
                stall.as_mut().reset(tokio::time::Instant::now() + STALL_MAX);
            }
            ready!(stall.as_mut().poll(cx));
            Poll::Ready(Err(io::Error::new(
                io::ErrorKind::TimedOut,
                format!("the peer read no answer for {} s", STALL_MAX.as_secs()),
            )))
        })
        .await
    }

    /// Does the pending work when it is this user's turn.
    fn poll_in_turn(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Turn>> {
        let began_us = monotonic_us();
        if !self.turns.enter(self.part.claimant.uid, began_us, cx.waker()) {
            return Poll::Pending;
        }
        (self.turn_ends_us, self.looked_us) = (began_us + TURN_US, began_us);
        let outcome = self.poll(cx);
        self.part.set_bytes(self.bytes());
        self.turns.leave(self.part.claimant.uid, monotonic_us().saturating_sub(began_us));
        outcome
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Turn>> {
        self.session.outbox.wake_on_answer(cx.waker());
        loop {
            let flushed = self.poll_flush(cx)?.is_ready();
            if !self.reading && flushed && self.session.outbox.awaiting.get() == 0 {
                return Poll::Ready(Ok(Turn::Done));
            }
            if self.looked_us >= self.turn_ends_us {
                return Poll::Ready(Ok(Turn::Again));
            }
            if !self.reading || self.full(self.part.admits(0)) {
                // An answer, or space in the peer's buffer, wakes this task. A peer that has disconnected needs no
                // answer.
                ready!(self.stream.poll_gone(cx))?;
                return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
            }
            ready!(self.poll_requests(cx))?;
        }
    }

    /// Whether no further request is answered for now. `admitted`: its user has memory left.
    fn full(&self, admitted: bool) -> bool {
        let (awaiting, unread) = (self.session.outbox.awaiting.get(), self.session.outbox.len());
        awaiting >= PIPELINE_MAX
            || unread >= OUTBOX_BYTES_MAX
            || (awaiting > 0 || unread > 0) && !admitted
    }

    /// How much memory this connection uses.
    fn bytes(&self) -> u64 {
        let bytes =
            self.session.outbox.memory_bytes() + used_bytes(self.held.capacity(), self.held.len());
        let waiting = u64::from(self.session.outbox.awaiting.get()) * WAITING_BYTES;
        waiting.saturating_add(bytes as u64)
    }

    /// Writes pending answers until the turn ends, because masking ids takes time.
    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.session.outbox.is_empty() {
            if self.session.outbox.has_to_mask() {
                self.looked_us = monotonic_us();
                if self.looked_us >= self.turn_ends_us {
                    return Poll::Pending;
                }
            }
            let mut bytes = self.session.outbox.bytes();
            match ready!(self.stream.poll_write(cx, bytes.rest())?) {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                written => {
                    self.written_bytes += written as u64;
                    bytes.wrote(written);
                }
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Reads once and answers the requests that are complete.
    fn poll_requests(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.complete() {
            // Requests that were read while the connection was full, or at the end of its turn.
            self.arrived(&[]);
            return Poll::Ready(Ok(()));
        }
        let spent = !self.part.admits(READ_BYTES as u64);
        ARRIVALS.with_borrow_mut(|arrivals| {
            let most = if spent { READ_BYTES_SPENT } else { READ_BYTES };
            let count = ready!(self.stream.poll_read(cx, &mut arrivals[..most]))?;
            if count == 0 {
                // Half-closed: earlier requests are still answered. An incomplete frame never completes.
                self.reading = false;
                return Poll::Ready(Ok(()));
            }
            self.arrived(&arrivals[..count]);
            Poll::Ready(Ok(()))
        })
    }

    /// Answers the requests that have arrived, after those that are held already, and keeps the rest.
    fn arrived(&mut self, bytes: &[u8]) {
        if self.held.is_empty() {
            let answered = self.answer(bytes);
            self.held = bytes[answered..].to_vec();
        } else {
            let mut held = std::mem::take(&mut self.held);
            held.extend_from_slice(bytes);
            let answered = self.answer(&held);
            held.drain(..answered);
            held.shrink_to_fit();
            self.held = held;
        }
        if self.held.len() > IDLE_BYTES && !self.complete() && !self.part.admits(0) {
            self.refuse_partial();
        }
    }

    /// Whether a complete or an invalid request is held already.
    fn complete(&self) -> bool {
        !matches!(Frame::first(&self.held, REQUEST_LENGTH_MAX), Ok(None))
    }

    /// Reads which of its groups the access rules name, unless they are known for the current rules.
    fn know_groups(&mut self) {
        let edition = self.dispatcher.access_edition.get();
        if self.groups_known != Some(edition) {
            self.groups_known = Some(edition);
            let access = self.dispatcher.access();
            match peer::of(&self.stream, access.gids(), &access) {
                Ok(peer) => self.session.peer = peer,
                Err(error) => {
                    self.session.peer.gids.clear();
                    debug!(uid = self.session.peer.uid, "cannot read a peer's groups: {error}");
                }
            }
        }
    }

    /// Answers these requests until the turn ends. Returns how many bytes were processed.
    fn answer(&mut self, bytes: &[u8]) -> usize {
        self.know_groups();
        self.pace.requested(self.looked_us);
        self.session.outbox.awake.set(self.pace.polling);
        // The memory of connections is counted at the end of their turns, so this doesn't change until then.
        let admitted = self.part.admits(0);
        let (mut untimed, mut answered) = (0, 0);
        while !self.full(admitted) && !self.session.outbox.closing.get() {
            if untimed >= REQUESTS_UNTIMED {
                if monotonic_us() >= self.turn_ends_us {
                    break;
                }
                self.session.time_passes();
                untimed = 0;
            }
            match Frame::first(&bytes[answered..], REQUEST_LENGTH_MAX) {
                Ok(Some((frame, _)))
                    if opcode::is_administrative(frame.header.opcode) && self.has_gone() =>
                {
                    // Its client has disconnected, perhaps long ago, because the socket's backlog outlives a stopped
                    // daemon.
                    self.reading = false;
                    return bytes.len();
                }
                Ok(Some((frame, length))) => {
                    self.dispatcher.request(&self.session, &frame.header, frame.body);
                    answered += length;
                    untimed += match frame.header.opcode {
                        opcode::IDS => 1,
                        _ => REQUESTS_UNTIMED,
                    };
                }
                Ok(None) => break,
                Err(error) => {
                    self.refuse_stream(&error);
                    break;
                }
            }
        }
        if self.session.outbox.closing.get() {
            answered = bytes.len();
            self.reading = false;
        }
        self.session.time_passes();
        self.looked_us = monotonic_us();
        self.pace.answered(self.looked_us);
        answered
    }

    /// Whether the client accepts no more answers.
    fn has_gone(&self) -> bool {
        self.stream.is_gone().unwrap_or(true)
    }

    /// The stream is malformed: report that, and read no more.
    fn refuse_stream(&self, error: &FrameError) {
        let failure = Failure::new(Status::FrameLength, format!("{error}; closing the connection"));
        self.session.outbox.failure(&Header::default(), &failure);
    }

    /// The user's connections use so much memory that a long request can't be read.
    fn refuse_partial(&mut self) {
        let uid = self.part.claimant.uid;
        let failure = Failure::new(
            Status::ConnectionLimit,
            format!(
                "the connections of uid {uid} have exhausted one user's share of peer_memory_mib: close some, or read \
                 the pending replies; this connection is closed"
            ),
        );
        self.session.outbox.failure(&Header::default(), &failure);
        self.held = Vec::new();
        self.reading = false;
    }

    /// The daemon stops. Requests that have arrived are still answered (with a refusal), later ones are not.
    fn stop_reading(&mut self) {
        ARRIVALS.with_borrow_mut(|arrivals| {
            // Requests that can no longer be read need no answer.
            let count = self.stream.read_now(arrivals).unwrap_or(0);
            self.turn_ends_us = u64::MAX;
            self.arrived(&arrivals[..count]);
        });
        self.reading = false;
    }
}
