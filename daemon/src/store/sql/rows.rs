//! Reads the rows of tags as they are. Other programs write to Leaf's table too, so every column may contain anything
//! that its type allows.

use super::{Cells, SqlError};
use leafd_core::Tag;
use leafd_core::mask::Masking;
use leafd_core::store::{CEILING_MAX, Generation, StoreError, TagRow, TagTerms, Why};
use leafd_core::store::{next_start, step_of};
use leafd_wire::text::{clean, shell_word};

/// The prefix of the names of mask keys' check values in `leafd_meta`.
pub(super) const MASK_KEY_ENTRY: &str = "mask_key_";

/// The prefix of the names of series of document numbers in `leafd_meta`.
pub(super) const SERIES_ENTRY: &str = "series_";

/// A valid row.
#[derive(Debug)]
pub(super) struct StoredTag {
    pub(super) row: TagRow,
    /// The end of all claims ever made under this name, 0 if there were none.
    pub(super) claimed_end: i64,
    /// Whether the tag is strict, and whether a host holds it, see [`leafd_core::store::plan_hold`].
    pub(super) strictness: i64,
    /// The version of the right to claim in leafd's row of the tag; `None` without such a row.
    pub(super) right: Option<i64>,
}

/// The generation of a row that is below its own claims, because it was deleted and recreated, or rolled back. No
/// recorded generation is as large.
const SET_BACK: Generation = Generation(u64::MAX);

impl StoredTag {
    /// Refuses a claim from a row that is below its own claims. The row was deleted and recreated, or rolled back, and
    /// an operator must decide what to do.
    pub(super) fn check_not_set_back(&self) -> Result<(), SqlError> {
        if self.claimed_end <= 0 || self.row.max_id >= self.claimed_end {
            return Ok(());
        }
        let (tag, is, end) = (self.row.tag.as_str(), self.row.max_id, self.claimed_end);
        let word = shell_word(tag);
        let words = format!(
            "the row of tag {tag:?} in leaf_alloc is at {is}, but ids below {end} were already claimed: the row was \
             recreated or set back. If it is the old tag, run: leafctl tag raise {word} --to {end}. If it is a new \
             one, run: leafctl tag delete {word} --yes-delete {word}; then: leafctl tag create {word} --start {end}"
        );
        Err(SqlError::Said(StoreError::refused_for(Why::RowSetBack, words)))
    }
}

/// The columns, in the order of the queries: tag, `max_id`, step, description, time of the last change,
/// generation, ceiling, highest end, strict, version of the right to claim, masked.
const COLUMNS: usize = 11;

/// The row whose tag is the same byte for byte, if there is one. A look-up by the column's own collation may also find
/// others.
pub(super) fn same_tag(rows: Vec<Cells>, tag: &Tag) -> Result<Option<StoredTag>, SqlError> {
    let Some(row) = rows.into_iter().find(|row| name(row) == Some(tag.as_str())) else {
        return Ok(None);
    };
    let found = read(row).map_err(|odd| {
        StoreError::refused(format!(
            "the row of tag {:?} in leaf_alloc can't be used: {odd}; repair it with SQL",
            tag.as_str()
        ))
    })?;
    Ok(Some(found))
}

/// The name in a row's first column.
pub(super) fn name(row: &Cells) -> Option<&str> {
    row.first().and_then(Option::as_deref)
}

/// Reads a row of a query with the eleven columns. The error says what is wrong with it.
pub(super) fn read(row: Cells) -> Result<StoredTag, String> {
    let row: [Option<String>; COLUMNS] =
        row.try_into().map_err(|row: Vec<_>| format!("it has {} columns", row.len()))?;
    let [
        tag,
        max_id,
        step,
        description,
        updated,
        generation,
        ceiling,
        highest_end,
        strict,
        right,
        masked,
    ] = row;
    let tag = tag.unwrap_or_default();
    let tag = Tag::parse(tag.as_bytes())
        .map_err(|cause| format!("{tag:?} is not a valid tag: {cause}"))?;
    let max_id = integer("max_id", max_id, None)?;
    let step = integer("step", step, None)?;
    let generation = Generation(integer("generation", generation, Some(0))?.cast_unsigned());
    let ceiling = integer("ceiling", ceiling, Some(CEILING_MAX.cast_signed()))?;
    let ceiling = u64::try_from(ceiling).map_err(|_| format!("its ceiling is {ceiling}"))?;
    let claimed_end = integer("highest_end", highest_end, Some(0))?;
    let strictness = integer("strict", strict, Some(0))?;
    let strict = strictness != 0;
    let right = right.map(|right| integer("role_version", Some(right), None)).transpose()?;
    let masked = masked
        .map(|text| {
            Masking::parse(&text)
                .ok_or_else(|| format!("the value of masked in leafd_tag is {text:?}"))
        })
        .transpose()?;
    if strict && masked.is_some() {
        return Err("it is both strict and masked, but masked ids have no order".to_owned());
    }
    // Text for people, written by anyone who may change the table.
    let [description, updated] = [description, updated].map(|text| text.as_deref().map(clean));
    let row =
        TagRow { tag, max_id, step, ceiling, generation, strict, masked, description, updated };
    Ok(StoredTag { row, claimed_end, strictness, right })
}

/// A row of a query with the eleven columns, as listed. Invalid cells get a default here; the claim reports them.
pub(super) fn terms(row: &Cells) -> TagTerms {
    let number = |column: usize| row.get(column)?.as_ref()?.parse::<i64>().ok();
    let (max_id, claimed_end) = (number(1).unwrap_or(0), number(7).unwrap_or(0));
    let generation = match claimed_end > 0 && max_id < claimed_end {
        true => SET_BACK,
        false => Generation(number(5).unwrap_or(0).cast_unsigned()),
    };
    TagTerms {
        generation,
        end: next_start(max_id, claimed_end),
        step: step_of(number(2).unwrap_or(0)),
        ceiling: number(6).map_or(CEILING_MAX, |ceiling| u64::try_from(ceiling).unwrap_or(0)),
        strict: row.get(8).and_then(Option::as_deref).is_some_and(|strict| strict != "0"),
    }
}

/// Reads a row with a name and its recorded end. The error says what is wrong with it.
pub(super) fn remembered(row: Cells) -> Result<(Tag, u64), String> {
    let mut cells = row.into_iter();
    let tag = cells.next().flatten().unwrap_or_default();
    let tag = Tag::parse(tag.as_bytes())
        .map_err(|cause| format!("{tag:?} is not a valid tag: {cause}"))?;
    let end = integer("highest_end", cells.next().flatten(), Some(0))?;
    Ok((tag, u64::try_from(end).unwrap_or(0)))
}

/// The number in a cell. `empty` is the value of an empty cell; without it an empty cell is an error.
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
