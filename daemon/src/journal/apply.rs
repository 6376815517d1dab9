//! Applies changes to the tables. Each change is checked against the existing records. A change that would let ids
//! repeat after a restart is a mistake of the caller, and is refused.

use leafd_wire::Run;
use rusqlite::Connection;

use super::fault::Fault;
use super::records::{self, JsonRecord as _, NUMBER_MAX};
use super::tags::{self, Segment, TagState};
use super::{LayoutRecord, Write, stores};
use leafd_core::Tag;
use leafd_core::lease::Recorded;
use leafd_core::store::{Generation, StoreId};

/// Why a batch was not applied.
#[derive(Debug)]
pub(super) enum Problem {
    /// It contradicts the existing records.
    Refused(String),
    /// The files can't be used.
    Fault(Fault),
}

/// Applies a batch. On an error the caller must roll back the part that was applied.
pub(super) fn batch(conn: &Connection, writes: &[Write]) -> Result<(), Problem> {
    // A mark may go back to the first unissued id only at a stop, when no more ids are issued.
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
            move_mark(conn, (store, tag), *end, *mark, stopping)
        }
        Write::Forget { store, tag } => forget(conn, (store, tag)),
        Write::LayoutMark(record) => enter_layout_mark(conn, record, stopping),
        Write::ForgetAll { store } => Ok(tags::forget_segments(conn, Some(store)).map(drop)?),
        Write::CheckedIn { url, store, history } => stores::check_in(conn, url, store, history),
        Write::History { store, history } => stores::enter_history(conn, store, history),
        Write::Written { store, number } => {
            // A host that continues as a new one has no token, and the number is the former host's.
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
            tags::forget_segments(conn, None)?;
            Ok(stores::begin_anew(conn, conn)?)
        }
        Write::StoppedCleanly => Ok(()),
    }
}

fn enter_segment(
    conn: &Connection,
    (store, tag): (&StoreId, &Tag),
    generation: Generation,
    (run, mark): (Run, u64),
    exact: bool,
) -> Result<(), Problem> {
    let generation = number(generation.0)?;
    let Some(new) = Segment::of(run, mark) else {
        return refuse(tag, format!("{run:?} with mark {mark} is not a valid segment"));
    };
    let mut state = TagState::read(conn, store, tag)?.unwrap_or_default();
    state.enter(generation, new, exact).or_else(|why| refuse(tag, why))?;
    Ok(state.write(conn, store, tag)?)
}

fn move_mark(
    conn: &Connection,
    (store, tag): (&StoreId, &Tag),
    end: u64,
    mark: u64,
    stopping: bool,
) -> Result<(), Problem> {
    let mut state = TagState::read(conn, store, tag)?.unwrap_or_default();
    state.move_mark(end, mark, stopping).or_else(|why| refuse(tag, why))?;
    Ok(state.write(conn, store, tag)?)
}

fn forget(conn: &Connection, (store, tag): (&StoreId, &Tag)) -> Result<(), Problem> {
    let Some(mut state) = TagState::read(conn, store, tag)? else { return Ok(()) };
    state.segments.clear();
    Ok(state.write(conn, store, tag)?)
}

fn enter_layout_mark(conn: &Connection, new: &LayoutRecord, stopping: bool) -> Result<(), Problem> {
    if let Err(e) = new.layout.check() {
        return refuse(&new.name, format!("the layout is not valid: {e}"));
    }
    number(new.mark.0)?;
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

/// Numbers above the largest positive signed one can't be recorded. No id is that large.
fn number(value: u64) -> Result<u64, Problem> {
    if value <= NUMBER_MAX {
        return Ok(value);
    }
    Err(Problem::Refused(format!("{value} exceeds the largest signed 64-bit number")))
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
