//! The store as a registry of workers. Its tables are in the same database as those of the tags, and its calls use the
//! same connection, so that a daemon needs only one.
//!
//! The decisions are made here, the same for every backend; a backend supplies transactions and its dialect. A
//! transaction first reads and locks what it compares, then reads the database's clock, and writes last.
//!
//! `leafd_worker` has leafd's record of each worker, leased or permanent. `leaf_workerid_alloc` is the table of Leaf's
//! widely used fork, which assigns each `ip:port` a number permanently. leafd also updates its `max_timestamp`, so that
//! hosts of the fork and of leafd can share the table. A number in this table can't be leased.
//!
//! - `rows`: reads rows as they are, unusable ones included.

mod rows;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use leafd_wire::Layout as IdLayout;

use super::calls::Store;
use super::session::{Session, now_ms};
use super::{Cells, Param, SqlError, params, statements};
use crate::registry::Registry;
use leafd_core::registry::{
    CompareAndSet, Entry, Former, LeaseRecord, Mode, RegistryError, RegistryId, Snapshot, Taking,
    new_layouts,
};
use leafd_core::{Tag, UnixMs, WorkerId};

/// How often to try if another host inserts the same row first. Hosts of Leaf's fork insert theirs without a lock.
const TRIES_MAX: u32 = 8;

/// How many of the next numbers of the fork's table are not leased. This many of its hosts may register before each of
/// ours has renewed its lease, which checks the table.
const NEXT_KEPT_OUT: u64 = 32;

/// A store as a registry of workers.
#[derive(Debug)]
pub(super) struct Leases<'a> {
    pub(super) store: &'a mut Store,
    pub(super) mode: Mode,
}

impl Leases<'_> {
    /// Runs `work` in one transaction, and commits it. `work` gets the registry's identity. It runs again if another
    /// host inserted the same row.
    fn transact<T>(
        &mut self,
        work: impl Fn(&mut Session, RegistryId) -> Result<T, SqlError>,
    ) -> Result<T, RegistryError> {
        let mut once = || {
            self.store.transact(|session| {
                session.require_workers()?;
                let registry = session.identity()?.into();
                work(session, registry)
            })
        };
        let mut answer = once();
        for _ in 1..TRIES_MAX {
            // The row exists now, so the next attempt sees it.
            let Err(SqlError::Duplicate(_)) = answer else { break };
            answer = once();
        }
        answer.map_err(|failure| match failure {
            SqlError::Registry(error) => error,
            other => other.answer(&self.store.location).into(),
        })
    }
}

impl Registry for Leases<'_> {
    fn register_layouts(&mut self, layouts: &[(Tag, IdLayout)]) -> Result<(), RegistryError> {
        self.transact(|session, _| agree(session, layouts))
    }

    fn snapshot(&mut self, pool: Range<u64>) -> Result<Snapshot, RegistryError> {
        let mode = self.mode;
        self.transact(|session, registry| {
            let history_age = session.unsettled_for();
            let now = clock(session)?;
            let mut entries = entries(session, mode, &pool)?;
            if mode == Mode::Leased {
                let next = next_given(&session.driver.query(statements::HIGHEST, &[])?);
                entries.retain(|entry| !next.contains(&entry.worker.0));
                let kept_out = next.filter(|worker| pool.contains(worker));
                entries.extend(kept_out.map(|worker| rows::for_ever(WorkerId(worker), None)));
                entries.sort_unstable_by_key(|entry| entry.worker);
            }
            Ok(Snapshot { registry, history_age, now, entries })
        })
    }

    fn compare_and_set(
        &mut self,
        under: &RegistryId,
        swap: &CompareAndSet,
    ) -> Result<UnixMs, RegistryError> {
        swap.next.check(Some(swap.worker))?;
        let mode = self.mode;
        self.transact(|session, registry| {
            registry.check(under)?;
            exchange(session, mode, swap)
        })
    }

    fn assign(
        &mut self,
        under: &RegistryId,
        pool: Range<u64>,
        holding: &LeaseRecord,
    ) -> Result<Entry, RegistryError> {
        if self.mode == Mode::Leased {
            return Err(RegistryError::Refused(
                "this registry leases worker numbers; it assigns none permanently".into(),
            ));
        }
        holding.check(None)?;
        self.transact(|session, registry| {
            registry.check(under)?;
            give(session, &pool, holding)
        })
    }

    fn former(&mut self, worker: WorkerId, at: UnixMs) -> Result<Option<Former>, RegistryError> {
        let found = self.store.read(|session| {
            session.require_workers()?;
            session.takings(worker, at)
        });
        Ok(Some(found?))
    }
}

