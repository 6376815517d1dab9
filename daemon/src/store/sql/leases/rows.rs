//! Reads the tables of workers as they are. The hosts of Leaf's fork write to their table too, and operators may repair
//! either table by hand, so every column may contain anything that its type allows.
//!
//! An invalid row still shows that its number was in use, but not until when, so such a number counts as held forever.
//! The same applies to a permanent number where numbers are leased.

use std::sync::Arc;

use super::super::Cells;
use leafd_core::registry::{Entry, Holder, INSTANT_MAX, LeaseRecord, Mode, check_id};
use leafd_core::store::StartToken;
use leafd_core::{UnixMs, WorkerId};

/// A permanent number: a row of `leaf_workerid_alloc`.
#[derive(Clone, Debug)]
pub(super) struct PermanentNumber {
    /// The identity that has the number.
    pub(super) identity: Arc<str>,
    /// Ids with times before this instant were issued. leafd also records here how far ahead it may issue.
    until: UnixMs,
}

/// The content of a row, or what is wrong with it.
pub(super) type Read<T> = Result<T, String>;

/// The number in a row's first column.
pub(super) fn number(row: &Cells) -> Option<u64> {
    row.first()?.as_ref()?.parse().ok()
}

/// A row of `leafd_worker`: worker, holder, name, incarnation, bound, seen, written.
pub(super) fn leased(row: Cells) -> Read<Entry> {
    let [worker, holder, name, incarnation, bound, seen, written] = columns(row)?;
    let worker = WorkerId(whole("worker", worker)?);
    let holder = match holder {
        None => None,
        Some(id) => Some(Holder {
            id: text("holder", Some(id))?,
            name: text("name", name)?,
            incarnation: StartToken(text("incarnation", incarnation)?),
        }),
    };
    let holding = LeaseRecord { holder, expires: UnixMs(whole("bound", bound)?) };
    let (seen, written) = (UnixMs(whole("seen", seen)?), UnixMs(whole("written", written)?));
    Ok(Entry { worker, holding, seen, written })
}

/// A row of `leaf_workerid_alloc`: id, ip_port, max_timestamp.
pub(super) fn given(row: Cells) -> Read<PermanentNumber> {
    let [_, identity, until] = columns(row)?;
    let until = until.map_or(Ok(0), |until| whole("max_timestamp", Some(until)))?;
    Ok(PermanentNumber { identity: text("ip_port", identity)?, until: UnixMs(until) })
}

/// What is recorded of a worker, from its rows in both tables; `None` when it is free.
pub(super) fn recorded(
    mode: Mode,
    worker: WorkerId,
    leased: Option<Read<Entry>>,
    given: Option<Read<PermanentNumber>>,
) -> Option<Read<Entry>> {
    match (mode, given) {
        (Mode::Leased, None) => leased,
        (Mode::Leased, Some(given)) => Some(Ok(for_ever(worker, given.ok()))),
        (Mode::Permanent, None) => None,
        (Mode::Permanent, Some(Err(odd))) => Some(Err(odd)),
        (Mode::Permanent, Some(Ok(given))) => match leased {
            Some(Err(odd)) => Some(Err(odd)),
            Some(Ok(leased)) => Some(Ok(both(leased, &given))),
            None => Some(Ok(new(worker, &given))),
        },
    }
}

/// An entry for a worker that no host can take.
pub(super) fn for_ever(worker: WorkerId, given: Option<PermanentNumber>) -> Entry {
    let mut entry = match given {
        Some(given) => new(worker, &given),
        None => {
            let holding = LeaseRecord { holder: None, expires: INSTANT_MAX };
            Entry { worker, holding, seen: UnixMs(0), written: UnixMs(0) }
        }
    };
    entry.holding.expires = INSTANT_MAX;
    entry
}

/// The entry of a permanent number for which leafd has written nothing yet.
fn new(worker: WorkerId, given: &PermanentNumber) -> Entry {
    let (id, name) = (Arc::clone(&given.identity), Arc::clone(&given.identity));
    let holder = Holder { id, name, incarnation: StartToken("".into()) };
    let holding = LeaseRecord { holder: Some(holder), expires: given.until };
    Entry { worker, holding, seen: given.until, written: given.until }
}

/// The entry of a permanent number for which leafd has written a row, perhaps for another holder. The next holder
/// starts above both bounds.
fn both(leased: Entry, given: &PermanentNumber) -> Entry {
    let bound = leased.holding.expires.max(given.until);
    let same = leased.holding.holder.as_ref().is_some_and(|holder| holder.id == given.identity);
    let mut entry = if same { leased } else { new(leased.worker, given) };
    entry.holding.expires = bound;
    entry
}

fn columns<const COUNT: usize>(row: Cells) -> Read<[Option<String>; COUNT]> {
    row.try_into().map_err(|row: Cells| format!("it has {} columns", row.len()))
}

/// A whole number of 0 or more, up to the largest instant.
fn whole(column: &str, cell: Option<String>) -> Read<u64> {
    let cell = cell.ok_or_else(|| format!("its {column} is empty"))?;
    let number = cell.parse::<u64>().ok().filter(|number| *number <= INSTANT_MAX.0);
    number.ok_or_else(|| format!("its {column} is {cell:?} instead of a whole number of 0 or more"))
}

fn text(column: &str, cell: Option<String>) -> Read<Arc<str>> {
    let cell = cell.ok_or_else(|| format!("its {column} is empty"))?;
    check_id(column, &cell)?;
    Ok(cell.into())
}
