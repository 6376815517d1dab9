//! Sends many requests before the first answer is read.

use std::collections::{HashMap, VecDeque};
use std::mem;
use std::sync::Arc;
use std::time::{Duration, Instant};

use leafd_wire::frame::Frame;
use leafd_wire::{COUNT_MAX, IdsRequest, opcode};

use crate::connection::Connection;
use crate::core::{Attempts, Core};
use crate::deadline::Deadline;
use crate::error::{Break, Error, Result};
use crate::ids::Ids;
use crate::interruption::Outside;
use crate::pool::{Pool, PooledConnection};
use crate::replies::{DrawnIds, RequestOutcome, STRAY};

/// The first requests are sent once they amount to this many bytes, which is about thirty requests. The daemon then
/// answers them while more are queued.
const SEND_AT_BYTES_FIRST: usize = 1024;

/// After that, this threshold doubles each time, up to this value, so that long queues take few system calls.
const SEND_AT_BYTES_MAX: usize = 16 * 1024;

/// The maximum number of a pipeline's requests that may await an answer.
pub const IN_FLIGHT_MAX: usize = 65_536;

/// A queue of id requests. While any is outstanding, the pipeline occupies one of the client's connections.
///
/// [`Pipeline::push`] queues a request. [`Pipeline::answer`] sends the queued requests and waits for the next answer,
/// in any order. As elsewhere, a request is sent again if the daemon restarts. Dropping the pipeline abandons all
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
pub struct Pipeline {
    core: Arc<Core>,
    /// The time limit of each request; `None`: the client's own.
    limit: Option<Duration>,
    /// The connection while requests are in flight.
    connection: Option<PipelineConnection>,
    /// Pushed requests without an answer; number `first` is at the front.
    pushed: VecDeque<Option<Pushed>>,
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
    /// The ids, or the error of the request.
    pub ids: Result<Ids>,
}

/// A connection, and what was received over it.
#[derive(Default)]
struct PipelineConnection {
    /// The address of the pool that it was taken from. A forked child has another pool.
    pool: usize,
    /// `None` after it broke.
    pooled: Option<PooledConnection>,
    answers: Answers,
}

#[derive(Default)]
struct Answers {
    /// The pipeline's numbers of the requests in flight, by their numbers on the wire.
    in_flight: HashMap<u32, u64>,
    /// Outcomes that were not returned yet.
    ready: VecDeque<(u64, RequestOutcome)>,
}

#[derive(Debug)]
struct Pushed {
    tag: Box<str>,
    count: u32,
    deadline: Deadline,
    attempts: Attempts,
}

// === impl Pipeline ===

impl Pipeline {
    pub(crate) fn new(core: &Arc<Core>, limit: Option<Duration>) -> Pipeline {
        Pipeline {
            core: Arc::clone(core),
            limit,
            connection: None,
            pushed: VecDeque::new(),
            first: 0,
            outstanding: 0,
            send_at_bytes: SEND_AT_BYTES_FIRST,
        }
    }

    /// Returns the number of requests without an answer.
    pub fn outstanding(&self) -> usize {
        self.outstanding
    }

    /// Queues a request for `count` (1 to [`COUNT_MAX`]) ids of `tag`, and returns its number. Numbers start at 0 and
    /// increase by one. The request is sent when enough requests are queued, or by [`Pipeline::flush`] or
    /// [`Pipeline::answer`].
    ///
    /// The daemon works on at most [`leafd_wire::PIPELINE_MAX`] requests of a connection at once, so sending more
    /// doesn't help. At most [`IN_FLIGHT_MAX`] may be outstanding.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for an invalid tag or count, or for too many requests; [`Error::Connect`] if no
    /// connection can be made.
    pub fn push(&mut self, tag: &str, count: u32) -> Result<u64> {
        if !(1..=COUNT_MAX).contains(&count) {
            return Err(Error::invalid(format!("a request can draw 1 to {COUNT_MAX} ids")));
        }
        let tag = self.core.entry(tag)?.name().into();
        let number = self.first + self.pushed.len() as u64;
        let deadline = self.core.deadline(self.limit);
        let mut pushed = Pushed { tag, count, deadline, attempts: Attempts::default() };
        self.submit(number, &mut pushed, deadline.whole_ms())?;
        self.pushed.push_back(Some(pushed));
        self.outstanding += 1;
        Ok(number)
    }

    /// Sends all queued requests.
    ///
    /// # Errors
    /// [`Error::Timeout`] if the daemon accepts no more bytes.
    pub fn flush(&mut self) -> Result<()> {
        let _outside = Outside::new();
        let deadline = self.core.deadline(self.limit);
        let core = Arc::clone(&self.core);
        let Some(own) = self.own_connection() else { return Ok(()) };
        let sent = own.wait(core.pool(), deadline.end, |answers, connection| {
            // This also receives, because otherwise the daemon would stop reading.
            answers.take_in(connection)?;
            Ok((connection.unsent_bytes() == 0).then_some(()))
        });
        // If the connection breaks, the next call sends the requests again.
        if sent.is_some() || own.pooled.is_none() { Ok(()) } else { Err(deadline.missed()) }
    }

