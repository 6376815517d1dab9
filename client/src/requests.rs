//! The requests of one connection that await an answer.
//!
//! A request id consists of a place in the table and the place's turn. An abandoned request keeps its place until its
//! answer comes, so a late answer never reaches another request.

use std::collections::VecDeque;

use leafd_wire::frame::Frame;
use leafd_wire::{ErrorReply, IdsReply, Run, Status, opcode};

use crate::error::{Break, Error};

/// The most requests of one connection that may await an answer, over all threads.
pub const IN_FLIGHT_MAX: usize = 65_536;

/// Runs are requested ahead only while fewer requests than this are in flight, or answered but not collected. A run
/// that no thread collects keeps its request's place, and waiting callers must find a free one.
const AHEAD_MAX: usize = IN_FLIGHT_MAX / 2;

/// With this many abandoned requests unanswered, the daemon counts as hung.
const ABANDONED_MAX: usize = 8192;

const PLACE_BITS: u32 = 16;

/// A request in flight. It must be taken or abandoned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket(u32);

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
pub(crate) enum Outcome {
    Ids(Drawn),
    Body(Vec<u8>),
    Failed(Error),
    /// The connection broke first. `served`: it had answered something before.
    Broken {
        why: Break,
        served: bool,
    },
}

/// Drawn ids. A single run needs no allocation.
#[derive(Debug)]
pub(crate) struct Drawn {
    pub(crate) hold_ms: u32,
    pub(crate) first: Run,
    pub(crate) rest: Vec<Run>,
}

/// A set of requests that one caller awaits together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Group(pub(crate) usize);

/// Where a request's answer goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum For {
    Ticket(Ticket),
    Group(Group),
}

/// The table.
#[derive(Default)]
pub(crate) struct Requests {
    entries: Vec<Entry>,
    free: Vec<u16>,
    abandoned: usize,
    /// A group's answers so far, each with the number that the group gave it.
    groups: Vec<Option<VecDeque<(u64, Outcome)>>>,
}

struct Entry {
    turn: u16,
    asked: Asked,
    /// The group and its own number for the request.
    group: Option<(Group, u64)>,
    progress: Progress,
}

enum Progress {
    Free,
    Waiting,
    Abandoned,
    Done(Outcome),
}

// === impl Ticket ===

impl Ticket {
    /// The number sent over the wire.
    pub(crate) fn request_id(self) -> u32 {
        self.0
    }
}

// === impl Requests ===

impl Requests {
    /// A new request's id. `None`: too many are in flight.
    pub(crate) fn begin(&mut self, asked: Asked, group: Option<(Group, u64)>) -> Option<Ticket> {
        let place = match self.free.pop() {
            Some(place) => place,
            None => {
                let place = u16::try_from(self.entries.len()).ok()?;
                self.entries.push(Entry { turn: 0, asked, group, progress: Progress::Free });
                place
            }
        };
        let entry = &mut self.entries[usize::from(place)];
        // Never 0: with request id 0 a daemon addresses the connection as a whole.
        entry.turn = entry.turn.checked_add(1).unwrap_or(1);
        entry.asked = asked;
        entry.group = group;
        entry.progress = Progress::Waiting;
        Some(Ticket(u32::from(entry.turn) << PLACE_BITS | u32::from(place)))
    }

    /// Whether there is room for a request that no thread waits for.
    pub(crate) fn has_room_ahead(&self) -> bool {
        self.entries.len() - self.free.len() < AHEAD_MAX
    }

    /// Takes the outcome once it is there. The request is then over.
    pub(crate) fn take(&mut self, ticket: Ticket) -> Option<Outcome> {
        let place = self.place(ticket)?;
        let entry = &mut self.entries[place];
        if !matches!(entry.progress, Progress::Done(_)) {
            return None;
        }
        let progress = std::mem::replace(&mut entry.progress, Progress::Free);
        self.free.push(place as u16);
        match progress {
            Progress::Done(outcome) => Some(outcome),
            _ => None,
        }
    }

    /// Drops a request, or its answer when it comes. Returns `false` if too many are overdue.
    #[must_use]
    pub(crate) fn abandon(&mut self, ticket: Ticket) -> bool {
        let Some(place) = self.place(ticket) else { return true };
        let entry = &mut self.entries[place];
        match entry.progress {
            Progress::Waiting => {
                entry.progress = Progress::Abandoned;
                self.abandoned += 1;
            }
            Progress::Done(_) => {
                entry.progress = Progress::Free;
                self.free.push(place as u16);
            }
            Progress::Free | Progress::Abandoned => {}
        }
        self.abandoned < ABANDONED_MAX
    }

