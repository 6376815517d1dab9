//! The location of a store, and how to connect to it.

use std::cell::Cell;
use std::fmt::{Debug, Display};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use super::schema::{META_TABLE, print};
use super::{Dialect, Driver, Examination, HEAD_START, WorkersWish, examine};
use crate::blocking::Backend as _;
use crate::config::{Endpoint, NetworkUrl, StorePassword};
use crate::store::Store;
use leafd_core::store::{Reason, StoreError, Why};

/// Connects to one of a store's servers, or opens its file.
pub trait Connector: Debug + Send {
    /// The store's SQL.
    fn dialect(&self) -> &'static Dialect;

    /// The store's name, and the limits of its use.
    fn location(&self) -> Location;

    /// Connects to the first server that accepts writes, or opens the file.
    fn connect(&self) -> Result<Box<dyn Driver>, StoreError>;

    /// Makes this server come last from now on, because a call to it failed.
    fn has_failed(&mut self, _endpoint: &str) {}

    /// A connector for each server that is tried after this one.
    fn after(&self, _endpoint: &str) -> Vec<Box<dyn Connector>> {
        Vec::new()
    }
}

/// A store's description in errors, and the limits of its use.
#[derive(Clone, Debug)]
pub struct Location {
    /// The name that errors use for the store, without secrets.
    pub store: String,
    /// The user that leafd logs in as.
    pub user: String,
    /// How long a call may take once there is a connection.
    pub statement_timeout: Duration,
    /// Whether to use the store although leafd's tables are not visible there.
    pub leaf_only: bool,
}

/// The location of a network store, its login, and the limits of its use.
#[derive(Clone, Debug)]
pub struct Target {
    /// Where it is.
    pub url: NetworkUrl,
    /// The password.
    pub password: StorePassword,
    /// How long each of its servers may take to accept a connection.
    pub connect_timeout: Duration,
    /// How long it may take after attempts that got no answer. A server to which a whole fleet connects at once answers
    /// late, and attempts that are given up keep it from answering the others.
    pub patience_max: Duration,
    /// How long a call may take over an open connection.
    pub statement_timeout: Duration,
    /// Whether to use the store although leafd's tables are not visible there.
    pub leaf_only: bool,
    /// Whether to use an engine that leafd was not tested on.
    pub untested_engine: bool,
}

/// Connects to one server, within the target's limits. It fails if the server accepts no writes.
pub type Ask<T> = fn(&Target, &Endpoint, Option<&str>) -> Result<T, Reason>;

/// An engine whose servers are reached over a network.
#[derive(Debug)]
pub struct ServerEngine {
    /// Their SQL.
    pub(in crate::store) dialect: &'static Dialect,
    /// How to connect to one of them.
    pub(in crate::store) ask: Ask<Box<dyn Driver>>,
    /// Creates the missing tables.
    pub(in crate::store) make: fn(&Target) -> Result<Vec<&'static str>, StoreError>,
}

/// Connects to the servers of a network store.
#[derive(Clone, Debug)]
struct ServerConnector {
    target: Target,
    engine: &'static ServerEngine,
    /// How long the next attempt may take.
    patience: Cell<Duration>,
}

