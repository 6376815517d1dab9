//! Reads and writes the rows of tags and segments. Each row has a checksum, because SQLite notices a damaged page only if its
//! structure is broken, and an undetected wrong mark means duplicate ids.

use rusqlite::types::FromSql;
use rusqlite::{Connection, OptionalExtension, Row};

use leafd_wire::Run;
use leafd_wire::tag::check_tag;

use super::fault::Fault;
use leafd_core::Tag;
use leafd_core::store::StoreId;

/// A running FNV-1a hash. Each step is reversible, so the hash detects every change of a single byte.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sum(u64);

/// A row of `tags`.
#[derive(Default, Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TagState {
    pub generation: i64,
    pub highest_end: i64,
}

/// A row of `segments`: the ids `first`, `first + stride`, … below `end`, which is one past the last of them. `mark`
/// is one of these ids, or the end; no id from it on has been issued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SegmentRow {
    pub first: i64,
    pub end: i64,
    pub stride: i64,
    pub mark: i64,
}

// === impl Sum ===

impl Sum {
    /// Starts with the table's name, so that a row of one table doesn't pass for a row of another.
    pub fn of(table: &str) -> Sum {
        Sum(0xcbf2_9ce4_8422_2325).bytes(table.as_bytes())
    }

    /// The length comes first, so that bytes can't move between neighbouring fields unnoticed.
    pub fn bytes(self, bytes: &[u8]) -> Sum {
        bytes.iter().fold(self.int(bytes.len() as i64), |sum, byte| sum.byte(*byte))
    }

    pub fn text(self, text: &str) -> Sum {
        self.bytes(text.as_bytes())
    }

    pub fn int(self, number: i64) -> Sum {
        number.to_le_bytes().iter().fold(self, |sum, byte| sum.byte(*byte))
    }

    fn byte(self, byte: u8) -> Sum {
        Sum((self.0 ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3))
    }

    pub fn get(self) -> i64 {
        self.0.cast_signed()
    }
}

// === impl TagState ===

impl TagState {
    /// Where the checksums of a store's rows begin.
    pub fn begin_sum(store: &str) -> Sum {
        Sum::of("tags").text(store)
    }

    fn sum(self, of_store: Sum, tag: &str) -> i64 {
        of_store.text(tag).int(self.generation).int(self.highest_end).get()
    }

    pub fn write(self, conn: &Connection, store: &str, tag: &str) -> rusqlite::Result<()> {
        let sum = self.sum(TagState::begin_sum(store), tag);
        conn.prepare_cached("INSERT OR REPLACE INTO tags VALUES (?1, ?2, ?3, ?4, ?5)")?
            .execute((store, tag, self.generation, self.highest_end, sum))?;
        Ok(())
    }

    pub fn read(conn: &Connection, store: &StoreId, tag: &Tag) -> Result<Option<TagState>, Fault> {
        let (store, tag) = (&*store.0, tag.as_str());
        let row = conn
            .prepare_cached(
                "SELECT generation, highest_end, sum FROM tags WHERE store = ?1 AND tag = ?2",
            )?
            .query_row((store, tag), |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
            .optional()?;
        let Some((generation, highest_end, sum)) = row else { return Ok(None) };
        let state = TagState { generation, highest_end };
        state.check(TagState::begin_sum(store), tag, sum)?;
        Ok(Some(state))
    }

    /// Up to `limit` tags of a store after `after`, in the order of their bytes, each with its highest end.
    pub fn ends(
        conn: &Connection,
        store: &StoreId,
        after: Option<&Tag>,
        limit: u32,
    ) -> Result<Vec<(Tag, i64)>, Fault> {
        let (store, after) = (&*store.0, after.map_or("", Tag::as_str));
        let mut statement = conn.prepare_cached(
            "SELECT tag, generation, highest_end, sum FROM tags \
             WHERE store = ?1 AND tag > ?2 ORDER BY tag LIMIT ?3",
        )?;
        let mut rows = statement.query((store, after, limit))?;
        let of_store = TagState::begin_sum(store);
        let mut ends = Vec::new();
        while let Some(row) = rows.next()? {
            let tag = Tag::parse(tag_text(row, 0)?.as_bytes()).map_err(Fault::damaged)?;
            let state = TagState { generation: get(row, 1)?, highest_end: get(row, 2)? };
            state.check(of_store, tag.as_str(), get(row, 3)?)?;
            ends.push((tag, state.highest_end));
        }
        Ok(ends)
    }

    /// `of_store`: see [`TagState::begin_sum`].
    pub fn check(self, of_store: Sum, tag: &str, sum: i64) -> Result<(), Fault> {
        if self.sum(of_store, tag) == sum && self.generation >= 0 && self.highest_end >= 0 {
            return Ok(());
        }
        Err(Fault::damaged(format!("the record of tag {tag:?} is not as it was written")))
    }
}

// === impl SegmentRow ===

impl SegmentRow {
    /// A segment of these ids with this mark. `None` unless the mark is one of the ids or their end.
    pub fn of(run: Run, mark: u64) -> Option<SegmentRow> {
        let end = run.last()?.checked_add(1)?;
        let number = |value: u64| i64::try_from(value).ok();
        let segment = SegmentRow {
            first: number(run.first)?,
            end: number(end)?,
            stride: i64::from(run.stride),
            mark: number(mark)?,
        };
        (segment.is_sound() || mark == end && segment.with_mark(segment.first).is_sound())
            .then_some(segment)
    }