    /// Waits for the next answer. Returns `None` if no request is outstanding.
    pub fn answer(&mut self) -> Option<Answer> {
        let _outside = Outside::new();
        self.send_at_bytes = SEND_AT_BYTES_FIRST;
        while self.outstanding > 0 {
            let oldest = self.pushed.iter().flatten().next()?.deadline;
            let core = Arc::clone(&self.core);
            let Some(own) = self.own_connection() else {
                return self.give_up_oldest(Break::End.into_error(core.path()));
            };
            own.wait(core.pool(), oldest.end_of_grace(), |answers, connection| {
                answers.take_in(connection)?;
                Ok((!answers.ready.is_empty()).then_some(()))
            });
            let Some((number, outcome)) = own.answers.ready.pop_front() else {
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
    fn settle(&mut self, number: u64, outcome: RequestOutcome) -> Option<Answer> {
        let index = usize::try_from(number.checked_sub(self.first)?).ok()?;
        // An abandoned request is no longer in the queue.
        let mut pushed = self.pushed.get_mut(index)?.take()?;
        let settled = self.core.settle(outcome, Some(&mut pushed.attempts), &pushed.deadline);
        let ids = match settled {
            Ok(Some(body)) => {
                DrawnIds::decode(&body, pushed.count, false, 0).map(|drawn| Ids::of(drawn.runs))
            }
            Err(error) => Err(error),
            Ok(None) => {
                let left_ms = pushed.deadline.left_ms();
                match self.submit(number, &mut pushed, left_ms) {
                    Ok(()) => {
                        self.pushed[index] = Some(pushed);
                        return None;
                    }
                    Err(error) => Err(error),
                }
            }
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

    /// `deadline_ms`: the deadline in the request. Connecting may take part of that time, and the daemon then waits
    /// longer than this client, which is harmless.
    fn submit(&mut self, number: u64, pushed: &mut Pushed, deadline_ms: u32) -> Result<()> {
        if self.outstanding >= IN_FLIGHT_MAX {
            return Err(Error::invalid(format!(
                "at most {IN_FLIGHT_MAX} requests may await an answer; read some answers first"
            )));
        }
        let pool = self.core.pool();
        let address = std::ptr::from_ref(pool).addr();
        if self.connection.as_ref().is_none_or(|own| own.pool != address) {
            self.forsake_parents();
            self.connection = Some(PipelineConnection { pool: address, ..Default::default() });
        }
        let pool = self.core.pool();
        let Some(PipelineConnection { pooled, answers, .. }) = &mut self.connection else {
            return Ok(());
        };
        let connection = &mut match pooled {
            Some(pooled) => pooled,
            None => pooled.insert(pool.take(false, &mut pushed.deadline)?),
        }
        .connection;
        let count = pushed.count;
        let request = IdsRequest { tag: pushed.tag.as_bytes(), count, deadline_ms };
        let on_wire = connection.submit(|id, out| request.put(false, id, out));
        answers.in_flight.insert(on_wire, number);
        if connection.unsent_bytes() >= self.send_at_bytes {
            connection.send();
            self.send_at_bytes = SEND_AT_BYTES_MAX.min(self.send_at_bytes * 2);
        }
        Ok(())
    }

    /// The connection, if it is this process's.
    fn own_connection(&mut self) -> Option<&mut PipelineConnection> {
        let pool = std::ptr::from_ref(self.core.pool()).addr();
        self.connection.as_mut().filter(|own| own.pool == pool)
    }

    /// Lets the next call use the connection, unless answers are outstanding.
    fn let_go(&mut self) {
        if self.own_connection().is_none() {
            return self.forsake_parents();
        }
        let Some(PipelineConnection { pooled, answers, .. }) = self.connection.take() else {
            return;
        };
        match pooled {
            Some(pooled) if answers.in_flight.is_empty() => self.core.pool().give_back(pooled),
            Some(pooled) => self.core.pool().give_up(pooled),
            None => {}
        }
    }

    /// Drops a connection inherited from a parent without touching it, because the parent continues to use it.
    fn forsake_parents(&mut self) {
        mem::forget(self.connection.take());
    }
}

impl PipelineConnection {
    /// Sends and receives until `ready` returns a value. `None`: it returned none by `until`, or the connection broke.
    fn wait<T>(
        &mut self,
        pool: &Pool,
        until: Instant,
        mut ready: impl FnMut(&mut Answers, &mut Connection) -> std::result::Result<Option<T>, Break>,
    ) -> Option<T> {
        let connection = &mut self.pooled.as_mut()?.connection;
        connection.send();
        let answers = &mut self.answers;
        match connection.wait(true, until, |connection| ready(answers, connection)) {
            Ok(found) => found,
            Err(why) => {
                let RequestOutcome::Broken { why, served } = pool.broken(self.pooled.take()?, why)
                else {
                    return None;
                };
                let mut lost: Vec<u64> =
                    self.answers.in_flight.drain().map(|(_, number)| number).collect();
                lost.sort_unstable();
                let broken = |number| (number, RequestOutcome::Broken { why, served });
                self.answers.ready.extend(lost.into_iter().map(broken));
                None
            }
        }
    }
}

impl Answers {
    /// Takes the received frames.
    fn take_in(&mut self, connection: &mut Connection) -> std::result::Result<(), Break> {
        while connection.take_frame(|frame| self.take(frame))?.is_some() {}
        Ok(())
    }

    fn take(&mut self, frame: &Frame<'_>) -> std::result::Result<(), Break> {
        if frame.header.request_id == 0 {
            for (_, number) in self.in_flight.drain() {
                self.ready.push_back((number, RequestOutcome::failed(frame)?));
            }
            return Ok(());
        }
        let number = self.in_flight.remove(&frame.header.request_id).ok_or(STRAY)?;
        self.ready.push_back((number, RequestOutcome::of(frame, opcode::IDS)?));
        Ok(())
    }
}

impl Drop for Pipeline {
    fn drop(&mut self) {
        self.let_go();
    }
}

impl std::fmt::Debug for PipelineConnection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PipelineConnection")
            .field("in_flight", &self.answers.in_flight.len())
            .finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Core {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Core").field(&self.path()).finish()
    }
}
