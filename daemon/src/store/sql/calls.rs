//! A store over a driver: opens the connection when it is needed, and repeats transactions that conflict with others.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::{Duration, Instant};
use std::{iter, thread};

use super::session::{HostState, Session};
use super::{Connector, Driver, HEAD_START, Location, SqlError};
use leafd_core::Tag;
use leafd_core::store::{History, Identity, Role, StoreError};

/// How often to try a transaction that conflicts with other writers.
const CONFLICT_TRIES_MAX: u32 = 12;

/// The longest pause after a conflict, in milliseconds.
const PAUSE_MAX_MS: u64 = 64;

/// The shortest time between two log lines about conflicts.
const CONFLICTS_LOGGED_EVERY: Duration = Duration::from_secs(60);

/// A store of tags, over a driver. Calls block; each returns within the backend's own time bound.
///
/// Every call opens the connection if there is none, so a store that returns is used again automatically. A new
/// connection may reach another store. So calls that depend on the store's identity carry the [`Identity`] that the
/// caller trusts, and fail with [`StoreError::Changed`] for any other.
#[derive(Debug)]
pub struct Store {
    connector: Box<dyn Connector>,
    pub(super) location: Location,
    pub(super) session: Option<Session>,
    own: Arc<Mutex<HostState>>,
    /// Whether a connection was made, so that the servers of the URL were compared.
    met: bool,
    /// Whether the log already says that there is only Leaf's table.
    warned: bool,
    /// The count of transactions that conflicted with writes of others and were tried again.
    pub conflicts: Arc<AtomicU64>,
    /// When conflicts were last logged.
    conflicts_logged: Option<Instant>,
}

impl Store {
    pub(in crate::store) fn new(connector: Box<dyn Connector>) -> Self {
        Store {
            location: connector.location(),
            connector,
            session: None,
            own: Arc::default(),
            met: false,
            warned: false,
            conflicts: Arc::default(),
            conflicts_logged: None,
        }
    }

    /// A store whose connection is open already.
    pub(in crate::store) fn over(
        driver: Box<dyn Driver>,
        mut connector: Box<dyn Connector>,
    ) -> Result<Self, StoreError> {
        let own = Arc::default();
        let (session, _) = Session::over(driver, &mut *connector, &own)?;
        Ok(Store { session: Some(session), own, ..Store::new(connector) })
    }

    /// Call this right after creating the tables. Then no host waits for reports of lost claims, because there are
    /// none.
    pub(in crate::store) fn note_first_history(&mut self) -> Result<(), StoreError> {
        self.write(Session::note_first)
    }

    /// Runs `work` in one transaction and commits it. Any failure rolls back. After a conflict with other writers
    /// `work` runs again.
    pub(super) fn write<T>(
        &mut self,
        work: impl Fn(&mut Session) -> Result<T, SqlError>,
    ) -> Result<T, StoreError> {
        self.transact(work).map_err(|failure| failure.answer(&self.location))
    }

    /// Like [`Store::write`], but returns the failure itself.
    pub(super) fn transact<T>(
        &mut self,
        work: impl Fn(&mut Session) -> Result<T, SqlError>,
    ) -> Result<T, SqlError> {
        let give_up = Instant::now() + self.location.statement_timeout;
        for tries in 1.. {
            match self.transact_once(&work) {
                // At most once for each connection.
                Err(SqlError::Moved(_)) if tries < CONFLICT_TRIES_MAX => {}
                Err(SqlError::Conflict(words))
                    if tries < CONFLICT_TRIES_MAX && Instant::now() < give_up =>
                {
                    self.note_conflict(&words);
                    std::thread::sleep(pause_after_conflict(tries)?);
                }
                // The row was locked for the whole time, so the node that holds the lock is being copied by another
                // node.
                Err(failure @ SqlError::Conflict(_)) if Instant::now() >= give_up => {
                    self.leave();
                    return Err(failure);
                }
                result => return result,
            }
        }
        unreachable!("the last attempt returned")
    }

    /// Counts a conflict with what another host wrote at the same moment. In clusters whose servers all take writes, a
    /// conflict is found at the commit; then nothing was done.
    fn note_conflict(&mut self, words: &str) {
        let total = self.conflicts.fetch_add(1, Ordering::Relaxed) + 1;
        if self.conflicts_logged.is_some_and(|logged| logged.elapsed() < CONFLICTS_LOGGED_EVERY) {
            return;
        }
        self.conflicts_logged = Some(Instant::now());
        tracing::info!(
            store = %self.location.store,
            total,
            "claims conflicted with writes of other hosts and were retried immediately ({words}); if this continues, list \
             the servers in the same order on all hosts"
        );
    }

