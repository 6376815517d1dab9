//! The statements that every claim repeats. The server keeps them ready for this connection, because planning them
//! costs it more than running them.
//!
//! A pooler may give each transaction to another session of the server, where a name means nothing, or what another
//! client has prepared. So a name is derived from its statement: wherever it is known it means the same. And the first
//! session without it tells that there is a pooler; from then on the statements are sent whole.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use postgres::error::SqlState;
use postgres_protocol::escape::escape_literal;
use tokio_postgres::{Error, SimpleQueryMessage};

use super::sql::DIALECT;
use crate::store::sql::{Call, Cells, Param};

/// How a connection sends its statements.
#[derive(Debug)]
pub(super) enum Statements {
    /// By their names, from the second time on. The value tells whether the server has the statement.
    Kept(HashMap<String, bool>),
    /// In full, with their values.
    Whole,
}

/// What one statement answered.
#[derive(Debug, Default)]
pub(super) struct Completed {
    pub(super) rows: Vec<Cells>,
    pub(super) changed: u64,
}

impl Statements {
    pub(super) fn new() -> Self {
        Statements::Kept(HashMap::new())
    }

    pub(super) fn are_used(&self) -> bool {
        matches!(self, Statements::Kept(_))
    }

    /// What the server must be told first, and then these calls as one text.
    pub(super) fn prepare(&mut self, calls: &[Call<'_>]) -> (Vec<String>, String) {
        let (mut first, mut text) = (Vec::new(), String::new());
        for (sql, params) in calls {
            let sql = DIALECT.render(sql);
            let by_name = match self {
                Statements::Whole => None,
                Statements::Kept(names) => {
                    let name = name(&sql);
                    match names.get_mut(&name) {
                        None => {
                            names.insert(name, false);
                            None
                        }
                        Some(known) => {
                            if !std::mem::replace(known, true) {
                                let types = list(params.iter().map(type_of));
                                first.push(format!("PREPARE {name}{types} AS {sql}"));
                            }
                            Some(name)
                        }
                    }
                }
            };
            text += &match by_name {
                Some(name) => format!("EXECUTE {name}{};", list(params.iter().map(value))),
                None => format!("{};", whole(&sql, params)),
            };
        }
        (first, text)
    }
}

/// Whether an error may say that the server's session is another one than at the last call, or that a table has
/// changed since.
pub(super) fn is_lost(error: &Error) -> bool {
    let lost = [
        SqlState::INVALID_SQL_STATEMENT_NAME,
        SqlState::DUPLICATE_PSTATEMENT,
        SqlState::FEATURE_NOT_SUPPORTED,
    ];
    error.code().is_some_and(|code| lost.contains(code))
}

/// The answers to statements that were sent as text.
pub(super) fn answers(messages: Vec<SimpleQueryMessage>) -> Vec<Completed> {
    let (mut answers, mut rows) = (Vec::new(), Vec::new());
    for message in messages {
        match message {
            SimpleQueryMessage::Row(row) => {
                let cell = |index| row.get(index).map(str::to_owned);
                rows.push((0..row.len()).map(cell).collect());
            }
            SimpleQueryMessage::CommandComplete(changed) => {
                answers.push(Completed { rows: std::mem::take(&mut rows), changed });
            }
            _ => {}
        }
    }
    answers
}

fn name(sql: &str) -> String {
    let mut hasher = DefaultHasher::new();
    sql.hash(&mut hasher);
    format!("leafd_{:016x}", hasher.finish())
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
        Param::Integer(Some(number)) => number.to_string(),
        Param::Text(None) | Param::Integer(None) => "NULL".to_owned(),
    }
}

/// A list in parentheses. An empty one is left out, as the server wants it.
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
    let mut parts = sql.split('$');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let digits = part.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(part.len());
        let (number, rest) = part.split_at(digits);
        let param = number.parse::<usize>().ok().and_then(|number| params.get(number - 1));
        let param = param.expect("a statement names its own parameters");
        text += &format!("({}::{}){rest}", value(param), type_of(param));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_text_to_the_server_whatever_is_in_them() {
        let params = [r"a'; DROP TABLE x; --\".into(), (-5_i64).into(), Param::Text(None)];
        assert_eq!(
            whole("SELECT $2, $1 WHERE $3 = $1", &params),
            r"SELECT (-5::bigint), ( E'a''; DROP TABLE x; --\\'::text) WHERE (NULL::text) = ( E'a''; DROP TABLE x; --\\'::text)"
        );
        let mut statements = Statements::new();
        let mut send = || statements.prepare(&[("SELECT ?1, ?2, ?3", &params)]);
        assert!(send().0.is_empty());
        let (first, text) = send();
        let name = name("SELECT $1, $2, $3");
        assert_eq!(first, [format!("PREPARE {name}(text, bigint, text) AS SELECT $1, $2, $3")]);
        assert_eq!(text, format!("EXECUTE {name}( E'a''; DROP TABLE x; --\\\\', -5, NULL);"));
        assert!(send().0.is_empty());
    }

    #[test]
    fn a_statement_without_parameters_has_no_list() {
        let mut statements = Statements::new();
        let mut send = || statements.prepare(&[("SELECT 1", &[])]);
        assert_eq!(send().1, "SELECT 1;");
        let name = name("SELECT 1");
        assert_eq!(
            send(),
            (vec![format!("PREPARE {name} AS SELECT 1")], format!("EXECUTE {name};"))
        );
    }
}
