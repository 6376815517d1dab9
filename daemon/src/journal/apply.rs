//! Applies changes to the tables. Each change is checked against what is recorded: one that would let ids repeat after
//! a restart is the caller's mistake, and is refused.

use leafd_wire::Run;
use rusqlite::Connection;

use super::fault::Fault;
use super::records::{self, JsonRecord};
use super::rows::{SegmentRow, TagState};
use super::{LayoutRecord, Write, stores};
use leafd_core::Tag;
use leafd_core::lease::Recorded;
use leafd_core::store::{Generation, StoreId};

/// Why a batch was not applied.
#[derive(Debug)]
pub(super) enum Problem {
    /// It contradicts what is recorded.
    Refused(String),
    /// The files can't be used.
    Fault(Fault),
}

/// Applies a batch. On an error the caller must roll back the part that was applied.
pub(super) fn batch(conn: &Connection, writes: &[Write]) -> Result<(), Problem> {
    // A mark may go back to the first unissued id only at a stop, when nothing is issued any more.
    let stopping = writes.contains(&Write::StoppedCleanly);
    writes.iter().try_for_each(|write| apply(conn, write, stopping))
}

fn apply(conn: &Connection, write: &Write, stopping: bool) -> Result<(), Problem> {
    match write {
        Write::Segment { store, tag, generation, run, mark } => {
            enter_segment(conn, (store, tag), *generation, (*run, *mark), stopping)
        }
        Write::DrawBack { store, tag, generation, run, mark } => {
            enter_segment(conn, (store, tag), *generation, (*run, *mark), true)
        }
        Write::Mark { store, tag, end, mark } => {
            move_mark(conn, (store, tag), number(*end)?, number(*mark)?, stopping)
        }
        Write::Forget { store, tag } => forget(conn, (store, tag)),
        Write::LayoutMark(record) => enter_layout_mark(conn, record, stopping),
        Write::ForgetAll { store } => {
            conn.execute("DELETE FROM segments WHERE store = ?1", [&*store.0])?;
            Ok(())
        }
        Write::CheckedIn { url, store, history } => stores::check_in(conn, url, store, history),
        Write::History { store, history } => stores::enter_history(conn, store, history),
        Write::Written { store, number } => {
            // A host that goes on as a new one has no token, and the number is the former host's.
            stores::change(conn, store, |record| {
                record.written = if record.token.is_some() { *number } else { 0 };
            })
        }
        Write::LaterEra { store, era } => {
            stores::change(conn, store, |record| record.later_era = *era)
        }
        Write::Worker(claimed) if !claimed.is_valid() => Err(Problem::Refused(
            "the worker's lease can't be recorded: it has no holder, or a value is too large"
                .into(),
        )),
        Write::Worker(claimed) => Ok(records::write(conn, claimed)?),
        Write::NoWorker => Ok(records::remove_all::<Recorded>(conn)?),
        Write::BeginAnew { .. } => {
            conn.execute("DELETE FROM segments", [])?;
            Ok(stores::begin_anew(conn, conn)?)
        }
        Write::StoppedCleanly => Ok(()),
    }
}

fn enter_segment(
    conn: &Connection,
    key: (&StoreId, &Tag),
    generation: Generation,
    (run, mark): (Run, u64),
    exact: bool,
) -> Result<(), Problem> {
    let generation = number(generation.0)?;
    let Some(new) = SegmentRow::of(run, mark) else {
        return refuse(key.1, format!("{run:?} with mark {mark} is not a valid segment"));
    };
    let SegmentRow { first, end, stride, mark } = new;
    let (store, tag) = (&*key.0.0, key.1.as_str());
    let known = TagState::read(conn, key.0, key.1)?;
    if known.is_some_and(|known| known.generation != generation) {
        forget(conn, key)?;
    }
    let highest_end = known.map_or(end, |known| known.highest_end.max(end));
    let state = TagState { generation, highest_end };
    if known != Some(state) {
        state.write(conn, store, tag)?;
    }
    match SegmentRow::first_above(conn, store, tag, first)? {
        // The same claim again: a caller that doesn't know whether it was recorded repeats it. With an exact mark it
        // may also be the rest of a claim from an earlier start: then the caller doesn't know where the claim began.
        Some(old)
            if (old.end, old.stride) == (end, stride)
                && (old.first == first || exact && old.first < first) =>
        {
            set_mark(conn, key, old, mark, exact)
        }
        Some(old) if old.first < end => refuse(
            key.1,
            format!("segment [{first}, {end}) overlaps the recorded [{}, {})", old.first, old.end),
        ),
        _ if mark < end => Ok(new.write(conn, store, tag)?),
        _ => Ok(()),
    }
}

