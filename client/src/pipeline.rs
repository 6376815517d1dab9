//! Sends many requests before the first answer is read.

use std::collections::VecDeque;
use std::time::Duration;

use leafd_wire::{COUNT_MAX, IdsRequest, Run};

use crate::client::Client;
use crate::core::Attempts;
use crate::deadline::Deadline;
use crate::error::{Break, Error, Result};
use crate::ids::Ids;
use crate::interruption::Outside;
use crate::names::Node;
use crate::requests::{Asked, Drawn, Group, Outcome};
use crate::state::State;

/// The first requests are sent once they have so many bytes, some thirty requests: the daemon then answers them while
/// more are queued.
const SEND_AT_BYTES_FIRST: usize = 1024;

/// Each further time twice as many bytes are sent, up to this: so long queues take few system calls.
const SEND_AT_BYTES_MAX: usize = 16 * 1024;

/// How many requests of one large batch are in flight at once.
const BATCH_IN_FLIGHT: usize = 4;

/// A queue of id requests on the client's connection. Other threads can use the client meanwhile.
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
    client: &'client Client,
    /// The limit of each request; `None`: the client's own.
    limit: Option<Duration>,
    /// The process's state and the pipeline's group in it; `None` before the first request. A forked child
    /// recognises by it that the outstanding answers are its parent's.
    place: Option<Place<'client>>,
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

#[derive(Clone, Copy)]
struct Place<'client> {
    state: &'client State,
    group: Group,
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
    pub(crate) fn new(client: &'client Client) -> Pipeline<'client> {
        Pipeline {
            client,
            limit: None,
            place: None,
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
    /// nothing. At most [`crate::IN_FLIGHT_MAX`] may be outstanding.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for an impossible tag or count or too many requests,
    /// [`Error::Connect`] if no connection can be made.
    pub fn push(&mut self, tag: &str, count: u32) -> Result<u64> {
        let mut deadline = self.client.core.deadline(self.limit);
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
        let node = self.client.core.node(tag)?;
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
        let Some(Place { state, .. }) = self.own_place() else { return Ok(()) };
        let mut link = state.lock();
        link.send();
        if link.is_sent() {
            return Ok(());
        }
        let deadline = self.client.core.deadline(self.limit);
        let (link, sent) = state.sent(link, deadline.end());
        drop(link);
        sent.ok_or_else(|| deadline.missed())
    }

    /// Waits for the next answer. `None`: nothing is outstanding.
    pub fn answer(&mut self) -> Option<Answer> {
        self.send_at_bytes = SEND_AT_BYTES_FIRST;
        while self.outstanding > 0 {
            let oldest = self.pushed.iter().flatten().next()?.deadline;
            let Some(Place { state, group }) = self.own_place() else {
                return self.give_up_oldest(Break::End.into_error(self.client.core.path()));
            };
            let mut link = state.lock();
            link.send();
            let (link, answer) = state.answer_of(link, group, oldest.end_of_grace());
            drop(link);
            let Some((number, outcome)) = answer else {
                return self.give_up_oldest(oldest.missed());
            };
            if let Some(answer) = self.settle(number, outcome) {
                return Some(answer);
            }
        }
        None
    }

    /// Turns an outcome into an answer, or sends the request again.
    fn settle(&mut self, number: u64, outcome: Outcome) -> Option<Answer> {
        let index = usize::try_from(number.checked_sub(self.first)?).ok()?;
        // A request that was given up is no longer in the queue.
        let mut pushed = self.pushed.get_mut(index)?.take()?;
        let core = &self.client.core;
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
        let state = self.client.core.state();
        let mut link = state.connected(&mut pushed.deadline)?;
        let group = match self.place {
            Some(place) if std::ptr::eq(place.state, state) => place.group,
            _ => {
                let group = link.requests.open_group();
                self.place = Some(Place { state, group });
                group
            }
        };
        let count = pushed.count;
        let asked = Asked::Ids { count, hold: false };
        let request = IdsRequest { tag: pushed.node.name().as_bytes(), count, deadline_ms };
        link.submit(asked, Some((group, number)), |id, out| request.put(false, id, out))?;
        if link.unsent_bytes() >= self.send_at_bytes {
            link.send();
            self.send_at_bytes = SEND_AT_BYTES_MAX.min(self.send_at_bytes * 2);
        }
        Ok(())
    }

    /// The place, if it is this process's.
    fn own_place(&self) -> Option<Place<'client>> {
        self.place.filter(|place| std::ptr::eq(place.state, self.client.core.state()))
    }
}

impl Drop for Pipeline<'_> {
    fn drop(&mut self) {
        if let Some(Place { state, group }) = self.own_place() {
            let mut link = state.lock();
            if !link.requests.close_group(group) {
                state.break_off(&mut link, Break::Overdue);
            }
        }
    }
}

impl std::fmt::Debug for Place<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Place").field(&self.group).finish()
    }
}

impl std::fmt::Debug for Node {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Node").field(&self.name()).finish()
    }
}

/// Draws more ids than one request may ask for.
pub(crate) fn draw_many(
    client: &Client,
    tag: &str,
    count: u64,
    mut deadline: Deadline,
) -> Result<Ids> {
    let _outside = Outside::new();
    let mut pipeline = client.pipeline();
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
