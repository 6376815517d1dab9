//! Reads rows as they are. Others write to Leaf's table too, so every column may hold anything.

use rusqlite::types::{Type, ValueRef};
use rusqlite::{Row, Transaction, params};

use super::Failure;
use crate::id::Tag;
use crate::store::claim::{next_start, step_of};
use crate::store::{CEILING_MAX, Generation, StoreError, TagRow, TagTerms};

/// A row that can be worked with.
pub(super) struct Found {
    pub(super) row: TagRow,
    /// The end of what was ever claimed under this name, 0 for nothing.
    pub(super) claimed_end: i64,
}

/// A query for what [`read`] reads.
macro_rules! select_rows {
    ($rest:literal) => {
        concat!(
            "SELECT a.biz_tag, a.max_id, a.step, a.description,
             CASE typeof(a.update_time) WHEN 'text'
             THEN strftime('%Y-%m-%dT%H:%M:%SZ', a.update_time) END,
             t.generation, t.ceiling, t.highest_end, t.strict
             FROM leaf_alloc AS a LEFT JOIN leafd_tag AS t ON t.tag = a.biz_tag ",
            $rest
        )
    };
}

const FIND: &str = select_rows!("WHERE a.biz_tag = ?1 COLLATE BINARY");

/// No LIMIT: rows that are left out don't count, or a page of them would look like the end.
const LIST: &str =
    select_rows!("WHERE a.biz_tag > ?1 COLLATE BINARY ORDER BY a.biz_tag COLLATE BINARY");

/// No LIMIT, as for `LIST`.
const ENDS: &str = "SELECT tag, highest_end FROM leafd_tag WHERE tag > ?1 ORDER BY tag";

/// The row of a tag, byte for byte.
pub(super) fn find(transaction: &Transaction<'_>, tag: &Tag) -> Result<Option<Found>, Failure> {
    let mut statement = transaction.prepare_cached(FIND)?;
    let mut rows = statement.query([tag.as_str()])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let found = read(row)?.map_err(|odd| {
        StoreError::Refused(format!(
            "the row of tag {:?} in leaf_alloc can't be used: {odd}; repair it with SQL",
            tag.as_str()
        ))
    })?;
    Ok(Some(found))
}

/// The row of a tag that has to be there.
pub(super) fn require(transaction: &Transaction<'_>, tag: &Tag) -> Result<Found, Failure> {
    find(transaction, tag)?.ok_or_else(|| StoreError::UnknownTag { tag: tag.clone() }.into())
}

/// Whether a tag has a row, of whatever content.
pub(super) fn is_there(transaction: &Transaction<'_>, tag: &Tag) -> Result<bool, Failure> {
    Ok(terms(transaction, tag)?.is_some())
}

/// What a tag's row offers, as far as it makes sense: the claim says what doesn't.
pub(super) fn terms(transaction: &Transaction<'_>, tag: &Tag) -> Result<Option<TagTerms>, Failure> {
    let mut statement = transaction.prepare_cached(FIND)?;
    let mut rows = statement.query([tag.as_str()])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let number =
        |index: usize| -> rusqlite::Result<Option<i64>> { Ok(row.get_ref(index)?.as_i64().ok()) };
    let ceiling = match row.get_ref(6)? {
        ValueRef::Null => CEILING_MAX,
        cell => cell.as_i64().ok().and_then(|ceiling| u64::try_from(ceiling).ok()).unwrap_or(0),
    };
    Ok(Some(TagTerms {
        generation: Generation(u64::try_from(number(5)?.unwrap_or(0)).unwrap_or(0)),
        end: next_start(number(1)?.unwrap_or(0), number(7)?.unwrap_or(0)),
        step: step_of(number(2)?.unwrap_or(0)),
        ceiling,
        strict: row.get_ref(8)? != ValueRef::Null && number(8)? != Some(0),
    }))
}