impl Store {
    /// The registry's clock, and the records of the workers in a pool. Unlike a snapshot, this writes nothing.
    pub(super) fn look_at_workers(
        &mut self,
        mode: Mode,
        pool: &Range<u64>,
    ) -> Result<(UnixMs, Vec<Entry>), RegistryError> {
        let found = self.read(|session| {
            session.require_workers()?;
            Ok((clock(session)?, entries(session, mode, pool)?))
        });
        found.map_err(RegistryError::from)
    }
}

fn agree(session: &mut Session, layouts: &[(Tag, IdLayout)]) -> Result<(), SqlError> {
    lock(session)?;
    let recorded = session.driver.query(statements::LAYOUTS, &[])?.into_iter();
    let recorded = recorded.filter_map(|row| {
        let mut cells = row.into_iter();
        Some((cells.next()??, cells.next().flatten().unwrap_or_default()))
    });
    for (name, definition) in new_layouts(&recorded.collect(), layouts)? {
        session.driver.execute(statements::ENTER_LAYOUT, params![&*name, &*definition])?;
    }
    Ok(())
}

/// The records of the workers in a pool. A row that can't be used is logged, and counts as held forever.
fn entries(session: &mut Session, mode: Mode, pool: &Range<u64>) -> Result<Vec<Entry>, SqlError> {
    let mut found = BTreeMap::new();
    for row in session.driver.query(statements::LIST_WORKERS, &range(pool))? {
        if let Some(number) = rows::number(&row) {
            found.insert(number, (Some(rows::leased(row)), None));
        }
    }
    for row in session.driver.query(statements::PERMANENT, &range(pool))? {
        if let Some(number) = rows::number(&row) {
            found.entry(number).or_insert((None, None)).1 = Some(rows::given(row));
        }
    }
    let recorded = found.into_iter().filter_map(|(number, (leased, given))| {
        let worker = WorkerId(number);
        let entry = rows::recorded(mode, worker, leased, given)?;
        Some(entry.unwrap_or_else(|odd| {
            tracing::warn!(%worker, %odd, "the record of a worker can't be used; no host gets the worker until it is repaired");
            rows::for_ever(worker, None)
        }))
    });
    Ok(recorded.collect())
}

/// The numbers that the fork's hosts get next, if there are any: its table continues from the highest.
fn next_given(highest: &[Cells]) -> Range<u64> {
    let first = highest.first().and_then(rows::number).map(|highest| highest.saturating_add(1));
    first.map_or(0..0, |first| first..first.saturating_add(NEXT_KEPT_OUT))
}

