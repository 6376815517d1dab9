//! Reads rows as they are. Others write to Leaf's table too, so every column may hold anything that its type
//! there allows.

use super::Failure;
use crate::id::Tag;
use crate::store::{CEILING_MAX, Generation, StoreError, TagRow};

/// A row that can be worked with.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) row: TagRow,
    /// The end of what was ever claimed under this name, 0 for nothing.
    pub(super) claimed_end: i64,
}

/// The columns, in the order of the queries: tag, `max_id`, step, description, time of the last change,
/// generation, ceiling, highest end, strict.
const COLUMNS: usize = 9;

/// The row of a tag, out of what a look-up by the column's own collation found: the same byte for byte, or
/// none.
pub(super) fn same_tag(
    rows: Vec<Vec<Option<String>>>,
    tag: &Tag,
) -> Result<Option<Found>, Failure> {
    let same = |row: &Vec<Option<String>>| {
        row.first().is_some_and(|name| name.as_deref() == Some(tag.as_str()))
    };
    let Some(row) = rows.into_iter().find(same) else { return Ok(None) };
    let found = read(row).map_err(|odd| {
        StoreError::Refused(format!(
            "the row of tag {:?} in leaf_alloc can't be used: {odd}; repair it with SQL",
            tag.as_str()
        ))
    })?;
    Ok(Some(found))
}

/// A row of a query with the nine columns, or what is odd about it.
pub(super) fn read(row: Vec<Option<String>>) -> Result<Found, String> {
    let row: [Option<String>; COLUMNS] =
        row.try_into().map_err(|row: Vec<_>| format!("it has {} columns", row.len()))?;
    let [tag, max_id, step, description, updated, generation, ceiling, highest_end, strict] = row;
    let tag = tag.unwrap_or_default();
    let tag = Tag::parse(tag.as_bytes()).map_err(|cause| format!("{tag:?} is no tag: {cause}"))?;
    let max_id = integer("max_id", max_id, None)?;
    let step = integer("step", step, None)?;
    let generation = Generation(integer("generation", generation, Some(0))?.cast_unsigned());
    let ceiling = integer("ceiling", ceiling, Some(CEILING_MAX.cast_signed()))?;
    let ceiling = u64::try_from(ceiling).map_err(|_| format!("its ceiling is {ceiling}"))?;
    let claimed_end = integer("highest_end", highest_end, Some(0))?;
    if integer("strict", strict, Some(0))? != 0 {
        return Err("it is strict, which this version doesn't know".to_owned());
    }
    let row = TagRow { tag, max_id, step, ceiling, generation, description, updated };
    Ok(Found { row, claimed_end })
}

/// A number, or what stands for an empty cell.
pub(super) fn integer(
    column: &str,
    cell: Option<String>,
    empty: Option<i64>,
) -> Result<i64, String> {
    match (cell, empty) {
        (Some(text), _) => {
            text.parse().map_err(|_| format!("its {column} is {text:?} instead of a whole number"))
        }
        (None, Some(number)) => Ok(number),
        (None, None) => Err(format!("its {column} is empty")),
    }
}
