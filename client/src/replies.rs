//! What replies mean: a body, or a failure.

use leafd_wire::frame::Frame;
use leafd_wire::{ErrorReply, IdsReply, Run, Status, opcode};

use crate::error::{Break, Error, Result};

/// The outcome of a request.
#[derive(Debug)]
pub(crate) enum RequestOutcome {
    Body(Vec<u8>),
    Failed(Error),
    /// The connection broke first. `served`: it had answered something before.
    Broken {
        why: Break,
        served: bool,
    },
}

/// Ids as they were drawn.
#[derive(Debug)]
pub(crate) struct DrawnIds {
    /// At least one run.
    pub(crate) runs: Vec<Run>,
    pub(crate) hold_ms: u32,
    /// When the request was sent (exact clock), because the time of issue is not known better.
    pub(crate) sent_ns: u64,
}

impl RequestOutcome {
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

    /// When the ids become too old to be held.
    pub(crate) fn expires_ns(&self) -> u64 {
        self.sent_ns.saturating_add(u64::from(self.hold_ms) * 1_000_000)
    }
}
