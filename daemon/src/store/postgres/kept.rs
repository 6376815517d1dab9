//! The statements that claims repeat. The server prepares them for this connection, because planning them costs more
//! than running them.
//!
//! A pooler may run each transaction in a different session of the server, where a name is unknown or was prepared by
//! another client. So names are derived from the statements and from the tables for which they were prepared, and mean
//! the same everywhere. The first unknown name shows that there is a pooler; from then on, statements are sent in full.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use postgres::error::SqlState;
use postgres_protocol::escape::escape_literal;
use tokio_postgres::{Error, SimpleQueryMessage};

use super::sql::DIALECT;
use crate::store::sql::{Call, Param, SqlAnswer, with_params};

/// Statements with more parameters are sent in full: a list of tags has another statement for each length. A claim that is
/// recorded has 19. So is EXPLAIN, which can't be prepared.
const KEPT_PARAMS_MAX: usize = 20;

/// How a connection sends its statements.
#[derive(Debug)]
pub(super) enum Statements {
    /// By name, from the second use on.
    Kept {
        /// What distinguishes the tables, see `Signs::life`. A prepared statement continues to use a table even if
        /// another table of that name now hides it.
        tables: String,
        /// Whether the server has prepared the statement of a name.
        names: HashMap<String, bool>,
    },
    /// In full, with their values.
    Whole,
}

/// Calls in the form in which they are sent.
#[derive(Debug, Default)]
pub(super) struct Sending {
    /// The statements to prepare first: each name, and the statement that prepares it.
    pub(super) prepare: Vec<(String, String)>,
    /// All calls as one query.
    pub(super) text: String,
    /// Whether the query calls a prepared statement.
    pub(super) by_name: bool,
}

impl Sending {
    /// A statement that is not worth a name.
    pub(super) fn in_full(sql: &str, params: &[Param<'_>]) -> Sending {
        Sending { text: whole(&DIALECT.render(sql), params), ..Sending::default() }
    }
}

impl Statements {
    pub(super) fn new() -> Self {
        Statements::Kept { tables: String::new(), names: HashMap::new() }
    }

    /// From now on statements must use these tables.
    pub(super) fn use_tables(&mut self, life: &str) {
        if let Statements::Kept { tables, names } = self
            && tables != life
        {
            names.clear();
            life.clone_into(tables);
        }
    }

