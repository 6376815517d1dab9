//! A client's settings.

use std::path::PathBuf;
use std::time::Duration;

/// How long a call without a deadline of its own may take.
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
    #[must_use]
    pub fn socket(mut self, path: impl Into<PathBuf>) -> Builder {
        self.socket = Some(path.into());
        self
    }

    /// How long calls without a deadline of their own may take. Default: [`DEADLINE_DEFAULT`].
    ///
    /// Connecting, waiting in the daemon and one retry all count. More than 60 s (the daemon's maximum) is cut to that.
    /// After the deadline, a call still waits up to 250 ms for the daemon's own answer why.
    #[must_use]
    pub fn deadline(mut self, limit: Duration) -> Builder {
        self.deadline = limit;
        self
    }

    /// How long calls without a deadline of their own wait for a missing daemon before their deadline begins to count:
    /// for a process that may start before the daemon does. They wait as long as their deadline even if `limit` is
    /// shorter. More than [`crate::WAIT_MAX`] is cut to that.
    ///
    /// Default: zero. Then a daemon that was never there is an error at once. A daemon that seems to be restarting is
    /// waited for even so, as long as the deadline lasts: if this client has been connected before, if a socket is left
    /// that no daemon listens on, and if one was removed in the last ten seconds.
    #[must_use]
    pub fn wait(mut self, limit: Duration) -> Builder {
        self.wait = limit;
        self
    }

    /// Whether every id is drawn directly, by a request of its own, and none comes from a run that the process holds.
    /// Default: no.
    ///
    /// Ids of a tag are then strictly increasing on this host, none is skipped when the process ends, and each takes
    /// microseconds instead of nanoseconds. (Ids are also drawn directly if a forked child can't be kept from using the
    /// parent's ids.)
    #[must_use]
    pub fn direct(mut self, direct: bool) -> Builder {
        self.direct = direct;
        self
    }

    /// Whether a waiting thread may look at the socket again before it sleeps. Default: yes.
    ///
    /// Even then it does so only while requests come back to back and more than one core is usable: it polls for up to
    /// 100 µs while the daemon polls too and polls hit, and yields its core to other threads, unless they keep it.
    #[must_use]
    pub fn polling(mut self, polling: bool) -> Builder {
        self.polling = polling;
        self
    }
}
