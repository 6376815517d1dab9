//! The tables of a PostgreSQL store: printed, or made where they are missing.

use std::time::Instant;

use super::{PostgresDriver, sql, workers};
use crate::store::StoreError;
use crate::store::network::{
    Driver, Failure, META_TABLE, Target, columns, refuse_different, refuse_different_workers,
};

/// The trigger on `leaf_alloc`, if it is there.
const TRIGGERS_THERE: &str = "SELECT tgname::text FROM pg_trigger
    WHERE tgrelid = to_regclass('leaf_alloc') AND tgname = 'leafd_row_gone'";

/// Keeps two of us from making the tables at once; the number has no meaning.
const LOCK: &str = "SELECT pg_advisory_xact_lock(7093862105577215)";

/// What [`apply`] would run.
#[must_use]
pub fn print() -> String {
    format!("{}\n{}\n{}\n{}\n", sql::LEAF_TABLE, sql::SIDE_TABLES, workers::TABLES, sql::TRIGGERS)
}

/// Makes what is missing, in one transaction. Tells which tables and triggers were made.
///
/// # Errors
/// [`StoreError::Refused`] when a table that is there looks different; others as for every call.
pub fn apply(target: &Target) -> Result<Vec<&'static str>, StoreError> {
    let mut driver = PostgresDriver::connect(target)?;
    driver.set_deadline(Instant::now() + target.statement_timeout);
    let made = make(&mut driver, target).map_err(|failure| failure.answer(target))?;
    if made.contains(&META_TABLE) {
        super::open(target.clone()).note_first_history()?;
    }
    Ok(made)
}

fn make(driver: &mut PostgresDriver, target: &Target) -> Result<Vec<&'static str>, Failure> {
    driver.batch("BEGIN")?;
    driver.batch(LOCK)?;
    let found = columns(driver)?;
    refuse_different(driver, target, sql::TABLES, &found)?;
    refuse_different_workers(driver, target, &found)?;
    driver.batch("SET LOCAL client_min_messages = warning")?;
    let trigger_there = !driver.query(TRIGGERS_THERE, &[])?.is_empty();
    driver.batch(sql::LEAF_TABLE)?;
    driver.batch(sql::SIDE_TABLES)?;
    driver.batch(workers::TABLES)?;
    driver.batch(sql::TRIGGERS)?;
    driver.batch("COMMIT")?;
    let missing = |table: &&str| !found.iter().any(|[of, ..]| of == table);
    let all = sql::TABLES.iter().chain(workers::STATEMENTS.tables);
    let trigger = (!trigger_there).then_some("leafd_row_gone");
    Ok(all.map(|layout| layout.table).filter(missing).chain(trigger).collect())
}