    /// Matches a reply to its request. `Ok(None)`: no thread waits for it any more.
    pub(crate) fn complete(&mut self, frame: &Frame<'_>) -> Result<Option<For>, Break> {
        let ticket = Ticket(frame.header.request_id);
        let Some(place) = self.place(ticket) else {
            return Err(Break::Protocol("a reply has the id of no request"));
        };
        let entry = &mut self.entries[place];
        match entry.progress {
            Progress::Waiting => {
                let outcome = decode(frame, entry.asked)?;
                match entry.group {
                    Some((group, number)) => {
                        entry.progress = Progress::Free;
                        self.free.push(place as u16);
                        self.deliver(group, number, outcome);
                        Ok(Some(For::Group(group)))
                    }
                    None => {
                        entry.progress = Progress::Done(outcome);
                        Ok(Some(For::Ticket(ticket)))
                    }
                }
            }
            Progress::Abandoned => {
                entry.progress = Progress::Free;
                self.free.push(place as u16);
                self.abandoned -= 1;
                Ok(None)
            }
            Progress::Free | Progress::Done(_) => {
                Err(Break::Protocol("a request is answered twice"))
            }
        }
    }

    /// Ends every request with the daemon's message to the whole connection.
    pub(crate) fn refuse_all(&mut self, frame: &Frame<'_>) -> Result<(), Break> {
        let mut refusals = Vec::new();
        for _ in &self.entries {
            refusals.push(failure(frame)?);
        }
        self.end_all(|| match refusals.pop() {
            Some(refusal) => Outcome::Failed(refusal),
            None => Outcome::Broken { why: Break::End, served: false },
        });
        Ok(())
    }

    /// Ends every request: the connection is gone.
    pub(crate) fn fail_all(&mut self, why: Break, served: bool) {
        self.end_all(|| Outcome::Broken { why, served });
    }

    fn end_all(&mut self, mut outcome: impl FnMut() -> Outcome) {
        for place in 0..self.entries.len() {
            let entry = &mut self.entries[place];
            match (&entry.progress, entry.group) {
                (Progress::Waiting, None) => {
                    entry.progress = Progress::Done(outcome());
                }
                (Progress::Waiting, Some((group, number))) => {
                    entry.progress = Progress::Free;
                    self.free.push(place as u16);
                    self.deliver(group, number, outcome());
                }
                (Progress::Abandoned, _) => {
                    entry.progress = Progress::Free;
                    self.free.push(place as u16);
                }
                (Progress::Free | Progress::Done(_), _) => {}
            }
        }
        self.abandoned = 0;
    }

    pub(crate) fn open_group(&mut self) -> Group {
        let free = self.groups.iter().position(Option::is_none);
        let index = free.unwrap_or_else(|| {
            self.groups.push(None);
            self.groups.len() - 1
        });
        self.groups[index] = Some(VecDeque::new());
        Group(index)
    }

    /// Ends a group and abandons its requests. Returns `false` if too many are overdue.
    #[must_use]
    pub(crate) fn close_group(&mut self, group: Group) -> bool {
        for entry in &mut self.entries {
            let theirs = entry.group.is_some_and(|(of, _)| of == group);
            if theirs && matches!(entry.progress, Progress::Waiting) {
                entry.progress = Progress::Abandoned;
                self.abandoned += 1;
            }
        }
        self.groups[group.0] = None;
        self.abandoned < ABANDONED_MAX
    }

    /// A group's next answer, in the order of arrival.
    pub(crate) fn take_of(&mut self, group: Group) -> Option<(u64, Outcome)> {
        self.groups.get_mut(group.0)?.as_mut()?.pop_front()
    }

    fn deliver(&mut self, group: Group, number: u64, outcome: Outcome) {
        if let Some(Some(answers)) = self.groups.get_mut(group.0) {
            answers.push_back((number, outcome));
        }
    }

    fn place(&self, Ticket(id): Ticket) -> Option<usize> {
        let place = (id & ((1 << PLACE_BITS) - 1)) as usize;
        let entry = self.entries.get(place)?;
        (u32::from(entry.turn) == id >> PLACE_BITS).then_some(place)
    }
}

// === impl Drawn ===

impl Drawn {
    fn decode(body: &[u8], count: u32, hold: bool) -> Result<Drawn, Break> {
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
        Ok(Drawn { hold_ms: reply.hold_ms, first, rest })
    }
}

/// The content of a reply to a request for `count` ids to be held.
pub(crate) fn decode_held(body: &[u8], count: u32) -> Result<Drawn, Error> {
    Drawn::decode(body, count, true).map_err(|why| match why {
        Break::Protocol(what) => Error::Protocol { what: what.to_owned() },
        other => Error::Protocol { what: format!("{other:?}") },
    })
}

fn decode(frame: &Frame<'_>, asked: Asked) -> Result<Outcome, Break> {
    let opcode = match asked {
        Asked::Ids { .. } => opcode::IDS,
        Asked::Body { opcode } => opcode,
    };
    if frame.header.opcode != opcode | opcode::REPLY {
        return Err(Break::Protocol("a reply's opcode differs from its request's"));
    }
    if frame.header.status != Status::Ok as u16 {
        return failure(frame).map(Outcome::Failed);
    }
    match asked {
        Asked::Ids { count, hold } => Drawn::decode(frame.body, count, hold).map(Outcome::Ids),
        Asked::Body { .. } => Ok(Outcome::Body(frame.body.to_vec())),
    }
}

/// The error in a reply.
pub(crate) fn failure(frame: &Frame<'_>) -> Result<Error, Break> {
    let reply = ErrorReply::decode(frame.body).map_err(|error| Break::Protocol(error.what))?;
    Ok(Error::service(frame.header.status, reply.retry_after_ms, reply.message))
}
