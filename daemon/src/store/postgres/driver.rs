//! One connection to PostgreSQL. Every statement runs within the call's deadline.

use std::error::Error as _;
use std::mem;
use std::sync::Once;
use std::time::Instant;

use postgres::error::SqlState;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;
use tokio_postgres::{Client, Error};

use super::kept::{self, Sending};
use super::socket::Allowance;
use super::{connect, sql};
use crate::config::Endpoint;
use crate::store::sql::{
    Call, Cells, Driver, Param, Signs, SqlAnswer, SqlError, Target, UNCHANGED,
};
use leafd_core::store::Reason;
use leafd_wire::text::clean;

/// A connection, and the runtime that moves its bytes while a statement runs.
#[derive(Debug)]
pub struct PostgresDriver {
    /// `None` only while this is dropped.
    runtime: Option<Runtime>,
    client: Client,
    mover: JoinHandle<()>,
    endpoint: String,
    unconfirmed: connect::Unconfirmed,
    allowance: Allowance,
    deadline: Instant,
    signs: Signs,
    /// The statements that the server has prepared for this connection.
    kept: kept::Statements,
    /// Begins a transaction with all the settings that the statements rely on. Nothing is set for the session, because
    /// a pooler may give each transaction to another one.
    begin: String,
    /// Whether `begin` is to be sent before the next statement.
    opening: bool,
}

impl PostgresDriver {
    /// Connects to this server.
    pub(super) fn connect(
        target: &Target,
        endpoint: &Endpoint,
        password: Option<&str>,
    ) -> Result<Self, Reason> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build()
            .map_err(|cause| Reason::from(format!("can't start a runtime for it: {cause}")))?;
        let connected = match runtime.block_on(connect::connect(target, endpoint, password)) {
            Ok(connected) => connected,
            Err(cause) => {
                // As in `drop`, this doesn't wait for a look-up that hangs.
                runtime.shutdown_background();
                return Err(cause);
            }
        };
        let connect::Connected { client, mover, unconfirmed, allowance, settings } = connected;
        let connect::ServerSettings { has_log, begin } = settings;
        Ok(PostgresDriver {
            runtime: Some(runtime),
            client,
            mover,
            endpoint: endpoint.to_string(),
            unconfirmed,
            allowance,
            deadline: Instant::now(),
            signs: sql::signs(has_log),
            kept: kept::Statements::new(),
            begin,
            opening: false,
        })
    }

    fn bounded<T>(&self, statement: impl Future<Output = Result<T, Error>>) -> Result<T, SqlError> {
        self.bounded_as(statement, classify)
    }

    fn bounded_as<T>(
        &self,
        statement: impl Future<Output = Result<T, Error>>,
        classify: impl FnOnce(&Error) -> SqlError,
    ) -> Result<T, SqlError> {
        let Some(runtime) = &self.runtime else {
            return Err(SqlError::Lost("the connection is closed".to_owned()));
        };
        self.allowance.renew();
        let outcome = runtime
            .block_on(async { tokio::time::timeout_at(self.deadline.into(), statement).await })
            .map(|answer| answer.map_err(|error| classify(&error)));
        let answered = outcome.unwrap_or_else(|_| {
            Err(SqlError::TimedOut("no answer in time (store_statement_timeout)".to_owned()))
        });
        answered.map_err(|failure| failure.at(&self.endpoint))
    }

    /// Runs frequently repeated statements, and `end` after them, in one round trip. An error in one of them skips the
    /// rest.
    fn together(&mut self, calls: &[Call<'_>], end: &str) -> Result<Vec<SqlAnswer>, SqlError> {
        let sending = self.kept.sending(calls);
        self.send(sending, end)
    }

    fn send(&mut self, sending: Sending, end: &str) -> Result<Vec<SqlAnswer>, SqlError> {
        let Sending { prepare, text, by_name } = sending;
        let failed = |error: &Error| match by_name && kept::is_lost(error) {
            true => SqlError::Moved(describe(error)),
            false => classify(error),
        };
        if !prepare.is_empty() {
            self.open()?;
        }
        for (name, statement) in prepare {
            let prepared = self.bounded_as(self.client.batch_execute(&statement), failed);
            self.unless_moved(prepared)?;
            self.kept.has_prepared(name);
        }
        let begin = if mem::take(&mut self.opening) { &*self.begin } else { "" };
        let text = format!("{begin}{text}{end}");
        let answered = self.bounded_as(self.client.simple_query(&text), failed);
        let answered = self.unless_moved(answered)?;
        self.confirmed()?;
        Ok(kept::answers(answered))
    }

    /// Begins the transaction if that was not sent yet.
    fn open(&mut self) -> Result<(), SqlError> {
        match mem::take(&mut self.opening) {
            true => self.bounded(self.client.batch_execute(&self.begin)),
            false => Ok(()),
        }
    }

    /// After a move, this connection uses no prepared statements.
    fn unless_moved<T>(&mut self, answered: Result<T, SqlError>) -> Result<T, SqlError> {
        if let Err(SqlError::Moved(_)) = answered {
            self.kept = kept::Statements::Whole;
        }
        answered
    }

    /// Runs several statements without parameters.
    pub(super) fn batch(&mut self, statements: &str) -> Result<(), SqlError> {
        self.bounded(self.client.batch_execute(statements))?;
        self.confirmed()
    }

    /// Fails if the server has answered a commit that its standby did not confirm. Such a commit may be lost, like one
    /// that was not answered.
    fn confirmed(&self) -> Result<(), SqlError> {
        match self.unconfirmed.take() {
            true => Err(SqlError::TimedOut(connect::UNCONFIRMED.to_owned()).at(&self.endpoint)),
            false => Ok(()),
        }
    }
}

