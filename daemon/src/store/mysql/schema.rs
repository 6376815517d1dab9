//! The tables of a MySQL or MariaDB store: printed, or made where they are missing.

use std::time::Instant;

use super::{MysqlDriver, sql, workers};
use crate::store::StoreError;
use crate::store::claim::draw_generation;
use crate::store::network::{
    Driver, Failure, META_TABLE, Target, columns, refuse_different, refuse_different_workers,
};

/// Keeps two of us from making the tables at once. Making tables commits by itself here, so that a transaction
/// wouldn't.
const LOCK: &str = "SELECT GET_LOCK('leafd schema', 10)";

/// What [`apply`] would run, but for the mark that it puts into the remark on `leaf_alloc`.
#[must_use]
pub fn print() -> String {
    let triggers = sql::TRIGGERS.iter().map(|(_, statement)| *statement);
    let tables = sql::SIDE_TABLES.into_iter().chain(workers::TABLES);
    let all = std::iter::once(sql::LEAF_TABLE).chain(tables).chain(triggers);
    let all = all.chain(std::iter::once(sql::LIFE));
    all.map(|statement| format!("{statement};\n")).collect()
}

/// Makes what is missing. Tells which tables, triggers and remarks were made.
///
/// # Errors
/// [`StoreError::Refused`] when a table that is there looks different; others as for every call.
pub fn apply(target: &Target) -> Result<Vec<&'static str>, StoreError> {
    let mut driver = MysqlDriver::connect(target)?;
    driver.set_deadline(Instant::now() + target.statement_timeout);
    let made = make(&mut driver, target).map_err(|failure| failure.answer(target))?;
    if made.contains(&META_TABLE) {
        super::open(target.clone()).note_first_history()?;
    }
    Ok(made)
}

fn make(driver: &mut MysqlDriver, target: &Target) -> Result<Vec<&'static str>, Failure> {
    let locked = driver.query(LOCK, &[])?;
    if locked.into_iter().flatten().flatten().next().as_deref() != Some("1") {
        return Err(Failure::Busy("somebody else is making the tables; try again".to_owned()));
    }
    let found = columns(driver)?;
    refuse_different(driver, target, sql::TABLES, &found)?;
    refuse_different_workers(driver, target, &found)?;
    driver.execute(sql::LEAF_TABLE, &[])?;
    for statement in sql::SIDE_TABLES.into_iter().chain(workers::TABLES) {
        driver.execute(statement, &[])?;
    }
    let triggers = driver.query(sql::TRIGGERS_THERE, &[])?;
    let mut others: Vec<&'static str> = Vec::new();
    let there: Vec<String> = triggers.into_iter().flatten().flatten().collect();
    for (name, statement) in sql::TRIGGERS {
        if !there.iter().any(|one| one == name) {
            driver.execute(statement, &[]).map_err(|failure| no_trigger(failure, target))?;
            others.push(name);
        }
    }
    driver.execute(sql::LIFE, &[])?;
    if mark(driver)? {
        others.push("the mark in leaf_alloc's remark");
    }
    let missing = |table: &&str| !found.iter().any(|[of, ..]| of == table);
    let all = sql::TABLES.iter().chain(workers::STATEMENTS.tables);
    Ok(all.map(|layout| layout.table).filter(missing).chain(others).collect())
}

/// Says what making triggers takes, which is more than making tables.
fn no_trigger(failure: Failure, target: &Target) -> Failure {
    match failure {
        Failure::Denied(words) => Failure::Said(target.refused(format_args!(
            "lets user {:?} make no triggers: {words}; it needs TRIGGER, and where the server keeps a binary log SUPER as \
             well, or the server's variable log_bin_trust_function_creators to be 1 meanwhile; then repeat this",
            target.url.user
        ))),
        other => other,
    }
}

/// Gives Leaf's table its mark, unless it has one. Tells whether it got one.
fn mark(driver: &mut MysqlDriver) -> Result<bool, Failure> {
    let remark = driver.query(sql::REMARK, &[])?;
    let comment = remark.into_iter().flatten().flatten().next().unwrap_or_default();
    if sql::has_mark(&comment) {
        return Ok(false);
    }
    let marked = sql::marked(&comment, draw_generation()?);
    let quoted = marked.replace('\\', "\\\\").replace('\'', "''");
    driver.execute(&format!("ALTER TABLE leaf_alloc COMMENT = '{quoted}'"), &[])?;
    Ok(true)
}
