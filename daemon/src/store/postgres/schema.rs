//! Creates the missing tables of a PostgreSQL store.

use std::time::Instant;

use super::PostgresDriver;
use super::sql::DIALECT;
use crate::store::sql as store_sql;
use crate::store::sql::{Driver, SqlError, Target, has_first_rows, missing_tables, refuse_lacking};
use leafd_core::store::StoreError;

/// Prevents two processes from creating the tables at the same time. The number has no meaning.
const LOCK: &str = "SELECT pg_advisory_xact_lock(7093862105577215)";

/// The missing privileges for creating tables, one per row.
const PRIVILEGES_TO_MAKE: &str =
    "SELECT 'CREATE on schema ' || coalesce(quote_ident(current_schema()), 'of the search path, which has none')
    WHERE NOT coalesce(has_schema_privilege(current_schema(), 'CREATE'), false)
    UNION ALL
    SELECT privilege || ' on ' || name FROM
    (VALUES ('leafd_meta', 'SELECT'), ('leafd_meta', 'INSERT'), ('leafd_meta', 'UPDATE'), ('leafd_tag', 'SELECT'),
            ('leafd_tag', 'INSERT')) AS needed (name, privilege)
    WHERE to_regclass(name) IS NOT NULL AND NOT has_table_privilege(to_regclass(name), privilege)";

/// Creates the missing tables in one transaction.
pub(super) fn make(target: &Target) -> Result<Vec<&'static str>, StoreError> {
    let mut driver = target.connect(PostgresDriver::connect)?;
    driver.set_deadline(Instant::now() + target.statement_timeout);
    make_over(&mut driver, target).map_err(|failure| failure.answer(&target.location()))
}

fn make_over(driver: &mut PostgresDriver, target: &Target) -> Result<Vec<&'static str>, SqlError> {
    driver.batch("BEGIN")?;
    driver.batch(LOCK)?;
    let location = target.location();
    let missing = missing_tables(driver, &DIALECT, &location)?;
    if !missing.is_empty() || !has_first_rows(driver)? {
        let lacking = driver.query(PRIVILEGES_TO_MAKE, &[])?.into_iter().flatten().flatten();
        refuse_lacking(&location, &lacking.collect::<Vec<_>>())?;
        driver.batch("SET LOCAL client_min_messages = warning")?;
        store_sql::make(driver, &DIALECT, &missing)?;
    }
    driver.batch("COMMIT")?;
    Ok(missing)
}
