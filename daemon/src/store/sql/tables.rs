//! Checks which tables a database has, and how they differ from the expected ones. Nothing here changes a table.

use super::rows;
use super::schema::{META_TABLE, TAG_TABLES, Table, WORKER_TABLES, all_tables};
use super::{Cells, Dialect, Driver, Location, SqlError, params, statements};
use leafd_core::store::{History, Why};

/// Version of the side tables and of the meaning of their rows. In format 1 the rows of independent primaries held
/// counters; now they hold ids.
pub const FORMAT: &str = "2";

/// How the tables differ from `expected`, a sentence for each difference. A missing table is not a difference, and
/// additional columns do no harm.
pub fn differences(
    dialect: &Dialect,
    expected: impl IntoIterator<Item = &'static Table>,
    found: &[[String; 3]],
) -> Vec<String> {
    let mut said = Vec::new();
    for expected in expected {
        let table = expected.name;
        let of_table: Vec<_> = found.iter().filter(|[of, ..]| of == table).collect();
        if of_table.is_empty() {
            continue;
        }
        for (name, kind) in expected.required() {
            let (_, types) = (dialect.types)(kind);
            let column = of_table.iter().find(|[_, column, _]| column.eq_ignore_ascii_case(name));
            let Some([_, _, is]) = column else {
                said.push(format!("{table} lacks the column {name}"));
                continue;
            };
            if !types.iter().any(|allowed| is.to_ascii_lowercase().starts_with(allowed)) {
                said.push(format!("{table}.{name} is {is} instead of {}", types.join(" or ")));
            }
        }
    }
    said
}

/// Table, column and type of every column in the tables that leafd knows.
pub(super) fn columns(
    driver: &mut dyn Driver,
    dialect: &Dialect,
) -> Result<Vec<[String; 3]>, SqlError> {
    let rows = driver.query(dialect.columns, &[])?;
    let texts = rows.into_iter().filter_map(|row| {
        let row: Option<Vec<String>> = row.into_iter().collect();
        row.and_then(|row| row.try_into().ok())
    });
    Ok(texts.collect())
}

/// Refuses tables from which claims would not be safe. Returns whether leafd's own tables are there.
pub(super) fn check_tables(
    driver: &mut dyn Driver,
    dialect: &Dialect,
    location: &Location,
) -> Result<bool, SqlError> {
    let found = columns(driver, dialect)?;
    let has = |table: &str| found.iter().any(|[of, ..]| of == table);
    if !has("leaf_alloc") {
        return Err(location
            .refused_for(
                Why::MissingTables,
                "has no readable table leaf_alloc; create it with: leafd schema apply",
            )
            .into());
    }
    refuse_different(driver, dialect, location, &found)?;
    let side: Vec<&str> = TAG_TABLES.iter().skip(1).map(|table| table.name).collect();
    match side.iter().filter(|table| has(table)).count() {
        0 if location.leaf_only => Ok(false),
        0 => Err(location
            .refused_for(Why::HiddenTables, format_args!(
                "has none of leafd's own tables, or hides them from user {:?}, so leafd can't tell which tags are \
                 strict. Create the tables with: leafd schema apply; or, if only Leaf uses this database, set \
                 leaf_only = true",
                location.user
            ))
            .into()),
        some if some == side.len() => check_meta(driver, dialect, location).map(|()| true),
        _ => {
            let missing: Vec<&str> = side.into_iter().filter(|table| !has(table)).collect();
            Err(location
                .refused_for(Why::HiddenTables, format_args!(
                    "lacks {}, or hides it from user {:?}; create it with: leafd schema apply",
                    missing.join(" and "),
                    location.user
                ))
                .into())
        }
    }
}

/// Refuses tables of tags that differ from leafd's. `leafd schema apply` must not change them either.
fn refuse_different(
    driver: &mut dyn Driver,
    dialect: &Dialect,
    location: &Location,
    found: &[[String; 3]],
) -> Result<(), SqlError> {
    let has_leafs = found.iter().any(|[table, ..]| table == "leaf_alloc");
    let defects = if has_leafs { dialect.defects } else { "" };
    refuse(driver, location, differences(dialect, &TAG_TABLES, found), defects)
}

/// Does the same for the tables of workers.
pub(super) fn refuse_different_workers(
    driver: &mut dyn Driver,
    dialect: &Dialect,
    location: &Location,
    found: &[[String; 3]],
) -> Result<(), SqlError> {
    let said = differences(dialect, &WORKER_TABLES, found);
    refuse(driver, location, said, dialect.worker_defects)
}

fn refuse(
    driver: &mut dyn Driver,
    location: &Location,
    mut said: Vec<String>,
    defects: &str,
) -> Result<(), SqlError> {
    if !defects.is_empty() {
        let defects = driver.query(defects, &[])?;
        said.extend(defects.into_iter().flatten().flatten());
    }
    if said.is_empty() {
        return Ok(());
    }
    Err(location
        .refused(format_args!(
            "has tables that differ from leafd's: {}; leafd doesn't change them, so change them with SQL",
            said.join("; ")
        ))
        .into())
}