/// Whether the failure concerns TLS or a certificate.
#[cfg(any(feature = "mysql", feature = "postgres"))]
pub fn is_of_tls(error: &(dyn std::error::Error + 'static)) -> bool {
    let wrapped = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
    error.is::<rustls::Error>()
        || wrapped.is_some_and(|inner| is_of_tls(inner))
        || error.source().is_some_and(is_of_tls)
}

impl ServerEngine {
    /// The store at `target`. The first call connects.
    #[must_use]
    pub fn open(&'static self, target: Target) -> Store {
        Store::new(self.connector(target))
    }

    /// Inspects the store at `target` without changing it.
    ///
    /// # Errors
    /// [`StoreError`] when no server accepts the connection, or none answers.
    pub fn examine(
        &'static self,
        target: Target,
        workers: Option<WorkersWish>,
    ) -> Result<Examination, StoreError> {
        examine(self.connector(target), workers)
    }

    fn connector(&'static self, target: Target) -> Box<dyn Connector> {
        let patience = Cell::new(target.connect_timeout);
        Box::new(ServerConnector { target, engine: self, patience })
    }

    /// The statements that [`ServerEngine::apply`] would run.
    #[must_use]
    pub fn print(&self) -> String {
        print(self.dialect)
    }

    /// Creates the missing tables. Returns what was done.
    ///
    /// # Errors
    /// [`StoreError::Refused`] when an existing table differs from leafd's, and when privileges are missing: the text
    /// names each; others as for every call.
    pub fn apply(&'static self, target: &Target) -> Result<Vec<&'static str>, StoreError> {
        let made = (self.make)(target)?;
        if made.contains(&META_TABLE) {
            self.open(target.clone()).note_first_history()?;
        }
        Ok(made)
    }
}

impl Location {
    /// An error for a store that can't be used now.
    pub fn unavailable(&self, cause: impl Into<Reason>) -> StoreError {
        StoreError::Unavailable { store: self.store.clone(), cause: cause.into() }
    }

    /// An error that retrying doesn't fix.
    pub fn refused(&self, words: impl Display) -> StoreError {
        self.refused_for(Why::Other, words)
    }

    /// The same, of a class that decides what to do.
    pub fn refused_for(&self, why: Why, words: impl Display) -> StoreError {
        StoreError::refused_for(why, format!("the store {} {words}", self.store))
    }
}

impl Target {
    /// Returns the first connection to a server that accepts writes. A server that is silent for a while may still
    /// answer while the next ones are asked.
    pub(in crate::store) fn connect<T: Send + 'static>(
        &self,
        ask: Ask<T>,
    ) -> Result<T, StoreError> {
        let unavailable = |cause: Reason| self.location().unavailable(cause);
        let password = self.password.read();
        let password = password.map_err(|words| unavailable(Reason::new(Why::Login, words)))?;
        let servers: Vec<&Endpoint> = self.url.in_turn(Instant::now()).collect();
        let bound = self.connect_timeout;
        let silent = Reason::from(format!("no answer within {bound:?} (store_connect_timeout)"));
        let mut causes = vec![silent; servers.len()];
        let (send, receive) = mpsc::channel();
        let mut unanswered = 0;
        for (number, endpoint) in servers.iter().enumerate() {
            let (target, endpoint) = (self.clone(), (*endpoint).clone());
            let (password, send) = (password.clone(), send.clone());
            // This thread is abandoned once it has taken too long, or another server was faster. It has the name of the
            // store's own thread, so that a panic in it is treated as the backend's.
            let asking = thread::Builder::new().name(Store::THREAD_NAME.to_owned());
            let asking = asking.spawn(move || {
                let ask = || ask(&target, &endpoint, password.as_deref());
                let answer = catch_unwind(AssertUnwindSafe(ask));
                let answer = answer.unwrap_or_else(|_| Err("the driver panicked".into()));
                let _ = send.send((number, answer));
            });
            asking.map_err(|cause| unavailable(format!("can't start a thread: {cause}").into()))?;
            unanswered += 1;
            let is_last = number + 1 == servers.len();
            let until = Instant::now() + if is_last { bound } else { HEAD_START.min(bound) };
            while unanswered > 0 {
                let left = until.saturating_duration_since(Instant::now());
                let Ok((number, answer)) = receive.recv_timeout(left) else { break };
                unanswered -= 1;
                match answer {
                    Ok(connection) => return Ok(connection),
                    Err(cause) => causes[number] = cause,
                }
                if !is_last {
                    break;
                }
            }
        }
        let causes = servers.iter().zip(causes).map(|(endpoint, cause)| cause.behind(endpoint));
        Err(unavailable(Reason::joined(&causes.collect::<Vec<_>>())))
    }

    /// Its description in errors, and the limits of its use.
    pub(in crate::store) fn location(&self) -> Location {
        Location {
            store: self.url.to_string(),
            user: self.url.user.clone(),
            statement_timeout: self.statement_timeout,
            leaf_only: self.leaf_only,
        }
    }
}

impl Connector for ServerConnector {
    fn dialect(&self) -> &'static Dialect {
        self.engine.dialect
    }

    fn location(&self) -> Location {
        self.target.location()
    }

    fn connect(&self) -> Result<Box<dyn Driver>, StoreError> {
        let (least, patience) = (self.target.connect_timeout, self.patience.get());
        let begun = Instant::now();
        let connected =
            Target { connect_timeout: patience, ..self.target.clone() }.connect(self.engine.ask);
        let silent = connected.is_err() && begun.elapsed() >= least;
        let longer = (patience * 2).min(self.target.patience_max).max(least);
        self.patience.set(if silent { longer } else { least });
        connected
    }

    fn has_failed(&mut self, endpoint: &str) {
        self.target.url.has_failed(endpoint, Instant::now());
    }

    fn after(&self, endpoint: &str) -> Vec<Box<dyn Connector>> {
        let alone = |url| self.engine.connector(Target { url, ..self.target.clone() });
        self.target.url.after(endpoint, Instant::now()).map(alone).collect()
    }
}
