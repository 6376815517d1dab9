//! A connection to an ensemble, with a deadline for every call.
//!
//! A separate thread drives the crate's tasks, also between calls, which keeps the session alive. The caller's thread
//! waits for a call, but no longer than its time limit, because the crate has no limit for operations and queues them
//! while it is disconnected.

use std::time::Duration;

use leafd_wire::Layout;
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;
use zookeeper_client::{Client, Error, SessionState};

use super::EnsembleTarget;
use super::ensemble::{EnsemblePlace, Folders};
use leafd_core::Tag;
use leafd_core::registry::RegistryError;

/// The driving thread's name.
pub const THREAD_NAME: &str = "leafd-zookeeper";

/// How long the ensemble keeps a silent session. Only the connection depends on it.
const SESSION_TIMEOUT: Duration = Duration::from_secs(30);

/// How long closing the session may take.
const CLOSE_MAX: Duration = Duration::from_millis(500);

/// A registry's folder in an ensemble, and the connection to it, which is opened on demand and dropped when in doubt.
pub(super) struct Ensemble {
    target: EnsembleTarget,
    place: EnsemblePlace,
    /// Its only thread drives the crate's tasks.
    runtime: Option<Runtime>,
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

impl Ensemble {
    pub(super) fn new(target: EnsembleTarget, folders: Folders) -> Ensemble {
        let place = EnsemblePlace::new(&target, folders);
        Ensemble { target, place, runtime: None }
    }

    /// Runs `work` within the call's deadline, over a connection to the registry.
    pub(super) fn call<T>(
        &mut self,
        work: impl AsyncFnOnce(&mut EnsemblePlace) -> Result<T, CallError>,
    ) -> Result<T, RegistryError> {
        let Ensemble { target, place, runtime } = self;
        let runtime = match runtime {
            Some(runtime) => runtime,
            none => {
                let started = Builder::new_multi_thread()
                    .worker_threads(1)
                    .enable_time()
                    .thread_name(THREAD_NAME)
                    .build();
                none.insert(started.map_err(|cause| {
                    place.unavailable(format!("can't start a thread for it: {cause}"))
                })?)
            }
        };
        // The crate would reconnect too, but slowly.
        let known =
            place.client.take().filter(|known| known.state() == SessionState::SyncConnected);
        let mut prepared = known.is_some();
        place.client = Some(match known {
            Some(known) => known,
            None => runtime.block_on(connect(target, place))?,
        });
        let bound = target.call_timeout;
        let work = async {
            if !prepared {
                place.prepare().await?;
                prepared = true;
            }
            work(place).await
        };
        let answer = runtime.block_on(async { timeout(bound, work).await });
        place.client = place.client.take().filter(|_| match &answer {
            Ok(Ok(_)) => true,
            Ok(Err(CallError::Registry(_))) => prepared,
            Ok(Err(CallError::Ensemble(_))) | Err(_) => false,
        });
        match answer {
            Ok(Ok(done)) => Ok(done),
            Ok(Err(CallError::Registry(error))) => Err(error),
            Ok(Err(CallError::Ensemble(Error::NoAuth))) => Err(place.refusal(
                "access denied: use the USER:PASSWORD with which leafd's nodes were created, or correct their access \
                 lists",
            )),
            Ok(Err(CallError::Ensemble(Error::Unimplemented))) => {
                Err(place.refusal("its servers are too old; leafd needs ZooKeeper 3.6 or later"))
            }
            Ok(Err(CallError::Ensemble(error))) => Err(place.unavailable(error)),
            Err(_) => Err(place.unavailable(format!("no answer within {bound:?}"))),
        }
    }

    /// See [`Registry::register_layouts`](crate::registry::Registry::register_layouts).
    pub(super) fn register_layouts(
        &mut self,
        layouts: &[(Tag, Layout)],
    ) -> Result<(), RegistryError> {
        self.call(async |place| place.register_layouts(layouts).await)
    }
}

async fn connect(target: &EnsembleTarget, place: &EnsemblePlace) -> Result<Client, RegistryError> {
    let EnsembleTarget { servers, connect_timeout: bound, .. } = target;
    let mut connector =
        Client::connector().with_session_timeout(SESSION_TIMEOUT).with_fail_eagerly();
    if let Some(secret) = target.auth.read().map_err(|cause| place.unavailable(cause))? {
        connector = connector.with_auth("digest", secret.as_bytes());
    }
    // A silent server leaves time for the others.
    let hosts = u32::try_from(servers.hosts.len()).unwrap_or(u32::MAX);
    connector = connector.with_connection_timeout(*bound / hosts);
    match timeout(*bound, connector.connect(&servers.to_string())).await {
        Ok(Ok(client)) => Ok(client),
        Ok(Err(Error::NoHosts | Error::ConnectionLoss)) => {
            Err(place.unavailable("none of its servers accepts the session"))
        }
        Ok(Err(error)) => Err(place.unavailable(error)),
        Err(_) => Err(place.unavailable(format!("not connected within {bound:?}"))),
    }
}

impl Drop for Ensemble {
    fn drop(&mut self) {
        let Some(runtime) = self.runtime.take() else { return };
        if let Some(client) = self.place.client.take() {
            let mut state = client.state_watcher();
            drop(client);
            let closed = async { while !state.changed().await.is_terminated() {} };
            // A session that isn't closed expires.
            let _ = runtime.block_on(async { timeout(CLOSE_MAX, closed).await });
        }
        // A name look-up may still hang in the system's resolver. Don't wait for it.
        runtime.shutdown_background();
    }
}