    fn transact_once<T>(
        &mut self,
        work: &impl Fn(&mut Session) -> Result<T, SqlError>,
    ) -> Result<T, SqlError> {
        let stale = self.session.is_some();
        self.ready()?;
        // The session is taken out, so that a panic ends the connection, and with it the transaction.
        let Some(mut session) = self.session.take() else {
            return Err(self.location.unavailable("the connection was lost").into());
        };
        let begun = session.begin();
        let has_begun = begun.is_ok();
        let result = begun.and_then(|()| work(&mut session)).and_then(|value| {
            if !session.is_committing {
                session.commit(&[])?;
            }
            Ok(value)
        });
        let result = match result {
            // The connection broke since the last call, for instance because the server restarted. Nothing was
            // committed.
            Err(SqlError::Lost(_)) if stale && !session.is_committing => {
                drop(session);
                return self.transact_once(work);
            }
            // The tables were checked, so perhaps a trigger or a rule lacks one of its own.
            Err(SqlError::Missing(words))
                if session.driver.execute("ROLLBACK", &[]).is_ok() && session.is_complete() =>
            {
                Err(SqlError::Rejected(format!(
                    "{words}; leafd's own tables are complete, so this is needed by a trigger or rule on one of them"
                )))
            }
            result => result,
        };
        let keep = match &result {
            Ok(_) => true,
            Err(failure) if failure.ends_connection() => {
                if matches!(failure, SqlError::TimedOut(_)) {
                    self.connector.has_failed(session.driver.endpoint());
                }
                false
            }
            Err(_) => !has_begun || session.driver.execute("ROLLBACK", &[]).is_ok(),
        };
        self.session = keep.then_some(session);
        result
    }

    /// Runs `work`, which changes nothing, and runs it again if the connection turns out to be broken.
    pub(super) fn read<T>(
        &mut self,
        work: impl Fn(&mut Session) -> Result<T, SqlError>,
    ) -> Result<T, StoreError> {
        self.read_once_more(work).map_err(|failure| failure.answer(&self.location))
    }

    /// Like [`Store::read`], but returns the failure itself.
    pub(super) fn read_once_more<T>(
        &mut self,
        work: impl Fn(&mut Session) -> Result<T, SqlError>,
    ) -> Result<T, SqlError> {
        loop {
            let stale = self.session.is_some();
            match work(self.ready()?) {
                Err(SqlError::Lost(_)) if stale => self.session = None,
                // At most once for each connection.
                Err(SqlError::Moved(_)) => {}
                Err(failure) => return Err(self.failed(failure)),
                done => return done,
            }
        }
    }

    /// The result of a call for one tag. If the table can't store the tag's name, no row has it, so the tag is unknown.
    pub(super) fn unless_unknown<T>(
        &self,
        tag: &Tag,
        result: Result<T, SqlError>,
    ) -> Result<T, StoreError> {
        result.map_err(|failure| match failure {
            SqlError::NoSuchName(_) => StoreError::UnknownTag { tag: tag.clone() },
            other => other.answer(&self.location),
        })
    }

    fn failed(&mut self, failure: SqlError) -> SqlError {
        match failure {
            SqlError::TimedOut(_) => self.leave(),
            _ if failure.ends_connection() => self.session = None,
            _ => {}
        }
        failure
    }

    /// Ends the connection, and makes the other servers of the URL come first from now on, because this server may
    /// accept connections and then do nothing. This is only for a server that doesn't answer. A server that ends
    /// connections either accepts none or is healthy, and conflicts are rarer if all hosts prefer the same server.
    fn leave(&mut self) {
        if let Some(session) = self.session.take() {
            self.connector.has_failed(session.driver.endpoint());
        }
    }

    /// Returns the connection, opened if there is none, and starts the time limit of this call.
    fn ready(&mut self) -> Result<&mut Session, StoreError> {
        let open = self.session.take().filter(|session| session.driver.is_usable());
        let mut session = match open {
            Some(session) => session,
            None => self.connect()?,
        };
        session.driver.set_deadline(Instant::now() + self.location.statement_timeout);
        Ok(self.session.insert(session))
    }