impl Drop for PostgresDriver {
    fn drop(&mut self) {
        self.mover.abort();
        // A name look-up may still hang in the system's resolver; dropping the connection must not wait for it.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Driver for PostgresDriver {
    fn endpoint(&self) -> &str {
        &self.endpoint
    }

    fn signs(&self) -> &Signs {
        &self.signs
    }

    fn use_tables(&mut self, life: &str) {
        self.kept.use_tables(life);
    }

    fn begin(&mut self) -> Result<(), SqlError> {
        self.opening = true;
        Ok(())
    }

    fn set_deadline(&mut self, deadline: Instant) {
        self.deadline = deadline;
    }

    fn run(&mut self, sql: &str, params: &[Param<'_>]) -> Result<SqlAnswer, SqlError> {
        // The answers before it are those to the beginning of the transaction.
        Ok(self.send(Sending::in_full(sql, params), "")?.pop().unwrap_or_default())
    }

    fn query_together(&mut self, calls: &[Call<'_>]) -> Result<Vec<Vec<Cells>>, SqlError> {
        let mut answers = self.together(calls, "")?;
        let answers = answers.split_off(answers.len().saturating_sub(calls.len()));
        Ok(answers.into_iter().map(|answer| answer.rows).collect())
    }

    fn commit(&mut self, calls: &[Call<'_>]) -> Result<(), SqlError> {
        let (sql, params) = kept::all_or_none(calls);
        let call = [(&*sql, &*params)];
        let committed = self.together(if calls.is_empty() { &[] } else { &call }, "COMMIT");
        committed.map(drop)
    }
}

/// Logs once that leafd detects fewer fail-overs on this server.
pub(super) fn say_without_log(endpoint: &Endpoint, words: &str) {
    static SAID: Once = Once::new();
    SAID.call_once(|| {
        tracing::warn!(
            server = %endpoint,
            "leafd can't detect fail-overs or restores on this server, except a reloaded table, because the server \
             doesn't report its system identifier or timeline ({words}). On Aurora, rds.logical_replication = 1 makes \
             it report them"
        );
    });
}

/// The error in the server's own words, which the error type doesn't print.
pub(super) fn describe(error: &Error) -> String {
    clean(&words(error))
}

fn words(error: &Error) -> String {
    if let Some(said) = error.as_db_error() {
        let words = format!("{} (SQLSTATE {})", said.message(), said.code().code());
        // leafd runs nothing inside a function, so it is a trigger's.
        return match said.where_().and_then(|places| places.lines().last()) {
            Some(function) => format!("{words} in {function}"),
            None => words,
        };
    }
    match error.source() {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}

/// What an error means for the connection and for the caller.
pub(super) fn classify(error: &Error) -> SqlError {
    let words = describe(error);
    let Some(code) = error.code() else { return SqlError::Lost(words) };
    if *code == SqlState::READ_ONLY_SQL_TRANSACTION {
        return SqlError::ReadOnly(words);
    }
    // See `all_or_none`.
    if *code == SqlState::DIVISION_BY_ZERO {
        return SqlError::Conflict(UNCHANGED.to_owned());
    }
    if *code == SqlState::UNIQUE_VIOLATION {
        return SqlError::Duplicate(words);
    }
    if *code == SqlState::INSUFFICIENT_PRIVILEGE {
        return SqlError::Denied(words);
    }
    if [SqlState::UNDEFINED_TABLE, SqlState::UNDEFINED_COLUMN].contains(code) {
        return SqlError::Missing(words);
    }
    if *code == SqlState::UNTRANSLATABLE_CHARACTER {
        return SqlError::NoSuchName(words);
    }
    // A feature that the engine lacks in its current configuration.
    if ["55000", "0A000"].contains(&code.code()) {
        return SqlError::Unsupported(words);
    }
    match code.code().get(..2) {
        // Serialization failures and deadlocks.
        Some("40") => SqlError::Conflict(words),
        // The server is shutting down, or it closed the connection.
        Some("08" | "57") if *code != SqlState::QUERY_CANCELED => SqlError::Lost(words),
        // Data, integrity, syntax and privileges: repeating the statement gives the same error.
        Some("22" | "23" | "42" | "P0") => SqlError::Rejected(words),
        _ => SqlError::Busy(words),
    }
}
