//! The client for tokio. It takes ids from the same held runs as the blocking client.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use leafd_wire::{Header, IdsRequest, InfoReply, Layout, opcode};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout_at;

use crate::async_connection::AsyncConnection;
use crate::client::{Client, info_body, info_of, layout_of};
use crate::clock::exact_ns;
use crate::core::Attempts;
use crate::deadline::Deadline;
use crate::error::{Error, Result};
use crate::ids::{Ids, requests_of_batch};
use crate::pool::{BACK_OFF_MAX, BACK_OFF_MIN, CONNECTIONS_MAX, IDLE_MAX, with_jitter};
use crate::replies::{DrawnIds, RequestOutcome};
use crate::tag::Tag;

/// A [`Client`] for tokio: no call blocks the runtime's threads.
///
/// It shares the held runs of the client from which it was created, but has its own connections: one for each waiting
/// call, up to 32. Connections belong to the runtime that opened them, so create one `AsyncClient` for each runtime. In
/// a forked child, create one from [`AsyncClient::client`], because the parent's returns errors there. Clones share
/// everything.
///
/// A future may be dropped at any time: its request is abandoned, and ids that arrive too late are skipped.
///
/// ```no_run
/// # async fn example() -> Result<(), leafd_client::Error> {
/// use leafd_client::{AsyncClient, Client};
///
/// let client = AsyncClient::from(Client::builder().build()?);
/// let order_id = client.next("orders").await?;
/// let hundred: Vec<u64> = client.next_batch("orders", 100).await?.collect();
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct AsyncClient {
    client: Client,
    shared: Arc<Shared>,
}

/// The state that clones share.
struct Shared {
    /// The process that created it.
    pid: u32,
    /// One permit for each connection.
    permits: Arc<Semaphore>,
    /// The connection used last at the end.
    idle: Mutex<Vec<IdleConnection>>,
    turns: Mutex<HashMap<Box<str>, Arc<DrawTurn>>>,
}

struct IdleConnection {
    connection: AsyncConnection,
    since: Instant,
}

/// A connection that a call uses. Unless it is returned, it is closed.
struct UsedConnection {
    connection: AsyncConnection,
    _permit: OwnedSemaphorePermit,
}

/// Held by the task that fetches a tag's next run. The others queue here.
type DrawTurn = tokio::sync::Mutex<()>;

// === impl AsyncClient ===

impl From<Client> for AsyncClient {
    fn from(client: Client) -> AsyncClient {
        let shared = Shared {
            pid: std::process::id(),
            permits: Arc::new(Semaphore::new(CONNECTIONS_MAX)),
            idle: Mutex::default(),
            turns: Mutex::default(),
        };
        AsyncClient { client, shared: Arc::new(shared) }
    }
}

impl AsyncClient {
    /// The blocking client, which shares the held runs.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The same client, whose calls may take at most `limit` each; see [`Client::within`].
    #[must_use]
    pub fn within(&self, limit: Duration) -> AsyncClient {
        AsyncClient { client: self.client.within(limit), shared: Arc::clone(&self.shared) }
    }

    /// The next id of `tag`; see [`Client::next`].
    ///
    /// # Errors
    /// As [`Client::next`].
    pub async fn next(&self, tag: &str) -> Result<u64> {
        let tag = self.client.tag(tag)?;
        if let Some(held) = tag.take_for_loop() {
            if held.refill_due {
                self.refill(tag);
            }
            return Ok(held.id);
        }
        let mut deadline = self.client.deadline();
        if tag.holds { self.fetch(&tag, &mut deadline).await } else { self.draw(&tag).await }
    }

    /// The next id of `tag`, drawn directly; see [`Client::next_direct`].
    ///
    /// # Errors
    /// As [`Client::next`].
    pub async fn next_direct(&self, tag: &str) -> Result<u64> {
        self.draw(&self.client.tag(tag)?).await
    }

    /// `count` ids of `tag`, in the order of issue; see [`Client::next_batch`].
    ///
    /// # Errors
    /// As [`Client::next_batch`].
    pub async fn next_batch(&self, tag: &str, count: u64) -> Result<Ids> {
        let tag = self.client.tag(tag)?;
        let mut deadline = self.client.deadline();
        let mut runs = Vec::new();
        for count in requests_of_batch(count)? {
            runs.extend(self.ids(&tag, count, false, &mut deadline).await?.runs);
        }
        Ok(Ids::of(runs))
    }

    /// The daemon's version, limits, readiness and layouts.
    ///
    /// # Errors
    /// As [`Client::info`].
    pub async fn info(&self) -> Result<InfoReply> {
        let mut deadline = self.client.deadline();
        let body = self.exchange(opcode::INFO, &mut deadline, |_, id, out| {
            Header::request(opcode::INFO, 0, id).put_frame(&info_body(), out);
        });
        info_of(&body.await?)
    }

    /// The layout of the snowflake ids that are drawn with the tag name `name`.
    ///
    /// # Errors
    /// As [`Client::layout`].
    pub async fn layout(&self, name: &str) -> Result<Layout> {
        layout_of(&self.info().await?, name)
    }

    async fn draw(&self, tag: &Tag) -> Result<u64> {
        Ok(self.ids(tag, 1, false, &mut self.client.deadline()).await?.first_id())
    }

    /// An id from the tag's next run, which one task at a time requests.
    async fn fetch(&self, tag: &Tag, deadline: &mut Deadline) -> Result<u64> {
        self.shared.check_process()?;
        loop {
            let turn = self.shared.turn(tag.name());
            // If the tag's ids may not be held, tasks don't wait for each other.
            let _turn = if tag.wish(2) > 1 {
                let turn = timeout_at(deadline.last_moment().into(), turn.lock()).await;
                Some(turn.map_err(|_| deadline.missed())?)
            } else {
                None
            };
            if let Some(id) = tag.advance() {
                return Ok(id);
            }
            let id = self.hold(tag, tag.wish(1), deadline).await?;
            // Threads that share the run may have taken all of it.
            if let Some(id) = id.or_else(|| tag.advance()) {
                return Ok(id);
            }
        }
    }

