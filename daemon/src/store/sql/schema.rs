//! The tables, described once. They are created, printed and checked according to this description.

use super::statements::ENTER_META;
use super::tables::identity_of_leafs;
use super::{Dialect, Driver, SqlError, params};

/// A table that leafd uses.
#[derive(Debug)]
pub struct Table {
    pub name: &'static str,
    /// The name, the kind and the other attributes of each column.
    pub columns: &'static [(&'static str, ColumnKind, &'static str)],
    /// The keys.
    pub key: &'static str,
    /// Follows the closing parenthesis.
    pub end: &'static str,
}

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnKind {
    /// Any bytes, compared byte by byte.
    Bytes,
    /// leafd's own text, up to this many ASCII characters.
    Word(u16),
    /// Text that other programs write too, up to this many characters.
    Text(u16),
    Long,
    Int,
    Time,
    /// A number that the database assigns if none is given.
    Counter,
    /// A time that leafd doesn't read, so the column may be missing.
    Unread,
}

/// A type as the database writes it, with `#` for the length, and the prefixes of the types that leafd accepts.
pub type SqlType = (&'static str, &'static [&'static str]);

/// The table with the store's name and history. Right after its creation, the store has no past.
pub const META_TABLE: &str = "leafd_meta";

/// The tables for tags, Leaf's first. Leaf's must not have CHECK constraints, because a row that another program wrote
/// must not make later statements fail.
///
/// A row of `leafd_tag` stays when the row of `leaf_alloc` is deleted. `generation` is that of the current row, or of
/// the next one if there is none. `strict` also says whether a host holds the tag, see
/// [`leafd_core::store::plan_hold`]. `highest_end` is the end of all claims ever made under the name. `role_version` is
/// the version of the right to claim under which ids may be claimed. One row has no name; it shows whether the table
/// was reloaded, for instance from a backup (see each engine's `signs`).
///
/// Recorded claims are looked up by their ends, and deleted by their age. If two claims have the same ids, both are kept.
pub static TAG_TABLES: [Table; 5] = [
    Table {
        name: "leaf_alloc",
        columns: &[
            ("biz_tag", ColumnKind::Text(128), "NOT NULL DEFAULT ''"),
            ("max_id", ColumnKind::Long, "NOT NULL DEFAULT 1"),
            ("step", ColumnKind::Int, "NOT NULL"),
            ("description", ColumnKind::Text(256), "DEFAULT NULL"),
            ("update_time", ColumnKind::Time, "NOT NULL DEFAULT CURRENT_TIMESTAMP{on_update}"),
        ],
        key: "PRIMARY KEY (biz_tag)",
        end: "{leaf_table}",
    },
    Table {
        name: META_TABLE,
        columns: &[
            ("name", ColumnKind::Word(64), "NOT NULL"),
            ("value", ColumnKind::Word(17_000), "NOT NULL"),
        ],
        key: "PRIMARY KEY (name)",
        end: "{own_table}",
    },
    Table {
        name: "leafd_tag",
        columns: &[
            ("tag", ColumnKind::Bytes, "NOT NULL"),
            ("generation", ColumnKind::Long, "NOT NULL DEFAULT 0{unversioned}"),
            ("ceiling", ColumnKind::Long, "DEFAULT NULL{unversioned}"),
            ("strict", ColumnKind::Int, "NOT NULL DEFAULT 0{unversioned}"),
            ("masked", ColumnKind::Bytes, "DEFAULT NULL{unversioned}"),
            ("highest_end", ColumnKind::Long, "NOT NULL DEFAULT 0{unversioned}"),
            ("role_version", ColumnKind::Long, "NOT NULL DEFAULT -1{unversioned}{row_start}"),
        ],
        key: "PRIMARY KEY (tag)",
        end: "{own_table}{versioned}",
    },
    Table {
        name: "leafd_host",
        columns: &[
            ("host", ColumnKind::Word(64), "NOT NULL"),
            ("start_token", ColumnKind::Word(64), "NOT NULL"),
            ("started", ColumnKind::Time, "NOT NULL DEFAULT CURRENT_TIMESTAMP"),
            ("written", ColumnKind::Long, "NOT NULL DEFAULT 0"),
        ],
        key: "PRIMARY KEY (host)",
        end: "{own_table}",
    },
    Table {
        name: "leafd_claim",
        columns: &[
            ("tag", ColumnKind::Bytes, "NOT NULL"),
            ("end_id", ColumnKind::Long, "NOT NULL"),
            ("claimed_ms", ColumnKind::Long, "NOT NULL"),
            ("first_id", ColumnKind::Long, "NOT NULL"),
            ("stride", ColumnKind::Int, "NOT NULL"),
            ("generation", ColumnKind::Long, "NOT NULL"),
            ("host", ColumnKind::Word(64), "NOT NULL"),
            ("name", ColumnKind::Word(255), "NOT NULL"),
            ("holds_from", ColumnKind::Long, "DEFAULT NULL"),
        ],
        key: "PRIMARY KEY (tag, end_id, claimed_ms){age_key}",
        end: "{own_table}",
    },
];

/// The tables for workers. `leaf_workerid_alloc` is the table of Leaf's fork.
pub static WORKER_TABLES: [Table; 4] = [
    Table {
        name: "leafd_worker",
        columns: &[
            ("worker", ColumnKind::Long, "NOT NULL"),
            ("holder", ColumnKind::Word(255), "DEFAULT NULL"),
            ("name", ColumnKind::Word(255), "DEFAULT NULL"),
            ("incarnation", ColumnKind::Word(255), "DEFAULT NULL"),
            ("bound", ColumnKind::Long, "NOT NULL"),
            ("seen", ColumnKind::Long, "NOT NULL"),
            ("written", ColumnKind::Long, "NOT NULL"),
        ],
        key: "PRIMARY KEY (worker)",
        end: "{own_table}",
    },
    Table {
        name: "leafd_worker_taken",
        columns: &[
            ("worker", ColumnKind::Long, "NOT NULL"),
            ("since", ColumnKind::Long, "NOT NULL"),
            ("taken", ColumnKind::Long, "NOT NULL"),
            ("holder", ColumnKind::Word(255), "NOT NULL"),
            ("name", ColumnKind::Word(255), "NOT NULL"),
            ("incarnation", ColumnKind::Word(255), "NOT NULL"),
        ],
        key: "PRIMARY KEY (worker, since, taken)",
        end: "{own_table}",
    },
    Table {
        name: "leafd_layout",
        columns: &[
            ("name", ColumnKind::Bytes, "NOT NULL"),
            ("definition", ColumnKind::Word(255), "NOT NULL"),
        ],
        key: "PRIMARY KEY (name)",
        end: "{own_table}",
    },
    Table {
        name: "leaf_workerid_alloc",
        columns: &[
            ("id", ColumnKind::Counter, "NOT NULL{counted}"),
            ("ip", ColumnKind::Text(127), "DEFAULT NULL"),
            ("port", ColumnKind::Text(127), "DEFAULT NULL"),
            ("ip_port", ColumnKind::Text(127), "NOT NULL UNIQUE"),
            ("max_timestamp", ColumnKind::Long, "DEFAULT NULL"),
            ("create_time", ColumnKind::Unread, "NULL DEFAULT CURRENT_TIMESTAMP"),
            ("update_time", ColumnKind::Unread, "NULL DEFAULT NULL{on_update}"),
        ],
        key: "PRIMARY KEY (id)",
        end: "{leaf_table}",
    },
];

/// Finds old claims. Empty where the table has the index from the start.
const AGE_INDEX: &str = "{age_index}";

/// The first rows of the tables.
const FIRST_ROWS: [&str; 2] = [
    "INSERT{ignore} INTO leafd_meta (name, value)
    VALUES ('format', '2'), ('identity', {uuid}), ('role', ''), ('right', '0 '), ('history', ''){unless name}",
    "INSERT{ignore} INTO leafd_tag (tag) VALUES (''){unless tag}",
];

/// Every table.
pub fn all_tables() -> impl Iterator<Item = &'static Table> {
    TAG_TABLES.iter().chain(&WORKER_TABLES)
}

impl Table {
    /// The columns that must exist.
    pub fn required(&self) -> impl Iterator<Item = (&'static str, ColumnKind)> {
        let columns = self.columns.iter().map(|(name, kind, _)| (*name, *kind));
        columns.filter(|(_, kind)| *kind != ColumnKind::Unread)
    }

    /// The statement that creates the table if it is missing.
    fn create(&self, dialect: &Dialect) -> String {
        let column = |(name, kind, rest): &(&str, ColumnKind, &str)| {
            let length = match kind {
                ColumnKind::Word(length) | ColumnKind::Text(length) => length.to_string(),
                _ => String::new(),
            };
            let sql_type = (dialect.types)(*kind).0.replace('#', &length);
            format!("    {name} {sql_type} {rest},\n")
        };
        let columns: String = self.columns.iter().map(column).collect();
        let Table { name, key, end, .. } = self;
        let sql = format!("CREATE TABLE IF NOT EXISTS {name} (\n{columns}    {key}\n){end}");
        dialect.render(&sql)
    }
}

/// The statements that create the tables.
pub fn table_statements(dialect: &Dialect) -> Vec<String> {
    let tables = all_tables().map(|table| table.create(dialect));
    tables.chain([dialect.render(AGE_INDEX)]).filter(|sql| !sql.is_empty()).collect()
}

/// The statements that create the tables and their first rows, as `leafd schema print` shows them.
pub fn print(dialect: &Dialect) -> String {
    let rows = FIRST_ROWS.iter().map(|row| dialect.render(row));
    let all = table_statements(dialect).into_iter().chain(rows);
    all.map(|statement| format!("{statement};\n")).collect()
}

/// Creates the `missing` tables with their first rows.
pub fn make(
    driver: &mut dyn Driver,
    dialect: &Dialect,
    missing: &[&'static str],
) -> Result<(), SqlError> {
    let of_leafs = identity_of_leafs(driver, missing)?;
    for statement in table_statements(dialect) {
        driver.execute(&statement, &[])?;
    }
    // The first rows give a store without a name a random one. A known name is written before them, because if each
    // statement commits by itself, the next one may never run.
    if let Some((name, history)) = of_leafs {
        driver.execute(ENTER_META, params!["identity", name.as_str()])?;
        // The first note replaces it.
        driver.execute(ENTER_META, params!["history", &*history.0])?;
    }
    for statement in FIRST_ROWS {
        driver.execute(statement, &[])?;
    }
    Ok(())
}
