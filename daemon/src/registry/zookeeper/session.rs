//! A connection to an ensemble, with a deadline for every call.
//!
//! A thread of its own drives the crate's tasks between calls too, which keeps the session alive. The caller's
//! thread waits for a call, and no longer than its time limit: the crate has no limit for operations, and queues
//! them while it is disconnected.

use std::thread::JoinHandle;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::oneshot;
use zookeeper_client::{Client, Error, SessionState};

use super::EnsembleTarget;
use leafd_core::registry::RegistryError;

/// The driving thread's name.
pub const THREAD_NAME: &str = "leafd-zookeeper";

/// How long the ensemble keeps a silent session. Only the connection depends on it.
const SESSION_TIMEOUT: Duration = Duration::from_secs(30);

/// How long closing the session may take.
const CLOSE_MAX: Duration = Duration::from_millis(500);

/// A connection that is opened on demand, and dropped when in doubt.
pub(super) struct EnsembleSession {
    target: EnsembleTarget,
    driver: Option<RuntimeThread>,
    client: Option<Client>,
}

/// The thread that drives the crate's tasks.
struct RuntimeThread {
    handle: Handle,
    /// Tells it to end.
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Why a call's work failed.
pub(super) enum CallError {
    /// The ensemble's or the connection's error.
    Ensemble(Error),
    /// The registry's error.
    Registry(RegistryError),
}

impl From<Error> for CallError {
    fn from(error: Error) -> CallError {
        CallError::Ensemble(error)
    }
}

impl From<RegistryError> for CallError {
    fn from(error: RegistryError) -> CallError {
        CallError::Registry(error)
    }
}

impl EnsembleSession {
    pub(super) fn new(target: EnsembleTarget) -> EnsembleSession {
        EnsembleSession { target, driver: None, client: None }
    }

    /// Runs `work` over a connection that `prepare` has found usable. `prepare` runs once for each connection.
    pub(super) fn call<S, T>(
        &mut self,
        state: &mut S,
        prepare: impl AsyncFnOnce(&Client, &mut S) -> Result<(), CallError>,
        work: impl AsyncFnOnce(&Client, &mut S) -> Result<T, CallError>,
    ) -> Result<T, RegistryError> {
        let handle = self.driving()?;
        // The crate would reconnect too, but slowly.
        let live = |client: &Client| client.state() == SessionState::SyncConnected;
        let known = self.client.take().filter(live);
        let mut prepared = known.is_some();
        let client = known.map_or_else(|| self.connect(&handle), Ok)?;
        let work = async {
            if !prepared {
                prepare(&client, state).await?;
                prepared = true;
            }
            work(&client, state).await
        };
        let bound = self.target.call_timeout;
        let done = handle.block_on(async { tokio::time::timeout(bound, work).await });
        match done {
            Ok(Ok(done)) => {
                self.client = Some(client);
                Ok(done)
            }
            Ok(Err(CallError::Registry(error))) => {
                self.client = prepared.then_some(client);
                Err(error)
            }
            Ok(Err(CallError::Ensemble(Error::NoAuth))) => Err(self.refused(
                "this user may not do that there: use the USER:PASSWORD with which leafd's nodes were created, or \
                 correct their access lists",
            )),
            Ok(Err(CallError::Ensemble(Error::Unimplemented))) => {
                Err(self.refused("its servers are too old; leafd needs ZooKeeper 3.6 or later"))
            }
            Ok(Err(CallError::Ensemble(error))) => Err(self.unavailable(error)),
            Err(_) => Err(self.unavailable(format!("no answer within {bound:?}"))),
        }
    }

    /// The handle of the driving thread's runtime.
    fn driving(&mut self) -> Result<Handle, RegistryError> {
        if self.driver.is_none() {
            let driver = RuntimeThread::start().map_err(|cause| {
                self.unavailable(format!("can't start a thread for it: {cause}"))
            })?;
            self.driver = Some(driver);
        }
        let driver = self.driver.as_ref().expect("it was made above");
        Ok(driver.handle.clone())
    }

    fn connect(&self, handle: &Handle) -> Result<Client, RegistryError> {
        let EnsembleTarget { servers, connect_timeout: bound, .. } = &self.target;
        let mut connector =
            Client::connector().with_session_timeout(SESSION_TIMEOUT).with_fail_eagerly();
        if let Some(secret) = self.target.auth.read().map_err(|cause| self.unavailable(cause))? {
            connector = connector.with_auth("digest", secret.as_bytes());
        }
        // A silent server leaves time for the others.
        let hosts = u32::try_from(servers.hosts.len()).unwrap_or(u32::MAX);
        connector = connector.with_connection_timeout(*bound / hosts);
        let cluster = servers.to_string();
        let connected = handle
            .block_on(async { tokio::time::timeout(*bound, connector.connect(&cluster)).await });
        match connected {
            Ok(Ok(client)) => Ok(client),
            Ok(Err(Error::NoHosts | Error::ConnectionLoss)) => {
                Err(self.unavailable("none of its servers accepts the session"))
            }
            Ok(Err(error)) => Err(self.unavailable(error)),
            Err(_) => Err(self.unavailable(format!("not connected within {bound:?}"))),
        }
    }

    pub(super) fn unavailable(&self, cause: impl std::fmt::Display) -> RegistryError {
        RegistryError::Unavailable { registry: self.name(), cause: cause.to_string().into() }
    }

    pub(super) fn refused(&self, words: impl std::fmt::Display) -> RegistryError {
        RegistryError::Refused(format!("the worker registry {}: {words}", self.name()).into())
    }

    /// The ensemble's name in errors.
    fn name(&self) -> String {
        format!("zookeeper {}", self.target.servers)
    }
}

impl Drop for EnsembleSession {
    fn drop(&mut self) {
        let (Some(client), Some(driver)) = (self.client.take(), &self.driver) else { return };
        let mut state = client.state_watcher();
        drop(client);
        let closed = async { while !state.changed().await.is_terminated() {} };
        // A session that isn't closed expires.
        let _ = driver.handle.block_on(async { tokio::time::timeout(CLOSE_MAX, closed).await });
    }
}

impl RuntimeThread {
    fn start() -> std::io::Result<RuntimeThread> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .thread_name(THREAD_NAME)
            .build()?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel::<()>();
        let thread = std::thread::Builder::new().name(THREAD_NAME.to_owned()).spawn(move || {
            // An error means that the sender is gone, which also ends the thread.
            let _ = runtime.block_on(stopped);
            // A name lookup may still hang in the system's resolver. Don't wait for it.
            runtime.shutdown_background();
        })?;
        Ok(RuntimeThread { handle, stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for RuntimeThread {
    fn drop(&mut self) {
        drop(self.stop.take());
        // The thread itself doesn't panic, and a task's panic stays in the task.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}
