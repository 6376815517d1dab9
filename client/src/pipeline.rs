//! Sends many requests before the first answer is read.

use std::collections::{HashMap, VecDeque};
use std::mem;
use std::time::{Duration, Instant};

use leafd_wire::frame::Frame;
use leafd_wire::{COUNT_MAX, IdsRequest, Run};

use crate::connection::Connection;
use crate::core::{Attempts, Core};
use crate::deadline::Deadline;
use crate::error::{Break, Error, Result};
use crate::ids::Ids;
use crate::interruption::Outside;
use crate::names::Node;
use crate::pool::{Lease, Pool};
use crate::replies::{Asked, Drawn, Outcome};

/// The first requests are sent once they have so many bytes, some thirty requests: the daemon then answers them while
/// more are queued.
const SEND_AT_BYTES_FIRST: usize = 1024;

/// Each further time twice as many bytes are sent, up to this: so long queues take few system calls.
const SEND_AT_BYTES_MAX: usize = 16 * 1024;

/// The most requests of a pipeline that may await an answer.
pub const IN_FLIGHT_MAX: usize = 65_536;

/// The most ids in a batch.
pub const BATCH_MAX: u64 = 1_000_000_000;

/// How many requests of one large batch are in flight at once.
const BATCH_IN_FLIGHT: usize = 4;

/// A queue of id requests. While any is outstanding, the pipeline uses one of the client's connections for itself.
///
/// [`Pipeline::push`] queues a request. [`Pipeline::answer`] sends what is queued and waits for the next answer, in
/// any order. As elsewhere, a request is sent again when the daemon restarts. Dropping the pipeline gives up all
/// outstanding requests.
///
/// ```no_run
/// # fn main() -> Result<(), leafd_client::Error> {
/// let client = leafd_client::Client::builder().build()?;
/// let mut pipeline = client.pipeline();
/// for _ in 0..100 {
///     pipeline.push("orders", 1)?;
/// }
/// while let Some(answer) = pipeline.answer() {
///     let (request, ids) = (answer.request, answer.ids?);
///     println!("request {request}: {:?}", ids.collect::<Vec<_>>());
/// }
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Pipeline<'client> {
    core: &'client Core,
    /// The limit of each request; `None`: the client's own.
    limit: Option<Duration>,
    /// The connection while requests are in flight.
    line: Option<Line<'client>>,
    /// Pushed requests without an answer; number `first` is at the front.
    pushed: VecDeque<Option<Pushed<'client>>>,
    first: u64,
    outstanding: usize,
    /// How many queued bytes are sent without waiting for more.
    send_at_bytes: usize,
}

/// The answer to one request of a [`Pipeline`].
#[derive(Debug)]
pub struct Answer {
    /// The number that [`Pipeline::push`] returned.
    pub request: u64,
    /// The ids, or why there are none.
    pub ids: Result<Ids>,
}

/// A connection and what came over it. A forked child recognises by the pool that both are its parent's.
struct Line<'client> {
    pool: &'client Pool,
    /// `None` after it broke.
    lease: Option<Lease<'client>>,
    answers: Answers,
}

#[derive(Default)]
struct Answers {
    /// The pipeline's numbers of the requests in flight, by their numbers on the wire.
    in_flight: HashMap<u32, (u64, Asked)>,
    /// Outcomes that were not returned yet.
    ready: VecDeque<(u64, Outcome)>,
}

#[derive(Debug)]
struct Pushed<'client> {
    node: &'client Node,
    count: u32,
    deadline: Deadline,
    attempts: Attempts,
}

// === impl Pipeline ===

impl<'client> Pipeline<'client> {
    pub(crate) fn new(core: &'client Core) -> Pipeline<'client> {
        Pipeline {
            core,
            limit: None,
            line: None,
            pushed: VecDeque::new(),
            first: 0,
            outstanding: 0,
            send_at_bytes: SEND_AT_BYTES_FIRST,
        }
    }

    /// Sets how long each request may take, counted from its push (see [`crate::Builder::deadline`]).
    #[must_use]
    pub fn deadline(mut self, limit: Duration) -> Pipeline<'client> {
        self.limit = Some(limit);
        self
    }

