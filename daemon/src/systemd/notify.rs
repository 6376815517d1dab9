//! Notifications to the service manager, in systemd's protocol: readiness, a status line, reloads, stops, and watchdog
//! signals from the event loop. Without a manager (no `NOTIFY_SOCKET`), nothing is sent.

use std::cell::{Cell, RefCell};
use std::env;
use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::rc::Rc;
use std::time::{Duration, Instant};

use sd_notify::NotifyState;
use tracing::warn;

use crate::clock::TICK;
use crate::requests::Dispatcher;

/// How long a store may take to answer for the first time before it counts as unavailable: well within systemd's
/// `TimeoutStartSec=`.
const ANSWERS_WITHIN: Duration = Duration::from_secs(30);

/// The variable that names the manager's socket.
const MANAGER: &str = "NOTIFY_SOCKET";

/// How often the state is checked, at most.
const LOOK_EVERY: Duration = TICK;

/// How often to check for the registry's first answer.
const LOOK_SOON: Duration = Duration::from_millis(5);

/// Watchdog signals in each `WatchdogSec=`, so that one may be late.
const SIGNS_OF_LIFE: u32 = 3;

/// How long a stop may take beyond `stop_within`, for the last writes of the stores' threads.
const STOP_MARGIN: Duration = Duration::from_secs(10);

/// The service manager's view of this daemon.
#[derive(Debug, Default)]
pub struct Service {
    ready: Cell<bool>,
    status: RefCell<String>,
    warned: Cell<bool>,
}

impl Service {
    /// Reports until dropped. The daemon is reported as ready once ids can be issued, or once a store is known to be
    /// unavailable and ids come from the journal.
    ///
    /// The loop that answers requests must run this, because the watchdog must detect when that loop is blocked.
    pub async fn report(&self, dispatcher: &Rc<Dispatcher>) {
        if env::var_os(MANAGER).is_none() {
            return;
        }
        self.tell(&[NotifyState::Status("waiting for the stores' first answers")]);
        let all_tried = async {
            for upstream in &dispatcher.segments.upstreams {
                upstream.tried().await;
            }
        };
        let _ = tokio::time::timeout(ANSWERS_WITHIN, all_tried).await;
        let registry_looked_at = async {
            while dispatcher.health.is_starting() {
                tokio::time::sleep(LOOK_SOON).await;
            }
        };
        let _ = tokio::time::timeout(LOOK_EVERY, registry_looked_at).await;
        self.ready.set(true);
        *self.status.borrow_mut() = dispatcher.health.status_line();
        self.tell(&[NotifyState::Ready, NotifyState::Status(&self.status.borrow())]);
        let sign_every = sd_notify::watchdog_enabled().map(|within| within / SIGNS_OF_LIFE);
        let every = sign_every.map_or(LOOK_EVERY, |sign_every| LOOK_EVERY.min(sign_every));
        let mut signed = Instant::now();
        loop {
            tokio::time::sleep(every).await;
            // A watchdog signal must not be late, so it is sent if the next check might be too late for it.
            if sign_every.is_some_and(|sign_every| signed.elapsed() + every > sign_every) {
                self.tell(&[NotifyState::Watchdog]);
                signed = Instant::now();
            }
            let status = dispatcher.health.status_line();
            if *self.status.borrow() != status {
                self.tell(&[NotifyState::Status(&status)]);
                *self.status.borrow_mut() = status;
            }
        }
    }

    /// The configuration is about to be read again.
    pub fn reloading(&self) {
        if self.ready.get()
            && let Ok(now) = NotifyState::monotonic_usec_now()
        {
            self.tell(&[NotifyState::Reloading, now]);
        }
    }

    pub fn reloaded(&self) {
        if self.ready.get() {
            self.tell(&[NotifyState::Ready]);
        }
    }

    /// The stop begins, and may take as long as `within` and a margin.
    pub fn stopping(&self, within: Duration) {
        let most = u32::try_from((within + STOP_MARGIN).as_micros()).unwrap_or(u32::MAX);
        self.tell(&[
            NotifyState::Stopping,
            NotifyState::ExtendTimeoutUsec(most),
            NotifyState::Status("stopping: answering requests in flight, then writing exact marks"),
        ]);
    }

    fn tell(&self, what: &[NotifyState<'_>]) {
        if let Err(error) = notify(what)
            && !self.warned.replace(true)
        {
            warn!("can't notify the service manager: {error}");
        }
    }
}

/// Sends a notification. Unlike the library's function, it never waits for the manager, because a hanging manager must
/// not block the daemon.
fn notify(what: &[NotifyState<'_>]) -> io::Result<()> {
    let Some(manager) = env::var_os(MANAGER) else { return Ok(()) };
    let address = match manager.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(&manager)?,
    };
    let text: String = what.iter().map(|one| format!("{one}\n")).collect();
    let socket = UnixDatagram::unbound()?;
    socket.set_nonblocking(true)?;
    socket.send_to_addr(text.as_bytes(), &address)?;
    Ok(())
}
