//! Extracts replies from a stream of bytes, and interprets them: a body, or a failure.

use leafd_wire::frame::Frame;
use leafd_wire::{ErrorReply, IdsReply, REPLY_LENGTH_MAX, Run, Status, opcode};

use crate::error::{Break, Error, Result};

/// The outcome of a request.
#[derive(Debug)]
pub(crate) enum RequestOutcome {
    Body(Vec<u8>),
    Failed(Error),
    /// The connection broke first. `served`: whether it had answered anything before.
    Broken {
        why: Break,
        served: bool,
    },
}

pub(crate) const STRAY: Break = Break::Protocol("a reply has the id of no request");

/// The numbers of a connection's requests, and the bytes that it has received.
#[derive(Default)]
pub(crate) struct Replies {
    last_number: u32,
    /// The received bytes; the first `consumed` of them have been read.
    received: Vec<u8>,
    consumed: usize,
    /// Whether the daemon has answered anything.
    pub(crate) served: bool,
    /// Whether the daemon closes the connection after its last answer.
    closing: bool,
}

impl Replies {
    /// The number of the next request. Never 0, because request id 0 means a connection-level error.
    pub(crate) fn next_number(&mut self) -> u32 {
        self.last_number = self.last_number.checked_add(1).unwrap_or(1);
        self.last_number
    }

    /// Whether further requests may follow. Unrequested bytes mean that the stream is out of step.
    pub(crate) fn may_follow(&self) -> bool {
        !self.closing && self.consumed == self.received.len()
    }

    /// The buffer to which received bytes are appended.
    pub(crate) fn buffer(&mut self) -> &mut Vec<u8> {
        self.received.drain(..self.consumed);
        self.consumed = 0;
        &mut self.received
    }

    /// Takes the next received frame, if it is complete. A frame with request id 0 applies to the whole connection.
    pub(crate) fn take<T>(
        &mut self,
        read: impl FnOnce(&Frame<'_>) -> std::result::Result<T, Break>,
    ) -> std::result::Result<Option<T>, Break> {
        let first = Frame::first(&self.received[self.consumed..], REPLY_LENGTH_MAX)
            .map_err(|_| Break::Protocol("a reply's length is out of range"))?;
        let Some((frame, length)) = first else { return Ok(None) };
        let header = frame.header;
        let closes = Status::from_number(header.status).is_some_and(Status::closes);
        if header.request_id == 0 && !closes {
            return Err(STRAY);
        }
        let read = read(&frame);
        self.served |= header.status == Status::Ok as u16;
        self.closing |= closes;
        self.consumed += length;
        read.map(Some)
    }
}

/// The ids in an answer.
#[derive(Debug)]
pub(crate) struct DrawnIds {
    /// At least one run.
    pub(crate) runs: Vec<Run>,
    pub(crate) hold_ms: u32,
    /// When the request was sent (exact clock), which is the best known lower bound of the time of issue.
    pub(crate) sent_ns: u64,
}

impl RequestOutcome {
    /// The outcome of the request with this number and opcode, by the next frame.
    pub(crate) fn for_request(
        frame: &Frame<'_>,
        number: u32,
        opcode: u8,
    ) -> std::result::Result<RequestOutcome, Break> {
        match frame.header.request_id {
            id if id == number => RequestOutcome::of(frame, opcode),
            0 => RequestOutcome::failed(frame),
            _ => Err(STRAY),
        }
    }

    /// The outcome of a request with this opcode, by its reply.
    pub(crate) fn of(frame: &Frame<'_>, opcode: u8) -> std::result::Result<RequestOutcome, Break> {
        if frame.header.opcode != opcode | opcode::REPLY {
            return Err(Break::Protocol("a reply's opcode differs from its request's"));
        }
        if frame.header.status != Status::Ok as u16 {
            return RequestOutcome::failed(frame);
        }
        Ok(RequestOutcome::Body(frame.body.to_vec()))
    }

    /// The failure in a reply.
    pub(crate) fn failed(frame: &Frame<'_>) -> std::result::Result<RequestOutcome, Break> {
        let reply = ErrorReply::decode(frame.body).map_err(|error| Break::Protocol(error.what))?;
        let error = Error::service(frame.header.status, reply.retry_after_ms, reply.message);
        Ok(RequestOutcome::Failed(error))
    }
}

impl DrawnIds {
    /// The ids in the answer to a request for `count`; if they are to be held, there may be fewer.
    pub(crate) fn decode(body: &[u8], count: u32, hold: bool, sent_ns: u64) -> Result<DrawnIds> {
        let reply = IdsReply::decode(body).map_err(|error| Error::protocol(error.what))?;
        let runs: Vec<Run> = reply.runs().collect();
        let given: u64 = runs.iter().map(|run| u64::from(run.count)).sum();
        let fewest = if hold { 1 } else { u64::from(count) };
        if !(fewest..=u64::from(count)).contains(&given) {
            return Err(Error::protocol(
                "a reply doesn't have the number of ids that was requested",
            ));
        }
        Ok(DrawnIds { runs, hold_ms: reply.hold_ms, sent_ns })
    }

    pub(crate) fn first_id(&self) -> u64 {
        self.runs[0].first
    }

    /// When the ids become too old to hold.
    pub(crate) fn expires_ns(&self) -> u64 {
        self.sent_ns.saturating_add(u64::from(self.hold_ms) * 1_000_000)
    }
}
