//! Requests for callers over HTTP. They have no connection to the daemon's socket, so the requests run as the daemon's
//! own user, whom no access rule excludes. The HTTP side must have checked the caller.

use std::rc::Rc;

use leafd_core::shares::Claimant;
use leafd_wire::frame::Frame;
use leafd_wire::{ErrorReply, Header, IdsReply, IdsRequest, REPLY_LENGTH_MAX, Status};

use super::{Dispatcher, Session};
use crate::config::Peer;
use crate::reply::Failure;

/// How long such a request may wait for an id.
const DEADLINE_MS: u32 = 1_000;

impl Dispatcher {
    /// The next id of a tag, drawn directly. If this is dropped, no id is issued.
    ///
    /// # Errors
    /// The failure that a client of the socket would get.
    pub async fn draw_for_http(self: &Rc<Self>, tag: &str) -> Result<u64, Failure> {
        let mut asked = Vec::new();
        let request = IdsRequest { tag: tag.as_bytes(), count: 1, deadline_ms: DEADLINE_MS };
        request.put(false, 0, &mut asked);
        let body = self.ask_for_http(&asked).await?;
        let first = IdsReply::decode(&body).ok().and_then(|reply| reply.runs().next());
        first.map(|run| run.first).ok_or_else(unreadable)
    }

    /// The body of the reply to a request with this opcode and body.
    ///
    /// # Errors
    /// As for [`Dispatcher::draw_for_http`].
    pub async fn read_for_http(
        self: &Rc<Self>,
        opcode: u8,
        body: &[u8],
    ) -> Result<Vec<u8>, Failure> {
        let mut asked = Vec::new();
        Header::request(opcode, 0, 0).put_frame(body, &mut asked);
        self.ask_for_http(&asked).await
    }

    async fn ask_for_http(self: &Rc<Self>, asked: &[u8]) -> Result<Vec<u8>, Failure> {
        let peer = Peer::own();
        // Untrusted: the reserve for administrators isn't for callers over HTTP.
        let claimant = Claimant { uid: peer.uid, trusted: false };
        let session = Session::new(peer, std::process::id(), claimant, Rc::clone(&self.tally));
        let asking = Asking { dispatcher: self, session };
        asking.ask(asked);
        asking.session.outbox.answered().await;
        body_of(asking.session.outbox.bytes().rest())
    }
}

/// A request that the daemon makes to itself. The caller that it serves may disconnect.
struct Asking<'a> {
    dispatcher: &'a Rc<Dispatcher>,
    session: Session,
}

impl Asking<'_> {
    /// Sends the request in this frame. The answer is put into the session's outbox.
    fn ask(&self, asked: &[u8]) {
        if let Ok(Some((frame, _))) = Frame::first(asked, REPLY_LENGTH_MAX) {
            self.dispatcher.request(&self.session, &frame.header, frame.body);
        }
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        self.session.outbox.close();
        self.dispatcher.left(&self.session);
    }
}

/// The body of an answer.
fn body_of(answer: &[u8]) -> Result<Vec<u8>, Failure> {
    let Ok(Some((frame, _))) = Frame::first(answer, REPLY_LENGTH_MAX) else {
        return Err(unreadable());
    };
    match Status::from_number(frame.header.status) {
        Some(Status::Ok) => Ok(frame.body.to_vec()),
        Some(status) => {
            let reply = ErrorReply::decode(frame.body).map_err(|_| unreadable())?;
            Err(Failure {
                retry_after_ms: reply.retry_after_ms,
                ..Failure::new(status, reply.message)
            })
        }
        None => Err(unreadable()),
    }
}

fn unreadable() -> Failure {
    Failure::new(Status::Internal, "the request was not answered")
}
