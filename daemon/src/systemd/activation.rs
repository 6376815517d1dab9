//! The sockets that systemd listens on for the daemon and passes at its start. They outlive the daemon: clients that
//! connect during a restart wait in their queues instead of failing.

use std::fmt;
use std::io;
use std::net::TcpListener;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;

use anyhow::{Error, Result, anyhow, bail};
use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, SockType, SockaddrLike as _, SockaddrStorage};
use nix::sys::socket::{getsockname, getsockopt, sockopt};
use std::os::fd::AsRawFd as _;

/// The allowed names of the socket for ids: `FileDescriptorName=` in `leafd.socket`, the unit's own name, or nothing.
const NAMES: [&str; 3] = ["leafd", "leafd.socket", "unknown"];

/// The allowed names of the socket for HTTP, likewise.
const HTTP_NAMES: [&str; 2] = ["leafd-http", "leafd-http.socket"];

/// The passed sockets.
#[derive(Debug, Default)]
pub struct HandedOver {
    /// The one from which ids are drawn.
    pub ids: Option<PassedSocket>,
    /// The one on which HTTP is served.
    pub http: Option<HttpListener>,
}

/// A listening socket that another process creates and removes.
#[derive(Debug)]
pub struct PassedSocket {
    pub listener: UnixListener,
    /// Its path or address for clients.
    pub path: PathBuf,
}

/// A listening socket for HTTP.
#[derive(Debug)]
pub enum HttpListener {
    /// On an address and port.
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// The sockets passed to this process. Call it once, before anything else opens files.
///
/// # Errors
/// Why a socket can't be served, and what to do. Variables that name another process are ignored.
pub fn handed_over() -> Result<HandedOver> {
    let odd = |cause: io::Error| {
        anyhow!(
            "LISTEN_PID, LISTEN_FDS and LISTEN_FDNAMES can't be used: {cause}; let systemd start leafd, or unset them"
        )
    };
    let mut found = HandedOver::default();
    // Otherwise names of another process's sockets would be mistaken for ours.
    if sd_notify::listen_fds().map_err(odd)?.len() == 0 {
        return Ok(found);
    }
    let given = sd_notify::listen_fds_with_names().map_err(odd)?;
    let given: Vec<(RawFd, String)> = given.collect();
    for (fd, name) in &given {
        if HTTP_NAMES.contains(&name.as_str()) && found.http.is_none() {
            found.http = Some(verified_http(*fd)?);
        } else if NAMES.contains(&name.as_str()) && found.ids.is_none() {
            found.ids = Some(verified(*fd)?);
        } else if NAMES.contains(&name.as_str()) || HTTP_NAMES.contains(&name.as_str()) {
            bail!(
                "systemd passed {} sockets, but leafd serves one; leave one ListenStream= in leafd.socket",
                given.len()
            );
        } else {
            bail!(
                "systemd passed a socket named {name:?}, but leafd uses only sockets named leafd and, for HTTP, \
                 leafd-http: set FileDescriptorName="
            );
        }
    }
    Ok(found)
}

fn verified(fd: RawFd) -> Result<PassedSocket> {
    let allowed = "a path";
    let socket = listening(fd, allowed)?;
    let kind = |found| refused(fd, found, allowed);
    let listener = UnixListener::from(socket);
    let address = listener.local_addr().map_err(|_| kind("not a Unix socket"))?;
    let path = address.as_pathname().map(PathBuf::from);
    let path = path.ok_or_else(|| kind("a Unix socket without a path"))?;
    Ok(PassedSocket { listener, path })
}

fn verified_http(fd: RawFd) -> Result<HttpListener> {
    let allowed = "ADDRESS:PORT or a path";
    let socket = listening(fd, allowed)?;
    let address = getsockname::<SockaddrStorage>(socket.as_raw_fd());
    match address.ok().and_then(|address| address.family()) {
        Some(AddressFamily::Unix) => Ok(HttpListener::Unix(socket.into())),
        Some(AddressFamily::Inet | AddressFamily::Inet6) => Ok(HttpListener::Tcp(socket.into())),
        _ => Err(refused(fd, "neither a Unix socket nor a TCP socket", allowed)),
    }
}

/// It is not a socket of the kind that clients connect to.
fn refused(fd: RawFd, found: impl fmt::Display, allowed: &str) -> Error {
    anyhow!(
        "descriptor {fd}, passed as the socket to serve, is {found}; use ListenStream= with {allowed}"
    )
}

/// A non-blocking, listening stream socket.
#[expect(unsafe_code, reason = "the number of a descriptor is all that systemd tells")]
fn listening(fd: RawFd, allowed: &str) -> Result<OwnedFd> {
    // SAFETY: it is open, as its flags have just been set, and by the protocol of LISTEN_PID it is this process's
    // own; nothing else has been opened yet that could have got its number.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    let kind = |found: String| refused(fd, found, allowed);
    let asked = |cause| match cause {
        Errno::ENOTSOCK => kind("not a socket".to_owned()),
        cause => kind(format!("a socket that can't be inspected ({cause})")),
    };
    if getsockopt(&socket, sockopt::SockType).map_err(asked)? != SockType::Stream {
        return Err(kind("not a stream socket".to_owned()));
    }
    if !getsockopt(&socket, sockopt::AcceptConn).map_err(asked)? {
        return Err(kind("not listening".to_owned()));
    }
    let listener = UnixListener::from(socket);
    listener
        .set_nonblocking(true)
        .map_err(|cause| kind(format!("a socket that can't be used ({cause})")))?;
    Ok(listener.into())
}