fn move_mark(
    conn: &Connection,
    key: (&StoreId, &Tag),
    end: i64,
    mark: i64,
    stopping: bool,
) -> Result<(), Problem> {
    if mark > end {
        return refuse(key.1, format!("mark {mark} lies beyond its segment's end {end}"));
    }
    let (store, tag) = (&*key.0.0, key.1.as_str());
    match SegmentRow::first_above(conn, store, tag, end.saturating_sub(1))? {
        Some(old) if old.end == end => set_mark(conn, key, old, mark, stopping),
        // The segment is used up or forgotten already, so a restart issues nothing of it: the mark is true. But a
        // segment that was never claimed is a mistake.
        _ => match TagState::read(conn, key.0, key.1)? {
            Some(state) if end <= state.highest_end => Ok(()),
            _ => refuse(key.1, format!("no segment that ends at {end} has been recorded")),
        },
    }
}

fn set_mark(
    conn: &Connection,
    key: (&StoreId, &Tag),
    old: SegmentRow,
    mark: i64,
    stopping: bool,
) -> Result<(), Problem> {
    let (store, tag) = (&*key.0.0, key.1.as_str());
    let parts = mark == old.end || (mark - old.first) % old.stride == 0;
    if mark < old.first || !parts || (mark < old.mark && !stopping) {
        return refuse(
            key.1,
            format!(
                "the mark of [{}, {}) by {} can't go from {} to {mark}",
                old.first, old.end, old.stride, old.mark
            ),
        );
    }
    if mark == old.end {
        conn.prepare_cached("DELETE FROM segments WHERE store = ?1 AND tag = ?2 AND \"end\" = ?3")?
            .execute((store, tag, old.end))?;
    } else if mark != old.mark {
        old.with_mark(mark).write(conn, store, tag)?;
    }
    Ok(())
}

fn forget(conn: &Connection, key: (&StoreId, &Tag)) -> Result<(), Problem> {
    conn.prepare_cached("DELETE FROM segments WHERE store = ?1 AND tag = ?2")?
        .execute((&*key.0.0, key.1.as_str()))?;
    Ok(())
}

fn enter_layout_mark(conn: &Connection, new: &LayoutRecord, stopping: bool) -> Result<(), Problem> {
    if let Err(e) = new.layout.check() {
        return refuse(&new.name, format!("the layout is not valid: {e}"));
    }
    number(new.mark.0)?;
    number(new.layout.epoch_ms)?;
    if let Some(known) = records::read::<LayoutRecord>(conn, new.name.as_str())? {
        if known.layout != new.layout {
            return refuse(
                &new.name,
                format!(
                    "it is recorded as {:?}, and ids of {:?} could repeat its ids; give the new layout another name",
                    known.layout, new.layout
                ),
            );
        }
        if new.mark < known.mark && !stopping {
            let (from, to) = (known.mark.0, new.mark.0);
            return refuse(&new.name, format!("its mark can't move back from {from} to {to}"));
        }
    }
    Ok(records::write(conn, new)?)
}

/// Ids and other numbers above the largest positive signed one can't be recorded. No id is as large.
fn number(value: u64) -> Result<i64, Problem> {
    i64::try_from(value)
        .map_err(|_| Problem::Refused(format!("{value} exceeds the largest signed 64-bit number")))
}

fn refuse(name: &Tag, why: String) -> Result<(), Problem> {
    Err(Problem::Refused(format!("{name:?}: {why}", name = name.as_str())))
}

// === impl Problem ===

impl From<Fault> for Problem {
    fn from(fault: Fault) -> Problem {
        Problem::Fault(fault)
    }
}

impl From<rusqlite::Error> for Problem {
    fn from(e: rusqlite::Error) -> Problem {
        Problem::Fault(e.into())
    }
}