    fn connect(&mut self) -> Result<Session, StoreError> {
        let driver = self.connector.connect()?;
        let (session, identity) = Session::over(driver, &mut *self.connector, &self.own)?;
        let known = self.own().known.clone();
        let session = match self.met && known.as_ref() == Some(&identity.history) {
            true => session,
            false => self.choose(session, &identity, known.as_ref())?,
        };
        self.met = true;
        if !session.side && !self.warned {
            tracing::warn!(
                store = %self.location.store,
                "the store has only Leaf's table: leafd can't detect deleted tags or copied hosts, and supports \
                 neither ceilings nor new tags; add leafd's tables with: leafd schema apply"
            );
            self.warned = true;
        }
        Ok(session)
    }

    pub(super) fn own(&self) -> MutexGuard<'_, HostState> {
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Decides which of the URL's servers to use if the first one that accepts writes has another history than the
    /// known one, or none is known yet. A server that is still in the known history is used. Otherwise the server of
    /// the last connection was silent, and either another one took over, or this one is a former primary that was never
    /// stopped. So the one with the later history is used. If none is later, it is unknown which one is right.
    fn choose(
        &self,
        session: Session,
        identity: &Identity,
        known: Option<&History>,
    ) -> Result<Session, StoreError> {
        let (mut session, mut history) = (session, identity.history.clone());
        let mut others: Vec<(Session, History)> = Vec::new();
        for (mut alone, driver) in self.connect_to_others(session.driver.endpoint()) {
            let over = Session::over(driver, &mut *alone, &self.own);
            let Ok((other, of_it)) = over else { continue };
            if of_it.id == identity.id {
                others.push((other, of_it.history));
            }
        }
        let still = known.filter(|known| **known != history);
        let still = still.and_then(|known| others.iter().position(|(_, of)| of == known));
        let later = || others.iter().position(|(_, of)| history.is_former_of(of));
        if let Some(index) = still.or_else(later) {
            let (better, of_it) = &mut others[index];
            std::mem::swap(&mut session, better);
            std::mem::swap(&mut history, of_it);
        }
        for (mut other, of_it) in others {
            let is_unrelated = of_it != history && !of_it.is_former_of(&history);
            let all_true = !of_it.is_in_doubt() && !history.is_in_doubt() && session.side;
            if is_unrelated && all_true || session.is_parted_from(&mut other)? {
                return Err(self.location.unavailable(format!(
                    "{} and {} both accept writes and neither follows the other, so nothing is claimed from either: stop \
                     the wrong one, or name only the right one in the URL",
                    session.driver.endpoint(),
                    other.driver.endpoint()
                )));
            }
            if of_it != history {
                tracing::error!(
                    store = %self.location.store, used = session.driver.endpoint(), unused = other.driver.endpoint(),
                    "two servers of the store's URL accept writes: stop the former primary, or make it follow the current one"
                );
            }
        }
        self.own().trusts(&history);
        Ok(session)
    }

    /// The other servers of the URL that answer soon; all are asked at the same time.
    fn connect_to_others(&self, endpoint: &str) -> Vec<(Box<dyn Connector>, Box<dyn Driver>)> {
        let (sender, receiver) = mpsc::channel();
        for alone in self.connector.after(endpoint) {
            let sender = sender.clone();
            thread::spawn(move || {
                if let Ok(driver) = alone.connect() {
                    // A late one is ignored.
                    let _ = sender.send((alone, driver));
                }
            });
        }
        drop(sender);
        let until = Instant::now() + HEAD_START;
        let left = || until.saturating_duration_since(Instant::now());
        iter::from_fn(|| receiver.recv_timeout(left()).ok()).collect()
    }

    /// Records a role if `judge` agrees. `judge` gets the store's identity, and the name that errors use for the store.
    /// No claim is in progress meanwhile.
    pub(super) fn record_role(
        &mut self,
        role: &Role,
        judge: impl Fn(Identity, &str) -> Result<bool, StoreError>,
    ) -> Result<(), StoreError> {
        role.check()?;
        self.write(|session| {
            if session.side {
                session.lock_role()?;
            }
            let found = session.identity()?;
            if !judge(found.clone(), session.store())? {
                return Ok(());
            }
            session.require_side("a role among several stores")?;
            session.change_right(role)
        })
    }
}

/// How long to wait after this many conflicts in a row: a random time, so that the same two writers don't collide
/// again.
fn pause_after_conflict(tries: u32) -> Result<Duration, SqlError> {
    let most_ms = (1_u64 << tries.min(10)).min(PAUSE_MAX_MS);
    let chance = crate::random::generation();
    Ok(Duration::from_millis(chance.0 % (most_ms + 1)))
}
