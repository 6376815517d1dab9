//! Accepts connections, and limits their number, their duration and the size of their requests.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::rt::{Read, Write};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tracing::{debug, warn};

use super::body::Body;
use crate::config::Peer;
use crate::server::peer;
use crate::systemd::activation::HttpListener;

/// Limits of connections.
#[derive(Debug)]
pub(super) struct Limits {
    /// Most connections at a time. Further ones wait in the listener's queue. Each address of another host gets a
    /// quarter of them.
    pub connections: usize,
    /// How long the head of a request may take, and how long a connection may be idle.
    pub head_within: Duration,
    /// How long a connection may last.
    pub lasts: Duration,
}

/// Most bytes in a request's head.
const HEAD_BYTES_MAX: usize = 8 * 1024;

/// Most fields in a request's head.
const HEADERS_MAX: usize = 64;

/// How long an answer under way may still take when its connection has reached its duration.
const END_WITHIN: Duration = Duration::from_secs(5);

/// How long to wait when the system has no descriptor for another connection.
const ACCEPT_RETRY: Duration = Duration::from_millis(50);

/// Answers requests.
pub(super) trait Service: 'static {
    /// Answers a request.
    async fn answer(&self, caller: &Rc<Caller>, request: Request<Incoming>) -> Response<Body>;
}

/// The process at the other end of a connection.
#[derive(Debug, Default)]
pub(super) struct Caller {
    /// Its address, if it has one.
    pub address: Option<IpAddr>,
    /// Its user, if the kernel knows it.
    pub peer: Option<Peer>,
    /// Whether it reads an endless answer. Then its connection has no time limit.
    pub streaming: Cell<bool>,
    /// Notify this to close the connection, whatever is under way.
    pub cut: Notify,
}

/// A socket that accepts connections.
pub(super) enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Listener {
    /// Call this within the runtime that serves.
    pub(super) fn new(listener: HttpListener) -> io::Result<Listener> {
        Ok(match listener {
            HttpListener::Tcp(tcp) => {
                tcp.set_nonblocking(true)?;
                Listener::Tcp(TcpListener::from_std(tcp)?)
            }
            HttpListener::Unix(unix) => Listener::Unix(UnixListener::from_std(unix)?),
        })
    }
}

/// How many connections each address of another host has.
struct Places {
    each: usize,
    taken: RefCell<HashMap<IpAddr, usize>>,
}

/// What a connection occupies until it ends.
struct Place {
    _permit: OwnedSemaphorePermit,
    peer: Option<IpAddr>,
    places: Rc<Places>,
}

impl Places {
    fn new(limits: &Limits) -> Rc<Places> {
        Rc::new(Places { each: limits.connections / 4, taken: RefCell::default() })
    }

    /// A place for a connection; `None` if this address has as many as it may have.
    fn take(self: &Rc<Self>, permit: OwnedSemaphorePermit, peer: Option<IpAddr>) -> Option<Place> {
        let peer = peer.filter(|peer| !peer.is_loopback());
        if let Some(peer) = peer {
            let mut taken = self.taken.borrow_mut();
            let count = taken.get(&peer).copied().unwrap_or(0);
            if count >= self.each {
                return None;
            }
            taken.insert(peer, count + 1);
        }
        Some(Place { _permit: permit, peer, places: Rc::clone(self) })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let Some(peer) = self.peer else { return };
        let mut taken = self.places.taken.borrow_mut();
        match taken.get_mut(&peer) {
            Some(count) if *count > 1 => *count -= 1,
            _ => drop(taken.remove(&peer)),
        }
    }
}

/// The bytes of a connection of either kind.
trait Stream: Read + Write + Unpin {}

impl<S: Read + Write + Unpin> Stream for S {}

/// Serves until dropped.
pub(super) async fn serve<S: Service>(listener: Listener, limits: &'static Limits, service: Rc<S>) {
    let free = Arc::new(Semaphore::new(limits.connections));
    let places = Places::new(limits);
    loop {
        let Ok(permit) = Arc::clone(&free).acquire_owned().await else { return };
        let accepted = match &listener {
            Listener::Tcp(tcp) => tcp.accept().await.map(|(stream, peer)| {
                // Answers are small and sent as a whole, so to wait for more data to send would only delay them.
                let _ = stream.set_nodelay(true);
                let peer = Some(peer.ip().to_canonical());
                let caller = Caller { address: peer, ..Caller::default() };
                match places.take(permit, peer) {
                    Some(place) => {
                        let stream = Box::new(TokioIo::new(stream));
                        begin(stream, caller, limits, place, Rc::clone(&service));
                    }
                    None => debug!(?peer, "has a quarter of the connections for HTTP already"),
                }
            }),
            Listener::Unix(unix) => unix.accept().await.map(|(stream, _)| {
                if let Some(place) = places.take(permit, None) {
                    let caller = Caller { peer: peer::of(&stream).ok(), ..Caller::default() };
                    let stream = Box::new(TokioIo::new(stream));
                    begin(stream, caller, limits, place, Rc::clone(&service));
                }
            }),
        };
        if let Err(error) = accepted {
            warn!("cannot accept connections for HTTP: {error}");
            tokio::time::sleep(ACCEPT_RETRY).await;
        }
    }
}

fn begin<S: Service>(
    stream: Box<dyn Stream>,
    caller: Caller,
    limits: &'static Limits,
    place: Place,
    service: Rc<S>,
) {
    tokio::task::spawn_local(async move {
        let _place = place;
        let caller = Rc::new(caller);
        let asks = Rc::clone(&caller);
        let answer = service_fn(move |request| {
            let (service, caller) = (Rc::clone(&service), Rc::clone(&asks));
            async move { Ok::<_, std::convert::Infallible>(service.answer(&caller, request).await) }
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(limits.head_within)
            .max_buf_size(HEAD_BYTES_MAX)
            .max_headers(HEADERS_MAX)
            .serve_connection(stream, answer);
        let mut connection = std::pin::pin!(connection);
        let lasted = async {
            tokio::time::sleep(limits.lasts).await;
            while caller.streaming.get() {
                tokio::time::sleep(END_WITHIN).await;
            }
        };
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            () = caller.cut.notified() => Ok(()),
            () = lasted => {
                connection.as_mut().graceful_shutdown();
                tokio::time::timeout(END_WITHIN, connection).await.unwrap_or(Ok(()))
            }
        };
        if let Err(error) = ended {
            debug!("a connection for HTTP ended: {error}");
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_of_another_host_gets_a_quarter_of_the_places() {
        let limits = Limits { connections: 8, head_within: Duration::ZERO, lasts: Duration::ZERO };
        let places = Places::new(&limits);
        let free = Arc::new(Semaphore::new(100));
        let take = |peer: [u8; 4]| {
            let permit = Arc::clone(&free).try_acquire_owned().expect("there are enough");
            places.take(permit, Some(IpAddr::from(peer)))
        };
        let held = [take([10, 0, 0, 1]), take([10, 0, 0, 1]), take([10, 0, 0, 2])];
        assert!(held.iter().all(Option::is_some));
        assert!(take([10, 0, 0, 1]).is_none());
        let local: Vec<_> = (0..8).map(|_| take([127, 0, 0, 1])).collect();
        assert!(local.iter().all(Option::is_some));
        drop(held);
        assert!(places.taken.borrow().is_empty());
        assert!(take([10, 0, 0, 1]).is_some());
    }
}
