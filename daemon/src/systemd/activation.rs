//! The socket that systemd listens on for the daemon and hands over at its start. It outlives the daemon: who
//! connects during a restart waits in its queue instead of failing.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;

use nix::errno::Errno;
use nix::sys::socket::{SockType, getsockopt, sockopt};

/// What the socket may be called: `FileDescriptorName=` in `leafd.socket`, the unit's own name, or nothing.
const NAMES: [&str; 3] = ["leafd", "leafd.socket", "unknown"];

/// A listening socket that somebody else made, and removes.
#[derive(Debug)]
pub struct HandedOver {
    /// The socket.
    pub listener: UnixListener,
    /// Where clients find it.
    pub path: PathBuf,
}

/// Why a socket that was handed over can't be served.
#[derive(Debug, thiserror::Error)]
pub enum ActivationError {
    /// The variables of the environment make no sense, or their descriptors aren't open.
    #[error(
        "LISTEN_PID, LISTEN_FDS and LISTEN_FDNAMES can't be used: {0}; let systemd start leafd, or unset them"
    )]
    Environment(io::Error),
    /// There is more than one.
    #[error(
        "systemd passed {0} sockets, but leafd serves one; leave one ListenStream= in leafd.socket"
    )]
    Several(usize),
    /// It is meant for something else.
    #[error(
        "systemd passed a socket named {0:?}, but leafd serves the one named leafd: set FileDescriptorName=leafd"
    )]
    Name(String),
    /// It is no socket of the kind that clients connect to.
    #[error(
        "descriptor {fd}, passed as the socket to serve, is {found}; use ListenStream= with a path"
    )]
    Kind {
        /// Its number.
        fd: RawFd,
        /// What it is.
        found: String,
    },
}

/// The socket that was handed to this process, if one was. Call it once, before anything else opens files.
///
/// # Errors
/// See [`ActivationError`]. Variables that name another process are not meant for this one and no error.
pub fn handed_over() -> Result<Option<HandedOver>, ActivationError> {
    // Names for another process's sockets would be taken for ours that are missing.
    if sd_notify::listen_fds().map_err(ActivationError::Environment)?.len() == 0 {
        return Ok(None);
    }
    let given = sd_notify::listen_fds_with_names().map_err(ActivationError::Environment)?;
    let given: Vec<(RawFd, String)> = given.collect();
    match given.as_slice() {
        [] => Ok(None),
        [(_, name)] if !NAMES.contains(&name.as_str()) => Err(ActivationError::Name(name.clone())),
        [(fd, _)] => verified(*fd).map(Some),
        several => Err(ActivationError::Several(several.len())),
    }
}

#[expect(unsafe_code, reason = "the number of a descriptor is all that systemd tells")]
fn verified(fd: RawFd) -> Result<HandedOver, ActivationError> {
    // SAFETY: it is open, as its flags have just been set, and by the protocol of LISTEN_PID it is this process's
    // own; nothing else has been opened yet that could have got its number.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    let kind = |found: String| ActivationError::Kind { fd, found };
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
    let address = listener.local_addr().map_err(|_| kind("not a Unix socket".to_owned()))?;
    let path = address.as_pathname().map(PathBuf::from);
    let path = path.ok_or_else(|| kind("a Unix socket without a path".to_owned()))?;
    listener
        .set_nonblocking(true)
        .map_err(|cause| kind(format!("a socket that can't be used ({cause})")))?;
    Ok(HandedOver { listener, path })
}