    /// Requests a run of `count` ids and holds it. Returns an id if they may not be held.
    async fn hold(&self, tag: &Tag, count: u32, deadline: &mut Deadline) -> Result<Option<u64>> {
        Ok(tag.hold_drawn(&self.ids(tag, count, true, deadline).await?))
    }

    /// Requests the next run in the background, unless another task does.
    fn refill(&self, tag: Tag) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let this = self.clone();
        runtime.spawn(async move {
            let turn = this.shared.turn(tag.name());
            let Ok(_turn) = turn.try_lock() else { return };
            // The limits of the call that found the run short don't apply. If this fails, nothing is lost, because the
            // request is repeated at the end of the run.
            let mut deadline = Deadline::after(this.client.core.limit);
            let _ = this.hold(&tag, tag.wish(1), &mut deadline).await;
        });
    }

    async fn ids(
        &self,
        tag: &Tag,
        count: u32,
        hold: bool,
        deadline: &mut Deadline,
    ) -> Result<DrawnIds> {
        let mut sent_ns = 0;
        let body = self.exchange(opcode::IDS, deadline, |deadline, id, out| {
            sent_ns = exact_ns();
            let deadline_ms = deadline.left_ms();
            IdsRequest { tag: tag.name().as_bytes(), count, deadline_ms }.put(hold, id, out);
        });
        let body = body.await?;
        DrawnIds::decode(&body, count, hold, sent_ns)
    }

    async fn exchange(
        &self,
        opcode: u8,
        deadline: &mut Deadline,
        mut put: impl FnMut(&Deadline, u32, &mut Vec<u8>),
    ) -> Result<Vec<u8>> {
        self.shared.check_process()?;
        let mut attempts = Attempts::default();
        let mut pause = BACK_OFF_MIN;
        loop {
            let mut used = self.connect(deadline).await?;
            let until = deadline.end_of_grace().into();
            let exchange = used.connection.exchange(opcode, |id, out| put(deadline, id, out));
            // A connection whose request was abandoned is closed.
            let outcome = timeout_at(until, exchange).await.map_err(|_| deadline.missed())?;
            if matches!(outcome, RequestOutcome::Broken { .. }) {
                // The daemon may have stopped, which breaks idle connections too.
                self.shared.idle().clear();
            } else if used.connection.is_usable() {
                self.shared.give_back(used.connection);
            }
            let unserved = matches!(outcome, RequestOutcome::Broken { served: false, .. });
            let settled = self.client.core.settle(outcome, Some(&mut attempts), deadline)?;
            if let Some(body) = settled {
                return Ok(body);
            }
            if unserved {
                let left = deadline.last_moment().saturating_duration_since(Instant::now());
                tokio::time::sleep(with_jitter(pause).min(left)).await;
                pause = (pause * 2).min(BACK_OFF_MAX);
            }
        }
    }

    /// An idle connection or a new one, made with growing pauses, up to the deadline.
    async fn connect(&self, deadline: &mut Deadline) -> Result<UsedConnection> {
        let permit = Arc::clone(&self.shared.permits).acquire_owned();
        let permit = timeout_at(deadline.last_moment().into(), permit).await;
        let Ok(Ok(_permit)) = permit else { return Err(deadline.missed()) };
        let idle = self.shared.idle().pop();
        if let Some(IdleConnection { connection, .. }) = idle {
            deadline.connected(connection.made);
            return Ok(UsedConnection { connection, _permit });
        }
        let endpoint = &self.client.core.endpoint;
        let mut pause = BACK_OFF_MIN;
        loop {
            let left = deadline.connect_by.saturating_duration_since(Instant::now());
            match AsyncConnection::new(&endpoint.path).await {
                Ok(connection) => {
                    endpoint.note_reached();
                    deadline.connected(connection.made);
                    return Ok(UsedConnection { connection, _permit });
                }
                Err(source) if left.is_zero() || !endpoint.may_come_back(&source, deadline) => {
                    return Err(Error::Connect { path: endpoint.path.clone(), source });
                }
                Err(_) => tokio::time::sleep(with_jitter(pause).min(left)).await,
            }
            pause = (pause * 2).min(BACK_OFF_MAX);
        }
    }
}

impl fmt::Debug for AsyncClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AsyncClient").field("client", &self.client).finish_non_exhaustive()
    }
}

// === impl Shared ===

impl Shared {
    /// A forked child shares the connections with its parent, and locks that tasks held at the fork stay locked.
    fn check_process(&self) -> Result<()> {
        if self.pid == std::process::id() {
            return Ok(());
        }
        Err(Error::invalid(
            "this AsyncClient was created before a fork; create one in each process",
        ))
    }

    fn idle(&self) -> MutexGuard<'_, Vec<IdleConnection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn give_back(&self, connection: AsyncConnection) {
        let mut idle = self.idle();
        idle.push(IdleConnection { connection, since: Instant::now() });
        if idle[0].since.elapsed() > IDLE_MAX {
            idle.remove(0);
        }
    }

    fn turn(&self, tag: &str) -> Arc<DrawTurn> {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(turn) = turns.get(tag) {
            return Arc::clone(turn);
        }
        Arc::clone(turns.entry(tag.into()).or_default())
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if self.pid != std::process::id() {
            // Closing them would remove the parent's from the set of polled descriptors, which both processes share.
            std::mem::take(&mut *self.idle()).into_iter().for_each(std::mem::forget);
        }
    }
}
