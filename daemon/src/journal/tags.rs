//! The record of a tag: its generation, the highest end of its claims, and its segments with their marks. A change that
//! would let ids repeat after a restart is a mistake of the caller, and is refused.

use rusqlite::Connection;
use serde::{Deserialize, Serialize};

use leafd_wire::Run;

use super::fault::Fault;
use super::records::{self, JsonRecord, NUMBER_MAX, get};
use leafd_core::Tag;
use leafd_core::store::StoreId;

/// The prefix of the kind of a tag's record, which is followed by its store. The record's key is the tag.
pub(super) const KIND: &str = "tag of ";

/// Every such kind is less than this.
pub(super) const KINDS_END: &str = "tag of!";

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct TagState {
    pub generation: u64,
    pub highest_end: u64,
    /// In ascending order.
    pub segments: Vec<Segment>,
}

/// The ids `first`, `first + stride`, … below `end`, which is one past the last of them. `mark` is one of these ids, or
/// the end; neither it nor any id above it has been issued.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Segment {
    pub first: u64,
    pub end: u64,
    pub stride: u32,
    pub mark: u64,
}

/// Up to `limit` tags of a store after `after`, in the order of their bytes, each with its highest end.
pub(super) fn ends(
    conn: &Connection,
    store: &StoreId,
    after: Option<&Tag>,
    limit: u32,
) -> Result<Vec<(Tag, u64)>, Fault> {
    let kind = kind(store);
    let mut statement = conn.prepare_cached(
        "SELECT key, value, sum FROM records WHERE kind = ?1 AND key > ?2 ORDER BY key LIMIT ?3",
    )?;
    let mut rows = statement.query((&kind, after.map_or("", Tag::as_str), limit))?;
    let mut ends = Vec::new();
    while let Some(row) = rows.next()? {
        let (name, value): (String, String) = (get(row, 0)?, get(row, 1)?);
        let state: TagState = records::parse(&kind, &name, &value, get(row, 2)?)?;
        ends.push((tag(&name)?, state.highest_end));
    }
    Ok(ends)
}

/// Calls `see` with the store and the record of every tag, ordered by store and tag.
pub(super) fn each(
    conn: &Connection,
    mut see: impl FnMut(StoreId, Tag, TagState) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let sql = "SELECT kind, key, value, sum FROM records WHERE kind > ?1 AND kind < ?2 ORDER BY kind, key";
    let mut statement = conn.prepare(sql)?;
    let mut rows = statement.query([KIND, KINDS_END])?;
    while let Some(row) = rows.next()? {
        let (kind, name, value): (String, String, String) =
            (get(row, 0)?, get(row, 1)?, get(row, 2)?);
        let state = records::parse(&kind, &name, &value, get(row, 3)?)?;
        see(StoreId(kind[KIND.len()..].into()), tag(&name)?, state)?;
    }
    Ok(())
}

/// Forgets the segments of all tags, or of all tags of a store. Returns their number.
pub(super) fn forget_segments(conn: &Connection, of: Option<&StoreId>) -> Result<usize, Fault> {
    let mut with_segments = Vec::new();
    each(conn, |store, tag, state| {
        if !state.segments.is_empty() && of.is_none_or(|of| *of == store) {
            with_segments.push((store, tag, state));
        }
        Ok(())
    })?;
    let mut forgotten = 0;
    for (store, tag, mut state) in with_segments {
        forgotten += state.segments.len();
        state.segments.clear();
        state.write(conn, &store, &tag)?;
    }
    Ok(forgotten)
}

fn kind(store: &StoreId) -> String {
    format!("{KIND}{store}")
}

fn tag(name: &str) -> Result<Tag, Fault> {
    Tag::parse(name.as_bytes())
        .map_err(|e| Fault::damaged(format!("the recorded tag {name:?}: {e}")))
}

// === impl TagState ===

impl JsonRecord for TagState {
    fn is_valid(&self) -> bool {
        let mut last_end = 0;
        let is_next = |segment: &Segment| {
            let is_above = segment.first >= last_end;
            last_end = segment.end;
            segment.is_sound() && is_above && segment.end <= self.highest_end
        };
        self.segments.iter().all(is_next) && self.generation.max(self.highest_end) <= NUMBER_MAX
    }
}

