//! Errors, divided into those that the service reports and those that the client detects.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use leafd_wire::Status;
use leafd_wire::text::clean;

/// Why a call failed.
///
/// [`Error::Service`] is the daemon's own answer; the client detects all others. A failed call may skip ids, but an id
/// that it drew is never returned by another call.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The daemon refused the request.
    #[non_exhaustive]
    Service {
        /// The outcome. A number that this client doesn't know (from a newer daemon) becomes
        /// [`Status::Internal`].
        status: Status,
        /// The number as it was received.
        number: u16,
        /// How long to wait before a retry may succeed, if the daemon knows.
        retry_after: Option<Duration>,
        /// The daemon's explanation.
        message: String,
    },
    /// No connection could be made.
    #[non_exhaustive]
    Connect {
        /// The socket's path.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The connection broke while the call waited, and the allowed retries failed.
    #[non_exhaustive]
    Disconnected {
        /// The socket's path.
        path: PathBuf,
        /// The system's error; the end of the stream is [`io::ErrorKind::UnexpectedEof`].
        source: io::Error,
    },
    /// No answer came within the deadline.
    #[non_exhaustive]
    Timeout {
        /// How long the call waited.
        waited: Duration,
    },
    /// The interpreter that the thread belongs to ended the call after a signal (see
    /// [`crate::set_interpreter`]).
    Interrupted,
    /// The peer sent something that is not leafd's protocol.
    #[non_exhaustive]
    Protocol {
        /// What is wrong with it.
        what: String,
    },
    /// An argument is invalid.
    #[non_exhaustive]
    InvalidArgument {
        /// Which argument is invalid, and what is allowed.
        what: String,
    },
    /// A limit of the client or the system was reached.
    #[non_exhaustive]
    Resources {
        /// The unavailable resource.
        what: &'static str,
        /// The system's error.
        source: io::Error,
    },
}

/// The result of this crate's calls.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a connection can't be used any more; cheap to copy to every waiting thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Break {
    /// The daemon closed it.
    End,
    /// The system's error number.
    Os(i32),
    /// The peer doesn't speak the protocol.
    Protocol(&'static str),
}

// === impl Error ===

impl Error {
    /// Returns the status, if the service reported one.
    pub fn status(&self) -> Option<Status> {
        match self {
            Error::Service { status, .. } => Some(*status),
            _ => None,
        }
    }

    /// Returns whether the same call may succeed later without any other action.
    ///
    /// [`Error::Interrupted`] is not retryable: the caller asked to end the call. After an administrative request
    /// that failed with [`Error::Disconnected`] or [`Error::Timeout`], first find out whether it took effect.
    pub fn is_retryable(&self) -> bool {
        match self {
            Error::Service { status, .. } => status.retry_may_help(),
            Error::Connect { source, .. } => !matches!(
                source.kind(),
                io::ErrorKind::PermissionDenied | io::ErrorKind::InvalidInput
            ),
            Error::Disconnected { .. } | Error::Timeout { .. } => true,
            Error::Interrupted
            | Error::Protocol { .. }
            | Error::InvalidArgument { .. }
            | Error::Resources { .. } => false,
        }
    }

    /// Returns whether the call timed out: the daemon reported it, or did not answer in time.
    pub fn is_timeout(&self) -> bool {
        matches!(self, Error::Timeout { .. } | Error::Service { status: Status::Deadline, .. })
    }

    /// Returns how long to wait before a retry may succeed, if the daemon knows.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Error::Service { retry_after, .. } => *retry_after,
            _ => None,
        }
    }

    pub(crate) fn service(number: u16, retry_after_ms: u32, message: &str) -> Error {
        Error::Service {
            status: Status::from_number(number).unwrap_or(Status::Internal),
            number,
            retry_after: (retry_after_ms > 0)
                .then(|| Duration::from_millis(u64::from(retry_after_ms))),
            message: clean(message),
        }
    }

    pub(crate) fn protocol(what: impl Into<String>) -> Error {
        Error::Protocol { what: what.into() }
    }

    pub(crate) fn invalid(what: impl Into<String>) -> Error {
        Error::InvalidArgument { what: what.into() }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Service { status, number, retry_after, message } => {
                write!(f, "leafd answered {status}")?;
                if *number != *status as u16 {
                    write!(f, " (status {number}, unknown to this client)")?;
                }
                if !message.is_empty() {
                    write!(f, ": {message}")?;
                }
                match retry_after {
                    Some(after) => write!(f, " (a retry may succeed in {} ms)", after.as_millis()),
                    None => Ok(()),
                }
            }
            Error::Connect { path, source } => {
                write!(f, "can't connect to leafd at {}: {source}; ", path.display())?;
                let named = if is_from_environment(path) {
                    "names this path"
                } else {
                    "can name another path"
                };
                f.write_str(match source.kind() {
                    io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
                        return write!(
                            f,
                            "is the daemon running, and is this its socket? `systemctl status leafd` shows the \
                             state of the system's daemon; LEAFD_SOCKET {named}"
                        );
                    }
                    io::ErrorKind::PermissionDenied => {
                        "this user may not open the socket or enter its folder. The socket's group and mode decide \
                         that; they come from systemd's unit leafd.socket, or from the daemon's settings socket_group \
                         and socket_mode"
                    }
                    _ => "check the daemon's log",
                })
            }
            Error::Disconnected { path, source } => write!(
                f,
                "the connection to leafd at {} broke before the answer came: {source}; \
                 the daemon may be restarting, check its log",
                path.display()
            ),
            Error::Timeout { waited } => write!(
                f,
                "leafd did not answer within {} ms; retry, allow a longer deadline, or check `systemctl status leafd`",
                waited.as_millis()
            ),
            Error::Interrupted => f.write_str("the call was interrupted by a signal"),
            Error::Protocol { what } => write!(
                f,
                "the peer broke leafd's protocol: {what}; check that the socket is leafd's and that client and daemon \
                 have matching versions"
            ),
            Error::InvalidArgument { what } => f.write_str(what),
            Error::Resources { what, source } => write!(f, "{what}: {source}"),
        }
    }
}

impl std::error::Error for Error {
    /// The cause of the system's error. The system's error itself is part of this error's text, and a fully printed
    /// chain must not repeat it.
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Connect { source, .. }
            | Error::Disconnected { source, .. }
            | Error::Resources { source, .. } => source.source(),
            _ => None,
        }
    }
}

/// Whether the path came from the environment, perhaps long ago and for another daemon.
fn is_from_environment(path: &Path) -> bool {
    std::env::var_os("LEAFD_SOCKET").is_some_and(|named| Path::new(&named) == path)
}

// === impl Break ===

impl Break {
    /// Whether a request may be repeated on a new connection.
    pub(crate) fn is_retryable(self) -> bool {
        !matches!(self, Break::Protocol(_))
    }

    pub(crate) fn into_error(self, path: &Path) -> Error {
        let source = match self {
            Break::Protocol(what) => return Error::protocol(what),
            Break::End => io::Error::new(io::ErrorKind::UnexpectedEof, "the daemon closed it"),
            Break::Os(number) => io::Error::from_raw_os_error(number),
        };
        Error::Disconnected { path: path.to_owned(), source }
    }
}
