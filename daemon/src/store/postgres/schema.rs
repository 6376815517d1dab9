//! Prints the tables of a PostgreSQL store, or makes those that are missing.

use std::time::Instant;

use super::{DIALECT, PostgresDriver, history, leases, sql};
use crate::store::sql::{
    Driver, Failure, META_TABLE, Param, Target, columns, has_first_rows, name_of_leafs,
    refuse_different, refuse_different_workers, refuse_lacking,
};
use leafd_core::store::StoreError;

/// Keeps two processes from making the tables at the same time. The number has no meaning.
const LOCK: &str = "SELECT pg_advisory_xact_lock(7093862105577215)";

/// The rights for making tables that the user lacks; a row for each.
const RIGHTS_TO_MAKE: &str =
    "SELECT 'CREATE on schema ' || coalesce(quote_ident(current_schema()), 'of the search path, which has none')
    WHERE NOT coalesce(has_schema_privilege(current_schema(), 'CREATE'), false)
    UNION ALL
    SELECT privilege || ' on ' || name FROM
    (VALUES ('leafd_meta', 'SELECT'), ('leafd_meta', 'INSERT'), ('leafd_meta', 'UPDATE'), ('leafd_tag', 'SELECT'),
            ('leafd_tag', 'INSERT')) AS needed (name, privilege)
    WHERE to_regclass(name) IS NOT NULL AND NOT has_table_privilege(to_regclass(name), privilege)";

/// The rights for dropping the trigger of earlier versions that the user lacks; a row for each. An additional row,
/// which is NULL, stands for the trigger itself.
const RIGHTS_TO_DROP: &str = "SELECT NULL FROM pg_trigger
    WHERE tgrelid = to_regclass('leaf_alloc') AND tgname = 'leafd_row_gone'
    UNION ALL
    SELECT 'to own leaf_alloc, as its trigger leafd_row_gone has to go' FROM pg_trigger AS t
    JOIN pg_class AS c ON c.oid = t.tgrelid
    WHERE c.oid = to_regclass('leaf_alloc') AND tgname = 'leafd_row_gone' AND NOT pg_has_role(c.relowner, 'USAGE')
    UNION ALL
    SELECT 'to own the function leafd_row_gone' FROM pg_trigger AS t JOIN pg_proc AS p ON p.oid = t.tgfoid
    WHERE t.tgrelid = to_regclass('leaf_alloc') AND tgname = 'leafd_row_gone' AND NOT pg_has_role(p.proowner, 'USAGE')";

/// The statements that [`apply`] would run.
#[must_use]
pub fn print() -> String {
    format!("{}\n{}\n{}\n{}\n", sql::LEAF_TABLE, sql::SIDE_TABLES, leases::TABLES, history::TABLES)
}

/// Makes the tables that are missing, and removes the trigger that earlier versions made, in one transaction. Returns
/// what was done.
///
/// # Errors
/// [`StoreError::Refused`] when an existing table differs from leafd's, and when rights are missing: the text names
/// each; others as for every call.
pub fn apply(target: &Target) -> Result<Vec<&'static str>, StoreError> {
    let mut driver = PostgresDriver::connect(target)?;
    driver.set_deadline(Instant::now() + target.statement_timeout);
    let made = make(&mut driver, target).map_err(|failure| failure.answer(&target.location()))?;
    if made.contains(&META_TABLE) {
        super::open(target.clone()).note_first_history()?;
    }
    Ok(made)
}

fn make(driver: &mut PostgresDriver, target: &Target) -> Result<Vec<&'static str>, Failure> {
    driver.batch("BEGIN")?;
    driver.batch(LOCK)?;
    let found = columns(driver, &DIALECT)?;
    let location = target.location();
    refuse_different(driver, &DIALECT, &location, &found)?;
    refuse_different_workers(driver, &DIALECT, &location, &found)?;
    let is_missing = |table: &&str| !found.iter().any(|[of, ..]| of == table);
    let all = sql::TABLES.iter().chain(leases::STATEMENTS.tables);
    let mut made: Vec<&'static str> = all.map(|layout| layout.table).filter(is_missing).collect();
    let to_drop = driver.query(RIGHTS_TO_DROP, &[])?;
    let mut lacking: Vec<String> = to_drop.iter().flatten().flatten().cloned().collect();
    let incomplete = !made.is_empty() || (lacking.is_empty() && !has_first_rows(driver, &DIALECT)?);
    if incomplete {
        lacking.extend(driver.query(RIGHTS_TO_MAKE, &[])?.into_iter().flatten().flatten());
    }
    refuse_lacking(&location, &lacking)?;
    driver.batch("SET LOCAL client_min_messages = warning")?;
    if incomplete {
        let name = name_of_leafs(driver, &made)?;
        driver.batch(sql::LEAF_TABLE)?;
        driver.batch(sql::SIDE_TABLES)?;
        driver.batch(leases::TABLES)?;
        driver.batch(history::TABLES)?;
        if let Some(name) = name {
            driver.execute(sql::SET_NAME, &[Param::Text(&name)])?;
        }
    }
    if !to_drop.is_empty() {
        driver.batch(sql::FORMER_TRIGGERS)?;
        made.push("trigger leafd_row_gone removed");
    }
    driver.batch("COMMIT")?;
    Ok(made)
}
