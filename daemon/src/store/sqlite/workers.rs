//! The tables of workers in an embedded store.

use std::time::Duration;

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{ToSql, Transaction, params_from_iter};

use super::{Failure, SqliteStore, identity};
use crate::id::UnixMs;
use crate::registry::RegistryError;
use crate::store::network::Param;
use crate::store::workers::{Cells, Statements, Tables, Work, WorkerStore};
use crate::store::{History, StoreError};

/// Each row is asked for by its key, and every writing transaction is alone.
static STATEMENTS: Statements = Statements {
    tables: &[],
    defects: "",
    lock: "",
    list: "SELECT worker, holder, name, incarnation, bound, seen, written FROM leafd_worker
        WHERE worker >= ?1 AND worker < ?2 ORDER BY worker",
    find: "SELECT worker, holder, name, incarnation, bound, seen, written FROM leafd_worker WHERE worker = ?1",
    enter: "INSERT INTO leafd_worker (worker, holder, name, incarnation, bound, seen, written)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
    replace: "UPDATE leafd_worker SET holder = ?2, name = ?3, incarnation = ?4, bound = ?5, seen = ?6, written = ?7
        WHERE worker = ?1",
    given: "SELECT id, ip_port, max_timestamp FROM leaf_workerid_alloc WHERE id >= ?1 AND id < ?2 ORDER BY id",
    given_to: "SELECT id, ip_port, max_timestamp FROM leaf_workerid_alloc WHERE ip_port = ?1 COLLATE BINARY",
    give: "INSERT INTO leaf_workerid_alloc (id, ip, port, ip_port, max_timestamp) VALUES (?1, ?2, ?3, ?4, ?5)",
    keep_time: "UPDATE leaf_workerid_alloc SET max_timestamp = ?2, update_time = CURRENT_TIMESTAMP WHERE id = ?1",
    layouts: "SELECT name, definition FROM leafd_layout",
    enter_layout: "INSERT INTO leafd_layout (name, definition) VALUES (?1, ?2)",
};

/// SQLite keeps days with milliseconds.
const CLOCK: &str = "SELECT CAST(round((julianday('now') - 2440587.5) * 86400000) AS integer)";

impl WorkerStore for SqliteStore {
    type Failure = Failure;

    fn with_tables<T>(&mut self, work: &Work<'_, T, Failure>) -> Result<T, RegistryError> {
        self.write(|transaction| {
            let registry = identity(transaction)?.into();
            work(&mut Within(transaction), registry)
        })?
    }
}

struct Within<'a>(&'a Transaction<'a>);

impl Tables for Within<'_> {
    type Failure = Failure;

    fn sql(&self) -> &'static Statements {
        &STATEMENTS
    }

    fn cells(&mut self, sql: &str, params: &[Param<'_>]) -> Result<Vec<Cells>, Failure> {
        let mut statement = self.0.prepare_cached(sql)?;
        let columns = statement.column_count();
        let rows = statement.query_map(params_from_iter(params), |row| {
            (0..columns).map(|column| row.get_ref(column).map(text)).collect()
        })?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    fn run(&mut self, sql: &str, params: &[Param<'_>]) -> Result<(), Failure> {
        self.0.prepare_cached(sql)?.execute(params_from_iter(params))?;
        Ok(())
    }

    fn clock(&mut self) -> Result<UnixMs, Failure> {
        let ms: i64 = self.0.prepare_cached(CLOCK)?.query_row([], |row| row.get(0))?;
        u64::try_from(ms).map(UnixMs).map_err(|_| {
            let words = format!("the clock of this host says {ms} ms before 1970: set it right");
            StoreError::Refused(words).into()
        })
    }

    fn history_age(&mut self, _: &History) -> Result<Option<Duration>, Failure> {
        Ok(None)
    }
}

/// What is no number or text never reads as one.
fn text(cell: ValueRef<'_>) -> Option<String> {
    match cell {
        ValueRef::Null => None,
        ValueRef::Integer(number) => Some(number.to_string()),
        ValueRef::Text(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
        ValueRef::Real(number) => Some(format!("{number:?}")),
        ValueRef::Blob(bytes) => Some(format!("{} bytes", bytes.len())),
    }
}

impl ToSql for Param<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(match *self {
            Param::Text(text) => ToSqlOutput::Borrowed(ValueRef::Text(text.as_bytes())),
            Param::OptionalText(text) => ToSqlOutput::Borrowed(text.into()),
            Param::Integer(number) => ToSqlOutput::Borrowed(ValueRef::Integer(number)),
        })
    }
}