    /// The number of requests without an answer.
    #[must_use]
    pub fn outstanding(&self) -> usize {
        self.outstanding
    }

    /// Queues a request for `count` (1 to [`COUNT_MAX`]) ids of `tag`, and returns its number: 0 for the first,
    /// then one more each time. It is sent when enough requests are queued, or by [`Pipeline::flush`] or
    /// [`Pipeline::answer`].
    ///
    /// The daemon works on [`leafd_wire::PIPELINE_MAX`] requests of a connection at once; more of them gain
    /// nothing. At most [`IN_FLIGHT_MAX`] may be outstanding.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for an impossible tag or count or too many requests,
    /// [`Error::Connect`] if no connection can be made.
    pub fn push(&mut self, tag: &str, count: u32) -> Result<u64> {
        let mut deadline = self.core.deadline(self.limit);
        let whole_ms = deadline.whole_ms();
        self.push_until(tag, count, &mut deadline, whole_ms)
    }

    fn push_until(
        &mut self,
        tag: &str,
        count: u32,
        deadline: &mut Deadline,
        deadline_ms: u32,
    ) -> Result<u64> {
        if !(1..=COUNT_MAX).contains(&count) {
            return Err(Error::invalid(format!("a request takes 1 to {COUNT_MAX} ids")));
        }
        let node = self.core.node(tag)?;
        let number = self.first + self.pushed.len() as u64;
        let mut pushed = Pushed { node, count, deadline: *deadline, attempts: Attempts::default() };
        self.submit(number, &mut pushed, deadline_ms)?;
        *deadline = pushed.deadline;
        self.pushed.push_back(Some(pushed));
        self.outstanding += 1;
        Ok(number)
    }

    /// Sends all that is queued.
    ///
    /// # Errors
    /// [`Error::Timeout`] if the daemon accepts no more bytes.
    pub fn flush(&mut self) -> Result<()> {
        let _outside = Outside::new();
        let deadline = self.core.deadline(self.limit);
        let Some(line) = self.own_line() else { return Ok(()) };
        let sent = line.wait(deadline.end(), |answers, connection| {
            // What came is taken in, or the daemon would stop reading.
            answers.take_in(connection)?;
            Ok((connection.unsent_bytes() == 0).then_some(()))
        });
        // After a break the next call sends the requests again.
        if sent.is_some() || line.lease.is_none() { Ok(()) } else { Err(deadline.missed()) }
    }

    /// Waits for the next answer. `None`: nothing is outstanding.
    pub fn answer(&mut self) -> Option<Answer> {
        let _outside = Outside::new();
        self.send_at_bytes = SEND_AT_BYTES_FIRST;
        while self.outstanding > 0 {
            let oldest = self.pushed.iter().flatten().next()?.deadline;
            let Some(line) = self.own_line() else {
                return self.give_up_oldest(Break::End.into_error(self.core.path()));
            };
            line.wait(oldest.end_of_grace(), |answers, connection| {
                answers.take_in(connection)?;
                Ok((!answers.ready.is_empty()).then_some(()))
            });
            let Some((number, outcome)) = line.answers.ready.pop_front() else {
                return self.give_up_oldest(oldest.missed());
            };
            if let Some(answer) = self.settle(number, outcome) {
                return Some(answer);
            }
        }
        self.let_go();
        None
    }

