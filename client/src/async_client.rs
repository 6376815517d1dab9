//! The client for tokio. It takes ids from the blocking client's held runs, and makes all other calls on tokio's
//! blocking thread pool.

use std::io;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::time::Duration;

use leafd_wire::{InfoReply, Layout};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::timeout_at;

use crate::client::{Client, layout_of};
use crate::deadline::Deadline;
use crate::error::{Error, Result};
use crate::ids::Ids;
use crate::interruption::OnBehalf;
use crate::pool::CONNECTIONS_MAX;

/// A [`Client`] for tokio: no call blocks the runtime's workers.
///
/// It shares the held runs and the connections of the client from which it was created. Most calls return an id from a
/// held run. Every other call occupies a thread of the runtime's blocking pool until it ends; at most 32 run at once.
/// In a forked child, create a new `AsyncClient` from [`AsyncClient::client`], because the parent's returns errors
/// there. Clones share everything.
///
/// A future may be dropped at any time. Its call then stops waiting for a missing daemon, but still waits for a pending
/// answer until the deadline, and skips the ids that it gets. A runtime that shuts down waits for such calls.
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
#[derive(Clone, Debug)]
pub struct AsyncClient {
    client: Client,
    /// One permit for each call that may occupy a thread.
    permits: Arc<Semaphore>,
    /// The process that created it.
    pid: u32,
}

// === impl AsyncClient ===

impl From<Client> for AsyncClient {
    fn from(client: Client) -> AsyncClient {
        let permits = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        AsyncClient { client, permits, pid: std::process::id() }
    }
}

impl AsyncClient {
    /// Returns the blocking client, which shares the held runs.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Returns a client that shares everything, but limits each call to `limit`; see [`Client::within`].
    #[must_use]
    pub fn within(&self, limit: Duration) -> AsyncClient {
        AsyncClient { client: self.client.within(limit), ..self.clone() }
    }

    /// Returns the next id of `tag`; see [`Client::next`].
    ///
    /// # Errors
    /// Same as [`Client::next`].
    pub async fn next(&self, tag: &str) -> Result<u64> {
        let tag = self.client.tag(tag)?;
        match tag.take() {
            Some(id) => Ok(id),
            None => self.wait(move |_, deadline| tag.next_by(deadline)).await,
        }
    }

    /// Draws the next id of `tag` directly; see [`Client::next_direct`].
    ///
    /// # Errors
    /// Same as [`Client::next`].
    pub async fn next_direct(&self, tag: &str) -> Result<u64> {
        let tag = self.client.tag(tag)?.direct();
        self.wait(move |_, deadline| tag.next_by(deadline)).await
    }

    /// Draws `count` ids of `tag`, in the order of issue; see [`Client::next_batch`].
    ///
    /// # Errors
    /// Same as [`Client::next_batch`].
    pub async fn next_batch(&self, tag: &str, count: u64) -> Result<Ids> {
        let tag = tag.to_owned();
        self.wait(move |client, deadline| client.core.draw_batch(&tag, count, deadline)).await
    }

    /// Returns the daemon's version, limits, readiness and layouts.
    ///
    /// # Errors
    /// Same as [`Client::info`].
    pub async fn info(&self) -> Result<InfoReply> {
        self.wait(Client::info_by).await
    }

    /// Returns the layout of the snowflake ids drawn under the tag name `name`.
    ///
    /// # Errors
    /// Same as [`Client::layout`].
    pub async fn layout(&self, name: &str) -> Result<Layout> {
        layout_of(&self.info().await?, name)
    }

    /// Makes a call that may wait.
    async fn wait<T: Send + 'static>(
        &self,
        call: impl FnOnce(&Client, &mut Deadline) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        // In a forked child, the permits may be held by threads that don't exist there.
        if self.pid != std::process::id() {
            return Err(Error::invalid(
                "this AsyncClient was created before a fork; create one in each process",
            ));
        }
        let mut deadline = self.client.deadline();
        let permit = Arc::clone(&self.permits).acquire_owned();
        let permit = timeout_at(deadline.last_moment().into(), permit).await;
        let Ok(Ok(permit)) = permit else { return Err(deadline.missed()) };
        let client = self.client.clone();
        // Dropped together with this future.
        let caller = Arc::new(());
        let on_behalf = Arc::downgrade(&caller);
        let called = spawn_blocking(move || {
            let (_permit, _caller) = (permit, OnBehalf::of(on_behalf));
            call(&client, &mut deadline)
        });
        called.await.unwrap_or_else(|ended| match ended.try_into_panic() {
            Ok(panic) => resume_unwind(panic),
            Err(cancelled) => {
                let (what, source) =
                    ("tokio's runtime is shutting down", io::Error::other(cancelled));
                Err(Error::Resources { what, source })
            }
        })
    }
}
