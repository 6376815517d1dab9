//! One connection to MySQL or MariaDB. Each wait for a part of an answer lasts at most as long as the time that the
//! call had left when its statement began.

use std::error::Error as _;
use std::io;
use std::mem;
use std::os::fd::{AsRawFd as _, BorrowedFd};
use std::time::{Duration, Instant};

use mysql::prelude::Queryable;
use mysql::{Conn, DriverError, Error, Row, Value};
use nix::sys::socket::{setsockopt, sockopt};
use nix::sys::time::TimeVal;

use super::connect;
use super::sql::{self, DIALECT};
use crate::config::Endpoint;
use crate::store::sql::engine::Engine;
use crate::store::sql::{
    Call, Cells, Driver, NO_TLS, Param, Signs, SqlAnswer, SqlError, Target, one_row,
};
use leafd_core::store::Reason;
use leafd_wire::text::clean;

const BEGIN: &str = "START TRANSACTION";

/// In a cluster that is one store, a server gets this share of a call's time, in percent. Another server can then
/// execute the call while this one is busy, for instance because it sends its state to a new node.
const TIME_OF_ONE_OF_SEVERAL: u32 = 80;

/// A connection to a server.
#[derive(Debug)]
pub struct MysqlDriver {
    connection: Conn,
    endpoint: String,
    engine: Engine,
    signs: Signs,
    deadline: Instant,
    /// Whether a transaction is to begin before the next statement.
    opening: bool,
}

impl MysqlDriver {
    /// Connects to this server.
    pub(super) fn connect(
        target: &Target,
        endpoint: &Endpoint,
        password: Option<&str>,
    ) -> Result<Self, Reason> {
        let (connection, engine, signs) = connect::connect(target, endpoint, password)?;
        let endpoint = endpoint.to_string();
        let deadline = Instant::now();
        Ok(MysqlDriver { connection, endpoint, engine, signs, deadline, opening: false })
    }

    /// Runs a statement that is written for this database, without parameters.
    pub(super) fn run_as_is(&mut self, sql: &str) -> Result<(), SqlError> {
        self.bounded(|connection| connection.query_drop(sql))
    }

    /// Runs statements in one round trip, as one text.
    fn together(&mut self, calls: &[Call<'_>]) -> Result<Vec<SqlAnswer>, SqlError> {
        let begin = mem::take(&mut self.opening).then(|| BEGIN.to_owned());
        let texts =
            calls.iter().map(|(sql, params)| sql::with_values(&DIALECT.render(sql), params));
        let texts: Vec<String> = begin.into_iter().chain(texts).collect();
        let mut answers = self.bounded(|connection| {
            let mut answer = connection.query_iter(texts.join(";"))?;
            let mut answers = Vec::new();
            while let Some(set) = answer.iter() {
                let changed = set.affected_rows();
                let rows = set.map(|row| row.map(cells)).collect::<Result<_, _>>()?;
                answers.push(SqlAnswer { rows, changed });
            }
            Ok(answers)
        })?;
        if answers.len() != texts.len() {
            return Err(SqlError::Lost(
                "it answered a different number of statements than were sent".to_owned(),
            ));
        }
        Ok(answers.split_off(answers.len() - calls.len()))
    }

    fn bounded<T>(
        &mut self,
        statement: impl FnOnce(&mut Conn) -> Result<T, Error>,
    ) -> Result<T, SqlError> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        let answered = if left.is_zero() {
            let words = "the statements took too long (store_statement_timeout)";
            Err(SqlError::TimedOut(words.to_owned()))
        } else {
            wait_at_most(&self.connection, left)
                .map_err(|cause| SqlError::Lost(cause.to_string()))
                .and_then(|()| statement(&mut self.connection).map_err(|error| classify(&error)))
        };
        answered.map_err(|failure| failure.at(&self.endpoint))
    }
}

impl Driver for MysqlDriver {
    fn endpoint(&self) -> &str {
        &self.endpoint
    }

    fn signs(&self) -> &Signs {
        &self.signs
    }