impl TagState {
    pub fn read(conn: &Connection, store: &StoreId, tag: &Tag) -> Result<Option<TagState>, Fault> {
        records::read_of(conn, &kind(store), tag.as_str())
    }

    pub fn write(&self, conn: &Connection, store: &StoreId, tag: &Tag) -> rusqlite::Result<()> {
        records::write_of(conn, &kind(store), tag.as_str(), self)
    }

    /// Records a claim, or moves the mark of a recorded one, also down if it is `exact`.
    pub fn enter(&mut self, generation: u64, new: Segment, exact: bool) -> Result<(), String> {
        if self.generation != generation {
            self.generation = generation;
            self.segments.clear();
        }
        self.highest_end = self.highest_end.max(new.end);
        let at = self.segments.partition_point(|old| old.end <= new.first);
        let Segment { first, end, stride, mark } = new;
        match self.segments.get(at).copied() {
            // The same claim again, because a caller that doesn't know whether it was recorded repeats it. With an
            // exact mark, it may also be the rest of a claim from an earlier start, whose beginning the caller doesn't
            // know.
            Some(old)
                if (old.end, old.stride) == (end, stride)
                    && (old.first == first || exact && old.first < first) =>
            {
                self.set_mark(at, mark, exact)
            }
            Some(old) if old.first < end => Err(format!(
                "segment [{first}, {end}) overlaps the recorded [{}, {})",
                old.first, old.end
            )),
            _ => {
                if mark < end {
                    self.segments.insert(at, new);
                }
                Ok(())
            }
        }
    }

    /// Moves the mark of the segment that ends there, also down if leafd is `stopping`.
    pub fn move_mark(&mut self, end: u64, mark: u64, stopping: bool) -> Result<(), String> {
        match self.segments.iter().position(|segment| segment.end == end) {
            Some(at) => self.set_mark(at, mark, stopping),
            // The segment is already used up or forgotten, so a restart issues none of its ids, and the mark holds. But
            // a segment that was never claimed is a mistake.
            None if end <= self.highest_end => Ok(()),
            None => Err(format!("no segment that ends at {end} has been recorded")),
        }
    }

    fn set_mark(&mut self, at: usize, mark: u64, stopping: bool) -> Result<(), String> {
        let Segment { first, end, stride, mark: old_mark } = self.segments[at];
        let above = mark.checked_sub(first);
        let is_id = above.is_some_and(|above| above.is_multiple_of(stride.into())) || mark == end;
        if mark > end || !is_id || (mark < old_mark && !stopping) {
            return Err(format!(
                "the mark of [{first}, {end}) by {stride} can't go from {old_mark} to {mark}"
            ));
        }
        match mark == end {
            true => _ = self.segments.remove(at),
            false => self.segments[at].mark = mark,
        }
        Ok(())
    }
}

// === impl Segment ===

impl Segment {
    /// A segment of these ids with this mark. `None` unless the mark is one of the ids or their end.
    pub fn of(run: Run, mark: u64) -> Option<Segment> {
        let end = run.last()?.checked_add(1)?;
        let segment = Segment { first: run.first, end, stride: run.stride, mark };
        let marked_at = |mark| Segment { mark, ..segment }.is_sound();
        (marked_at(mark) || mark == end && marked_at(run.first)).then_some(segment)
    }

    /// The ids that were certainly not issued; `None` when there are none.
    pub fn unissued(self) -> Option<Run> {
        let Segment { end, stride, mark, .. } = self;
        let steps = end.checked_sub(1)?.checked_sub(mark)?.checked_div(stride.into())?;
        let count = u32::try_from(steps).ok()?.checked_add(1)?;
        Some(Run { first: mark, count, stride })
    }

    /// Whether the numbers fit together. The mark must be one of the ids, because a segment without unissued ids is
    /// not kept.
    fn is_sound(self) -> bool {
        let Segment { first, end, stride, mark } = self;
        let is_id = |id: u64| (id - first).is_multiple_of(stride.into());
        (1..=mark).contains(&first)
            && mark < end
            && end <= NUMBER_MAX
            && Segment { mark: first, ..self }.unissued().is_some()
            && is_id(end - 1)
            && is_id(mark)
    }
}
