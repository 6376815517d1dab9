//! A connection that runs statements within a deadline, and the meaning of its errors.

use std::fmt::Debug;
use std::time::Instant;

use super::Location;
use leafd_core::UnixMs;
use leafd_core::registry::RegistryError;
use leafd_core::store::{Reason, StoreError, Why};

/// A connection to the one server that accepts writes, or an open file.
pub trait Driver: Debug + Send {
    /// The server of this connection, as the store's URL names it.
    fn endpoint(&self) -> &str {
        ""
    }

    /// Whether a further call may use the connection.
    fn is_usable(&self) -> bool {
        true
    }

    /// The expressions with which a query asks for the server's identity.
    fn signs(&self) -> &Signs;

    /// An answer has shown what distinguishes the tables (see [`Signs::life`]), and later statements must use these
    /// tables.
    fn use_tables(&mut self, _life: &str) {}

    /// A number that only rises as long as the server has lost nothing, if reading it requires a separate statement.
    fn position(&mut self) -> Result<Option<u64>, SqlError> {
        Ok(None)
    }

    /// The members of the cluster whose servers are one store, as this server knows them.
    fn members(&mut self) -> Result<Option<String>, SqlError> {
        Ok(None)
    }

    /// Begins a transaction, now or together with the first statement.
    fn begin(&mut self) -> Result<(), SqlError>;

    /// From now on, statements fail if they are not finished by `deadline`.
    fn set_deadline(&mut self, deadline: Instant);

    /// Runs a statement.
    fn run(&mut self, sql: &str, params: &[Param<'_>]) -> Result<SqlAnswer, SqlError>;

    /// Runs a statement. Returns how many rows it changed.
    fn execute(&mut self, sql: &str, params: &[Param<'_>]) -> Result<u64, SqlError> {
        Ok(self.run(sql, params)?.changed)
    }

    /// Runs a query. Returns what it finds.
    fn query(&mut self, sql: &str, params: &[Param<'_>]) -> Result<Vec<Cells>, SqlError> {
        Ok(self.run(sql, params)?.rows)
    }

    /// Runs frequently repeated queries one after the other, in one round trip. Returns what each finds.
    fn query_together(&mut self, calls: &[Call<'_>]) -> Result<Vec<Vec<Cells>>, SqlError> {
        calls.iter().map(|(sql, params)| self.query(sql, params)).collect()
    }

    /// Runs the last statements of a transaction, and commits it if each of them has changed one row. Takes as few round
    /// trips as the server allows, because other hosts wait for the locks meanwhile.
    fn commit(&mut self, calls: &[Call<'_>]) -> Result<(), SqlError> {
        for (sql, params) in calls {
            one_row(self.execute(sql, params)?)?;
        }
        self.execute("COMMIT", &[]).map(drop)
    }
}

/// Checks that a statement changed the one row that it must change.
pub fn one_row(changed: u64) -> Result<(), SqlError> {
    if changed == 1 { Ok(()) } else { Err(SqlError::Conflict(UNCHANGED.to_owned())) }
}

/// Why a statement may have changed no row.
pub const UNCHANGED: &str = "a row was not changed: the right to claim was revoked at the same moment, this host wrote over another \
                             connection, or a rule or trigger prevents it";

/// Expressions that show which server answered a query. Each query on which a decision rests includes them, because a
/// pooler may move the connection to another server between two transactions.
#[derive(Clone, Debug)]
pub struct Signs {
    /// The kind of store: its name begins with this.
    pub kind: &'static str,
    /// The server and the database.
    pub server: String,
    /// What distinguishes the tables from others in their place, and a number that the server itself changes at each
    /// fail-over, if it has one. NULL if the tables are missing.
    pub life: String,
    /// The same with Leaf's table only.
    pub life_plain: String,
    /// A number that only rises as long as the server has lost nothing.
    pub position: &'static str,
    /// Whether the server accepts no writes.
    pub read_only: &'static str,
}

impl Signs {
    /// The last four cells from which a session composes the identity. `side`: whether leafd's tables exist.
    pub(super) fn cells(&self, side: bool) -> String {
        let life = if side { &self.life } else { &self.life_plain };
        format!("{}, {life}, {}, {}", self.server, self.position, self.read_only)
    }
}

/// A row as a driver returns it: every column as text.
pub type Cells = Vec<Option<String>>;

/// The answer to a statement.
#[derive(Debug, Default)]
pub struct SqlAnswer {
    pub rows: Vec<Cells>,
    /// How many rows the statement has changed; meaningless after a query.
    pub changed: u64,
}

/// A statement and its parameters.
pub type Call<'a> = (&'a str, &'a [Param<'a>]);

/// A parameter of a statement; `None` is NULL.
#[derive(Clone, Copy, Debug)]
pub enum Param<'a> {
    Text(Option<&'a str>),
    Integer(Option<i64>),
}

/// The parameters of a statement, in their order.
macro_rules! params {
    ($($value:expr),* $(,)?) => { &[$($crate::store::sql::Param::from($value)),*] };
}
pub(in crate::store) use params;

impl<'a> From<&'a str> for Param<'a> {
    fn from(text: &'a str) -> Param<'a> {
        Param::Text(Some(text))
    }
}

impl<'a> From<Option<&'a str>> for Param<'a> {
    fn from(text: Option<&'a str>) -> Param<'a> {
        Param::Text(text)
    }
}

impl From<i64> for Param<'_> {
    fn from(number: i64) -> Param<'static> {
        Param::Integer(Some(number))
    }
}

impl From<u32> for Param<'_> {
    fn from(number: u32) -> Param<'static> {
        Param::Integer(Some(number.into()))
    }
}

