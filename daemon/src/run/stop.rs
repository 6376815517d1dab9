//! A stop, step by step. Its order ensures that the next start continues at the next id.

use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tracing::{info, warn};

use super::{embedded, http};
use crate::engine::lease::{LeaseDriver, Worker};
use crate::journal::{Journal, Recovered, Write};
use crate::requests::Dispatcher;
use crate::server::socket::Socket;
use crate::state_dir::StateDir;
use crate::systemd::notify::Service;

/// Connections get at most 1/`STOP_SHARE` of a stop's time; the rest is for the journal.
const STOP_SHARE: u32 = 2;

/// How many shares that rest has: for the stores' answers, for the worker registry's, for recording the stop in
/// embedded stores, and for the journal.
const LEFT_SHARES: u32 = 4;

/// A stop that could not write exact marks.
const STOPPED_INEXACTLY: &str = "stopped, but the journal could not be brought up to date: the next start skips some ids \
     (no id repeats)";

/// A serving daemon.
pub(super) struct Daemon {
    /// Keeps the state directory locked.
    pub(super) _state_dir: StateDir,
    pub(super) socket: Socket,
    pub(super) _http: http::Serving,
    pub(super) journal: Journal,
    pub(super) recovered: Recovered,
    pub(super) dispatcher: Rc<Dispatcher>,
    pub(super) service: Rc<Service>,
    /// Tells the server to end its connections.
    pub(super) stop: watch::Sender<bool>,
    pub(super) serving: JoinHandle<()>,
    /// The task that maintains marks, lease and tags between requests.
    pub(super) background: JoinHandle<()>,
    /// What follows the stores' changes.
    pub(super) watching: JoinSet<()>,
    /// The task that watches the lock of an assigned worker.
    pub(super) guarding: JoinHandle<()>,
    /// The task that reports to the service manager.
    pub(super) attending: JoinHandle<()>,
}

impl Daemon {
    /// Stops within this time, with every mark exact.
    ///
    /// # Errors
    /// The journal could not be brought up to date, so the next start skips some ids.
    pub(super) async fn stop(mut self, within: Duration) -> Result<()> {
        let begun = Instant::now();
        self.attending.abort();
        self.service.stopping(within);
        self.end_connections(within / STOP_SHARE).await;
        let left = within.saturating_sub(begun.elapsed());
        let share = left / LEFT_SHARES;
        let exact = tokio::time::timeout(left, async {
            self.end_claims(share).await;
            self.drain_journal().await;
            // This is read before the lease is kept, and no id is issued after that.
            let layout_marks = self.dispatcher.snowflakes.exact_marks();
            self.keep_lease(share).await;
            self.end_background();
            self.write_exact_marks(layout_marks).await?;
            self.note_stop_in_embedded_stores(share).await;
            Ok::<_, anyhow::Error>(())
        })
        .await;
        let Daemon { socket, guarding, journal, dispatcher, .. } = self;
        drop(socket);
        guarding.abort();
        match exact {
            Ok(Ok(())) => {
                close(journal, &dispatcher, left).await;
                info!("stopped cleanly: the next start continues at the next id");
                Ok(())
            }
            Ok(Err(error)) => Err(error).context(STOPPED_INEXACTLY),
            Err(_) => bail!("{STOPPED_INEXACTLY}: the journal did not answer within {left:?}"),
        }
    }

    /// Issues no more ids, and ends the connections once their answers are read.
    async fn end_connections(&mut self, within: Duration) {
        // There is always a receiver: the server's.
        let _ = self.stop.send(true);
        if tokio::time::timeout(within, &mut self.serving).await.is_err() {
            warn!("some clients did not read their replies in time; their connections are closed");
        }
    }

    /// Waits for pending claims, so that their numbers are not lost. If a store hangs, only these are lost.
    async fn end_claims(&self, within: Duration) {
        let ended = self.dispatcher.segments.claims_ended();
        if tokio::time::timeout(within, ended).await.is_err() {
            warn!(
                "the store has not answered; ids that it may have granted to this host are skipped"
            );
        }
    }

    /// Waits until everything that was sent to the journal is recorded. After that, only exact marks may follow.
    async fn drain_journal(&self) {
        self.dispatcher.writer.drained().await;
        self.dispatcher.segments.losses.flush();
    }

    /// Keeps a leased worker for the next start.
    async fn keep_lease(&self, within: Duration) {
        let Some(lease) = leased(&self.dispatcher) else { return };
        lease.stop(self.dispatcher.snowflakes.issued_below());
        if tokio::time::timeout(within, lease.ended()).await.is_err() {
            warn!("the worker registry has not answered; the next start relies on the journal");
        }
    }

    fn end_background(&mut self) {
        self.background.abort();
        self.watching = JoinSet::new();
    }

    async fn write_exact_marks(&self, layout_marks: Vec<Write>) -> Result<()> {
        let mut writes = self.dispatcher.segments.exact_marks();
        writes.extend(layout_marks);
        writes.push(Write::StoppedCleanly);
        self.journal.commit(writes).await?;
        Ok(())
    }

    /// Records in embedded stores the stop that the journal has recorded.
    async fn note_stop_in_embedded_stores(&self, within: Duration) {
        let Some(stop) = self.journal.stopped() else { return };
        let noted = embedded::tell_stop(&self.dispatcher.segments, &self.recovered, &stop);
        let _ = tokio::time::timeout(within, noted).await;
    }
}

/// Closes the journal and the stores. An embedded store's log is moved into its file; a store that hangs is left as it
/// is.
async fn close(journal: Journal, dispatcher: &Dispatcher, within: Duration) {
    journal.close().await;
    for upstream in &dispatcher.segments.upstreams {
        let _ = tokio::time::timeout(within, upstream.store.close()).await;
    }
    if let Some(lease) = leased(dispatcher) {
        let _ = tokio::time::timeout(within, lease.link.close()).await;
    }
}

fn leased(dispatcher: &Dispatcher) -> Option<&Rc<LeaseDriver>> {
    match &dispatcher.snowflakes.worker {
        Worker::Leased(lease) => Some(lease),
        _ => None,
    }
}
