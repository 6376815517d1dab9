//! Reads the whole journal once before anything in it is used.

use rusqlite::Connection;

use super::fault::Fault;
use super::records::{self, Meta};
use super::rows::{SegmentRow, TagState, get, tag_text, text};
use super::{LayoutRecord, stores};
use leafd_core::lease::Recorded;
use leafd_core::store::StoreId;

/// Checks the structure of the file, by SQLite's own check.
pub(super) fn structure(conn: &Connection) -> Result<(), Fault> {
    let verdict: String = conn.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
    if verdict == "ok" { Ok(()) } else { Err(Fault::damaged(verdict)) }
}

/// Checks every row: its checksum and its values, and that the rows agree with each other. Returns the stores that the
/// tags are of.
pub(super) fn rows(conn: &Connection) -> Result<Vec<StoreId>, Fault> {
    let meta = Meta::read(conn)?;
    let counted = records::count(conn)?;
    if counted != meta.counted {
        return Err(Fault::damaged(format!(
            "{counted} layouts and stores are recorded, but there were {}",
            meta.counted
        )));
    }
    records::check_kinds(conn)?;
    records::read_all::<LayoutRecord>(conn)?;
    records::read_all::<Recorded>(conn)?;
    stores::verify(conn)?;
    tags(conn)
}

/// Checks tags and segments, which are read side by side in the order of their keys.
fn tags(conn: &Connection) -> Result<Vec<StoreId>, Fault> {
    let mut tags = conn
        .prepare("SELECT store, tag, generation, highest_end, sum FROM tags ORDER BY store, tag")?;
    let mut segments = conn.prepare(
        "SELECT store, tag, \"end\", first, stride, mark, sum FROM segments ORDER BY store, tag, \"end\"",
    )?;
    let (mut tags, mut segments) = (tags.query([])?, segments.query([])?);
    let mut next_segment = segments.next()?;
    let mut stores: Vec<StoreId> = Vec::new();
    // A store's name is long, and is summed up once.
    let mut sums = None;
    while let Some(row) = tags.next()? {
        let (store, tag) = (text(row, 0)?, tag_text(row, 1)?);
        if stores.last().is_none_or(|last| &*last.0 != store) {
            stores.push(StoreId(store.into()));
            sums = None;
        }
        let (of_tags, of_segments) =
            *sums.get_or_insert_with(|| (TagState::begin_sum(store), SegmentRow::begin_sum(store)));
        let state = TagState { generation: get(row, 2)?, highest_end: get(row, 3)? };
        state.check(of_tags, tag, get(row, 4)?)?;
        let mut last_end = 0;
        while let Some(row) = next_segment
            && text(row, 1)? == tag
            && text(row, 0)? == store
        {
            let [end, first, stride, mark] =
                [get(row, 2)?, get(row, 3)?, get(row, 4)?, get(row, 5)?];
            let segment = SegmentRow { first, end, stride, mark };
            segment.check(of_segments, tag, get(row, 6)?)?;
            if state.highest_end < end {
                return Err(not_claimed(tag));
            }
            if first < last_end {
                return Err(Fault::damaged(format!("two segments of tag {tag:?} overlap")));
            }
            last_end = end;
            next_segment = segments.next()?;
        }
    }
    // The first segment whose tag has no row stays.
    match next_segment {
        Some(row) => Err(not_claimed(text(row, 1)?)),
        None => Ok(stores),
    }
}

fn not_claimed(tag: &str) -> Fault {
    Fault::damaged(format!("a segment of tag {tag:?} is not among its claims"))
}
