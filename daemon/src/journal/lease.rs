//! The row of the host's snowflake worker: the lease that it may use, also while the registry can't be reached.

use rusqlite::{Connection, OptionalExtension, Row};

use super::apply::{Problem, number};
use super::fault::Fault;
use super::rows::{Sum, get};
use leafd_core::lease::Recorded;
use leafd_core::registry::{HOLDER_BYTES_MAX, Holder, LeaseRecord, RegistryId};
use leafd_core::store::{History, StartToken, StoreId};
use leafd_core::{UnixMs, WorkerId};

/// Longest text in the row, for instance the registry's place or history.
const TEXT_BYTES_MAX: usize = 8_192;

/// The row's columns, without the sum over all of them. A holding is three texts and a bound. If there is no `earlier`
/// holding, its incarnation is NULL.
const COLUMNS: &str = "place, registry, history, holder, name, incarnation, earlier, worker, start, bound, \
                       earlier_bound";

/// The texts and numbers of a row.
type Cells = ([String; 6], Option<String>, [i64; 4]);

/// Records a claim instead of the one that was recorded.
pub(super) fn write(conn: &Connection, claim: &Recorded) -> Result<(), Problem> {
    let cells = cells(claim)?;
    let sum = sum(&cells);
    let ([place, registry, history, holder, name, incarnation], earlier, numbers) = cells;
    let [worker, start, bound, earlier_bound] = numbers;
    conn.prepare_cached(&format!(
        "INSERT OR REPLACE INTO claim (one, {COLUMNS}, sum) VALUES (1,?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12)"
    ))?
    .execute((
        place,
        registry,
        history,
        holder,
        name,
        incarnation,
        earlier,
        worker,
        start,
        bound,
        earlier_bound,
        sum,
    ))?;
    Ok(())
}

/// Forgets the claim.
pub(super) fn forget(conn: &Connection) -> Result<(), Problem> {
    conn.execute("DELETE FROM claim", [])?;
    Ok(())
}

/// The claim, if there is one.
pub(super) fn read(conn: &Connection) -> Result<Option<Recorded>, Fault> {
    let row = conn
        .prepare_cached(&format!("SELECT {COLUMNS}, sum FROM claim"))?
        .query_row([], |row| Ok(from_row(row)))
        .optional()?;
    row.transpose()
}

fn cells(claim: &Recorded) -> Result<Cells, Problem> {
    let refused =
        |what: &str| Problem::Refused(format!("the worker's lease can't be recorded: {what}"));
    let holder = claim.holding.holder.as_ref().ok_or_else(|| refused("it has no holder"))?;
    let earlier = claim.earlier.as_ref();
    let earlier_incarnation = earlier.map(|earlier| match &earlier.holder {
        Some(other) if other.id == holder.id && other.name == holder.name => {
            Ok(other.incarnation.0.to_string())
        }
        _ => Err(refused("its former holder is another host")),
    });
    let texts: [&str; 6] = [
        &claim.place,
        &claim.registry.id.0,
        &claim.registry.history.0,
        &holder.id,
        &holder.name,
        &holder.incarnation.0,
    ];
    let long = |text: &&str| text.len() > TEXT_BYTES_MAX;
    let long_id = |text: &&str| text.len() > HOLDER_BYTES_MAX;
    if texts.iter().any(long) || texts[3..].iter().any(long_id) {
        return Err(refused("a text in it is too long"));
    }
    let numbers = [
        number(claim.worker.0)?,
        number(claim.start.0)?,
        number(claim.holding.expires.0)?,
        number(earlier.map_or(0, |earlier| earlier.expires.0))?,
    ];
    Ok((texts.map(str::to_owned), earlier_incarnation.transpose()?, numbers))
}

fn sum((texts, earlier, numbers): &Cells) -> i64 {
    let sum = texts.iter().fold(Sum::of("claim"), |sum, text| sum.text(text));
    let sum = sum.int(i64::from(earlier.is_some())).text(earlier.as_deref().unwrap_or_default());
    numbers.iter().fold(sum, |sum, number| sum.int(*number)).get()
}

fn from_row(row: &Row<'_>) -> Result<Recorded, Fault> {
    let bad = || Fault::damaged("the worker's lease is not as it was written");
    let mut texts: [String; 6] = Default::default();
    for (column, text) in texts.iter_mut().enumerate() {
        *text = get(row, column)?;
    }
    let earlier: Option<String> = get(row, 6)?;
    let mut numbers = [0; 4];
    for (column, number) in numbers.iter_mut().enumerate() {
        *number = get(row, 7 + column)?;
    }
    let cells = (texts, earlier, numbers);
    if get::<i64>(row, 11)? != sum(&cells) {
        return Err(bad());
    }
    let ([place, registry, history, id, name, incarnation], earlier, numbers) = cells;
    let mut positive = [0; 4];
    for (positive, number) in positive.iter_mut().zip(numbers) {
        *positive = u64::try_from(number).map_err(|_| bad())?;
    }
    let [worker, start, bound, earlier_bound] = positive;
    let holder =
        Holder { id: id.into(), name: name.into(), incarnation: StartToken(incarnation.into()) };
    let earlier = earlier.map(|incarnation| LeaseRecord {
        holder: Some(Holder { incarnation: StartToken(incarnation.into()), ..holder.clone() }),
        expires: UnixMs(earlier_bound),
    });
    Ok(Recorded {
        place: place.into(),
        registry: RegistryId { id: StoreId(registry.into()), history: History(history.into()) },
        worker: WorkerId(worker),
        start: UnixMs(start),
        holding: LeaseRecord { holder: Some(holder), expires: UnixMs(bound) },
        earlier,
    })
}