fn exchange(session: &mut Session, mode: Mode, swap: &CompareAndSet) -> Result<UnixMs, SqlError> {
    let worker = swap.worker;
    let Ok(number) = i64::try_from(worker.0) else {
        return Err(refused(format!(
            "worker {worker} is out of range: the table can't hold such a number"
        )));
    };
    let rows = session.driver.query_together(&[
        (statements::FIND_WORKER, params![number]),
        (statements::PERMANENT, &range(&(worker.0..worker.0.saturating_add(1)))),
        (statements::HIGHEST, &[]),
        (statements::NOW_MS, &[]),
    ])?;
    let Ok([leased, given, highest, now]) = <[Vec<Cells>; 4]>::try_from(rows) else {
        return Err(refused("a query has no answer".to_owned()));
    };
    let now = UnixMs(now_ms(now)?);
    let leased = leased.into_iter().next();
    let given = given.into_iter().next().map(rows::given);
    let (has_row, is_given) = (leased.is_some(), given.is_some());
    let found = match rows::recorded(mode, worker, leased.map(rows::leased), given) {
        Some(Err(odd)) => return Err(refused(unusable(worker, &odd))),
        Some(Ok(entry)) => Some(entry),
        None => None,
    };
    let found = match mode {
        Mode::Leased if !is_given && next_given(&highest).contains(&worker.0) => {
            Some(rows::for_ever(worker, None))
        }
        _ => found,
    };
    let owner = found.as_ref().and_then(|entry| entry.holding.holder.clone());
    let since = found.as_ref().map_or(UnixMs(0), |entry| entry.holding.expires);
    if let Err(said) = swap.judge(found, now) {
        return Err(said.into());
    }
    let next = swap.next.holder.as_ref();
    let former = owner.as_ref().map(|owner| Arc::clone(&owner.id));
    match (mode, is_given, owner) {
        (Mode::Leased, false, _) => {}
        (Mode::Permanent, true, Some(owner)) if next.is_some_and(|next| next.id == owner.id) => {}
        (_, false, _) => {
            return Err(refused(format!("worker {worker} is not permanently assigned")));
        }
        (_, true, owner) => {
            return Err(refused(format!(
                "worker {worker} is permanently assigned to {:?}, by leaf_workerid_alloc",
                owner.map_or("nobody".into(), |owner| owner.id)
            )));
        }
    }
    if let Some(holder) = next.filter(|next| former.is_none_or(|former| former != next.id)) {
        let taking = Taking { holder: holder.clone(), since, taken: now };
        session.enter_taking(number, &taking)?;
    }
    if is_given {
        session.driver.execute(statements::KEEP_TIME, params![number, swap.next.expires])?;
    }
    // This doesn't end settling, because the host may be reporting a lease that the store has lost, before the others
    // have reported theirs.
    let write = if has_row { statements::REPLACE_WORKER } else { statements::ENTER_WORKER };
    session.prove_and_commit(&[(write, &holding_row(number, &swap.next, swap.seen, now))])?;
    Ok(now)
}

fn give(
    session: &mut Session,
    pool: &Range<u64>,
    holding: &LeaseRecord,
) -> Result<Entry, SqlError> {
    let Some(holder) = &holding.holder else {
        return Err(refused("a permanent worker needs a holder".to_owned()));
    };
    lock(session)?;
    if let Some(row) = session.row(statements::PERMANENT_OF, params![&*holder.id])? {
        return theirs(session, pool, &holder.id, row);
    }
    // The fork's numbers begin with 1 and go up from the highest one. A lower number that has become free is not used
    // again: its former owner may still be running.
    let given = session.driver.query(statements::PERMANENT, &range(pool))?;
    let highest = given.iter().filter_map(rows::number).max();
    let first = highest.map_or(pool.start, |highest| highest + 1).max(1);
    let leased = session.driver.query(statements::LIST_WORKERS, &range(pool))?;
    let mut leased =
        leased.iter().filter_map(rows::number).filter(|number| *number >= first).peekable();
    let free = (first..pool.end).find(|number| leased.next_if_eq(number).is_none());
    let number = free.and_then(|number| i64::try_from(number).ok().zip(Some(WorkerId(number))));
    let Some((number, worker)) = number else {
        return Err(SqlError::Registry(RegistryError::Exhausted(format!(
            "of the workers {} to {}, {} are assigned in leaf_workerid_alloc, the highest being {}. Reassign the \
             numbers of hosts that no longer exist by changing ip_port there with SQL, or extend the pool",
            pool.start.max(1),
            pool.end.saturating_sub(1),
            given.len(),
            highest.map_or("none".to_owned(), |highest| highest.to_string()),
        ))));
    };
    let now = clock(session)?;
    if holding.expires > leafd_core::registry::INSTANT_MAX {
        return Err(SqlError::Registry(RegistryError::TooFarAhead { now, bound: holding.expires }));
    }
    let (address, port) = match holder.id.rsplit_once(':') {
        Some((address, port)) => (address, Some(port)),
        None => (&*holder.id, None),
    };
    let row = params![number, address, port, &*holder.id, holding.expires];
    session.driver.execute(statements::ASSIGN, row)?;
    let taking = Taking { holder: holder.clone(), since: UnixMs(0), taken: now };
    session.enter_taking(number, &taking)?;
    let row = holding_row(number, holding, now, now);
    session.prove_and_commit(&[(statements::ENTER_WORKER, &row)])?;
    Ok(Entry { worker, holding: holding.clone(), seen: now, written: now })
}