/// Up to `limit` usable rows after a tag, in the order of their bytes.
pub(super) fn list(
    transaction: &Transaction<'_>,
    after: Option<&Tag>,
    limit: u32,
) -> Result<Vec<TagRow>, Failure> {
    let mut statement = transaction.prepare_cached(LIST)?;
    let mut rows = statement.query(params![after.map_or("", Tag::as_str)])?;
    let mut found = Vec::new();
    while found.len() < limit as usize {
        let Some(row) = rows.next()? else { break };
        match read(row)? {
            Ok(one) => found.push(one.row),
            Err(odd) => tracing::warn!(%odd, "a row of leaf_alloc is left out of the list"),
        }
    }
    Ok(found)
}

/// Up to `limit` names after a tag, in the order of their bytes, and what is remembered of each.
pub(super) fn ends(
    transaction: &Transaction<'_>,
    after: Option<&Tag>,
    limit: u32,
) -> Result<Vec<(Tag, u64)>, Failure> {
    let mut statement = transaction.prepare_cached(ENDS)?;
    let mut rows = statement.query(params![after.map_or("", Tag::as_str)])?;
    let mut found = Vec::new();
    while found.len() < limit as usize {
        let Some(row) = rows.next()? else { break };
        let end = integer("highest_end", row.get_ref(1)?);
        match tag(row.get_ref(0)?).and_then(|tag| Ok((tag, end?))) {
            Ok((tag, end)) => found.push((tag, u64::try_from(end).unwrap_or(0))),
            Err(odd) => tracing::warn!(%odd, "a row of leafd_tag is left out"),
        }
    }
    Ok(found)
}

/// A row of `select_rows`; the inner error says what is odd about it.
fn read(row: &Row<'_>) -> rusqlite::Result<Result<Found, String>> {
    let cell = |index: usize| row.get_ref(index);
    let tag = tag(cell(0)?);
    let description = match cell(3)? {
        ValueRef::Text(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
        _ => None,
    };
    let updated: Option<String> = row.get(4)?;
    let (max_id, step) = (integer("max_id", cell(1)?), integer("step", cell(2)?));
    let generation = integer_or("generation", cell(5)?, 0).and_then(|number| {
        u64::try_from(number).map(Generation).map_err(|_| format!("its generation is {number}"))
    });
    let ceiling = integer_or("ceiling", cell(6)?, CEILING_MAX.cast_signed());
    let claimed_end = integer_or("highest_end", cell(7)?, 0);
    let strict = integer_or("strict", cell(8)?, 0);
    Ok((|| {
        let ceiling = ceiling?;
        let ceiling = u64::try_from(ceiling).map_err(|_| format!("its ceiling is {ceiling}"))?;
        let row = TagRow {
            tag: tag?,
            max_id: max_id?,
            step: step?,
            ceiling,
            generation: generation?,
            strict: strict? != 0,
            description,
            updated,
        };
        Ok(Found { row, claimed_end: claimed_end? })
    })())
}

fn tag(cell: ValueRef<'_>) -> Result<Tag, String> {
    match cell {
        ValueRef::Text(bytes) => Tag::parse(bytes)
            .map_err(|cause| format!("{:?} is no tag: {cause}", String::from_utf8_lossy(bytes))),
        other => Err(format!("a tag's name is {} instead of text", kind(other))),
    }
}

fn integer(column: &str, cell: ValueRef<'_>) -> Result<i64, String> {
    match cell {
        ValueRef::Integer(number) => Ok(number),
        other => Err(format!("its {column} is {} instead of a whole number", kind(other))),
    }
}

/// What the side table says, or this when it has no row or nothing in it.
fn integer_or(column: &str, cell: ValueRef<'_>, default: i64) -> Result<i64, String> {
    match cell {
        ValueRef::Null => Ok(default),
        cell => integer(column, cell),
    }
}

fn kind(cell: ValueRef<'_>) -> &'static str {
    match cell.data_type() {
        Type::Null => "empty",
        Type::Integer => "a whole number",
        Type::Real => "a fraction",
        Type::Text => "text",
        Type::Blob => "bytes",
    }
}
