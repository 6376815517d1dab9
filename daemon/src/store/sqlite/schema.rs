//! Creates the missing tables of an embedded store, and reads and writes its records about itself.

use rusqlite::{Connection, OptionalExtension};

use super::driver::SqliteDriver;
use super::sql::DIALECT;
use crate::store::sql::{
    Driver as _, ENTER_META, META, META_TABLE, SET_META, SqlError, has_first_rows, make,
    missing_tables, params, print,
};

/// The statements that create the tables, as `leafd schema print` shows them.
pub fn print_schema() -> String {
    print(&DIALECT)
}

/// What a store records about itself.
#[derive(Debug, Default)]
pub(super) struct Recorded {
    pub(super) identity: String,
    pub(super) fingerprint: String,
}

/// Creates missing tables and checks existing ones. A new store gets this fingerprint; one that has lost its own gets
/// an empty one, which belongs to no host. Returns the store's records about itself after that.
pub(super) fn prepare(driver: &mut SqliteDriver, fingerprint: &str) -> Result<Recorded, SqlError> {
    driver.begin()?;
    let location = driver.location();
    let missing = missing_tables(driver, &DIALECT, &location)?;
    let has_meta = !missing.contains(&META_TABLE);
    let is_new = !has_meta || !has_first_rows(driver)?;
    if is_new || !missing.is_empty() {
        make(driver, &DIALECT, &missing)?;
    }
    let fingerprint = if is_new { fingerprint } else { "" };
    let is_entered = driver.execute(ENTER_META, params!["fingerprint", fingerprint])? == 1;
    driver.execute("COMMIT", &[])?;
    if is_entered {
        write_to_file(driver)?;
    }
    let mut recorded = Recorded::default();
    for row in driver.query(META, &[])? {
        match <[_; 2]>::try_from(row) {
            Ok([Some(name), Some(value)]) if name == "identity" => recorded.identity = value,
            Ok([Some(name), Some(value)]) if name == "fingerprint" => recorded.fingerprint = value,
            _ => {}
        }
    }
    Ok(recorded)
}

/// Gives the store a new identity and owner. Forgets the hosts' starts, which belong to the store's former identity;
/// every host checks in again.
pub(super) fn rename(driver: &mut SqliteDriver, to: &Recorded) -> Result<(), SqlError> {
    driver.begin()?;
    for (name, value) in [("identity", &to.identity), ("fingerprint", &to.fingerprint)] {
        driver.execute(SET_META, params![name, value.as_str()])?;
    }
    driver.execute("DELETE FROM leafd_host", &[])?;
    driver.execute("COMMIT", &[])?;
    write_to_file(driver)
}

/// Moves the content of the write-ahead log into the file itself. Otherwise a copy of the file alone would look new.
fn write_to_file(driver: &mut SqliteDriver) -> Result<(), SqlError> {
    driver.query("PRAGMA wal_checkpoint", &[]).map(drop)
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
