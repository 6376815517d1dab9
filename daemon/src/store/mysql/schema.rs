//! Creates the missing tables of a MySQL or MariaDB store.

use std::time::Instant;

use super::MysqlDriver;
use super::sql::{self, DIALECT};
use crate::store::sql as store_sql;
use crate::store::sql::{
    Driver, META_TABLE, SqlError, Target, has_first_rows, missing_tables, refuse_lacking,
};
use leafd_core::store::StoreError;

/// Prevents two processes from creating the tables at the same time. A transaction wouldn't, because creating a table
/// commits it.
const LOCK: &str = "SELECT GET_LOCK('leafd schema', 10)";

/// Waits for the next second of the server's clock. A table that replaces another one is recognised by its creation
/// time, which the server keeps in whole seconds. So nothing may be claimed in the second of their creation.
const NEXT_SECOND: &str = "SELECT SLEEP(1.01 - MICROSECOND(SYSDATE(6)) / 1000000)";

/// What the user may do: each privilege, and the table that it is restricted to, if any.
const PRIVILEGES: &str = "SELECT PRIVILEGE_TYPE, '' FROM information_schema.USER_PRIVILEGES
    WHERE GRANTEE = CONCAT('''', REPLACE(CURRENT_USER(), '@', '''@'''), '''')
    UNION ALL
    SELECT PRIVILEGE_TYPE, '' FROM information_schema.SCHEMA_PRIVILEGES
    WHERE GRANTEE = CONCAT('''', REPLACE(CURRENT_USER(), '@', '''@'''), '''') AND DATABASE() LIKE TABLE_SCHEMA
    UNION ALL
    SELECT PRIVILEGE_TYPE, TABLE_NAME FROM information_schema.TABLE_PRIVILEGES
    WHERE GRANTEE = CONCAT('''', REPLACE(CURRENT_USER(), '@', '''@'''), '''') AND TABLE_SCHEMA = DATABASE()";

/// The active role of the user, if there is one. A user can't see which privileges a role has.
const ROLES: &str = "SELECT NULLIF(CURRENT_ROLE(), 'NONE')";

/// Creates the missing tables, and adds the mark to the comment of `leaf_alloc`.
pub(super) fn make(target: &Target) -> Result<Vec<&'static str>, StoreError> {
    let mut driver = target.connect(MysqlDriver::connect)?;
    driver.set_deadline(Instant::now() + target.statement_timeout);
    make_over(&mut driver, target).map_err(|failure| failure.answer(&target.location()))
}

fn make_over(driver: &mut MysqlDriver, target: &Target) -> Result<Vec<&'static str>, SqlError> {
    let locked = driver.query(LOCK, &[])?;
    if locked.into_iter().flatten().flatten().next().as_deref() != Some("1") {
        return Err(SqlError::Busy("another session is creating the tables; try again".to_owned()));
    }
    let location = target.location();
    let missing = missing_tables(driver, &DIALECT, &location)?;
    let marked = !missing.contains(&"leaf_alloc") && sql::has_mark(&remark(driver)?);
    refuse_lacking(&location, &lacking(driver, &missing, marked)?)?;
    let mut done = missing.clone();
    if !missing.is_empty() || !has_first_rows(driver)? {
        store_sql::make(driver, &DIALECT, &missing).inspect_err(|_| take_back(driver, &missing))?;
    }
    if !marked {
        mark(driver)?;
        done.push("the mark in leaf_alloc's comment");
    }
    if done.contains(&META_TABLE) {
        driver.query(NEXT_SECOND, &[])?;
    }
    Ok(done)
}

/// Drops the tables that were just created. Creating a table commits, so a transaction couldn't undo it.
fn take_back(driver: &mut MysqlDriver, made: &[&'static str]) {
    for table in made {
        // The next attempt uses a table that can't be dropped.
        let _ = driver.execute(&format!("DROP TABLE IF EXISTS {table}"), &[]);
    }
}

/// The privileges that the user lacks for this, as a text each.
fn lacking(
    driver: &mut MysqlDriver,
    missing: &[&'static str],
    marked: bool,
) -> Result<Vec<String>, SqlError> {
    // An old server has no roles.
    let roles = driver.query(ROLES, &[]).unwrap_or_default();
    if roles.into_iter().flatten().flatten().next().is_some() {
        return Ok(Vec::new());
    }
    let privileges = driver.query(PRIVILEGES, &[])?;
    let has = |privilege: &str, table: &str| {
        privileges.iter().any(|row| {
            let cell = |index: usize| row.get(index).and_then(Option::as_deref);
            cell(0) == Some(privilege) && cell(1).is_some_and(|of| of.is_empty() || of == table)
        })
    };
    let mut needed: Vec<(&str, &str)> = missing.iter().map(|table| ("CREATE", *table)).collect();
    if !missing.is_empty() {
        let of_meta = ["SELECT", "INSERT", "UPDATE"].map(|privilege| (privilege, META_TABLE));
        needed
            .extend(of_meta.into_iter().chain([("SELECT", "leafd_tag"), ("INSERT", "leafd_tag")]));
    }
    if !marked {
        needed.push(("ALTER", "leaf_alloc"));
    }
    let lacking = needed.into_iter().filter(|(privilege, table)| !has(privilege, table));
    Ok(lacking.map(|(privilege, table)| format!("{privilege} on {table}")).collect())
}

fn remark(driver: &mut MysqlDriver) -> Result<String, SqlError> {
    let remark = driver.query(sql::REMARK, &[])?;
    Ok(remark.into_iter().flatten().flatten().next().unwrap_or_default())
}

/// Adds a mark to the comment of Leaf's table.
fn mark(driver: &mut MysqlDriver) -> Result<(), SqlError> {
    let comment = remark(driver)?;
    let marked = sql::marked(&comment, crate::random::generation().0);
    let quoted = marked.replace('\\', "\\\\").replace('\'', "''");
    driver.run_as_is(&format!("ALTER TABLE leaf_alloc COMMENT = '{quoted}'"))
}
