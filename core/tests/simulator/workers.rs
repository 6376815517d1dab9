//! The table of workers, which is changed by compare-and-set.

use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use leafd_core::lease::{Request, Response};
use leafd_core::registry::{
    CompareAndSet, Entry, Holder, LeaseRecord, RegistryError, RegistryId, Snapshot,
};
use leafd_core::{UnixMs, WorkerId};

use crate::Break;
use crate::store::{From, Store, life_of};

/// A write of a lease in a store with tags.
pub struct Leased {
    pub at_ms: u64,
    pub commit: u64,
    pub life: Rc<str>,
    pub worker: u64,
    pub holder: Arc<str>,
    pub expires: UnixMs,
    /// The holder never had the worker before.
    pub is_new: bool,
    /// The note was not true.
    pub in_doubt: bool,
    /// The old primary of a split store has it.
    pub is_split: bool,
    /// When something last kept each host from renewing its lease, as of then.
    pub unwell_ms: Vec<u64>,
}

impl Store {
    /// Carries out a call of the registry.
    pub fn lease(
        &mut self,
        true_ms: u64,
        mut from: From<'_>,
        ask: Request,
        broken: Option<Break>,
    ) -> Response {
        let found = self.registry(&mut from, broken);
        let check = |under: &RegistryId| match broken {
            Some(Break::WorkersUnchecked) => Ok(()),
            _ => found.check(under),
        };
        match ask {
            Request::Snapshot(pool) => {
                Response::Snapshot(Ok(self.snapshot(true_ms, &mut from, found, pool, broken)))
            }
            Request::CompareAndSet(under, swap) => Response::CompareAndSet(
                check(&under).and_then(|()| self.compare_and_set(true_ms, &mut from, swap, broken)),
            ),
            Request::Assign(under, pool, holding) => Response::Assign(
                check(&under).and_then(|()| self.assign(true_ms, &mut from, pool, holding, broken)),
            ),
            Request::Record(_) => unreachable!("the daemon's journal records it"),
        }
    }

    fn snapshot(
        &mut self,
        true_ms: u64,
        from: &mut From<'_>,
        registry: RegistryId,
        pool: Range<u64>,
        broken: Option<Break>,
    ) -> Snapshot {
        let mut age_ms = self.history_age_ms(true_ms, from);
        if matches!(broken, Some(Break::LossLooksOld | Break::WorkersAtOnce)) {
            age_ms = true_ms;
        }
        let mut entries: Vec<Entry> =
            self.data.workers.range(pool).map(|(_, entry)| entry.clone()).collect();
        if broken == Some(Break::BoundsForgotten) {
            entries.iter_mut().for_each(|entry| entry.holding.expires = UnixMs(0));
        }
        let history_age = Some(Duration::from_millis(age_ms));
        Snapshot { registry, history_age, now: self.clock(true_ms), entries }
    }

    /// How long ago the present history was first noticed: by any host, or in a store with tags by this host, unless
    /// claims were made in it.
    fn history_age_ms(&mut self, true_ms: u64, from: &mut From<'_>) -> u64 {
        if !self.has_tags {
            return true_ms - *self.noticed_ms.get_or_insert(true_ms);
        }
        let Some(own) = &mut from.own else { return 0 };
        let history = &self.data.note.history;
        if own.seen.as_ref().is_none_or(|(seen, _)| seen != history) {
            *own.seen = Some((history.clone(), own.now));
        }
        let since = own.seen.as_ref().map_or(own.now, |(_, since)| *since);
        if self.data.note.settled { u64::MAX } else { own.now.0.saturating_sub(since.0) }
    }

    fn compare_and_set(
        &mut self,
        true_ms: u64,
        from: &mut From<'_>,
        mut swap: CompareAndSet,
        broken: Option<Break>,
    ) -> Result<UnixMs, RegistryError> {
        let now = self.clock(true_ms);
        let found = self.data.workers.get(&swap.worker.0).cloned();
        if matches!(broken, Some(Break::CompareIgnored | Break::BoundsForgotten)) {
            swap.expected = found.as_ref().map(|entry| entry.holding.clone());
        }
        swap.judge(found, now)?;
        self.enter(true_ms, from, swap.worker, swap.next, swap.seen, broken);
        Ok(now)
    }

    fn assign(
        &mut self,
        true_ms: u64,
        from: &mut From<'_>,
        pool: Range<u64>,
        holding: LeaseRecord,
        broken: Option<Break>,
    ) -> Result<Entry, RegistryError> {
        let id =
            |holding: &LeaseRecord| holding.holder.as_ref().map(|holder| Arc::clone(&holder.id));
        let mut all = self.data.workers.values();
        if let Some(entry) = all.find(|entry| id(&entry.holding) == id(&holding)) {
            return Ok(entry.clone());
        }
        let Some(worker) = pool.clone().find(|worker| !self.data.workers.contains_key(worker))
        else {
            return Err(RegistryError::Exhausted(format!("{pool:?} has none left")));
        };
        self.enter(true_ms, from, WorkerId(worker), holding, self.clock(true_ms), broken);
        self.taken_over = true;
        Ok(self.data.workers[&worker].clone())
    }

    /// An operator releases a worker. The next holder starts where its lease ends.
    pub fn release(&mut self, true_ms: u64, worker: WorkerId) {
        self.commit(true_ms);
        let workers: &mut BTreeMap<_, _> = Rc::make_mut(&mut self.data.workers);
        if let Some(entry) = workers.get_mut(&worker.0) {
            entry.holding.holder = None;
        }
    }

    fn enter(
        &mut self,
        true_ms: u64,
        from: &mut From<'_>,
        worker: WorkerId,
        holding: LeaseRecord,
        seen: UnixMs,
        broken: Option<Break>,
    ) {
        self.commit(true_ms);
        self.write(from);
        if let Some(holder) = &holding.holder {
            let key = (worker.0, Arc::clone(&holder.id));
            let former = self.data.workers.get(&worker.0).map(|entry| &entry.holding);
            let anothers = former.filter(|former| {
                former.holder.as_ref().is_none_or(|former| former.id != holder.id)
            });
            if let Some(former) = anothers {
                let let_go = |one: &Holder| one.has_stopped();
                self.taken_over |= former.holder.as_ref().is_some_and(|one| !let_go(one));
                self.begins.insert(key.clone(), former.expires);
            }
            let is_new = !self.ever.contains_key(&key);
            let ever = self.ever.entry(key).or_default();
            *ever = holding.expires.max(*ever);
            if self.has_tags {
                let (in_doubt, life) =
                    (self.is_in_doubt(from.server, broken), life_of(&self.data.note.history));
                self.leased.push(Leased {
                    at_ms: true_ms,
                    commit: self.data.commit,
                    life,
                    worker: worker.0,
                    holder: Arc::clone(&holder.id),
                    expires: holding.expires,
                    is_new,
                    in_doubt,
                    is_split: self.split_since_ms().is_some(),
                    unwell_ms: Vec::new(),
                });
            }
        }
        let written = self.clock(true_ms);
        let workers: &mut BTreeMap<_, _> = Rc::make_mut(&mut self.data.workers);
        workers.insert(worker.0, Entry { worker, holding, seen, written });
    }
}
