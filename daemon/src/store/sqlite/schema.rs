//! Makes the tables of an embedded store if they are missing, and refuses a file whose tables are not as they should
//! be.

use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};

use super::sql::DIALECT;
use crate::store::sql::{META_TABLE, all_tables, differences, print, table_statements};
use leafd_core::store::StoreError;

/// Why a file can't be opened: leafd refuses it, or SQLite fails.
#[derive(Debug)]
pub(super) enum FileError {
    Said(StoreError),
    Sql(rusqlite::Error),
}

/// Version of the side tables. A file with a higher version was written by a newer leafd.
const FORMAT: i64 = 1;

/// The statements that make the tables, as `leafd schema print` shows them.
#[must_use]
pub fn print_schema() -> String {
    print(&DIALECT)
}

/// What a store records about itself.
#[derive(Clone, Debug)]
pub(super) struct Meta {
    pub(super) identity: String,
    pub(super) fingerprint: String,
}

/// Makes missing tables and checks existing ones. Writes `fresh` to a file that has no identity yet. Returns what the
/// file then records about itself.
pub(super) fn prepare(connection: &mut Connection, fresh: &Meta) -> Result<Meta, FileError> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    refuse_newer(&transaction)?;
    refuse_different(&transaction)?;
    for statement in table_statements(&DIALECT) {
        transaction.execute_batch(&statement)?;
    }
    transaction.execute(
        "INSERT OR IGNORE INTO leafd_meta (name, value) VALUES ('role', ''), ('right', '0 ')",
        [],
    )?;
    if let Some(identity) = get(&transaction, "identity")? {
        let fingerprint = get(&transaction, "fingerprint")?.unwrap_or_default();
        transaction.commit()?;
        return Ok(Meta { identity, fingerprint });
    }
    put(&transaction, "format", FORMAT)?;
    put(&transaction, "identity", &fresh.identity)?;
    put(&transaction, "fingerprint", &fresh.fingerprint)?;
    transaction.commit()?;
    write_to_file(connection)?;
    Ok(fresh.clone())
}

/// Gives the store a new identity and owner. Forgets the hosts' starts, which belong to the store's former identity;
/// every host checks in anew.
pub(super) fn rename(connection: &mut Connection, to: &Meta) -> Result<(), FileError> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    put(&transaction, "identity", &to.identity)?;
    put(&transaction, "fingerprint", &to.fingerprint)?;
    transaction.execute("DELETE FROM leafd_host", [])?;
    transaction.commit()?;
    write_to_file(connection)
}

/// Moves the content of the write-ahead log into the file itself. Otherwise somebody who copies or moves the file
/// alone would get one that looks new.
fn write_to_file(connection: &Connection) -> Result<(), FileError> {
    connection.query_row("PRAGMA wal_checkpoint", [], |_| Ok(()))?;
    Ok(())
}

/// Runs before anything is made, as a newer format may have other tables.
fn refuse_newer(connection: &Connection) -> Result<(), FileError> {
    if !has_table(connection, META_TABLE)? {
        return Ok(());
    }
    let format: Option<i64> = connection
        .query_row(
            "SELECT CAST(value AS integer) FROM leafd_meta WHERE name = 'format'",
            [],
            |row| row.get(0),
        )
        .optional()?;
    match format {
        Some(FORMAT) => Ok(()),
        Some(newer) if newer > FORMAT => refuse(format!(
            "was written by a newer leafd (format {newer}; this one supports {FORMAT}): use that version"
        )),
        _ => refuse(
            "has a table leafd_meta with a format that no leafd has written: restore the file from a backup",
        ),
    }
}

/// Refuses tables that differ from leafd's, before anything is made. A missing table is no difference.
fn refuse_different(connection: &Connection) -> Result<(), FileError> {
    let mut columns = connection.prepare(DIALECT.columns)?;
    let found = columns.query_map([], |row| Ok([row.get(0)?, row.get(1)?, row.get(2)?]))?;
    let found: Vec<[String; 3]> = found.collect::<Result<_, _>>()?;
    let mut said = differences(&DIALECT, all_tables(), &found);
    let mut defects = connection.prepare(DIALECT.defects)?;
    for defect in defects.query_map([], |row| row.get(0))? {
        said.push(defect?);
    }
    if said.is_empty() {
        return Ok(());
    }
    refuse(format!(
        "has tables that differ from leafd's: {}; leafd doesn't change them, so rename them or configure another file",
        said.join("; ")
    ))
}

/// Whether the file has a table of this name.
pub(super) fn has_table(connection: &Connection, name: &str) -> rusqlite::Result<bool> {
    let sql = "SELECT count(*) > 0 FROM sqlite_schema WHERE name = ?1 AND type = 'table'";
    connection.query_row(sql, [name], |row| row.get(0))
}

/// The fingerprint that a file records, `None` if it is not a store yet.
pub(super) fn fingerprint(connection: &Connection) -> rusqlite::Result<Option<String>> {
    if !has_table(connection, META_TABLE)? {
        return Ok(None);
    }
    let sql = "SELECT CAST(value AS text) FROM leafd_meta WHERE name = 'fingerprint'";
    connection.query_row(sql, [], |row| row.get(0)).optional()
}

fn get(connection: &Connection, name: &str) -> Result<Option<String>, FileError> {
    let sql = "SELECT CAST(value AS text) FROM leafd_meta WHERE name = ?1";
    Ok(connection.query_row(sql, [name], |row| row.get(0)).optional()?)
}

fn put(connection: &Connection, name: &str, value: impl rusqlite::ToSql) -> Result<(), FileError> {
    let sql = "INSERT INTO leafd_meta (name, value) VALUES (?1, ?2)
        ON CONFLICT (name) DO UPDATE SET value = excluded.value";
    connection.execute(sql, params![name, value])?;
    Ok(())
}

/// Refuses the file; `named` puts its name before the words.
fn refuse<T>(words: impl Into<leafd_core::store::Reason>) -> Result<T, FileError> {
    Err(FileError::Said(StoreError::Refused(words.into())))
}

impl From<rusqlite::Error> for FileError {
    fn from(error: rusqlite::Error) -> FileError {
        FileError::Sql(error)
    }
}

impl From<StoreError> for FileError {
    fn from(error: StoreError) -> FileError {
        FileError::Said(error)
    }
}
