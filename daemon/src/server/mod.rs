//! Accepts and closes connections.

pub mod busy_poll;
mod connection;
pub mod limits;
pub(crate) mod owners;
pub(crate) mod passed;
pub(crate) mod peer;
pub mod socket;
pub(crate) mod stream;
mod turns;

use std::cell::Cell;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use leafd_core::shares::{Claimant, ShareSlot};
use leafd_wire::reply::reply_header;
use leafd_wire::{ErrorReply, Header, Status};
use tokio::net::UnixListener;
use tokio::sync::{Notify, watch};
use tracing::{debug, warn};

use crate::clock::monotonic_us;
use crate::memory;
use crate::requests::{Dispatcher, Session};
use busy_poll::BusyPoll;
use connection::Connection;
use limits::Limits;
use owners::Owners;
use passed::Guarded;
use stream::Stream;
use turns::{TURN_US, Turns};

/// Accepts connections.
pub struct Server {
    listener: UnixListener,
    dispatcher: Rc<Dispatcher>,
    wakefulness: Rc<BusyPoll>,
    limits: Limits,
    owners: Owners,
    turns: Rc<Turns>,
    stopping: watch::Receiver<bool>,
    /// Tells the connections to stop. Sent after the last one was accepted.
    closing: watch::Sender<bool>,
    left: Rc<Notify>,
    warned: Cell<bool>,
}

/// How long to wait if the system has no descriptor for another connection.
const ACCEPT_RETRY: Duration = Duration::from_millis(50);

/// How long new peers are identified before others get a turn, in microseconds.
const ACCEPTING_US: u64 = TURN_US;

impl Server {
    /// A server that stops accepting when `stopping` turns true. The dispatcher then stops issuing as
    /// well.
    pub fn new(
        listener: UnixListener,
        dispatcher: Rc<Dispatcher>,
        wakefulness: Rc<BusyPoll>,
        limits: Limits,
        stopping: watch::Receiver<bool>,
    ) -> Self {
        let (closing, _) = watch::channel(false);
        Server {
            listener,
            dispatcher,
            wakefulness,
            limits,
            owners: Owners::default(),
            turns: Rc::default(),
            stopping,
            closing,
            left: Rc::default(),
            warned: Cell::new(false),
        }
    }

    /// Serves until it is stopped and every connection has ended.
    pub async fn run(self) {
        let mut stopping = self.stopping.clone();
        let turns = Rc::clone(&self.turns);
        let sharing =
            tokio::task::spawn_local(async move { tokio::join!(turns.run(), memory::give_back()) });
        let mut accepting_us = 0;
        loop {
            tokio::select! {
                biased;
                _ = stopping.wait_for(|stopping| *stopping) => break,
                accepted = accept(&self.listener) => match accepted {
                    Ok(stream) => {
                        let began_us = monotonic_us();
                        self.connected(stream);
                        accepting_us += monotonic_us().saturating_sub(began_us);
                        if accepting_us > ACCEPTING_US {
                            accepting_us = 0;
                            tokio::task::yield_now().await;
                        }
                    }
                    Err(error) => self.accept_failed(&error).await,
                },
            }
        }
        // Close the listener before clients are told to reconnect. A client that connected to it now would be
        // disconnected a second time, and clients retry only once.
        let Server { listener, dispatcher, closing, left, .. } = self;
        drop(listener);
        dispatcher.stop_issuing();
        closing.send_replace(true);
        while dispatcher.counters.connections.get() > 0 {
            left.notified().await;
        }
        sharing.abort();
    }

    fn connected(&self, stream: Guarded) {
        let counters = &self.dispatcher.counters;
        let access = self.dispatcher.access();
        let peer = peer::of(&stream, access.admin_gids(), &access);
        let peer = peer.and_then(|peer| Ok((peer, peer::pid(&stream)?)));
        let (peer, pid) = match peer {
            Ok(known) => known,
            Err(error) => {
                return debug!("a client disconnected before its credentials were read: {error}");
            }
        };
        let trusted = access.may_administer(&peer);
        let claimant = Claimant { uid: self.owners.owner(peer.uid), trusted };
        let Some(part) = self.limits.connect(claimant) else {
            return self.refuse(stream, claimant);
        };
        let stream = match Stream::new(stream) {
            Ok(stream) => stream,
            Err(error) => return warn!("a connection can't be served: {error}"),
        };
        counters.accepted.set(counters.accepted.get() + 1);
        counters.connections.set(counters.connections.get() + 1);
        counters.administrators.set(counters.administrators.get() + u64::from(trusted));
        let pace = self.wakefulness.pace();
        let tally = Rc::clone(&self.dispatcher.tally);
        let pid = u32::try_from(pid).unwrap_or(0);
        let session = Session::new(peer, pid, claimant, tally);
        let (dispatcher, turns) = (Rc::clone(&self.dispatcher), Rc::clone(&self.turns));
        let connection = Connection::new(stream, session, dispatcher, pace, part, turns);
        let stopping = self.closing.subscribe();
        let (dispatcher, left) = (Rc::clone(&self.dispatcher), Rc::clone(&self.left));
        tokio::task::spawn_local(async move {
            connection.serve(stopping).await;
            let counters = &dispatcher.counters;
            counters.connections.set(counters.connections.get() - 1);
            counters.administrators.set(counters.administrators.get() - u64::from(trusted));
            left.notify_one();
        });
    }

    /// Sends the reason, as far as it fits into the socket's buffer, and closes the connection once it is read.
    fn refuse(&self, stream: Guarded, claimant: Claimant) {
        let turned_away = &self.dispatcher.counters.turned_away;
        turned_away.set(turned_away.get() + 1);
        let (own, limit) = {
            let connections = self.limits.connections.borrow();
            (connections.of(claimant.uid), connections.capacity)
        };
        let message = format!(
            "uid {} has {own} connections, its share of connections_max = {limit}: no user may have more connections \
             than remain for all others; close some, or retry later",
            claimant.uid
        );
        if !self.warned.replace(true) {
            warn!("refused a client: {message}");
        }
        let reply = ErrorReply { retry_after_ms: 1_000, message: &message };
        let mut bytes = Vec::new();
        reply.put(&reply_header(&Header::default(), Status::ConnectionLimit, 0), &mut bytes);
        let Some(place) = ShareSlot::take(&self.limits.refusals, claimant) else { return };
        if let Ok(stream) = Stream::new(stream)
            && stream.write_now(&bytes).is_ok()
        {
            tokio::task::spawn_local(async move {
                let _place = place;
                stream.until_read().await;
            });
        }
    }

    async fn accept_failed(&self, error: &io::Error) {
        if !self.warned.replace(true) {
            warn!("cannot accept connections: {error}; new clients wait");
        }
        tokio::time::sleep(ACCEPT_RETRY).await;
    }
}

/// The next connection, guarded from the beginning.
pub(crate) async fn accept(listener: &UnixListener) -> io::Result<Guarded> {
    let (stream, _) = listener.accept().await?;
    Ok(Guarded::new(stream.into_std()?))
}