    /// The form in which to send these calls.
    pub(super) fn sending(&mut self, calls: &[Call<'_>]) -> Sending {
        let mut sending = Sending::default();
        for (sql, params) in calls {
            let sql = DIALECT.render(sql);
            let Some((name, ready)) = self.name(&sql, params.len()) else {
                sending.text += &whole(&sql, params);
                continue;
            };
            sending.by_name = true;
            sending.text += &format!("EXECUTE {name}{};", list(params.iter().map(value)));
            if !ready {
                let types = list(params.iter().map(type_of));
                let prepare = format!("PREPARE {name}{types} AS {sql}");
                sending.prepare.push((name, prepare));
            }
        }
        sending
    }

    /// A statement's name, and whether the server has it; `None` if it is to be sent in full.
    fn name(&mut self, sql: &str, params: usize) -> Option<(String, bool)> {
        let Statements::Kept { tables, names } = self else { return None };
        if params > KEPT_PARAMS_MAX || sql.starts_with("EXPLAIN") {
            return None;
        }
        let mut hasher = DefaultHasher::new();
        (sql, tables).hash(&mut hasher);
        let name = format!("leafd_{:016x}", hasher.finish());
        match names.get(&name) {
            Some(ready) => Some((name, *ready)),
            None => {
                names.insert(name, false);
                None
            }
        }
    }

    /// The server has prepared the statement of this name.
    pub(super) fn has_prepared(&mut self, name: String) {
        if let Statements::Kept { names, .. } = self {
            names.insert(name, true);
        }
    }
}

/// Whether an error may mean that a pooler has switched sessions, or that a table has changed since a statement was
/// prepared.
pub(super) fn is_lost(error: &Error) -> bool {
    let lost = [
        SqlState::INVALID_SQL_STATEMENT_NAME,
        SqlState::DUPLICATE_PSTATEMENT,
        SqlState::FEATURE_NOT_SUPPORTED,
    ];
    error.code().is_some_and(|code| lost.contains(code))
}

/// The answers to the statements of a query sent as text.
pub(super) fn answers(messages: Vec<SimpleQueryMessage>) -> Vec<SqlAnswer> {
    let (mut answers, mut rows) = (Vec::new(), Vec::new());
    for message in messages {
        match message {
            SimpleQueryMessage::Row(row) => {
                let cell = |index| row.get(index).map(str::to_owned);
                rows.push((0..row.len()).map(cell).collect());
            }
            SimpleQueryMessage::CommandComplete(changed) => {
                answers.push(SqlAnswer { rows: std::mem::take(&mut rows), changed });
            }
            _ => {}
        }
    }
    answers
}

fn type_of(param: &Param<'_>) -> &'static str {
    match param {
        Param::Text(_) => "text",
        Param::Integer(_) => "bigint",
    }
}

fn value(param: &Param<'_>) -> String {
    match *param {
        Param::Text(Some(text)) => escape_literal(text),
        Param::Integer(Some(number)) => format!("'{number}'"),
        Param::Text(None) | Param::Integer(None) => "NULL".to_owned(),
    }
}

/// A list in parentheses. An empty one is omitted, as the server requires.
fn list<T: AsRef<str>>(parts: impl Iterator<Item = T>) -> String {
    let mut text = String::new();
    for part in parts {
        text += if text.is_empty() { "(" } else { ", " };
        text += part.as_ref();
    }
    if text.is_empty() { text } else { text + ")" }
}

/// A statement with its values in the places of its parameters.
fn whole(sql: &str, params: &[Param<'_>]) -> String {
    let text = with_params(sql, DIALECT.parameter, |number| {
        let param = &params[number - 1];
        format!("({}::{})", value(param), type_of(param))
    });
    text + ";"
}

/// One statement that runs all of these, and fails by a division by zero unless each of them changes one row.
pub(super) fn all_or_none<'a>(calls: &[Call<'a>]) -> (String, Vec<Param<'a>>) {
    let (mut parts, mut names, mut all) = (Vec::new(), Vec::new(), Vec::new());
    for (sql, params) in calls {
        let moved = |number| format!("${}", all.len() + number);
        let sql = with_params(&DIALECT.render(sql), DIALECT.parameter, moved);
        let name = format!("changed{}", names.len());
        parts.push(format!("{name} AS ({sql} RETURNING 1)"));
        names.push(name);
        all.extend_from_slice(params);
    }
    let (parts, names) = (parts.join(", "), names.join(", "));
    (format!("WITH {parts} SELECT 1 / (count(*) = 1)::int FROM {names}"), all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_text_to_the_server_whatever_is_in_them() {
        let params = [r"a'; DROP TABLE x; --\".into(), i64::MIN.into(), Param::Text(None)];
        assert_eq!(
            whole("SELECT $2, $1 WHERE $3 = $1", &params),
            r"SELECT ('-9223372036854775808'::bigint), ( E'a''; DROP TABLE x; --\\'::text) WHERE (NULL::text) = ( E'a''; DROP TABLE x; --\\'::text);"
        );
        let mut statements = Statements::new();
        let call: Call<'_> = ("SELECT ?1, ?2, ?3", &params);
        assert!(!statements.sending(&[call]).by_name, "the first time");
        let Sending { prepare, text, by_name } = statements.sending(&[call]);
        let [(name, statement)] = &prepare[..] else { panic!("{prepare:?}") };
        assert!(by_name);
        assert_eq!(*statement, format!("PREPARE {name}(text, bigint, text) AS SELECT $1, $2, $3"));
        let values = r" E'a''; DROP TABLE x; --\\', '-9223372036854775808', NULL";
        assert_eq!(text, format!("EXECUTE {name}({values});"));
        assert_eq!(statements.sending(&[call]).prepare, prepare, "it is not there yet");
        statements.has_prepared(name.clone());
        assert!(statements.sending(&[call]).prepare.is_empty());
        // For other tables it is another statement.
        statements.use_tables("other");
        assert!(!statements.sending(&[call]).by_name);
        assert_ne!(statements.sending(&[call]).prepare[0].0, *name);
    }

    #[test]
    fn statements_that_must_all_change_a_row_are_one() {
        let (one, other) = (["t".into(), 7_i64.into()], [Param::Text(None)]);
        let (sql, params) = all_or_none(&[
            ("UPDATE a SET n = ?2 WHERE t = ?1", &one),
            ("DELETE b WHERE t = ?1", &other),
        ]);
        assert_eq!(
            sql,
            "WITH changed0 AS (UPDATE a SET n = $2 WHERE t = $1 RETURNING 1), \
             changed1 AS (DELETE b WHERE t = $3 RETURNING 1) SELECT 1 / (count(*) = 1)::int FROM changed0, changed1"
        );
        assert_eq!(params.len(), 3);
    }

    #[test]
    fn a_statement_without_parameters_has_no_list() {
        let mut statements = Statements::new();
        assert_eq!(statements.sending(&[("SELECT 1", &[])]).text, "SELECT 1;");
        let Sending { prepare, text, .. } = statements.sending(&[("SELECT 1", &[])]);
        let [(name, statement)] = &prepare[..] else { panic!("{prepare:?}") };
        assert_eq!(*statement, format!("PREPARE {name} AS SELECT 1"));
        assert_eq!(text, format!("EXECUTE {name};"));
    }
}