/// Refuses an unknown format, and a `leafd_meta` that lacks rows.
fn check_meta(
    driver: &mut dyn Driver,
    dialect: &Dialect,
    location: &Location,
) -> Result<(), SqlError> {
    let meta = driver.query(statements::META, &[])?;
    check_format(&meta, dialect, location)?;
    let has = |name: &&str| value(&meta, name).is_some();
    match ["format", "identity", "role", "history"].iter().all(has) {
        true => Ok(()),
        false => Err(meta_incomplete(location)),
    }
}

/// Refuses the tables of another version of leafd.
fn check_format(meta: &[Cells], dialect: &Dialect, location: &Location) -> Result<(), SqlError> {
    match value(meta, "format") {
        None | Some(FORMAT) => Ok(()),
        // Earlier builds counted the formats of embedded stores separately; the tables are the same.
        Some("1") if dialect.embedded => Ok(()),
        Some(format) => Err(location
            .refused(format_args!(
                "was created by a different version of leafd (format {format}; this one supports {FORMAT}): use that \
                 version"
            ))
            .into()),
    }
}

/// The value of a row of `leafd_meta`.
fn value<'a>(meta: &'a [Cells], name: &str) -> Option<&'a str> {
    let row = meta.iter().find(|row| rows::name(row) == Some(name))?;
    row.get(1)?.as_deref()
}

/// Whether leafd's tables have their first rows.
pub fn has_first_rows(driver: &mut dyn Driver) -> Result<bool, SqlError> {
    let meta = driver.query(statements::META, &[])?;
    let nameless = driver.query(statements::CLAIMED_END, params![""])?;
    let has = |name: &&str| value(&meta, name).is_some();
    Ok(["format", "identity", "role", "right", "history"].iter().all(has) && !nameless.is_empty())
}

/// The error for a `leafd_meta` that lacks rows.
pub(super) fn meta_incomplete(location: &Location) -> SqlError {
    let words = "has a table leafd_meta without format, identity, role or history: complete it with: leafd schema apply";
    location.refused_for(Why::MissingTables, words).into()
}

/// The tables that are missing.
pub fn missing_tables(
    driver: &mut dyn Driver,
    dialect: &Dialect,
    location: &Location,
) -> Result<Vec<&'static str>, SqlError> {
    let found = columns(driver, dialect)?;
    if found.iter().any(|[table, ..]| table == META_TABLE) {
        check_format(&driver.query(statements::META, &[])?, dialect, location)?;
    }
    refuse_different(driver, dialect, location, &found)?;
    refuse_different_workers(driver, dialect, location, &found)?;
    let is_missing = |table: &&str| !found.iter().any(|[of, ..]| of == table);
    Ok(all_tables().map(|table| table.name).filter(is_missing).collect())
}

/// Refuses to create tables if the user lacks privileges for it. Call this before anything is created.
pub fn refuse_lacking(location: &Location, lacking: &[String]) -> Result<(), SqlError> {
    if lacking.is_empty() {
        return Ok(());
    }
    let words = format!(
        "doesn't let user {:?} create what is missing; nothing was done. The user needs: {}. Grant that, or run the \
         command as the database's owner",
        location.user,
        lacking.join("; ")
    );
    Err(location.refused(words).into())
}

/// The name and history that the store has had so far. This matters when leafd's tables are created beside an existing
/// table of Leaf's: hosts may have used that table alone, and under the same name they continue with their held ids.
pub fn identity_of_leafs(
    driver: &mut dyn Driver,
    made: &[&str],
) -> Result<Option<(String, History)>, SqlError> {
    if made.contains(&"leaf_alloc") || !made.contains(&META_TABLE) {
        return Ok(None);
    }
    let signs = driver.signs();
    let rows = driver.query(&format!("SELECT {}, {}", signs.server, signs.life_plain), &[])?;
    let mut cells = rows.into_iter().flatten().flatten();
    let (name, life) = (cells.next(), cells.next().unwrap_or_default());
    // For an embedded store, the name is empty.
    let name = name.filter(|name| !name.is_empty() && name.is_ascii());
    Ok(name.map(|name| (name, History::without_lives(&life))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::sqlite::sql::DIALECT;

    #[test]
    fn differences_are_reported_for_each_column() {
        let dialect = Dialect { types: |_| ("", &["varchar", "text"]), ..DIALECT };
        let expected = [&TAG_TABLES[1], &TAG_TABLES[3]];
        let column =
            |name: &str, kind: &str| [META_TABLE.to_owned(), name.to_owned(), kind.to_owned()];
        let right = [column("NAME", "VARCHAR(20)"), column("value", "text")];
        assert!(differences(&dialect, expected, &right).is_empty());
        let wrong = [column("name", "integer"), column("more", "text")];
        assert_eq!(
            differences(&dialect, expected, &wrong),
            [
                "leafd_meta.name is integer instead of varchar or text",
                "leafd_meta lacks the column value"
            ]
        );
    }
}
