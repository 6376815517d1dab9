//! The driver of an embedded store: an open SQLite file.

use std::path::PathBuf;
use std::time::Instant;

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, ErrorCode, ToSql, params_from_iter};

use super::file::{self, Create};
use super::sql::DIALECT;
use crate::journal::Identity;
use crate::store::sql::{Connector, Dialect, Driver, Location, Param, Signs, SqlAnswer, SqlError};
use leafd_core::store::StoreError;

/// The path of an embedded store's file, and the host that must own it.
#[derive(Clone, Debug)]
pub struct StoreFile {
    pub(super) path: PathBuf,
    pub(super) host: Identity,
}

/// An open file.
#[derive(Debug)]
pub struct SqliteDriver {
    connection: Connection,
    /// The file's inode when it was opened.
    inode: (u64, u64),
    target: StoreFile,
    /// Whether the file was found to be damaged.
    damaged: bool,
    signs: Signs,
}

impl Connector for StoreFile {
    fn dialect(&self) -> &'static Dialect {
        &DIALECT
    }

    fn location(&self) -> Location {
        Location {
            store: self.path.display().to_string(),
            user: String::new(),
            // The only wait is for another process's lock, which has its own limit.
            statement_timeout: file::BUSY_TIMEOUT,
            leaf_only: false,
        }
    }

    /// A missing file is not created again, because the new one would not know the claims.
    fn connect(&self) -> Result<Box<dyn Driver>, StoreError> {
        Ok(Box::new(file::open_own(self, Create::Never)?))
    }
}

impl SqliteDriver {
    pub(super) fn new(
        connection: Connection,
        inode: (u64, u64),
        target: StoreFile,
    ) -> SqliteDriver {
        // Nothing is needed to detect another store, because a file that was copied or restored is refused until it is
        // adopted, and then has another identity.
        let nothing = || "''".to_owned();
        let signs = Signs {
            kind: "sqlite",
            server: nothing(),
            life: nothing(),
            life_plain: nothing(),
            position: "NULL",
            read_only: "NULL",
        };
        SqliteDriver { connection, inode, target, damaged: false, signs }
    }

    pub(super) fn location(&self) -> Location {
        self.target.location()
    }

    fn failed(&mut self, error: &rusqlite::Error) -> SqlError {
        let described = file::describe(&self.target.path, error);
        if file::is_busy(error) {
            return SqlError::Said(described);
        }
        if error.sqlite_error_code() == Some(ErrorCode::ConstraintViolation) {
            return SqlError::Duplicate(file::words(error));
        }
        match described {
            StoreError::Unavailable { cause, .. } => SqlError::Lost(cause.words),
            other => {
                self.damaged = true;
                SqlError::Said(other)
            }
        }
    }
}

impl Driver for SqliteDriver {
    fn is_usable(&self) -> bool {
        // SQLite itself would continue to use a file that was removed.
        let is_there = |meta| file::inode(&meta) == self.inode;
        !self.damaged && std::fs::metadata(&self.target.path).is_ok_and(is_there)
    }

    fn signs(&self) -> &Signs {
        &self.signs
    }

    fn begin(&mut self) -> Result<(), SqlError> {
        self.execute("BEGIN IMMEDIATE", &[]).map(drop)
    }

    fn set_deadline(&mut self, _: Instant) {}

    fn run(&mut self, sql: &str, params: &[Param<'_>]) -> Result<SqlAnswer, SqlError> {
        let run = || {
            let mut statement = self.connection.prepare_cached(&DIALECT.render(sql))?;
            let (columns, params) = (statement.column_count(), params_from_iter(params));
            if columns == 0 {
                let changed = statement.execute(params)? as u64;
                return Ok(SqlAnswer { rows: Vec::new(), changed });
            }
            let rows = statement.query_map(params, |row| {
                (0..columns).map(|column| row.get_ref(column).map(text)).collect()
            })?;
            Ok(SqlAnswer { rows: rows.collect::<rusqlite::Result<_>>()?, changed: 0 })
        };
        run().map_err(|error| self.failed(&error))
    }
}

/// A cell as text. A blob or a fraction never reads as a whole number, and text that is not UTF-8 never equals a name.
fn text(cell: ValueRef<'_>) -> Option<String> {
    match cell {
        ValueRef::Null => None,
        ValueRef::Integer(number) => Some(number.to_string()),
        ValueRef::Text(bytes) => Some(match std::str::from_utf8(bytes) {
            Ok(text) => text.to_owned(),
            Err(_) => format!("\0{}", String::from_utf8_lossy(bytes)),
        }),
        ValueRef::Real(number) => Some(format!("{number:?}")),
        ValueRef::Blob(bytes) => Some(format!("{} bytes", bytes.len())),
    }
}

impl ToSql for Param<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match *self {
            Param::Text(text) => text.into(),
            Param::Integer(number) => number.map_or(ValueRef::Null, ValueRef::Integer),
        }))
    }
}
