//! A connection to the daemon's own socket, so that requests over HTTP have the same limits and queues as those of
//! local processes. They come from the daemon's own user, whom no access rule excludes. So HTTP callers must be
//! checked before.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::path::PathBuf;
use std::rc::Rc;

use bytes::{Buf, Bytes, BytesMut};
use leafd_wire::frame::Frame;
use leafd_wire::{ErrorReply, REPLY_LENGTH_MAX, Status};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::sync::{mpsc, oneshot};

/// Asks the daemon over its socket.
pub(super) struct Link {
    socket: PathBuf,
    open: RefCell<Option<Rc<Open>>>,
}

/// An open connection.
struct Open {
    requests: mpsc::UnboundedSender<Vec<u8>>,
    waiting: RefCell<HashMap<u32, oneshot::Sender<Answer>>>,
    next: Cell<u32>,
}

/// Why a request failed.
#[derive(Clone, Debug)]
pub(super) struct Refused {
    /// The daemon's status; [`Status::ShuttingDown`] also if the daemon doesn't answer any more.
    pub status: Status,
    pub message: String,
}

type Answer = Result<Bytes, Refused>;

impl Link {
    pub(super) fn new(socket: PathBuf) -> Link {
        Link { socket, open: RefCell::default() }
    }

    /// Sends a request, and waits for the body of the answer. `put` writes the request's frame under the given id.
    pub(super) async fn ask(&self, put: impl FnOnce(u32, &mut Vec<u8>)) -> Answer {
        let open = self.open().await?;
        let request_id = open.next.get();
        open.next.set(request_id.wrapping_add(1));
        let mut frame = Vec::new();
        put(request_id, &mut frame);
        let (reply, answer) = oneshot::channel();
        open.waiting.borrow_mut().insert(request_id, reply);
        if open.requests.send(frame).is_err() {
            return Err(gone("the connection broke"));
        }
        answer.await.unwrap_or_else(|_| Err(gone("the connection broke")))
    }

    async fn open(&self) -> Result<Rc<Open>, Refused> {
        if let Some(open) = &*self.open.borrow()
            && !open.requests.is_closed()
        {
            return Ok(Rc::clone(open));
        }
        let stream = UnixStream::connect(&self.socket).await;
        let stream =
            stream.map_err(|error| gone(&format!("{}: {error}", self.socket.display())))?;
        let (requests, queue) = mpsc::unbounded_channel();
        let open = Rc::new(Open { requests, waiting: RefCell::default(), next: Cell::new(1) });
        *self.open.borrow_mut() = Some(Rc::clone(&open));
        tokio::task::spawn_local(exchange(stream, queue, Rc::downgrade(&open)));
        Ok(open)
    }
}

/// Writes requests and distributes answers, until either end closes. Then all waiting requests fail.
async fn exchange(
    mut stream: UnixStream,
    mut queue: mpsc::UnboundedReceiver<Vec<u8>>,
    open: std::rc::Weak<Open>,
) {
    let (mut reading, mut writing) = stream.split();
    let write = async {
        while let Some(mut bytes) = queue.recv().await {
            // Requests that were made in the same turn are sent together.
            while let Ok(more) = queue.try_recv() {
                bytes.extend_from_slice(&more);
            }
            if writing.write_all(&bytes).await.is_err() {
                return;
            }
        }
    };
    let read = async {
        let mut buffer = BytesMut::with_capacity(16 * 1024);
        while reading.read_buf(&mut buffer).await.is_ok_and(|count| count > 0) {
            let Some(open) = open.upgrade() else { return };
            if !open.hand_out(&mut buffer) {
                return;
            }
        }
    };
    tokio::select! {
        () = write => {}
        () = read => {}
    }
    queue.close();
    if let Some(open) = open.upgrade() {
        open.waiting.borrow_mut().clear();
    }
}

impl Open {
    /// Distributes the answers in the buffer. Returns false if they make no sense.
    fn hand_out(&self, buffer: &mut BytesMut) -> bool {
        loop {
            let (header, body, end) = match Frame::first(buffer, REPLY_LENGTH_MAX) {
                Ok(Some((frame, end))) => (frame.header, Bytes::copy_from_slice(frame.body), end),
                Ok(None) => return true,
                Err(_) => return false,
            };
            buffer.advance(end);
            let answer = match Status::from_number(header.status) {
                Some(Status::Ok) => Ok(body),
                status => {
                    let reply = ErrorReply::decode(&body).ok();
                    let message = reply.map_or_else(String::new, |reply| reply.message.to_owned());
                    Err(Refused { status: status.unwrap_or(Status::Internal), message })
                }
            };
            if let Some(waiting) = self.waiting.borrow_mut().remove(&header.request_id) {
                // The asking side may be gone.
                let _ = waiting.send(answer);
            }
        }
    }
}

fn gone(why: &str) -> Refused {
    Refused { status: Status::ShuttingDown, message: format!("leafd does not answer: {why}") }
}