impl From<u64> for Param<'_> {
    /// Ids are smaller than the largest number that a database holds. A generation uses all 64 bits.
    fn from(number: u64) -> Param<'static> {
        Param::Integer(Some(number.cast_signed()))
    }
}

impl From<UnixMs> for Param<'_> {
    /// Clamped to the last instant that a database holds. A clock that is so wrong is useless anyway.
    fn from(at: UnixMs) -> Param<'static> {
        Param::Integer(Some(i64::try_from(at.0).unwrap_or(i64::MAX)))
    }
}

/// Why a statement, or a call made of several, failed.
#[derive(Debug)]
pub enum SqlError {
    /// leafd's own answer; the connection is fine.
    Said(StoreError),
    /// leafd's own answer as a registry; the connection is fine.
    Registry(RegistryError),
    /// The connection is broken.
    Lost(String),
    /// No answer in time. The server may still execute the call.
    TimedOut(String),
    /// The server accepts no writes, or no longer does.
    ReadOnly(String),
    /// A row with this unique key exists already.
    Duplicate(String),
    /// The server may be able to do this at another time.
    Busy(String),
    /// The server can't do this in its current configuration; the text says why. Retrying doesn't help.
    Unsupported(String),
    /// Another connection wrote the same row at the same moment. Nothing was done, and the transaction can be retried
    /// immediately.
    Conflict(String),
    /// The server no longer has the statements that it prepared for this connection, because a pooler moved it to
    /// another session or a table was changed. Nothing was done, and the transaction can be retried immediately.
    Moved(String),
    /// The character set of `leaf_alloc` can't represent the name, so no row has it.
    NoSuchName(String),
    /// Privileges are missing.
    Denied(String),
    /// Tables or columns are missing.
    Missing(String),
    /// The server refuses it for another reason.
    Rejected(String),
}

impl From<RegistryError> for SqlError {
    fn from(error: RegistryError) -> SqlError {
        SqlError::Registry(error)
    }
}

impl From<StoreError> for SqlError {
    fn from(error: StoreError) -> SqlError {
        SqlError::Said(error)
    }
}

impl SqlError {
    /// The same, with the server's name before what concerns this server alone.
    pub fn at(self, endpoint: &str) -> SqlError {
        match self {
            SqlError::Lost(words) => SqlError::Lost(format!("{endpoint}: {words}")),
            SqlError::TimedOut(words) => SqlError::TimedOut(format!("{endpoint}: {words}")),
            SqlError::ReadOnly(words) => SqlError::ReadOnly(format!("{endpoint}: {words}")),
            other => other,
        }
    }

    /// Whether the connection must not be used again.
    pub(super) fn ends_connection(&self) -> bool {
        matches!(
            self,
            SqlError::Lost(_)
                | SqlError::TimedOut(_)
                | SqlError::ReadOnly(_)
                | SqlError::Missing(_)
                // An embedded store's file was replaced by another one, perhaps only for a while. When the right file
                // returns, this connection's write-ahead log of the wrong file must not be beside it.
                | SqlError::Said(StoreError::Changed { .. })
        )
    }

    /// The error for the caller of the store.
    pub fn answer(self, location: &Location) -> StoreError {
        match self {
            SqlError::Said(error) => error,
            SqlError::Registry(error) => StoreError::Refused(Reason::new(error.why(), error.to_string())),
            SqlError::Lost(words)
            | SqlError::TimedOut(words)
            | SqlError::Busy(words)
            | SqlError::Moved(words)
            | SqlError::Conflict(words) => location.unavailable(words),
            SqlError::ReadOnly(words) => location.unavailable(Reason::new(Why::ReadOnly, words)),
            SqlError::NoSuchName(words) => location
                .refused(format_args!("can't store this name in leaf_alloc.biz_tag: {words}")),
            SqlError::Duplicate(words) | SqlError::Rejected(words) | SqlError::Unsupported(words) => {
                location.refused_for(Why::Rejected, format_args!("can't be used: {words}"))
            }
            SqlError::Denied(words) => location.refused_for(
                Why::MissingPrivileges,
                format_args!(
                    "refuses user {:?}: {words}",
                    location.user
                ),
            ),
            SqlError::Missing(words) => location.refused_for(
                Why::MissingTables,
                format_args!(
                    "lacks a table or column: {words}; create what is missing with: leafd schema apply"
                ),
            ),
        }
    }
}
