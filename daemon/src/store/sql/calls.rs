//! A store over a driver: opens the connection when it is needed, and repeats transactions that conflict with others.

use std::time::Instant;

use super::conflicts::{CONFLICT_TRIES_MAX, Conflicts, pause_after_conflict};
use super::rows::{self, name};
use super::session::{Session, needs_side_tables};
use super::{Connector, Driver, Failure, Location, Place};
use leafd_core::Tag;
use leafd_core::store::{Identity, Role, StoreError, TagTerms};

/// A store over a driver. To make one connects to nothing: the first call connects.
#[derive(Debug)]
pub struct SqlStore {
    connector: Box<dyn Connector>,
    pub(super) location: Location,
    session: Option<Session>,
    /// Where the last connection led.
    known: Option<Place>,
    /// Whether the log already says that there is only Leaf's table.
    warned: bool,
    pub(super) conflicts: Conflicts,
}

impl SqlStore {
    pub(in crate::store) fn new(connector: Box<dyn Connector>) -> Self {
        let (location, conflicts) = (connector.location(), Conflicts::default());
        SqlStore { connector, location, session: None, known: None, warned: false, conflicts }
    }

    /// A store whose connection is open already.
    pub(in crate::store) fn over(
        driver: Box<dyn Driver>,
        mut connector: Box<dyn Connector>,
    ) -> Result<Self, StoreError> {
        let session = Session::over(driver, &mut *connector)?;
        Ok(SqlStore { session: Some(session), ..SqlStore::new(connector) })
    }

    /// Whoever has just made the tables must call this. Then no host waits for reports of claims that this history may
    /// have lost: there were none.
    pub(in crate::store) fn note_first_history(&mut self) -> Result<(), StoreError> {
        self.write(Session::note_first)
    }

    /// Runs `work` in one transaction and commits it. Any failure rolls back. After a conflict with other writers
    /// `work` runs again.
    pub(super) fn write<T>(
        &mut self,
        work: impl Fn(&mut Session) -> Result<T, Failure>,
    ) -> Result<T, StoreError> {
        self.transact(work).map_err(|failure| failure.answer(&self.location))
    }

    /// Like [`SqlStore::write`], but returns the failure itself.
    pub(super) fn transact<T>(
        &mut self,
        work: impl Fn(&mut Session) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let give_up = Instant::now() + self.location.statement_timeout;
        for tries in 1.. {
            match self.transact_once(&work) {
                Err(Failure::Conflict(words))
                    if tries < CONFLICT_TRIES_MAX && Instant::now() < give_up =>
                {
                    self.conflicts.note(&self.location.store, &words);
                    std::thread::sleep(pause_after_conflict(tries)?);
                }
                // The row was locked for the whole time. So the lock is held by a node that another node copies from.
                Err(failure @ Failure::Conflict(_)) if Instant::now() >= give_up => {
                    self.leave();
                    return Err(failure);
                }
                result => return result,
            }
        }
        unreachable!("the last attempt returned")
    }

    pub(super) fn transact_once<T>(
        &mut self,
        work: impl FnOnce(&mut Session) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        loop {
            let stale = self.session.is_some();
            let session = self.ready()?;
            let begun = session.driver.execute(session.dialect.sql.begin, &[]);
            match begun {
                Ok(_) => break,
                // The connection broke since the last call, for instance because the server restarted. Nothing was
                // done yet.
                Err(Failure::Lost(_)) if stale => self.session = None,
                Err(failure) => return Err(self.failed(failure)),
            }
        }
        // The session is taken out, so that a panic ends the connection and with it the transaction.
        let Some(mut session) = self.session.take() else {
            return Err(self.location.unavailable("the connection was lost").into());
        };
        let result = work(&mut session).and_then(|value| {
            session.driver.execute("COMMIT", &[])?;
            Ok(value)
        });
        let keep = match &result {
            Ok(_) => true,
            Err(failure) if failure.ends_connection() => {
                if matches!(failure, Failure::TimedOut(_)) {
                    self.connector.has_failed(session.driver.endpoint());
                }
                false
            }
            Err(_) => session.driver.execute("ROLLBACK", &[]).is_ok(),
        };
        self.session = keep.then_some(session);
        result
    }

    /// Runs `work`, which changes nothing, and runs it again if the connection turns out to be gone.
    pub(super) fn read<T>(
        &mut self,
        work: impl Fn(&mut Session) -> Result<T, Failure>,
    ) -> Result<T, StoreError> {
        self.read_once_more(work).map_err(|failure| failure.answer(&self.location))
    }