    fn position(&mut self) -> Result<Option<u64>, SqlError> {
        let asked = match self.engine.is_one_store() {
            true => sql::CLUSTER_POSITION,
            false => sql::POSITION,
        };
        let rows = self.query(asked, &[])?;
        let value = rows.into_iter().find_map(|row| row.into_iter().nth(1)?);
        // A node that is cut off from its cluster reports the largest number.
        Ok(value.and_then(|value| value.parse().ok()).filter(|position| *position < u64::MAX))
    }

    fn members(&mut self) -> Result<Option<String>, SqlError> {
        if !self.engine.is_one_store() {
            return Ok(None);
        }
        let rows = self.query(sql::MEMBERS, &[])?;
        Ok(rows.into_iter().find_map(|row| {
            let list = row.into_iter().nth(1)??;
            let mut members: Vec<&str> = list.split(',').collect();
            members.sort_unstable();
            Some(members.join(","))
        }))
    }

    fn begin(&mut self) -> Result<(), SqlError> {
        self.opening = true;
        Ok(())
    }

    fn set_deadline(&mut self, deadline: Instant) {
        let now = Instant::now();
        let left = deadline.saturating_duration_since(now);
        self.deadline = match self.engine.is_one_store() {
            true => now + left * TIME_OF_ONE_OF_SEVERAL / 100,
            false => deadline,
        };
    }

