//! The differences between the databases' SQL.

use super::schema::{ColumnKind, SqlType};

/// A dialect of SQL.
#[derive(Clone, Copy, Debug)]
pub struct Dialect {
    /// The prefix of a parameter's number.
    pub parameter: &'static str,
    /// Whether only one host uses the store. If so, no other host needs to know about commits that the store lost, and
    /// a copy is distinguished from the original by other means.
    pub embedded: bool,
    /// The placeholders that statements have between braces, where they differ from `STANDARD` and `EMPTY`. `#`
    /// stands for what follows the placeholder there.
    pub words: &'static [(&'static str, &'static str)],
    /// The type of a column.
    pub types: fn(ColumnKind) -> SqlType,
    /// (age in milliseconds, limit): deletes up to `limit` recorded claims that are older, the oldest first.
    pub forget_claims: &'static str,
    /// Table, column and type of every column in the tables that leafd knows.
    pub columns: &'static str,
    /// One row of text for each reason why claims from Leaf's table would not be safe.
    pub defects: &'static str,
    /// The same for the tables of workers.
    pub worker_defects: &'static str,
    /// The setting, and its value, by which the server acknowledges commits that are not on disk, if it does.
    pub lax: &'static str,
}

/// The placeholders of most dialects.
const STANDARD: [(&str, &str); 9] = [
    ("age_index", "CREATE INDEX IF NOT EXISTS leafd_claim_age ON leafd_claim (claimed_ms)"),
    ("alloc", "leaf_alloc"),
    ("bytes", "#"),
    ("conflict", "ON CONFLICT (#) DO UPDATE SET"),
    ("greatest", "greatest"),
    ("lock", " FOR UPDATE"),
    ("new", "excluded.#"),
    ("touch", ", update_time = CURRENT_TIMESTAMP"),
    ("unless", " ON CONFLICT (#) DO NOTHING"),
];

/// Placeholders that most dialects leave empty.
const EMPTY: [&str; 10] = [
    "age_key",
    "counted",
    "exact",
    "ignore",
    "leaf_table",
    "on_update",
    "own_table",
    "row_start",
    "unversioned",
    "versioned",
];

impl Dialect {
    /// A statement as this database has it.
    pub fn render(&self, sql: &str) -> String {
        let mut rendered = String::with_capacity(2 * sql.len());
        let mut rest = sql;
        while let Some((before, word, behind)) = next_word(rest) {
            let (name, argument) = word.split_once(' ').unwrap_or((word, ""));
            let known = self.words.iter().chain(&STANDARD).find(|(known, _)| *known == name);
            debug_assert!(known.is_some() || EMPTY.contains(&name), "{name} in {sql}");
            rendered.push_str(before);
            rendered.push_str(&known.map_or("", |(_, text)| text).replace('#', argument));
            rest = behind;
        }
        rendered.push_str(rest);
        if self.parameter == "?" { rendered } else { rendered.replace('?', self.parameter) }
    }
}

/// A statement with other text in the places of its parameters, which are numbers after this prefix.
pub fn with_params(sql: &str, prefix: &str, write: impl Fn(usize) -> String) -> String {
    let mut parts = sql.split(prefix);
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let digits = part.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(part.len());
        let (number, rest) = part.split_at(digits);
        text += &write(number.parse().expect("a parameter has a number"));
        text += rest;
    }
    text
}

fn next_word(sql: &str) -> Option<(&str, &str, &str)> {
    let (before, rest) = sql.split_once('{')?;
    let (word, behind) = rest.split_once('}')?;
    Some((before, word, behind))
}

#[cfg(all(test, feature = "mysql", feature = "postgres"))]
mod tests {
    use super::*;
    use crate::store::{mysql::sql as mysql, postgres::sql as postgres, sqlite::sql as sqlite};

    #[test]
    fn every_dialect_has_every_word() {
        let shared = |name: &&str| {
            EMPTY.contains(name) || STANDARD.iter().any(|(standard, _)| standard == name)
        };
        for dialect in [&mysql::DIALECT, &postgres::DIALECT, &sqlite::DIALECT] {
            let own = dialect.words.iter().map(|(name, _)| *name);
            let own: Vec<&str> = own.filter(|name| !shared(name)).collect();
            assert_eq!(own, ["join", "leaf_row", "now_ms", "uuid"]);
        }
    }

    #[test]
    fn words_and_parameters_are_written_as_the_database_has_them() {
        let sql = "SELECT {greatest}(?1, ?2) FROM t WHERE tag = {bytes ?3}{lock}";
        let mysql = "SELECT greatest(:p1, :p2) FROM t WHERE tag = CAST(:p3 AS BINARY) FOR UPDATE";
        assert_eq!(mysql::DIALECT.render(sql), mysql);
        assert_eq!(sqlite::DIALECT.render(sql), "SELECT max(?1, ?2) FROM t WHERE tag = ?3");
    }
}
