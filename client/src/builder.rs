//! A client's settings.

use std::path::PathBuf;
use std::time::Duration;

/// The default of [`Builder::deadline`].
pub const DEADLINE_DEFAULT: Duration = Duration::from_secs(2);

/// Sets up a [`crate::Client`].
///
/// ```no_run
/// # fn main() -> Result<(), leafd_client::Error> {
/// use std::time::Duration;
///
/// let client = leafd_client::Client::builder()
///     .socket("/run/leafd/leafd.sock")
///     .deadline(Duration::from_millis(500))
///     .direct(true)
///     .build()?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Builder {
    pub(crate) socket: Option<PathBuf>,
    pub(crate) deadline: Duration,
    pub(crate) wait: Duration,
    pub(crate) direct: bool,
    pub(crate) polling: bool,
}

impl Builder {
    pub(crate) fn new() -> Builder {
        Builder {
            socket: None,
            deadline: DEADLINE_DEFAULT,
            wait: Duration::ZERO,
            direct: false,
            polling: true,
        }
    }

    /// The socket's path: 1 to 107 bytes. Default: [`crate::default_socket_path`], looked up by
    /// [`Builder::build`].
    pub fn socket(mut self, path: impl Into<PathBuf>) -> Builder {
        self.socket = Some(path.into());
        self
    }

    /// How long calls without their own deadline may take. Default: [`DEADLINE_DEFAULT`].
    ///
    /// This includes connecting, waiting in the daemon and one retry, and is capped at 60 s, the daemon's maximum.
    /// After the deadline, a call waits up to 250 ms more for the daemon's error, which contains the reason.
    pub fn deadline(mut self, limit: Duration) -> Builder {
        self.deadline = limit;
        self
    }

    /// How long calls without their own deadline wait for a missing daemon before the deadline starts. Use this in
    /// processes that may start before the daemon. Calls wait for at least their deadline, even if `limit` is shorter,
    /// and for at most [`crate::WAIT_MAX`].
    ///
    /// Default: zero, so calls fail immediately if the daemon has never run. Even then, they wait up to their deadline
    /// for a daemon that seems to be restarting: if this client has been connected before, if a socket exists that no
    /// daemon listens on, or if one was removed in the last ten seconds.
    pub fn wait(mut self, limit: Duration) -> Builder {
        self.wait = limit;
        self
    }

    /// Whether every id is drawn directly, with a separate request, instead of from a held run. Default: no.
    ///
    /// Ids of a tag are then strictly increasing on this host, none is skipped when the process exits, and each takes
    /// microseconds instead of nanoseconds. (Ids are also drawn directly if the kernel can't wipe the parent's ids in
    /// a forked child.)
    pub fn direct(mut self, direct: bool) -> Builder {
        self.direct = direct;
        self
    }

    /// Whether a waiting thread may check the socket again before it sleeps. Default: yes.
    ///
    /// It does so only while requests are sent back to back and the process may use more than one core. It polls for up
    /// to 100 µs as long as the daemon polls too and its polls succeed. It also yields its core to other threads,
    /// unless they keep the core for long.
    pub fn polling(mut self, polling: bool) -> Builder {
        self.polling = polling;
        self
    }
}