    /// Turns an outcome into an answer, or sends the request again.
    fn settle(&mut self, number: u64, outcome: Outcome) -> Option<Answer> {
        let index = usize::try_from(number.checked_sub(self.first)?).ok()?;
        // A request that was given up is no longer in the queue.
        let mut pushed = self.pushed.get_mut(index)?.take()?;
        let core = self.core;
        let ids = match core.settle(outcome, Some(&mut pushed.attempts), &pushed.deadline) {
            Ok(Some(Outcome::Ids(Drawn { first, rest, .. }))) => Ok(Ids::new(first, rest)),
            Ok(Some(_)) => Err(Error::Protocol { what: "an answer without ids".to_owned() }),
            Err(error) => Err(error),
            Ok(None) => match self.resubmit(number, &mut pushed) {
                Ok(()) => {
                    self.pushed[index] = Some(pushed);
                    return None;
                }
                Err(error) => Err(error),
            },
        };
        self.outstanding -= 1;
        self.forget_answered();
        Some(Answer { request: number, ids })
    }

    fn give_up_oldest(&mut self, error: Error) -> Option<Answer> {
        self.forget_answered();
        self.pushed.pop_front()?;
        let request = self.first;
        self.first += 1;
        self.outstanding -= 1;
        self.forget_answered();
        Some(Answer { request, ids: Err(error) })
    }

    fn forget_answered(&mut self) {
        while let Some(None) = self.pushed.front() {
            self.pushed.pop_front();
            self.first += 1;
        }
    }

    fn resubmit(&mut self, number: u64, pushed: &mut Pushed<'client>) -> Result<()> {
        let deadline_ms = pushed.deadline.left_ms();
        self.submit(number, pushed, deadline_ms)
    }

    /// `deadline_ms`: what the daemon is told. Connecting may use up some of it. The daemon then waits longer than
    /// this client, which does no harm.
    fn submit(
        &mut self,
        number: u64,
        pushed: &mut Pushed<'client>,
        deadline_ms: u32,
    ) -> Result<()> {
        if self.outstanding >= IN_FLIGHT_MAX {
            return Err(Error::invalid(format!(
                "at most {IN_FLIGHT_MAX} requests may await an answer; read some answers first"
            )));
        }
        if self.own_line().is_none() {
            self.forsake_parents();
            let (lease, answers) = (None, Answers::default());
            self.line = Some(Line { pool: self.core.pool(), lease, answers });
        }
        let Some(Line { pool, lease, answers }) = &mut self.line else { return Ok(()) };
        let lease = match lease {
            Some(lease) => lease,
            None => lease.insert(pool.lease(false, &mut pushed.deadline)?),
        };
        let count = pushed.count;
        let request = IdsRequest { tag: pushed.node.name().as_bytes(), count, deadline_ms };
        let on_wire = lease.submit(|id, out| request.put(false, id, out));
        answers.in_flight.insert(on_wire, (number, Asked::Ids { count, hold: false }));
        if lease.unsent_bytes() >= self.send_at_bytes {
            lease.send();
            self.send_at_bytes = SEND_AT_BYTES_MAX.min(self.send_at_bytes * 2);
        }
        Ok(())
    }

    /// The line, if it is this process's.
    fn own_line(&mut self) -> Option<&mut Line<'client>> {
        let pool = self.core.pool();
        self.line.as_mut().filter(|line| std::ptr::eq(line.pool, pool))
    }

    /// Lets the next call use the connection. Answers that are still to come are skipped.
    fn let_go(&mut self) {
        if self.own_line().is_none() {
            return self.forsake_parents();
        }
        if let Some(Line { lease: Some(mut lease), answers, .. }) = self.line.take() {
            answers.in_flight.iter().for_each(|_| lease.give_up_one());
            lease.give_back();
        }
    }

    /// Leaves a parent's line alone, whose lock another thread of the parent may have.
    fn forsake_parents(&mut self) {
        mem::forget(self.line.take());
    }
}