    /// Like [`SqlStore::read`], but returns the failure itself.
    pub(super) fn read_once_more<T>(
        &mut self,
        work: impl Fn(&mut Session) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        loop {
            let stale = self.session.is_some();
            match work(self.ready()?) {
                Err(Failure::Lost(_)) if stale => self.session = None,
                Err(failure) => return Err(self.failed(failure)),
                done => return done,
            }
        }
    }

    /// The result of a call for one tag. If the table can't hold the tag's name, no row has it: the tag is unknown.
    pub(super) fn unless_unknown<T>(
        &self,
        tag: &Tag,
        result: Result<T, Failure>,
    ) -> Result<T, StoreError> {
        result.map_err(|failure| match failure {
            Failure::NoSuchName(_) => StoreError::UnknownTag { tag: tag.clone() },
            other => other.answer(&self.location),
        })
    }

    pub(super) fn failed(&mut self, failure: Failure) -> Failure {
        match failure {
            Failure::TimedOut(_) => self.leave(),
            _ if failure.ends_connection() => self.session = None,
            _ => {}
        }
        failure
    }

    /// Ends the connection, and has the other servers of the URL be tried first from now on: this server may accept
    /// connections and then do nothing. That is only for a server that doesn't answer. One that ends connections
    /// either accepts none or is well, and hosts that prefer the same server meet fewer conflicts.
    fn leave(&mut self) {
        if let Some(session) = self.session.take() {
            self.connector.has_failed(session.driver.endpoint());
        }
    }

    /// Returns the connection, opened if there is none, and starts the time limit of this call.
    pub(super) fn ready(&mut self) -> Result<&mut Session, StoreError> {
        let open = self.session.take().filter(|session| session.driver.is_usable());
        let mut session = match open {
            Some(session) => session,
            None => self.connect()?,
        };
        session.driver.set_deadline(Instant::now() + self.location.statement_timeout);
        Ok(self.session.insert(session))
    }

    /// Looks up each tag by itself, because one name that the table can't hold makes a query for many fail.
    pub(super) fn look_up_one_by_one(
        &mut self,
        under: &Identity,
        tags: &[Tag],
    ) -> Result<Vec<Option<TagTerms>>, StoreError> {
        let one = |tag: &Tag| {
            let tags = std::slice::from_ref(tag);
            match self.read_once_more(|session| session.find_under(under, tags, false)) {
                Err(Failure::NoSuchName(_)) => Ok(None),
                Err(failure) => Err(failure.answer(&self.location)),
                Ok(rows) => {
                    let row = rows.iter().find(|row| name(row) == Some(tag.as_str()));
                    Ok(row.map(rows::terms))
                }
            }
        };
        let terms: Result<Vec<_>, StoreError> = tags.iter().map(one).collect();
        // If another store answered, it says nothing that a tag is missing there.
        self.read(|session| session.check(under))?;
        terms
    }

    pub(super) fn connect(&mut self) -> Result<Session, StoreError> {
        let mut session = Session::over(self.connector.connect()?, &mut *self.connector)?;
        if let Some(known) = &self.known
            && !session.is_in(known)
            && let Some(same) = self.among_others(session.driver.endpoint(), known)
        {
            session = same;
        }
        self.known = Some(session.place().clone());
        if !session.side && !self.warned {
            tracing::warn!(
                store = %self.location.store,
                "the store has only Leaf's table: leafd can't notice deleted tags, ceilings or copied hosts, and can't \
                 create tags; add leafd's tables with: leafd schema apply"
            );
            self.warned = true;
        }
        Ok(session)
    }

    /// Finds a server that goes on in the same history as the last connection. The server of that connection was
    /// silent, and another one that takes writes has another history: either it took over, or it is a former primary
    /// that nobody stopped. If a server still has the known history, the result is a connection to it.
    fn among_others(&self, endpoint: &str, known: &Place) -> Option<Session> {
        let others = self.connector.others(endpoint).into_iter();
        let mut sessions =
            others.filter_map(|mut alone| Session::over(alone.connect().ok()?, &mut *alone).ok());
        sessions.find(|session| session.is_in(known))
    }

    /// Records a role if `judge` agrees. `judge` gets the store's identity, and the name that errors use for the
    /// store. No claim is under way meanwhile.
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
            if !session.side {
                return Err(needs_side_tables(&session.location, "a role among several stores"));
            }
            let losses = found.history.losses().to_owned();
            session.change_right(role, &losses)
        })
    }
}
