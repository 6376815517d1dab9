//! The store as a registry of workers: tables beside the tags, on the same connection, so that a daemon needs no second
//! one.
//!
//! Everything is decided here, the same for every backend; a backend supplies a transaction and its dialect. Within one,
//! what is compared is read and locked first, then the database's own clock, and then it is written.
//!
//! `leafd_worker` has what leafd records of each worker, in either mode. `leaf_workerid_alloc` is the table of Leaf's
//! widely used fork, which gives each `ip:port` a number for good; it says who has such a number, and its
//! `max_timestamp` is kept in step, so that hosts of the fork and ours can share it. A number that is in it can't be
//! leased.
//!
//! - `rows`: rows as they are, odd ones included.

mod rows;

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use leafd_wire::Layout as IdLayout;

use super::network::{Layout, Param};
use super::{History, Identity};
use crate::id::{Tag, UnixMs, WorkerId};
use crate::registry::{
    Entry, Holding, Look, Mode, Registry, RegistryError, RegistryId, Swap, definition,
};

pub(super) use rows::Cells;

/// A dialect. Parameters are in the order of each statement's documentation; every column comes as text.
#[derive(Debug)]
pub struct Statements {
    /// The tables, and the types that are as good as ours for each column.
    pub tables: &'static [Layout],
    /// A row for each way in which the tables can't be used safely, in words; empty where nothing can be wrong.
    pub defects: &'static str,
    /// Keeps others of us from giving numbers and recording layouts meanwhile; empty where every transaction does.
    pub lock: &'static str,
    /// (first, end): the seven columns of `leafd_worker` for a range of workers, in ascending order.
    pub list: &'static str,
    /// (worker): the same of one worker, locked.
    pub find: &'static str,
    /// (worker, holder, name, incarnation, bound, seen, written): fails where the worker has a row.
    pub enter: &'static str,
    /// The same, for a worker that has a row.
    pub replace: &'static str,
    /// (first, end): number, identity and time of the numbers given for good, in ascending order.
    pub given: &'static str,
    /// (identity): the same of one identity.
    pub given_to: &'static str,
    /// (number, address, port, identity, time)
    pub give: &'static str,
    /// (number, time)
    pub keep_time: &'static str,
    /// Name and definition of every layout.
    pub layouts: &'static str,
    /// (name, definition)
    pub enter_layout: &'static str,
}

/// The tables within one transaction.
pub(super) trait Tables {
    /// Why a statement fails.
    type Failure;

    /// The dialect.
    fn sql(&self) -> &'static Statements;