/// The entry of a host that already has a permanent number.
fn theirs(
    session: &mut Session,
    pool: &Range<u64>,
    id: &str,
    row: Cells,
) -> Result<Entry, SqlError> {
    let Some(number) = rows::number(&row) else {
        return Err(refused(format!("the row of {id:?} in leaf_workerid_alloc has no usable id")));
    };
    if !pool.contains(&number) {
        return Err(SqlError::Registry(RegistryError::Exhausted(format!(
            "leaf_workerid_alloc assigned {id:?} the number {number}, which is not one of {} to {}",
            pool.start,
            pool.end.saturating_sub(1)
        ))));
    }
    let worker = WorkerId(number);
    let number = number.cast_signed();
    let leased = session.row(statements::FIND_WORKER, params![number])?;
    let given = rows::given(row);
    if let Ok(given) = &given
        && *given.identity != *id
    {
        return Err(refused(format!(
            "leaf_workerid_alloc.ip_port treats {id:?} and {:?} as equal: give the column a collation that \
             distinguishes them, or give the host another identity",
            given.identity
        )));
    }
    let entry = rows::recorded(Mode::Permanent, worker, leased.map(rows::leased), Some(given));
    match entry {
        Some(Ok(entry)) => Ok(entry),
        Some(Err(odd)) => Err(refused(unusable(worker, &odd))),
        None => Err(refused(unusable(worker, "it is missing"))),
    }
}

fn lock(session: &mut Session) -> Result<(), SqlError> {
    session.driver.query(statements::LOCK_WORKERS, &[]).map(drop)
}

/// The parameters of a statement that writes the row of a worker.
fn holding_row(
    worker: i64,
    holding: &LeaseRecord,
    seen: UnixMs,
    written: UnixMs,
) -> [Param<'_>; 7] {
    let holder = holding.holder.as_ref();
    let id = holder.map(|holder| &*holder.id);
    let name = holder.map(|holder| &*holder.name);
    let incarnation = holder.map(|holder| &*holder.incarnation.0);
    *params![worker, id, name, incarnation, holding.expires, seen, written]
}

fn range(pool: &Range<u64>) -> [Param<'static>; 2] {
    [pool.start, pool.end].map(|end| i64::try_from(end).unwrap_or(i64::MAX).into())
}

fn unusable(worker: WorkerId, odd: &str) -> String {
    format!(
        "the record of worker {worker} in leafd_worker or leaf_workerid_alloc can't be used: {odd}; repair it with \
         SQL, and set a time later than any at which the worker was used"
    )
}

fn refused(words: String) -> SqlError {
    SqlError::Registry(RegistryError::Refused(words.into()))
}

/// The database's clock.
fn clock(session: &mut Session) -> Result<UnixMs, SqlError> {
    session.now_ms().map(UnixMs)
}
