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

#[cfg(test)]
mod tests {
    use super::*;

    /// The ids 10, 13 and 16, of which the first may have been issued.
    const STRIDED: Segment = Segment { first: 10, end: 17, stride: 3, mark: 13 };

    const LATER: Segment = Segment { first: 30, end: 33, stride: 1, mark: 30 };

    fn state(segments: &[Segment]) -> TagState {
        TagState { generation: 1, highest_end: 50, segments: segments.to_vec() }
    }

    #[test]
    fn a_claim_is_recorded_with_a_mark_that_is_one_of_its_ids_or_their_end() {
        let of = |first, count, stride, mark| Segment::of(Run { first, count, stride }, mark);
        assert_eq!(of(10, 3, 3, 13), Some(STRIDED));
        assert_eq!(
            [9, 10, 14, 16, 17, 18].map(|mark| of(10, 3, 3, mark).is_some()),
            [false, true, false, true, true, false]
        );
        for mark in [0, 1] {
            assert_eq!(of(0, 1, 1, mark), None, "no id is 0");
        }
        assert_eq!((of(10, 0, 1, 10), of(10, 3, 0, 10)), (None, None));
        assert!(of(NUMBER_MAX - 1, 1, 1, NUMBER_MAX - 1).is_some());
        assert_eq!(of(NUMBER_MAX, 1, 1, NUMBER_MAX), None);
        assert_eq!(STRIDED.unissued(), Some(Run { first: 13, count: 2, stride: 3 }));
        assert_eq!(Segment { mark: 17, ..STRIDED }.unissued(), None);
    }

    #[test]
    fn a_record_is_valid_if_its_segments_ascend_and_every_number_fits() {
        let next = Segment { first: 17, end: 18, stride: 1, mark: 17 };
        assert!(state(&[]).is_valid() && state(&[STRIDED, next, LATER]).is_valid());
        assert!(!state(&[LATER, STRIDED]).is_valid());
        assert!(!state(&[STRIDED, Segment { first: 16, mark: 16, ..next }]).is_valid());
        let end = |highest_end| TagState { highest_end, ..state(&[LATER]) }.is_valid();
        assert_eq!([32, 33, NUMBER_MAX, NUMBER_MAX + 1].map(end), [false, true, true, false]);
        let of_generation = |generation| TagState { generation, ..state(&[]) }.is_valid();
        assert_eq!([NUMBER_MAX, NUMBER_MAX + 1].map(of_generation), [true, false]);
        for bad in [
            Segment { first: 0, end: 7, mark: 3, ..STRIDED },
            Segment { mark: 7, ..STRIDED },
            Segment { mark: 14, ..STRIDED },
            Segment { mark: 33, ..LATER },
            Segment { end: 18, ..STRIDED },
            Segment { stride: 0, ..STRIDED },
        ] {
            assert!(!state(&[bad]).is_valid(), "{bad:?}");
        }
        let of_count = |count| {
            let long = Segment { first: 1, end: 1 + count, stride: 1, mark: 1 };
            TagState { highest_end: NUMBER_MAX, ..state(&[long]) }.is_valid()
        };
        assert_eq!([u64::from(u32::MAX), 1 << 32].map(of_count), [true, false]);
    }

    #[test]
    fn a_claim_is_new_or_the_same_again_and_overlaps_no_other() {
        let [before, between] =
            [(1, 10), (17, 30)].map(|(first, end)| Segment { first, end, stride: 1, mark: first });
        let marked = |mark| Segment { mark, ..STRIDED };
        let rest = Segment { first: 13, mark: 16, ..STRIDED };
        let all = |segment| Some(vec![segment, LATER]);
        // Whether the mark is exact, and what is recorded then; `None`: it is refused.
        for (new, exact, expected) in [
            (before, false, Some(vec![before, STRIDED, LATER])),
            (between, false, Some(vec![STRIDED, between, LATER])),
            (Segment { mark: 30, ..between }, false, all(STRIDED)),
            (STRIDED, false, all(STRIDED)),
            (marked(16), false, all(marked(16))),
            (marked(17), false, Some(vec![LATER])),
            (marked(10), false, None),
            (marked(10), true, all(marked(10))),
            (rest, false, None),
            (rest, true, all(marked(16))),
            (Segment { first: 7, ..STRIDED }, true, None),
            (Segment { stride: 1, ..STRIDED }, true, None),
            (
                Segment { end: 18, ..between },
                true,
                Some(vec![STRIDED, Segment { end: 18, ..between }, LATER]),
            ),
            (Segment { end: 31, ..between }, false, None),
            (Segment { first: 16, mark: 16, ..between }, false, None),
            (Segment { end: 11, ..before }, false, None),
        ] {
            let mut tag = state(&[STRIDED, LATER]);
            let recorded = tag.enter(1, new, exact).is_ok().then_some(tag.segments);
            assert_eq!(recorded, expected, "{new:?} {exact}");
        }
        let mut tag = state(&[STRIDED, LATER]);
        tag.enter(1, Segment { first: 50, end: 60, stride: 1, mark: 50 }, false).unwrap();
        assert_eq!((tag.highest_end, tag.segments.len()), (60, 3));
        tag.enter(2, STRIDED, false).unwrap();
        assert_eq!(tag, TagState { generation: 2, highest_end: 60, segments: vec![STRIDED] });
    }

    #[test]
    fn a_mark_moves_up_among_the_ids_of_a_recorded_claim() {
        for (end, mark, stopping, expected) in [
            (17, 16, false, Some(vec![Segment { mark: 16, ..STRIDED }, LATER])),
            (17, 13, false, Some(vec![STRIDED, LATER])),
            (17, 17, false, Some(vec![LATER])),
            (17, 10, false, None),
            (17, 10, true, Some(vec![Segment { mark: 10, ..STRIDED }, LATER])),
            (17, 7, true, None),
            (17, 14, false, None),
            (17, 19, false, None),
            (33, 31, false, Some(vec![STRIDED, Segment { mark: 31, ..LATER }])),
            // Forgotten, and never claimed.
            (50, 45, false, Some(vec![STRIDED, LATER])),
            (51, 45, false, None),
        ] {
            let mut tag = state(&[STRIDED, LATER]);
            let recorded = tag.move_mark(end, mark, stopping).is_ok().then_some(tag.segments);
            assert_eq!(recorded, expected, "{end} {mark} {stopping}");
        }
    }
}
