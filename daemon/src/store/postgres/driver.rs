//! One connection to PostgreSQL. Every statement runs within the call's deadline.

use std::error::Error as _;
use std::sync::Once;
use std::time::Instant;

use postgres::Row;
use postgres::error::SqlState;
use postgres::types::{ToSql, Type};
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;
use tokio_postgres::{Client, Error};

use super::{connect, sql};
use crate::store::sql::{Call, Driver, Failure, Param, Signs, Target};
use leafd_core::store::StoreError;
use leafd_core::text::clean;

/// A connection, and the runtime that moves its bytes while a statement runs.
#[derive(Debug)]
pub struct PostgresDriver {
    /// `None` only while this is dropped.
    runtime: Option<Runtime>,
    client: Client,
    mover: JoinHandle<()>,
    endpoint: String,
    unconfirmed: connect::Unconfirmed,
    deadline: Instant,
    signs: Signs,
    /// Begins a transaction with all the settings that the statements rely on. Nothing is set for the session, because
    /// a pooler may give each transaction to another one.
    begin: String,
}

impl PostgresDriver {
    /// Connects to the first server that takes writes.
    pub(super) fn connect(target: &Target) -> Result<Self, StoreError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build()
            .map_err(|cause| {
                target.location().unavailable(format!("can't start a runtime for it: {cause}"))
            })?;
        let connected = runtime.block_on(connect::connect(target));
        let connected = match connected {
            Ok(connected) => connected,
            Err(error) => {
                // As in `drop`: don't wait for a look-up that hangs.
                runtime.shutdown_background();
                return Err(error);
            }
        };
        let connect::Connected { client, mover, endpoint, unconfirmed, settings } = connected;
        let connect::Settings { has_log, begin } = settings;
        Ok(PostgresDriver {
            runtime: Some(runtime),
            client,
            mover,
            endpoint,
            unconfirmed,
            deadline: Instant::now(),
            signs: sql::signs(has_log),
            begin,
        })
    }

    fn bounded<T>(&self, statement: impl Future<Output = Result<T, Error>>) -> Result<T, Failure> {
        let Some(runtime) = &self.runtime else {
            return Err(Failure::Lost("the connection is closed".to_owned()));
        };
        let outcome = runtime
            .block_on(async { tokio::time::timeout_at(self.deadline.into(), statement).await });
        match outcome {
            Ok(result) => result.map_err(|error| match classify(&error) {
                Failure::Lost(words) => Failure::Lost(format!("{}: {words}", self.endpoint)),
                Failure::ReadOnly(words) => {
                    Failure::ReadOnly(format!("{}: {words}", self.endpoint))
                }
                other => other,
            }),
            Err(_) => Err(Failure::TimedOut(format!(
                "{}: no answer in time (store_statement_timeout)",
                self.endpoint
            ))),
        }
    }

    /// Runs several statements without parameters.
    pub(super) fn batch(&mut self, statements: &str) -> Result<(), Failure> {
        self.bounded(self.client.batch_execute(statements))?;
        // Such a commit may be lost, like one that got no answer.
        match self.unconfirmed.take() {
            true => {
                let words = format!("{}: {}", self.endpoint, connect::UNCONFIRMED);
                Err(Failure::TimedOut(words))
            }
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

    fn begin(&mut self, _: &str) -> Result<(), Failure> {
        let begin = self.begin.clone();
        self.batch(&begin)
    }

    fn set_deadline(&mut self, deadline: Instant) {
        self.deadline = deadline;
    }

    fn execute(&mut self, sql: &str, params: &[Param<'_>]) -> Result<u64, Failure> {
        if params.is_empty() {
            return self.batch(sql).map(|()| 0);
        }
        let typed = typed(params);
        self.bounded(self.client.execute_typed(sql, &typed))
    }

    fn query(
        &mut self,
        sql: &str,
        params: &[Param<'_>],
    ) -> Result<Vec<Vec<Option<String>>>, Failure> {
        let typed = typed(params);
        let rows = self.bounded(self.client.query_typed(sql, &typed))?;
        texts(&rows)
    }

    /// Sends both together. So a claim waits for the network once less, and holds its row's lock for a shorter time.
    fn query_locked(
        &mut self,
        lock: &str,
        sql: &str,
        params: &[Param<'_>],
    ) -> Result<Vec<Vec<Option<String>>>, Failure> {
        let typed = typed(params);
        let rows = self.bounded(async {
            let locked = self.client.query_typed(lock, &typed);
            let (locked, rows) = tokio::join!(locked, self.client.query_typed(sql, &typed));
            locked.and(rows)
        })?;
        texts(&rows)
    }

    /// Sends all of them together, for the same reason.
    fn execute_together(
        &mut self,
        first: Call<'_>,
        second: Call<'_>,
        third: Option<Call<'_>>,
    ) -> Result<[u64; 2], Failure> {
        let (first_typed, second_typed) = (typed(first.1), typed(second.1));
        let third_typed = third.map(|(sql, params)| (sql, typed(params)));
        self.bounded(async {
            let one = self.client.execute_typed(first.0, &first_typed);
            let two = self.client.execute_typed(second.0, &second_typed);
            let three = async {
                match &third_typed {
                    Some((sql, params)) => self.client.execute_typed(sql, params).await,
                    None => Ok(0),
                }
            };
            let (one, two, three) = tokio::join!(one, two, three);
            let changed = [one?, two?];
            three.map(|_| changed)
        })
    }
}

fn texts(rows: &[Row]) -> Result<Vec<Vec<Option<String>>>, Failure> {
    let texts = rows.iter().map(|row| {
        let cells = (0..row.len()).map(|index| row.try_get::<_, Option<String>>(index));
        cells.collect::<Result<Vec<_>, _>>().map_err(|error| Failure::Rejected(describe(&error)))
    });
    texts.collect()
}

/// Logs once that leafd notices fewer fail-overs on this server.
pub(super) fn say_without_log(endpoint: &str, words: &str) {
    static SAID: Once = Once::new();
    SAID.call_once(|| {
        tracing::warn!(
            server = endpoint,
            "leafd can't see fail-overs or restores on this server, only a table that was filled again, because it doesn't \
             report its system identifier or timeline ({words}). On Aurora, rds.logical_replication = 1 \
             makes the server report them"
        );
    });
}

type Typed<'a> = (&'a (dyn ToSql + Sync), Type);

/// Each value is sent with its type, so that a statement takes one round trip and the server keeps nothing.
fn typed<'a>(params: &'a [Param<'_>]) -> Vec<Typed<'a>> {
    let one = |param: &'a Param<'_>| -> Typed<'a> {
        match param {
            Param::Text(text) => (text, Type::TEXT),
            Param::OptionalText(text) => (text, Type::TEXT),
            Param::Integer(number) => (number, Type::INT8),
            Param::OptionalInteger(number) => (number, Type::INT8),
        }
    };
    params.iter().map(one).collect()
}

/// The error in the server's own words, which the error type doesn't print.
pub(super) fn describe(error: &Error) -> String {
    clean(&words(error))
}

fn words(error: &Error) -> String {
    if let Some(said) = error.as_db_error() {
        let words = format!("{} (SQLSTATE {})", said.message(), said.code().code());
        // Nothing of leafd's runs inside of a function: it is a trigger's.
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
pub(super) fn classify(error: &Error) -> Failure {
    let words = describe(error);
    let Some(code) = error.code() else { return Failure::Lost(words) };
    if *code == SqlState::READ_ONLY_SQL_TRANSACTION {
        return Failure::ReadOnly(words);
    }
    if *code == SqlState::UNIQUE_VIOLATION {
        return Failure::Duplicate(words);
    }
    if *code == SqlState::INSUFFICIENT_PRIVILEGE {
        return Failure::Denied(words);
    }
    if *code == SqlState::UNDEFINED_TABLE {
        return Failure::of_missing_table(words);
    }
    if *code == SqlState::UNDEFINED_COLUMN {
        return Failure::Missing(words);
    }
    if *code == SqlState::UNTRANSLATABLE_CHARACTER {
        return Failure::NoSuchName(words);
    }
    // Something that the engine can't do as it is set up.
    if ["55000", "0A000"].contains(&code.code()) {
        return Failure::Unsupported(words);
    }
    match code.code().get(..2) {
        // Serialization failures and deadlocks.
        Some("40") => Failure::Conflict(words),
        // The server shuts down, or it closed the connection.
        Some("08" | "57") if *code != SqlState::QUERY_CANCELED => Failure::Lost(words),
        // Data, integrity, syntax and rights: asking again gives the same.
        Some("22" | "23" | "42" | "P0") => Failure::Rejected(words),
        _ => Failure::Busy(words),
    }
}
