//! Checks which tables a database has, and how they differ from what they should be. Nothing here changes a table.

use super::{Dialect, Driver, Failure, Location, Param};
use leafd_core::store::Why;

/// A table that leafd uses: its columns, and for each the prefixes of the types that leafd accepts.
#[derive(Debug)]
pub struct Layout {
    pub table: &'static str,
    pub columns: &'static [(&'static str, &'static [&'static str])],
}

/// The table with the store's name and history. When it has just been made, the store has no past.
pub const META_TABLE: &str = "leafd_meta";

/// Version of the side tables and of the meaning of their rows. In format 1 the rows of independent primaries held
/// counters; now they hold ids.
pub const FORMAT: &str = "2";

/// How the tables differ from `expected`, a sentence for each difference. A missing table is no difference; additional
/// columns do no harm.
pub fn differences(expected: &[Layout], found: &[[String; 3]]) -> Vec<String> {
    let mut said = Vec::new();
    for Layout { table, columns } in expected {
        let of_table: Vec<_> = found.iter().filter(|[of, ..]| of == table).collect();
        if of_table.is_empty() {
            continue;
        }
        for (name, types) in *columns {
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
pub fn columns(driver: &mut dyn Driver, dialect: &Dialect) -> Result<Vec<[String; 3]>, Failure> {
    let rows = driver.query(dialect.sql.columns, &[])?;
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
) -> Result<bool, Failure> {
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
    let side: Vec<&str> = dialect
        .tables
        .iter()
        .map(|layout| layout.table)
        .filter(|table| *table != "leaf_alloc")
        .collect();
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
pub fn refuse_different(
    driver: &mut dyn Driver,
    dialect: &Dialect,
    location: &Location,
    found: &[[String; 3]],
) -> Result<(), Failure> {
    let has_leafs = found.iter().any(|[table, ..]| table == "leaf_alloc");
    let defects = if has_leafs { dialect.sql.defects } else { "" };
    refuse(driver, location, differences(dialect.tables, found), defects)
}

/// Does the same for the tables of workers.
pub fn refuse_different_workers(
    driver: &mut dyn Driver,
    dialect: &Dialect,
    location: &Location,
    found: &[[String; 3]],
) -> Result<(), Failure> {
    let said = differences(dialect.workers.tables, found);
    refuse(driver, location, said, dialect.workers.defects)
}

fn refuse(
    driver: &mut dyn Driver,
    location: &Location,
    mut said: Vec<String>,
    defects: &str,
) -> Result<(), Failure> {
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
) -> Result<(), Failure> {
    let rows = driver.query(dialect.sql.meta, &[])?;
    let value = |name: &str| {
        let row = rows.iter().find(|row| row.first().is_some_and(|is| is.as_deref() == Some(name)));
        row.and_then(|row| row.get(1)).cloned().flatten()
    };
    match value("format").as_deref() {
        Some(FORMAT) if ["identity", "role", "history"].iter().all(|name| value(name).is_some()) => {
            Ok(())
        }
        Some(format) if format != FORMAT => Err(location
            .refused(format_args!(
                "was created by another leafd (format {format}; this one supports {FORMAT}): use that version"
            ))
            .into()),
        _ => Err(meta_incomplete(location)),
    }
}

/// Whether leafd's tables have the rows that they get when they are made.
pub fn has_first_rows(driver: &mut dyn Driver, dialect: &Dialect) -> Result<bool, Failure> {
    let meta = driver.query(dialect.sql.meta, &[])?;
    let is_there = |name: &str| {
        meta.iter().any(|row| row.first().is_some_and(|is| is.as_deref() == Some(name)))
    };
    let nameless = driver.query(dialect.sql.claimed_end, &[Param::Text("")])?;
    Ok(["format", "identity", "role", "right", "history"].into_iter().all(is_there)
        && !nameless.is_empty())
}

/// The error for a `leafd_meta` that lacks rows.
pub(super) fn meta_incomplete(location: &Location) -> Failure {
    let words = "has a table leafd_meta without format, identity, role or history: complete it with: leafd schema apply";
    location.refused_for(Why::MissingTables, words).into()
}

/// Refuses to make tables when the user lacks rights for it. Call this before anything is made.
pub fn refuse_lacking(location: &Location, lacking: &[String]) -> Result<(), Failure> {
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

/// The name that the store has had so far. This matters when leafd's tables are made beside an existing table of
/// Leaf's: hosts may have used that table alone, and under the same name they go on with the ids that they hold.
pub fn name_of_leafs(driver: &mut dyn Driver, made: &[&str]) -> Result<Option<String>, Failure> {
    if made.contains(&"leaf_alloc") || !made.contains(&META_TABLE) {
        return Ok(None);
    }
    let rows = driver.query(&format!("SELECT {}", driver.signs().server), &[])?;
    Ok(rows.into_iter().flatten().flatten().next().filter(|name| name.is_ascii()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_said_column_by_column() {
        let expected = [
            Layout { table: "a", columns: &[("id", &["bigint"]), ("name", &["varchar", "text"])] },
            Layout { table: "b", columns: &[("x", &["int"])] },
        ];
        let column = |table: &str, name: &str, kind: &str| {
            [table.to_owned(), name.to_owned(), kind.to_owned()]
        };
        let right = [column("a", "ID", "BIGINT(20)"), column("a", "name", "text")];
        assert!(differences(&expected, &right).is_empty());
        let wrong = [column("a", "id", "integer"), column("a", "more", "text")];
        assert_eq!(
            differences(&expected, &wrong),
            ["a.id is integer instead of bigint", "a lacks the column name"]
        );
    }
}
