//! The registry of a simulated fleet: a table changed by compare-and-set, which can be set back.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use leafd_core::registry::{
    CompareAndSet, Entry, Holder, LeaseRecord, RegistryError, RegistryId, Snapshot,
};
use leafd_core::store::{History, StoreId};
use leafd_core::{UnixMs, WorkerId};

use crate::breaks::Break;

/// The registry, and everything that it ever knew.
pub struct Registry {
    id: RegistryId,
    /// When its present history was first noticed, in true time; `None` before that.
    noticed_ms: Option<u64>,
    entries: BTreeMap<u64, Entry>,
    /// The table before each of the last writes, with its true time.
    past: VecDeque<(u64, BTreeMap<u64, Entry>)>,
    /// The highest expiry that each holder ever had recorded with each worker.
    ever: HashMap<(u64, Arc<str>), UnixMs>,
    /// Where each holder's last claim of each worker begins: at the previous holder's expiry.
    begins: HashMap<(u64, Arc<str>), UnixMs>,
    histories: u32,
    /// How far its clock is ahead of the true time.
    pub offset_ms: i64,
    /// A host has just claimed a worker that its former holder had not given back.
    pub taken_over: bool,
    broken: Option<Break>,
}

/// How far back a fail-over can set the table, in milliseconds.
pub const LAG_MS_MAX: u64 = 3_000;

impl Registry {
    pub fn new(broken: Option<Break>) -> Registry {
        Registry {
            id: RegistryId { id: StoreId("simulated".into()), history: History("0".into()) },
            // It has been in use for a long time.
            noticed_ms: Some(0),
            entries: BTreeMap::new(),
            past: VecDeque::new(),
            ever: HashMap::new(),
            begins: HashMap::new(),
            histories: 0,
            offset_ms: 0,
            taken_over: false,
            broken,
        }
    }

    pub fn clock(&self, true_ms: u64) -> UnixMs {
        UnixMs(true_ms.saturating_add_signed(self.offset_ms))
    }

    pub fn snapshot(&mut self, true_ms: u64, pool: Range<u64>) -> Snapshot {
        let noticed_ms = *self.noticed_ms.get_or_insert(true_ms);
        let mut age_ms = true_ms - noticed_ms;
        if self.broken == Some(Break::SettlingSkipped) {
            age_ms = true_ms;
        }
        let mut entries: Vec<Entry> =
            self.entries.range(pool).map(|(_, entry)| entry.clone()).collect();
        if self.broken == Some(Break::BoundsForgotten) {
            entries.iter_mut().for_each(|entry| entry.holding.expires = UnixMs(0));
        }
        Snapshot {
            registry: self.id.clone(),
            history_age: Some(Duration::from_millis(age_ms)),
            now: self.clock(true_ms),
            entries,
        }
    }

    pub fn compare_and_set(
        &mut self,
        true_ms: u64,
        under: &RegistryId,
        swap: &CompareAndSet,
    ) -> Result<UnixMs, RegistryError> {
        self.check(under)?;
        let now = self.clock(true_ms);
        let found = self.entries.get(&swap.worker.0).cloned();
        let mut judged = swap.clone();
        if matches!(self.broken, Some(Break::CompareIgnored | Break::BoundsForgotten)) {
            judged.expected = found.as_ref().map(|entry| entry.holding.clone());
        }
        judged.judge(found, now)?;
        self.enter(true_ms, swap.worker, swap.next.clone(), swap.seen);
        Ok(now)
    }

    pub fn assign(
        &mut self,
        true_ms: u64,
        under: &RegistryId,
        pool: Range<u64>,
        holding: &LeaseRecord,
    ) -> Result<Entry, RegistryError> {
        self.check(under)?;
        let id =
            |holding: &LeaseRecord| holding.holder.as_ref().map(|holder| Arc::clone(&holder.id));
        let mut all = self.entries.values();
        if let Some(entry) = all.find(|entry| id(&entry.holding) == id(holding)) {
            return Ok(entry.clone());
        }
        let Some(worker) = pool.clone().find(|worker| !self.entries.contains_key(worker)) else {
            return Err(RegistryError::Exhausted(format!("{pool:?} has none left")));
        };
        self.enter(true_ms, WorkerId(worker), holding.clone(), self.clock(true_ms));
        Ok(self.entries[&worker].clone())
    }

    /// Loses the last writes, of up to `lag_ms`.
    pub fn fail_over(&mut self, true_ms: u64, lag_ms: u64) {
        let lost = |(written_ms, _): &(u64, _)| *written_ms + lag_ms > true_ms;
        if let Some(index) = self.past.iter().position(lost) {
            self.entries = self.past[index].1.clone();
        }
        self.past.clear();
        if self.broken == Some(Break::HistoryHidden) {
            return;
        }
        self.histories += 1;
        self.id.history = History(self.histories.to_string().into());
        self.noticed_ms = None;
    }

    /// The highest expiry that a holder ever had recorded with a worker.
    pub fn ever(&self, worker: u64, holder: &Arc<str>) -> UnixMs {
        self.ever.get(&(worker, Arc::clone(holder))).copied().unwrap_or(UnixMs(0))
    }

    /// Where a holder's last claim of a worker begins.
    pub fn begins(&self, worker: u64, holder: &Arc<str>) -> UnixMs {
        self.begins.get(&(worker, Arc::clone(holder))).copied().unwrap_or(UnixMs(0))
    }

    fn check(&self, under: &RegistryId) -> Result<(), RegistryError> {
        if *under == self.id {
            return Ok(());
        }
        Err(RegistryError::Changed { expected: under.clone(), found: self.id.clone() })
    }

    fn enter(&mut self, true_ms: u64, worker: WorkerId, holding: LeaseRecord, seen: UnixMs) {
        self.past.push_back((true_ms, self.entries.clone()));
        while self.past.front().is_some_and(|(at_ms, _)| at_ms + LAG_MS_MAX < true_ms) {
            self.past.pop_front();
        }
        if let Some(holder) = &holding.holder {
            let key = (worker.0, Arc::clone(&holder.id));
            let former = self.entries.get(&worker.0).map(|entry| &entry.holding);
            let anothers = former.filter(|former| {
                former.holder.as_ref().is_none_or(|former| former.id != holder.id)
            });
            if let Some(former) = anothers {
                let let_go = |one: &Holder| one.has_stopped();
                self.taken_over |= former.holder.as_ref().is_some_and(|one| !let_go(one));
                self.begins.insert(key.clone(), former.expires);
            }
            let ever = self.ever.entry(key).or_default();
            *ever = holding.expires.max(*ever);
        }
        let written = self.clock(true_ms);
        self.entries.insert(worker.0, Entry { worker, holding, seen, written });
    }
}