    /// The ids that were certainly not issued; `None` when there are none.
    pub fn unissued(self) -> Option<Run> {
        let SegmentRow { end, stride, mark, .. } = self;
        let steps = (end - 1).checked_sub(mark)?.checked_div(stride)?;
        let count = u32::try_from(steps).ok()?.checked_add(1).filter(|_| mark < end)?;
        Some(Run { first: mark.cast_unsigned(), count, stride: u32::try_from(stride).ok()? })
    }

    pub fn with_mark(self, mark: i64) -> SegmentRow {
        SegmentRow { mark, ..self }
    }

    /// Whether the numbers fit together. The mark must be one of the ids, because a segment without unissued ids is
    /// not kept.
    fn is_sound(self) -> bool {
        let SegmentRow { first, end, stride, mark } = self;
        1 <= first
            && first <= mark
            && mark < end
            && self.with_mark(first).unissued().is_some()
            && (end - 1 - first) % stride == 0
            && (mark - first) % stride == 0
    }

    /// Where the checksums of a store's rows begin.
    pub fn begin_sum(store: &str) -> Sum {
        Sum::of("segments").text(store)
    }

    fn sum(self, of_store: Sum, tag: &str) -> i64 {
        let key = of_store.text(tag);
        key.int(self.end).int(self.first).int(self.stride).int(self.mark).get()
    }

    pub fn write(self, conn: &Connection, store: &str, tag: &str) -> rusqlite::Result<()> {
        let SegmentRow { first, end, stride, mark } = self;
        let sum = self.sum(SegmentRow::begin_sum(store), tag);
        conn.prepare_cached("INSERT OR REPLACE INTO segments VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)")?
            .execute((store, tag, end, first, stride, mark, sum))?;
        Ok(())
    }

    /// The first segment whose end is above `number`.
    pub fn first_above(
        conn: &Connection,
        store: &str,
        tag: &str,
        number: i64,
    ) -> Result<Option<SegmentRow>, Fault> {
        let row = conn
            .prepare_cached(
                "SELECT end, first, stride, mark, sum FROM segments \
                 WHERE store = ?1 AND tag = ?2 AND end > ?3 ORDER BY end LIMIT 1",
            )?
            .query_row((store, tag, number), |row| {
                Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?))
            })
            .optional()?;
        let Some((end, first, stride, mark, sum)) = row else { return Ok(None) };
        let segment = SegmentRow { first, end, stride, mark };
        segment.check(SegmentRow::begin_sum(store), tag, sum)?;
        Ok(Some(segment))
    }

    /// All of a tag's segments, in ascending order.
    pub fn all(conn: &Connection, store: &str, tag: &str) -> Result<Vec<SegmentRow>, Fault> {
        let mut segments = Vec::new();
        let mut above = 0;
        while let Some(segment) = SegmentRow::first_above(conn, store, tag, above)? {
            above = segment.end;
            segments.push(segment);
        }
        Ok(segments)
    }

    /// `of_store`: see [`SegmentRow::begin_sum`].
    pub fn check(self, of_store: Sum, tag: &str, sum: i64) -> Result<(), Fault> {
        if self.sum(of_store, tag) == sum && self.is_sound() {
            return Ok(());
        }
        let SegmentRow { first, end, stride, mark } = self;
        Err(Fault::damaged(format!(
            "the segment [{first}, {end}) by {stride} of tag {tag:?} with its mark {mark} is not as it was written"
        )))
    }
}

/// The value of a column. A value of another type is reported as damage, not as a failing disk.
pub(super) fn get<T: FromSql>(row: &Row<'_>, column: usize) -> Result<T, Fault> {
    Ok(row.get(column)?)
}

/// A column's text, valid until the next row.
pub(super) fn text<'row>(row: &'row Row<'_>, column: usize) -> Result<&'row str, Fault> {
    row.get_ref(column)?.as_str().map_err(Fault::damaged)
}

/// A column's text, which is a tag.
pub(super) fn tag_text<'row>(row: &'row Row<'_>, column: usize) -> Result<&'row str, Fault> {
    let tag = text(row, column)?;
    check_tag(tag.as_bytes()).map_err(|e| Fault::damaged(format!("the recorded tag {tag:?}: {e}")))
}
