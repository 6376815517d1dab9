//! The client for tokio. It takes ids from the blocking client's held runs, and makes all other calls of that client on
//! tokio's threads for blocking calls.

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
/// It shares the held runs and the connections of the client from which it was created. Most calls answer from a held
/// run. Each of the others occupies one of the runtime's threads for blocking calls until it ends; at most 32 do so at
/// once. In a forked child, create one from [`AsyncClient::client`], because the parent's returns errors there. Clones
/// share everything.
///
/// A future may be dropped at any time. Its call then waits no longer for a missing daemon, but for an answer until the
/// deadline, and ids that it gets are skipped. A runtime that shuts down waits for such calls.
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
    /// One for each call that may occupy a thread.
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
    /// The blocking client, which shares the held runs.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The same client, whose calls may take at most `limit` each; see [`Client::within`].
    #[must_use]
    pub fn within(&self, limit: Duration) -> AsyncClient {
        AsyncClient { client: self.client.within(limit), ..self.clone() }
    }

    /// The next id of `tag`; see [`Client::next`].
    ///
    /// # Errors
    /// As [`Client::next`].
    pub async fn next(&self, tag: &str) -> Result<u64> {
        let tag = self.client.tag(tag)?;
        match tag.take() {
            Some(id) => Ok(id),
            None => self.wait(move |_, deadline| tag.next_by(deadline)).await,
        }
    }

    /// The next id of `tag`, drawn directly; see [`Client::next_direct`].
    ///
    /// # Errors
    /// As [`Client::next`].
    pub async fn next_direct(&self, tag: &str) -> Result<u64> {
        let tag = self.client.tag(tag)?.direct();
        self.wait(move |_, deadline| tag.next_by(deadline)).await
    }

    /// `count` ids of `tag`, in the order of issue; see [`Client::next_batch`].
    ///
    /// # Errors
    /// As [`Client::next_batch`].
    pub async fn next_batch(&self, tag: &str, count: u64) -> Result<Ids> {
        let tag = tag.to_owned();
        self.wait(move |client, deadline| client.core.draw_batch(&tag, count, deadline)).await
    }

    /// The daemon's version, limits, readiness and layouts.
    ///
    /// # Errors
    /// As [`Client::info`].
    pub async fn info(&self) -> Result<InfoReply> {
        self.wait(Client::info_by).await
    }

    /// The layout of the snowflake ids that are drawn with the tag name `name`.
    ///
    /// # Errors
    /// As [`Client::layout`].
    pub async fn layout(&self, name: &str) -> Result<Layout> {
        layout_of(&self.info().await?, name)
    }

    /// Makes a call that may wait.
    async fn wait<T: Send + 'static>(
        &self,
        call: impl FnOnce(&Client, &mut Deadline) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        // In a forked child, threads that don't exist there may have the permits.
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
