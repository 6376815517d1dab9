//! HTTP for monitoring the daemon: a page at `/`, `/metrics`, `/livez` and `/readyz`.
//!
//! It runs on its own thread, so that parsing and sending never delay the thread that answers requests for ids. Data
//! that only that thread has is requested with an inquiry.
//!
//! `leaf` serves Leaf's own paths, on another listener and another thread.
//!
//! - `listener`: connections and their limits.
//! - `socket_owner`: the user at the other end of a connection of this host.
//! - `answer`: the text of an answer, as it is sent.
//! - `inquiries`: queries to the thread that answers requests.
//! - `routes`: the paths.
//! - `page`: the web page, and the state that it requests.

mod answer;
mod inquiries;
mod leaf;
mod listener;
mod page;
mod routes;
mod socket_owner;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::rc::Rc;
use std::sync::mpsc as blocking;

use tokio::runtime::LocalOptions;
use tokio::sync::{mpsc, watch};

use crate::config::{HttpAddress, LeafHttp};
use crate::requests::Dispatcher;
use crate::server::socket::Socket;
use crate::systemd::activation::HttpListener;
use inquiries::Inquiry;
use leaf::Leaf;
use listener::Listener;
use routes::Monitoring;

/// A listening socket that nothing serves yet.
#[derive(Debug)]
pub struct Bound {
    listener: HttpListener,
    /// The socket's file, if this daemon has created it.
    file: Option<Socket>,
    /// Whether only processes of this host can connect.
    local: bool,
}

/// A running HTTP server. Dropping it ends the server.
#[derive(Debug)]
pub struct Http {
    _stop: watch::Sender<()>,
    _file: Option<Socket>,
}

/// The daemon can't listen on an address.
#[derive(Debug, thiserror::Error)]
#[error("cannot serve HTTP on {address}: {cause}; use another address or port")]
pub struct BindError {
    address: SocketAddr,
    pub cause: io::Error,
}

/// The thread's name.
const THREAD_NAME: &str = "leafd-http";

/// The name of the thread of Leaf's paths.
const LEAF_THREAD_NAME: &str = "leafd-leaf";

/// How many inquiries may wait for the thread that answers requests.
const INQUIRIES_MAX: usize = 64;

impl Bound {
    /// Listens on the passed socket, or on the address. A Unix socket gets this mode and group.
    ///
    /// # Errors
    /// Why it can't listen there.
    pub fn open(
        address: Option<&HttpAddress>,
        given: Option<HttpListener>,
        mode: u32,
        group: Option<u32>,
    ) -> anyhow::Result<Option<Bound>> {
        let (listener, file) = match (given, address) {
            (Some(listener), _) => (listener, None),
            (None, None) => return Ok(None),
            (None, Some(HttpAddress::Tcp(address))) => (HttpListener::Tcp(bind(*address)?), None),
            (None, Some(HttpAddress::Unix(path))) => {
                let mut socket = Socket::bind(path, mode, group)?;
                (HttpListener::Unix(socket.take_listener()?), Some(socket))
            }
        };
        let local = match &listener {
            HttpListener::Tcp(tcp) => tcp.local_addr()?.ip().is_loopback(),
            HttpListener::Unix(_) => true,
        };
        Ok(Some(Bound { listener, file, local }))
    }

    /// The address or path on which it listens.
    pub fn place(&self) -> String {
        if let Some(file) = &self.file {
            return file.path().display().to_string();
        }
        match &self.listener {
            HttpListener::Tcp(tcp) => {
                tcp.local_addr().map(|address| address.to_string()).unwrap_or_default()
            }
            HttpListener::Unix(unix) => unix
                .local_addr()
                .ok()
                .and_then(|address| address.as_pathname().map(|path| path.display().to_string()))
                .unwrap_or_default(),
        }
    }

    /// Serves the page, metrics and health. Call this on the thread that answers requests.
    ///
    /// # Errors
    /// The system can't start a thread or runtime, or watch the listener.
    pub fn serve_monitoring(self, dispatcher: &Rc<Dispatcher>) -> io::Result<Http> {
        let (ask, access, local) = (attended(dispatcher), dispatcher.watch_access(), self.local);
        self.serve(THREAD_NAME, move |listener| async move {
            let monitoring = Monitoring::new(ask, access.clone(), local);
            listener::serve(listener, &routes::LIMITS, access, monitoring).await;
        })
    }

    /// Serves Leaf's paths, likewise. Callers must send the token, if there is one.
    ///
    /// # Errors
    /// As for [`Bound::serve_monitoring`].
    pub fn serve_leaf(
        self,
        dispatcher: &Rc<Dispatcher>,
        settings: LeafHttp,
        token: Option<String>,
    ) -> io::Result<Http> {
        let (ask, access) = (attended(dispatcher), dispatcher.watch_access());
        let layouts = dispatcher.snowflakes.layouts().iter();
        let layouts = layouts.map(|layout| layout.name.as_str().to_owned()).collect();
        self.serve(LEAF_THREAD_NAME, move |listener| async move {
            let leaf = Leaf::new(settings, token, layouts, ask, access.clone());
            listener::serve(listener, &leaf::LIMITS, access, leaf).await;
        })
    }

    fn serve<F: Future<Output = ()>>(
        self,
        thread: &str,
        serve: impl FnOnce(Listener) -> F + Send + 'static,
    ) -> io::Result<Http> {
        let (stop, mut stopped) = watch::channel(());
        let (begun, outcome) = blocking::sync_channel(1);
        let listener = self.listener;
        std::thread::Builder::new().name(thread.to_owned()).spawn(move || {
            let ready = tokio::runtime::Builder::new_current_thread()
                .enable_io()
                .enable_time()
                .build_local(LocalOptions::default())
                .and_then(|runtime| {
                    let listener = runtime.block_on(async { Listener::new(listener) })?;
                    Ok((runtime, listener))
                });
            let (runtime, listener) = match ready {
                Ok(ready) => ready,
                Err(error) => return drop(begun.send(Err(error))),
            };
            let _ = begun.send(Ok(()));
            runtime.block_on(async {
                tokio::select! {
                    // This fails when the other end is dropped, which also means to stop.
                    _ = stopped.changed() => {}
                    () = serve(listener) => {}
                }
            });
        })?;
        // A runtime can't leave the thread that creates it, so the thread reports whether it succeeded.
        outcome.recv().map_err(io::Error::other)??;
        Ok(Http { _stop: stop, _file: self.file })
    }
}

/// Where an HTTP thread sends its inquiries from now on.
fn attended(dispatcher: &Rc<Dispatcher>) -> mpsc::Sender<Inquiry> {
    let (ask, inquiries) = mpsc::channel(INQUIRIES_MAX);
    tokio::task::spawn_local(inquiries::attend(Rc::clone(dispatcher), inquiries));
    ask
}

fn bind(address: SocketAddr) -> Result<TcpListener, BindError> {
    let bound = TcpListener::bind(address).and_then(|listener| {
        listener.set_nonblocking(true)?;
        Ok(listener)
    });
    bound.map_err(|cause| BindError { address, cause })
}
