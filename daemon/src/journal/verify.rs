//! Reads the whole journal once before anything in it is used.

use rusqlite::Connection;

use super::fault::Fault;
use super::rows::{self, Meta, Segment, TagState, get, read_tag};
use super::{lease, stores};

/// Checks the structure of the file, by SQLite's own check.
pub(super) fn structure(conn: &Connection) -> Result<(), Fault> {
    let verdict: String = conn.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
    if verdict == "ok" { Ok(()) } else { Err(Fault::damaged(verdict)) }
}

/// Checks every row: its checksum and its values, and that the rows agree with each other.
pub(super) fn rows(conn: &Connection) -> Result<(), Fault> {
    let meta = Meta::read(conn)?;
    let layouts = rows::read_layouts(conn)?.len();
    if i64::try_from(layouts) != Ok(meta.layouts) {
        return Err(Fault::damaged(format!(
            "{layouts} layouts are recorded, and there were {}",
            meta.layouts
        )));
    }
    stores::verify(conn, meta.stores)?;
    lease::read(conn)?;
    tags(conn)?;
    segments(conn)
}

fn tags(conn: &Connection) -> Result<(), Fault> {
    let mut statement =
        conn.prepare("SELECT store, tag, generation, highest_end, sum FROM tags")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let (store, tag): (String, _) = (get(row, 0)?, read_tag(row, 1)?);
        let state = TagState { generation: get(row, 2)?, highest_end: get(row, 3)? };
        state.check(&store, tag.as_str(), get(row, 4)?)?;
    }
    Ok(())
}

fn segments(conn: &Connection) -> Result<(), Fault> {
    let mut statement = conn.prepare(
        "SELECT s.store, s.tag, s.\"end\", s.first, s.stride, s.mark, s.sum, t.highest_end \
         FROM segments s LEFT JOIN tags t USING (store, tag) ORDER BY s.store, s.tag, s.\"end\"",
    )?;
    let mut rows = statement.query([])?;
    let mut last = (String::new(), String::new(), 0);
    while let Some(row) = rows.next()? {
        let (store, tag): (String, String) = (get(row, 0)?, get(row, 1)?);
        let [end, first, stride, mark] = [get(row, 2)?, get(row, 3)?, get(row, 4)?, get(row, 5)?];
        let segment = Segment { first, end, stride, mark };
        segment.check(&store, &tag, get(row, 6)?)?;
        let highest_end: Option<i64> = get(row, 7)?;
        if highest_end.is_none_or(|highest| highest < segment.end) {
            return Err(Fault::damaged(format!(
                "a segment of tag {tag:?} is not among its claims"
            )));
        }
        if (&last.0, &last.1) == (&store, &tag) && segment.first < last.2 {
            return Err(Fault::damaged(format!("two segments of tag {tag:?} overlap")));
        }
        last = (store, tag, segment.end);
    }
    Ok(())
}
