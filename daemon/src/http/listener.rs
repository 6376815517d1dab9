//! Accepts connections, and limits their number, their duration and the size of their requests.

use std::cell::RefCell;
use std::convert::Infallible;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper::body::Incoming;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use leafd_core::shares::{Claimant, ShareSlot, Shares};
use nix::sys::socket::{setsockopt, sockopt};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::watch;
use tracing::{debug, warn};

use super::answer::Text;
use super::socket_owner;
use crate::config::{AccessRules, Peer};
use crate::memory;
use crate::server::stream::Stream as UnixStream;
use crate::server::{self, owners::Owners, passed, peer};
use crate::systemd::activation::HttpListener;

/// Limits of connections.
#[derive(Debug)]
pub(super) struct ConnectionLimits {
    /// The maximum number of connections, divided between users of this host and addresses of other hosts. Further ones
    /// are closed.
    pub connections: u64,
    /// How long the head of a request may take, and how long a connection may be idle.
    pub head_within: Duration,
    /// How long a connection may last.
    pub lasts: Duration,
}

/// The maximum number of bytes in a request's head.
const HEAD_BYTES_MAX: usize = 8 * 1024;

/// The maximum number of fields in a request's head.
const HEADERS_MAX: usize = 64;

/// How long a pending answer may still take when its connection has reached its maximum duration.
const END_WITHIN: Duration = Duration::from_secs(5);

/// How long to wait if the system has no descriptor for another connection.
const ACCEPT_RETRY: Duration = Duration::from_millis(50);

/// How many bytes of answers and of requests the kernel buffers for each TCP connection; it doubles the numbers.
const SEND_BUFFER_BYTES: usize = 32 * 1024;
const RECEIVE_BUFFER_BYTES: usize = 16 * 1024;

/// Answers requests.
pub(super) trait Service: 'static {
    /// Answers a request.
    async fn answer(&self, caller: &Rc<Caller>, request: Request<Incoming>) -> Response<Text>;
}

/// The process at the other end of a connection.
#[derive(Debug)]
pub(super) struct Caller {
    /// Its address, if it has one.
    pub address: Option<IpAddr>,
    /// Its user, if that is certain, as on a Unix socket.
    pub peer: Option<Peer>,
    /// The party whose share of the limits it uses.
    pub party: Party,
}

/// A socket that accepts connections.
pub(super) enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Listener {
    /// Call this within the serving runtime.
    pub(super) fn new(listener: HttpListener) -> io::Result<Listener> {
        Ok(match listener {
            HttpListener::Tcp(tcp) => {
                tcp.set_nonblocking(true)?;
                // Connections inherit these. The content of the buffers is charged to the daemon's cgroup.
                setsockopt(&tcp, sockopt::SndBuf, &SEND_BUFFER_BYTES)?;
                setsockopt(&tcp, sockopt::RcvBuf, &RECEIVE_BUFFER_BYTES)?;
                Listener::Tcp(TcpListener::from_std(tcp)?)
            }
            HttpListener::Unix(unix) => {
                passed::refuse(&unix);
                Listener::Unix(UnixListener::from_std(unix)?)
            }
        })
    }
}

/// The party between which connections are divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Party {
    /// A user of this host.
    User(u32),
    /// A process of this host whose user the kernel does not report.
    Local,
    /// Another host.
    Address(IpAddr),
}

impl Read for UnixStream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let mut bytes = [0; HEAD_BYTES_MAX];
        let most = buffer.remaining().min(bytes.len());
        let count = ready!(UnixStream::poll_read(&self, cx, &mut bytes[..most]))?;
        buffer.put_slice(&bytes[..count]);
        Poll::Ready(Ok(()))
    }
}

impl Write for UnixStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        UnixStream::poll_write(&mut self, cx, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.end_answers())
    }
}

/// The bytes of a connection of either kind.
trait Stream: Read + Write + Unpin {}

impl<S: Read + Write + Unpin> Stream for S {}

/// Serves until dropped.
pub(super) async fn serve<S: Service>(
    listener: Listener,
    limits: &'static ConnectionLimits,
    access: watch::Receiver<AccessRules>,
    service: Rc<S>,
) {
    tokio::task::spawn_local(memory::give_back());
    let places = Rc::new(RefCell::new(Shares::new(limits.connections)));
    let owners = Owners::default();
    // Some places are reserved for administrators, so that probes get through.
    let claimant = |peer: Option<&Peer>, otherwise| Claimant {
        uid: peer.map_or(otherwise, |peer| Party::User(owners.owner(peer.uid))),
        trusted: peer.is_some_and(|peer| access.borrow().may_administer(peer)),
    };
    let enter =
        |stream: Box<dyn Stream>, caller: Caller, claimant: Claimant<Party>| match ShareSlot::take(
            &places, claimant,
        ) {
            Some(place) => begin(stream, caller, limits, place, Rc::clone(&service)),
            None => {
                debug!(party = ?claimant.uid, "has used its share of the HTTP connections")
            }
        };
    loop {
        let accepted = match &listener {
            Listener::Tcp(tcp) => tcp.accept().await.map(|(stream, peer)| {
                // Answers are small and sent as a whole, so waiting for more data would only delay them.
                let _ = stream.set_nodelay(true);
                let address = peer.ip().to_canonical();
                let claimant = match address.is_loopback() {
                    true => claimant(socket_owner::of_peer(&stream).as_ref(), Party::Local),
                    false => Claimant { uid: Party::Address(address), trusted: false },
                };
                let caller = Caller { address: Some(address), peer: None, party: claimant.uid };
                enter(Box::new(TokioIo::new(stream)), caller, claimant);
            }),
            Listener::Unix(unix) => server::accept(unix).await.and_then(|stream| {
                let rules = access.borrow().clone();
                let peer = peer::of(&stream, rules.admin_gids(), &rules).ok();
                let claimant = claimant(peer.as_ref(), Party::Local);
                let caller = Caller { address: None, peer, party: claimant.uid };
                enter(Box::new(UnixStream::new(stream)?), caller, claimant);
                Ok(())
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
    limits: &'static ConnectionLimits,
    place: ShareSlot<Party>,
    service: Rc<S>,
) {
    tokio::task::spawn_local(async move {
        let _place = place;
        let caller = Rc::new(caller);
        let answer = service_fn(move |request| {
            let (service, caller) = (Rc::clone(&service), Rc::clone(&caller));
            async move { Ok::<_, Infallible>(service.answer(&caller, request).await) }
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(limits.head_within)
            .max_buf_size(HEAD_BYTES_MAX)
            .max_headers(HEADERS_MAX)
            .serve_connection(stream, answer);
        let mut connection = std::pin::pin!(connection);
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            () = tokio::time::sleep(limits.lasts) => {
                connection.as_mut().graceful_shutdown();
                tokio::time::timeout(END_WITHIN, connection).await.unwrap_or(Ok(()))
            }
        };
        if let Err(error) = ended {
            debug!("a connection for HTTP ended: {error}");
        }
        memory::let_go(HEAD_BYTES_MAX as u64);
    });
}
