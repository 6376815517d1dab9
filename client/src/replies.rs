//! What replies mean: ids, a body, or a failure.

use leafd_wire::frame::Frame;
use leafd_wire::{ErrorReply, IdsReply, Run, Status, opcode};

use crate::error::{Break, Error};

/// The kind of a request, to check its answer against.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Asked {
    /// This many ids; if they are to be held, up to this many.
    Ids { count: u32, hold: bool },
    /// Any bytes.
    Body { opcode: u8 },
}

/// The outcome of a request.
#[derive(Debug)]
pub(crate) enum RequestOutcome {
    Ids(DrawnIds),
    Body(Vec<u8>),
    Failed(Error),
    /// The connection broke first. `served`: it had answered something before.
    Broken {
        why: Break,
        served: bool,
    },
}

/// DrawnIds ids. A single run needs no allocation.
#[derive(Debug)]
pub(crate) struct DrawnIds {
    pub(crate) hold_ms: u32,
    pub(crate) first: Run,
    pub(crate) rest: Vec<Run>,
}

impl RequestOutcome {
    /// The outcome of a request of this kind, by its reply.
    pub(crate) fn of(frame: &Frame<'_>, asked: Asked) -> Result<RequestOutcome, Break> {
        let opcode = match asked {
            Asked::Ids { .. } => opcode::IDS,
            Asked::Body { opcode } => opcode,
        };
        if frame.header.opcode != opcode | opcode::REPLY {
            return Err(Break::Protocol("a reply's opcode differs from its request's"));
        }
        if frame.header.status != Status::Ok as u16 {
            return RequestOutcome::failed(frame);
        }
        match asked {
            Asked::Ids { count, hold } => {
                DrawnIds::decode(frame.body, count, hold).map(RequestOutcome::Ids)
            }
            Asked::Body { .. } => Ok(RequestOutcome::Body(frame.body.to_vec())),
        }
    }

    /// The failure in a reply.
    pub(crate) fn failed(frame: &Frame<'_>) -> Result<RequestOutcome, Break> {
        let reply = ErrorReply::decode(frame.body).map_err(|error| Break::Protocol(error.what))?;
        let error = Error::service(frame.header.status, reply.retry_after_ms, reply.message);
        Ok(RequestOutcome::Failed(error))
    }
}

impl DrawnIds {
    fn decode(body: &[u8], count: u32, hold: bool) -> Result<DrawnIds, Break> {
        let reply = IdsReply::decode(body).map_err(|error| Break::Protocol(error.what))?;
        let mut runs = reply.runs();
        let first = runs.next().ok_or(Break::Protocol("a reply carries no ids"))?;
        let rest: Vec<Run> = runs.collect();
        let given = rest.iter().fold(u64::from(first.count), |sum, run| sum + u64::from(run.count));
        let fits = if hold { given <= u64::from(count) } else { given == u64::from(count) };
        if !fits {
            return Err(Break::Protocol(
                "a reply doesn't have the number of ids that was requested",
            ));
        }
        Ok(DrawnIds { hold_ms: reply.hold_ms, first, rest })
    }
}

/// The content of a reply to a request for `count` ids to be held.
pub(crate) fn decode_held(body: &[u8], count: u32) -> Result<DrawnIds, Error> {
    DrawnIds::decode(body, count, true).map_err(|why| match why {
        Break::Protocol(what) => Error::Protocol { what: what.to_owned() },
        other => Error::Protocol { what: format!("{other:?}") },
    })
}
