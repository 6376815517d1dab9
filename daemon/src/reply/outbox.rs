//! One connection's outgoing answers, and the handle that answers a waiting request later.

use std::cell::{Cell, RefCell, RefMut};
use std::rc::Rc;
use std::task::{Poll, Waker};

use leafd_core::lines::Asker;
use leafd_core::mask::Mask;
use leafd_core::shares::{Claimant, ShareSlot, Shares};
use leafd_wire::reply::reply_header;
use leafd_wire::{ErrorReply, Header, IdsReply, InfoReply, Run, Status, flag, opcode};
use tokio::sync::oneshot;

use super::Failure;
use super::backlog::Backlog;
use super::given::{Process, TagMark};
use super::masked::MaskedAnswers;
use super::tally::Tally;
use super::users::Drawn;
use crate::clock::monotonic_us;

/// Answers that the connection has not written yet.
#[derive(Debug)]
pub struct Outbox {
    /// The connection's user.
    pub(crate) claimant: Claimant,
    tally: Rc<Tally>,
    /// Where the user's draws are counted.
    drawn: Rc<Drawn>,
    /// The process at the other end.
    process: Process,
    bytes: RefCell<Backlog>,
    masked: RefCell<MaskedAnswers>,
    /// Requests that wait for their answer, or for the end of an answer that is generated in pieces.
    pub(crate) awaiting: Cell<u32>,
    /// The connection's task. An answer that comes later wakes it.
    waker: RefCell<Option<Waker>>,
    /// Whether answers tell the client that the daemon stays awake.
    pub(crate) awake: Cell<bool>,
    /// An answer said that the connection closes after it.
    pub(crate) closing: Cell<bool>,
    /// Whether the connection has ended, so that answers are dropped.
    closed: Cell<bool>,
}

/// A waiting request. It must be answered exactly once, because dropping it unanswered would leave its client waiting.
#[derive(Debug)]
#[must_use]
pub struct ReplyTo {
    outbox: Rc<Outbox>,
    to: Destination,
    /// Its place among waiting requests, if it has one.
    place: Option<ShareSlot>,
}

/// Who gets the ids that a request waits for, or its failure.
#[derive(Debug)]
enum Destination {
    Client {
        header: Header,
        came_us: u64,
    },
    /// A task that works on the client's request.
    Task(Option<oneshot::Sender<Result<Vec<Run>, Failure>>>),
}

// === impl Outbox ===

impl Outbox {
    /// An empty one, for a connection of this user and process.
    pub fn new(claimant: Claimant, pid: u32, tally: Rc<Tally>) -> Rc<Outbox> {
        Rc::new(Outbox {
            claimant,
            drawn: tally.users.connect(claimant.uid),
            process: Process { uid: claimant.uid, pid },
            tally,
            bytes: RefCell::default(),
            masked: RefCell::default(),
            awaiting: Cell::new(0),
            waker: RefCell::default(),
            awake: Cell::new(false),
            closing: Cell::new(false),
            closed: Cell::new(false),
        })
    }

    /// Records that its process is given these numbers of a tag.
    pub fn given(&self, tag: TagMark, runs: &[Run]) {
        self.tally.given.note(self.process, tag, runs);
    }

    /// Answers with ids.
    pub fn ids(&self, request: &Header, hold_ms: u32, runs: &[Run]) {
        self.tally.drawn(&self.drawn, request.flags, runs);
        let header = reply_header(request, Status::Ok, self.flags());
        IdsReply::put(&header, hold_ms, runs, &mut *self.bytes.borrow_mut());
    }

    /// Answers with the masked ids of these runs, whose numbers must all be within the mask.
    pub fn masked(&self, request: &Header, mask: Rc<Mask>, runs: &[Run]) {
        self.tally.drawn(&self.drawn, request.flags, runs);
        // It still counts as waiting, so that a peer that doesn't read can have only a limited number of them.
        self.awaiting.set(self.awaiting.get() + 1);
        let header = reply_header(request, Status::Ok, self.flags());
        self.masked.borrow_mut().push(header, mask, runs);
    }

    /// Answers with a body made elsewhere.
    pub fn body(&self, request: &Header, body: &[u8]) {
        let header = reply_header(request, Status::Ok, self.flags());
        header.put_frame(body, &mut *self.bytes.borrow_mut());
    }

    /// Answers with issued numbers of a series; the body has their texts.
    pub fn numbers(&self, request: &Header, body: &[u8], runs: &[Run]) {
        self.tally.drawn(&self.drawn, request.flags, runs);
        self.body(request, body);
    }

    /// Answers an INFO request.
    pub fn info(&self, request: &Header, reply: &InfoReply) {
        let header = reply_header(request, Status::Ok, self.flags());
        reply.put(&header, &mut *self.bytes.borrow_mut());
    }

    /// Answers that the request failed.
    pub fn failure(&self, request: &Header, failure: &Failure) {
        self.tally.refused(failure.status);
        if failure.status.closes() {
            self.closing.set(true);
        }
        let header = reply_header(request, failure.status, self.flags());
        let reply =
            ErrorReply { retry_after_ms: failure.retry_after_ms, message: &failure.message };
        reply.put(&header, &mut *self.bytes.borrow_mut());
    }

    /// A handle to answer a request later.
    pub fn later(self: &Rc<Self>, request: Header) -> ReplyTo {
        self.awaiting.set(self.awaiting.get() + 1);
        let to = Destination::Client { header: request, came_us: monotonic_us() };
        ReplyTo { outbox: Rc::clone(self), to, place: None }
    }