    /// Runs a query; every column as text.
    fn cells(&mut self, sql: &str, params: &[Param<'_>]) -> Result<Vec<Cells>, Self::Failure>;

    /// Runs a statement.
    fn run(&mut self, sql: &str, params: &[Param<'_>]) -> Result<(), Self::Failure>;

    /// The database's clock, now.
    fn clock(&mut self) -> Result<UnixMs, Self::Failure>;

    /// See [`Look::history_age`].
    fn history_age(&mut self, history: &History) -> Result<Option<Duration>, Self::Failure>;
}

/// What a transaction comes to: the inner error is the registry's answer, and nothing was written then.
pub(super) type Answer<T, F> = Result<Result<T, RegistryError>, F>;

/// What is done in a transaction of the registry that it is told.
pub(super) type Work<'a, T, F> =
    dyn Fn(&mut dyn Tables<Failure = F>, RegistryId) -> Answer<T, F> + 'a;

/// A store that has the tables, or can say why not.
pub(super) trait WorkerStore: Send {
    /// Why a statement fails.
    type Failure;

    /// Runs `work` in one transaction and commits it. It may be run again when somebody else entered the same row
    /// meanwhile.
    fn with_tables<T>(&mut self, work: &Work<'_, T, Self::Failure>) -> Result<T, RegistryError>;
}

/// A store as a registry.
#[derive(Debug)]
pub(super) struct Workers<'a, S> {
    pub(super) store: &'a mut S,
    pub(super) mode: Mode,
}

impl From<Identity> for RegistryId {
    /// What the store is among several says nothing about its workers.
    fn from(store: Identity) -> RegistryId {
        RegistryId { id: store.id, history: store.history }
    }
}

impl<S: WorkerStore> Registry for Workers<'_, S> {
    fn agree(&mut self, layouts: &[(Tag, IdLayout)]) -> Result<(), RegistryError> {
        self.store.with_tables(&|tables, _| agree(tables, layouts))
    }

    fn look(&mut self, pool: Range<u64>) -> Result<Look, RegistryError> {
        let mode = self.mode;
        self.store.with_tables(&|tables, registry| {
            let history_age = tables.history_age(&registry.history)?;
            let now = tables.clock()?;
            let entries = entries(tables, mode, &pool)?;
            Ok(Ok(Look { registry, history_age, now, entries }))
        })
    }

    fn swap(&mut self, under: &RegistryId, swap: &Swap) -> Result<UnixMs, RegistryError> {
        swap.next.check(Some(swap.worker))?;
        let mode = self.mode;
        self.store.with_tables(&|tables, registry| match registry.check(under) {
            Ok(()) => exchange(tables, mode, swap),
            Err(changed) => Ok(Err(changed)),
        })
    }

    fn bind(
        &mut self,
        under: &RegistryId,
        pool: Range<u64>,
        holding: &Holding,
    ) -> Result<Entry, RegistryError> {
        if self.mode == Mode::Leased {
            return refused(
                "numbers of this registry are leased: none is given for good".to_owned(),
            );
        }
        holding.check(None)?;
        self.store.with_tables(&|tables, registry| match registry.check(under) {
            Ok(()) => give(tables, &pool, holding),
            Err(changed) => Ok(Err(changed)),
        })
    }
}

fn agree<F>(tables: &mut dyn Tables<Failure = F>, layouts: &[(Tag, IdLayout)]) -> Answer<(), F> {
    let sql = tables.sql();
    lock(tables)?;
    let recorded = tables.cells(sql.layouts, &[])?;
    let recorded: BTreeMap<String, String> = recorded
        .into_iter()
        .filter_map(|row| {
            let mut cells = row.into_iter();
            Some((cells.next()??, cells.next().flatten().unwrap_or_default()))
        })
        .collect();
    let mut new = BTreeMap::new();
    for (name, layout) in layouts {
        let defined = definition(layout);
        let known = recorded.get(name.as_str()).or_else(|| new.get(name.as_str()));
        match known {
            Some(known) if *known == defined => {}
            Some(known) => {
                return Ok(refused(format!(
                    "layout {:?} is recorded in the worker registry as {known}, but is configured as {defined}: all \
                     hosts must mean the same by it; correct the configuration, or give the layout another name",
                    name.as_str()
                )));
            }
            None => drop(new.insert(name.as_str().to_owned(), defined)),
        }
    }
    for (name, defined) in &new {
        tables.run(sql.enter_layout, &[Param::Text(name), Param::Text(defined)])?;
    }
    Ok(Ok(()))
}

/// What is recorded of the workers of a pool. Odd rows are said in the log, and count as held for ever.
fn entries<F>(
    tables: &mut dyn Tables<Failure = F>,
    mode: Mode,
    pool: &Range<u64>,
) -> Result<Vec<Entry>, F> {
    let sql = tables.sql();
    let mut found = BTreeMap::new();
    for row in tables.cells(sql.list, &range(pool))? {
        if let Some(number) = rows::number(&row) {
            found.insert(number, (Some(rows::leased(row)), None));
        }
    }
    for row in tables.cells(sql.given, &range(pool))? {
        if let Some(number) = rows::number(&row) {
            found.entry(number).or_insert((None, None)).1 = Some(rows::given(row));
        }
    }
    let recorded = found.into_iter().filter_map(|(number, (leased, given))| {
        let worker = WorkerId(number);
        let entry = rows::recorded(mode, worker, leased, given)?;
        Some(entry.unwrap_or_else(|odd| {
            tracing::warn!(%worker, %odd, "what is recorded of a worker can't be used; nobody gets it until it is repaired");
            rows::for_ever(worker, None)
        }))
    });
    Ok(recorded.collect())
}

fn exchange<F>(tables: &mut dyn Tables<Failure = F>, mode: Mode, swap: &Swap) -> Answer<UnixMs, F> {
    let (sql, worker) = (tables.sql(), swap.worker);
    let Ok(number) = i64::try_from(worker.0) else {
        return Ok(refused(format!("there is no worker {worker}: the table holds no such number")));
    };
    let leased = tables.cells(sql.find, &[Param::Integer(number)])?.into_iter().next();
    let given = given(tables, worker)?;
    let (has_row, is_given) = (leased.is_some(), given.is_some());
    let found = match rows::recorded(mode, worker, leased.map(rows::leased), given) {
        Some(Err(odd)) => return Ok(refused(unusable(worker, &odd))),
        Some(Ok(entry)) => Some(entry),
        None => None,
    };
    let owner = found.as_ref().and_then(|entry| entry.holding.holder.clone());
    let now = tables.clock()?;
    if let Err(said) = swap.judge(found, now) {
        return Ok(Err(said));
    }
    let next = swap.next.holder.as_ref();
    match (mode, is_given, owner) {
        (Mode::Leased, false, _) => {}
        (Mode::Permanent, true, Some(owner)) if next.is_some_and(|next| next.id == owner.id) => {}
        (_, false, _) => {
            return Ok(refused(format!("worker {worker} was given to nobody for good")));
        }
        (_, true, owner) => {
            return Ok(refused(format!(
                "worker {worker} was given to {:?} for good, by leaf_workerid_alloc",
                owner.map_or("nobody".into(), |owner| owner.id)
            )));
        }
    }
    let write = if has_row { sql.replace } else { sql.enter };
    write_holding(tables, write, number, &swap.next, swap.seen, now)?;
    if is_given {
        let until = instant(swap.next.bound);
        tables.run(sql.keep_time, &[Param::Integer(number), Param::Integer(until)])?;
    }
    Ok(Ok(now))
}

fn give<F>(
    tables: &mut dyn Tables<Failure = F>,
    pool: &Range<u64>,
    holding: &Holding,
) -> Answer<Entry, F> {
    let Some(holder) = &holding.holder else {
        return Ok(refused("a worker is given for good to somebody, not to nobody".to_owned()));
    };
    let sql = tables.sql();
    lock(tables)?;
    let mine = tables.cells(sql.given_to, &[Param::Text(&holder.id)])?;
    if let Some(row) = mine.into_iter().next() {
        return theirs(tables, pool, &holder.id, row);
    }
    // The fork's numbers begin with 1, and count on from the highest, also when one below has become free: its
    // former owner may still be there.
    let given = tables.cells(sql.given, &range(pool))?;
    let highest = given.iter().filter_map(rows::number).max();
    let first = highest.map_or(pool.start, |highest| highest + 1).max(1);
    let leased = tables.cells(sql.list, &range(pool))?;
    let mut leased =
        leased.iter().filter_map(rows::number).filter(|number| *number >= first).peekable();
    let free = (first..pool.end).find(|number| leased.next_if_eq(number).is_none());
    let number = free.and_then(|number| i64::try_from(number).ok().zip(Some(WorkerId(number))));
    let Some((number, worker)) = number else {
        return Ok(Err(RegistryError::Exhausted(format!(
            "of the workers {} to {}, {} were given in leaf_workerid_alloc, the highest being {}; give the numbers of \
             hosts that are gone for good to others by changing ip_port there with SQL, or let the pool reach further",
            pool.start.max(1),
            pool.end.saturating_sub(1),
            given.len(),
            highest.map_or("none".to_owned(), |highest| highest.to_string()),
        ))));
    };
    let now = tables.clock()?;
    if holding.bound > crate::registry::INSTANT_MAX {
        return Ok(Err(RegistryError::TooFarAhead { now, bound: holding.bound }));
    }
    let (address, port) = match holder.id.rsplit_once(':') {
        Some((address, port)) => (address, Some(port)),
        None => (&*holder.id, None),
    };
    let row = [
        Param::Integer(number),
        Param::Text(address),
        Param::OptionalText(port),
        Param::Text(&holder.id),
        Param::Integer(instant(holding.bound)),
    ];
    tables.run(sql.give, &row)?;
    write_holding(tables, sql.enter, number, holding, now, now)?;
    Ok(Ok(Entry { worker, holding: holding.clone(), seen: now, written: now }))
}

/// The entry of who has a number for good already.
fn theirs<F>(
    tables: &mut dyn Tables<Failure = F>,
    pool: &Range<u64>,
    id: &str,
    row: Cells,
) -> Answer<Entry, F> {
    let Some(number) = rows::number(&row) else {
        return Ok(refused(format!("the row of {id:?} in leaf_workerid_alloc has no usable id")));
    };
    if !pool.contains(&number) {
        return Ok(Err(RegistryError::Exhausted(format!(
            "leaf_workerid_alloc gave {id:?} the number {number}, which is not one of {} to {}",
            pool.start,
            pool.end.saturating_sub(1)
        ))));
    }
    let worker = WorkerId(number);
    let number = number.cast_signed();
    let leased = tables.cells(tables.sql().find, &[Param::Integer(number)])?.into_iter().next();
    let given = rows::given(row);
    if let Ok(given) = &given
        && *given.identity != *id
    {
        return Ok(refused(format!(
            "leaf_workerid_alloc.ip_port takes {id:?} and {:?} for the same: give the column a collation that tells them \
             apart, or the host another identity",
            given.identity
        )));
    }
    let entry = rows::recorded(Mode::Permanent, worker, leased.map(rows::leased), Some(given));
    match entry {
        Some(Ok(entry)) => Ok(Ok(entry)),
        Some(Err(odd)) => Ok(refused(unusable(worker, &odd))),
        None => Ok(refused(unusable(worker, "it is gone"))),
    }
}

fn lock<F>(tables: &mut dyn Tables<Failure = F>) -> Result<(), F> {
    match tables.sql().lock {
        "" => Ok(()),
        lock => tables.cells(lock, &[]).map(drop),
    }
}

/// To whom a worker was given for good.
fn given<F>(
    tables: &mut dyn Tables<Failure = F>,
    worker: WorkerId,
) -> Result<Option<rows::Read<rows::Given>>, F> {
    let one = worker.0..worker.0.saturating_add(1);
    let row = tables.cells(tables.sql().given, &range(&one))?.into_iter().next();
    Ok(row.map(rows::given))
}

fn write_holding<F>(
    tables: &mut dyn Tables<Failure = F>,
    write: &str,
    worker: i64,
    holding: &Holding,
    seen: UnixMs,
    written: UnixMs,
) -> Result<(), F> {
    let holder = holding.holder.as_ref();
    let params = [
        Param::Integer(worker),
        Param::OptionalText(holder.map(|holder| &*holder.id)),
        Param::OptionalText(holder.map(|holder| &*holder.name)),
        Param::OptionalText(holder.map(|holder| &*holder.incarnation.0)),
        Param::Integer(instant(holding.bound)),
        Param::Integer(instant(seen)),
        Param::Integer(instant(written)),
    ];
    tables.run(write, &params)
}

/// As a table holds it. A clock beyond that is as wrong at the end of time as it is there.
fn instant(at: UnixMs) -> i64 {
    i64::try_from(at.0).unwrap_or(i64::MAX)
}

fn range(pool: &Range<u64>) -> [Param<'static>; 2] {
    let end = |number: u64| Param::Integer(i64::try_from(number).unwrap_or(i64::MAX));
    [end(pool.start), end(pool.end)]
}

fn unusable(worker: WorkerId, odd: &str) -> String {
    format!(
        "what is recorded of worker {worker} in leafd_worker or leaf_workerid_alloc can't be used: {odd}; repair it \
         with SQL, above all instants that it was used at"
    )
}

fn refused<T>(words: String) -> Result<T, RegistryError> {
    Err(RegistryError::Refused(words))
}