    fn run(&mut self, sql: &str, params: &[Param<'_>]) -> Result<SqlAnswer, SqlError> {
        Ok(self.together(&[(sql, params)])?.remove(0))
    }

    fn query_together(&mut self, calls: &[Call<'_>]) -> Result<Vec<Vec<Cells>>, SqlError> {
        Ok(self.together(calls)?.into_iter().map(|answer| answer.rows).collect())
    }

    /// The rows are counted before the COMMIT is sent.
    fn commit(&mut self, calls: &[Call<'_>]) -> Result<(), SqlError> {
        if !calls.is_empty() {
            for answer in self.together(calls)? {
                one_row(answer.changed)?;
            }
        }
        self.execute("COMMIT", &[]).map(drop)
    }
}

/// From now on, each wait for the server lasts at most this long.
#[expect(unsafe_code, reason = "the crate names its socket by the number of the descriptor alone")]
fn wait_at_most(connection: &Conn, time: Duration) -> io::Result<()> {
    // SAFETY: the connection owns its descriptor, which stays open while the connection is borrowed.
    let socket = unsafe { BorrowedFd::borrow_raw(connection.as_raw_fd()) };
    // A timeout of zero would mean no timeout.
    let time = time.max(Duration::from_millis(1));
    let seconds = i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
    let limit = TimeVal::new(seconds, time.subsec_micros().into());
    Ok(setsockopt(&socket, sockopt::ReceiveTimeout, &limit)?)
}

fn cells(row: Row) -> Cells {
    row.unwrap().into_iter().map(text).collect()
}

fn text(value: Value) -> Option<String> {
    match value {
        Value::NULL => None,
        Value::Bytes(bytes) => Some(String::from_utf8_lossy(&bytes).into_owned()),
        other => Some(other.as_sql(true)),
    }
}

/// The error in the server's own words.
pub(super) fn describe(error: &Error) -> String {
    clean(&words(error))
}

fn words(error: &Error) -> String {
    match error {
        Error::MySqlError(said) => format!("{} (error {})", said.message, said.code),
        Error::DriverError(DriverError::TlsNotSupported) => NO_TLS.to_owned(),
        Error::DriverError(DriverError::CouldNotConnect(Some((_, cause, _)))) => cause.clone(),
        Error::DriverError(DriverError::ConnectTimeout | DriverError::Timeout) => {
            "no answer in time".to_owned()
        }
        Error::TlsError(cause) => format!("TLS failed: {cause}"),
        Error::DriverError(cause) => cause.to_string(),
        other => match io_cause(other) {
            Some(cause) if timed_out(cause) => "no answer in time".to_owned(),
            Some(cause) => format!("the connection broke: {cause}"),
            None => other.to_string(),
        },
    }
}

/// The I/O error inside an error, however deep the crate has wrapped it.
pub(super) fn io_cause(error: &Error) -> Option<&io::Error> {
    match error {
        Error::IoError(cause) => Some(cause),
        Error::CodecError(wrapped) => wrapped.source()?.downcast_ref(),
        _ => None,
    }
}

/// Whether the operation took too long. The system's own wording for that is misleading.
fn timed_out(cause: &io::Error) -> bool {
    [io::ErrorKind::WouldBlock, io::ErrorKind::TimedOut].contains(&cause.kind())
}

/// What an error means for the connection and for the caller. The codes are those that the servers' manuals list.
fn classify(error: &Error) -> SqlError {
    let words = describe(error);
    let no_answer = || SqlError::TimedOut("no answer in time (store_statement_timeout)".to_owned());
    if io_cause(error).is_some_and(timed_out) {
        return no_answer();
    }
    let said = match error {
        Error::MySqlError(said) => said,
        Error::FromValueError(_) => return SqlError::Rejected(words),
        _ => return SqlError::Lost(words),
    };
    match said.code {
        // A duplicate entry of a unique key.
        1062 => SqlError::Duplicate(words),
        // An unknown command: the answer of a cluster's node that serves no queries now.
        1047 => SqlError::ReadOnly(words),
        // 1205: lock wait timeout. 1213: deadlock. 1180, 3101: a group of servers rolled back the commit.
        1205 | 1213 | 1180 | 3101 => SqlError::Conflict(words),
        // A statement that can't be logged under the current binlog_format.
        1665 => SqlError::Unsupported(format!(
            "its binlog_format is STATEMENT, which can't record leafd's transactions: set it to ROW or MIXED ({words})"
        )),
        // The server reached its limit max_statement_time.
        1969 => no_answer(),
        // 1267, 1270, 1271: an illegal mix of two, three or more collations. 3988: a string that the other character
        // set can't represent.
        1267 | 1270 | 1271 | 3988 => SqlError::NoSuchName(words),
        // Access denied to: 1044 the database, 1142 a table, 1143 a column, 1370 a routine, 1227 whatever needs a global
        // privilege, 1419 a trigger in a binary log.
        1044 | 1142 | 1143 | 1227 | 1370 | 1419 => SqlError::Denied(words),
        // 1054: unknown column. 1146: unknown table.
        1054 | 1146 => SqlError::Missing(words),
        // What a trigger or view needs: 1305 an unknown function or procedure, 1356 an invalid view, 1449 an unknown
        // definer.
        1305 | 1356 | 1449 => SqlError::Rejected(words),
        // 1290: the server's read_only. 1792: a read-only transaction. 1836: a server in read-only mode.
        1290 | 1792 | 1836 => SqlError::ReadOnly(words),
        // The server is shutting down (1053, 1077 to 1080), the connection is aborted or broken (1152 to 1161), or the
        // server closed it: 1317 interrupted, 1927 killed, 4031 idle for too long.
        1053 | 1077..=1080 | 1152..=1161 | 1317 | 1927 | 4031 => SqlError::Lost(words),
        // 1048: a null that a column doesn't accept. 1064: a syntax error. 1264, 1690: a number out of range. 1265, 1292,
        // 1366: a wrong value. 1364: a column without a default value. 1406: a text too long. 1644: a trigger's SIGNAL.
        1048 | 1064 | 1264 | 1265 | 1292 | 1364 | 1366 | 1406 | 1644 | 1690 => {
            SqlError::Rejected(words)
        }
        _ => SqlError::Busy(words),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a server's error means.
    fn of(code: u16, message: &str) -> SqlError {
        let (state, message) = ("HY000".to_owned(), message.to_owned());
        classify(&Error::MySqlError(mysql::error::MySqlError { state, message, code }))
    }

    #[test]
    fn a_commit_that_a_group_rolled_back_is_a_conflict() {
        let rolled_back = [
            (1180, "Got error 149 - 'Lock deadlock; Retry transaction' during COMMIT"),
            (3101, "Plugin instructed the server to rollback the current transaction."),
        ];
        for (code, message) in rolled_back {
            assert!(matches!(of(code, message), SqlError::Conflict(_)), "{code}");
        }
    }

    #[test]
    fn a_connection_that_was_idle_for_too_long_is_lost() {
        let words = "The client was disconnected by the server because of inactivity.";
        assert!(matches!(of(4031, words), SqlError::Lost(_)));
    }
}