impl Line<'_> {
    /// Sends and receives until `ready` returns something. `None`: not by `until`, or the connection broke.
    fn wait<T>(
        &mut self,
        until: Instant,
        mut ready: impl FnMut(&mut Answers, &mut Connection) -> std::result::Result<Option<T>, Break>,
    ) -> Option<T> {
        let lease = self.lease.as_mut()?;
        lease.send();
        let answers = &mut self.answers;
        match lease.wait(true, until, |connection| ready(answers, connection)) {
            Ok(found) => found,
            Err(why) => {
                let Outcome::Broken { why, served } = self.lease.take()?.broken(why) else {
                    return None;
                };
                let mut lost: Vec<(u64, Asked)> =
                    self.answers.in_flight.drain().map(|(_, request)| request).collect();
                lost.sort_unstable_by_key(|(number, _)| *number);
                let lost = lost.into_iter();
                let lost = lost.map(|(number, _)| (number, Outcome::Broken { why, served }));
                self.answers.ready.extend(lost);
                None
            }
        }
    }
}

impl Answers {
    /// Takes the received frames.
    fn take_in(&mut self, connection: &mut Connection) -> std::result::Result<(), Break> {
        while let Some(is_known) = connection.take_frame(|frame| self.take(frame))? {
            if !is_known {
                connection.skip()?;
            }
        }
        Ok(())
    }

    /// `false`: it answers no request of the pipeline.
    fn take(&mut self, frame: &Frame<'_>) -> std::result::Result<bool, Break> {
        if frame.header.request_id == 0 {
            for (_, (number, _)) in self.in_flight.drain() {
                self.ready.push_back((number, Outcome::failed(frame)?));
            }
            return Ok(true);
        }
        let Some((number, asked)) = self.in_flight.remove(&frame.header.request_id) else {
            return Ok(false);
        };
        self.ready.push_back((number, Outcome::of(frame, asked)?));
        Ok(true)
    }
}

impl Drop for Pipeline<'_> {
    fn drop(&mut self) {
        self.let_go();
    }
}

impl std::fmt::Debug for Line<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Line")
            .field("in_flight", &self.answers.in_flight.len())
            .finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Core {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Core").field(&self.path()).finish()
    }
}

impl std::fmt::Debug for Node {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Node").field(&self.name()).finish()
    }
}

/// A batch of ids, in the order of issue.
pub(crate) fn draw_batch(
    core: &Core,
    tag: &str,
    count: u64,
    mut deadline: Deadline,
) -> Result<Ids> {
    let node = core.node(tag)?;
    match u32::try_from(count) {
        Ok(0) => Ok(Ids::of(Vec::new())),
        Ok(count) if count <= COUNT_MAX => {
            let (drawn, _) = core.draw(node.name(), count, false, &mut deadline)?;
            Ok(Ids::new(drawn.first, drawn.rest))
        }
        _ if count > BATCH_MAX => Err(Error::invalid(format!(
            "a batch has at most {BATCH_MAX} ids, not {count}; draw several batches"
        ))),
        _ => draw_many(core, tag, count, deadline),
    }
}

/// Draws more ids than one request may ask for.
fn draw_many(core: &Core, tag: &str, count: u64, mut deadline: Deadline) -> Result<Ids> {
    let _outside = Outside::new();
    let mut pipeline = Pipeline::new(core);
    let mut parts: Vec<Vec<Run>> = Vec::new();
    let mut left = count;
    while left > 0 || pipeline.outstanding() > 0 {
        while left > 0 && pipeline.outstanding() < BATCH_IN_FLIGHT {
            let part = u32::try_from(left).unwrap_or(COUNT_MAX).min(COUNT_MAX);
            let left_ms = deadline.left_ms();
            pipeline.push_until(tag, part, &mut deadline, left_ms)?;
            parts.push(Vec::new());
            left -= u64::from(part);
        }
        if let Some(answer) = pipeline.answer() {
            // Requests are answered in any order; their ids are given in the order of asking.
            parts[answer.request as usize] = answer.ids?.into_runs().collect();
        }
    }
    Ok(Ids::of(parts.concat()))
}