    /// A handle that passes ids to a task, which answers the client.
    pub fn for_task(self: &Rc<Self>, task: oneshot::Sender<Result<Vec<Run>, Failure>>) -> ReplyTo {
        ReplyTo { outbox: Rc::clone(self), to: Destination::Task(Some(task)), place: None }
    }

    /// Whether [`Outbox::bytes`] would take some time: ids have to be masked first.
    pub fn has_to_mask(&self) -> bool {
        let masked = self.masked.borrow();
        masked.wants_piece() && (masked.in_the_middle() || self.bytes.borrow().is_empty())
    }

    /// The bytes to write next.
    pub fn bytes(&self) -> RefMut<'_, Backlog> {
        let mut masked = self.masked.borrow_mut();
        // One answer ends before another one begins.
        if !masked.in_the_middle() && (masked.is_empty() || !self.bytes.borrow().is_empty()) {
            return self.bytes.borrow_mut();
        }
        if masked.wants_piece() {
            let made = masked.make_piece();
            self.awaiting.set(self.awaiting.get() - made);
        }
        RefMut::map(masked, MaskedAnswers::piece_mut)
    }

    /// How many bytes are waiting.
    pub fn len(&self) -> usize {
        self.bytes.borrow().rest().len() + self.masked.borrow().piece().rest().len()
    }

    /// Whether nothing is waiting to be written.
    pub fn is_empty(&self) -> bool {
        self.bytes.borrow().is_empty() && self.masked.borrow().is_empty()
    }

    /// The memory of the bytes that are waiting.
    pub fn memory_bytes(&self) -> usize {
        self.bytes.borrow().used_bytes() + self.masked.borrow().piece().used_bytes()
    }

    /// Sets the task that a later answer wakes.
    pub fn wake_on_answer(&self, waker: &Waker) {
        let mut slot = self.waker.borrow_mut();
        if !slot.as_ref().is_some_and(|known| known.will_wake(waker)) {
            *slot = Some(waker.clone());
        }
    }

    /// Waits for an answer.
    pub async fn answered(&self) {
        std::future::poll_fn(|cx| {
            self.wake_on_answer(cx.waker());
            if self.is_empty() { Poll::Pending } else { Poll::Ready(()) }
        })
        .await;
    }

    /// The connection has ended.
    pub fn close(&self) {
        self.closed.set(true);
        *self.bytes.borrow_mut() = Backlog::default();
        *self.masked.borrow_mut() = MaskedAnswers::default();
    }

    fn flags(&self) -> u8 {
        if self.awake.get() { flag::AWAKE } else { 0 }
    }
}

// === impl ReplyTo ===

impl ReplyTo {
    /// See [`Outbox::given`].
    pub fn given(&self, tag: TagMark, runs: &[Run]) {
        if !self.gone() {
            self.outbox.given(tag, runs);
        }
    }

    /// Answers with ids, or passes them to the task.
    pub fn ids(mut self, hold_ms: u32, runs: &[Run]) {
        if let Destination::Task(task) = &mut self.to {
            task.take().map(|task| task.send(Ok(runs.to_vec())));
        }
        self.answer(|outbox, header| outbox.ids(header, hold_ms, runs));
    }

    /// See [`Outbox::masked`].
    pub fn masked(self, mask: Rc<Mask>, runs: &[Run]) {
        self.answer(|outbox, header| outbox.masked(header, mask, runs));
    }

    /// Answers with a body made elsewhere.
    pub fn body(self, body: &[u8]) {
        self.answer(|outbox, header| outbox.body(header, body));
    }

    /// See [`Outbox::numbers`].
    pub fn numbers(self, body: &[u8], runs: &[Run]) {
        self.answer(|outbox, header| outbox.numbers(header, body, runs));
    }

    /// Answers that the request failed, or passes that to the task.
    pub fn failure(mut self, failure: &Failure) {
        if let Destination::Task(task) = &mut self.to {
            task.take().map(|task| task.send(Err(failure.clone())));
        }
        self.answer(|outbox, header| outbox.failure(header, failure));
    }

    /// The request's user and connection.
    pub fn asker(&self) -> Asker {
        // No other connection has this address while the request waits.
        let connection = Rc::as_ptr(&self.outbox).addr() as u64;
        Asker { claimant: self.outbox.claimant, connection }
    }

    /// Takes one of the places that waiting requests share, until the answer. Returns false if none is left for the
    /// user.
    pub fn take_place(&mut self, places: &Rc<RefCell<Shares>>) -> bool {
        debug_assert!(self.place.is_none(), "a request waits in one place");
        self.place = ShareSlot::take(places, self.outbox.claimant);
        self.place.is_some()
    }

    /// Whether the client has disconnected, so that no ids need to be issued for it.
    pub fn gone(&self) -> bool {
        self.outbox.closed.get()
    }

    fn answer(self, write: impl FnOnce(&Outbox, &Header)) {
        if let Destination::Client { header, came_us } = &self.to
            && !self.gone()
        {
            if matches!(header.opcode, opcode::IDS | opcode::SERIES_NEXT) {
                self.outbox.tally.waited(*came_us);
            }
            write(&self.outbox, header);
        }
    }
}

impl Drop for ReplyTo {
    fn drop(&mut self) {
        // A task has its own handle for the client.
        if let Destination::Client { .. } = self.to {
            self.outbox.awaiting.set(self.outbox.awaiting.get() - 1);
            if let Some(waker) = self.outbox.waker.borrow().as_ref() {
                waker.wake_by_ref();
            }
        }
    }
}
