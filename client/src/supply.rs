//! A process's data for one tag, apart from the slot: the runs queued behind the held one, and what is known about
//! their use.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use leafd_wire::{COUNT_MAX, Run};

use crate::clock::exact_ns;
use crate::pool::PooledConnection;
use crate::replies::DrawnIds;
use crate::sizing::Sizing;
use crate::slot::{GENERATION_MAX, RUN_COUNT_MAX, Slot};

/// The maximum number of a tag's runs that can be queued behind the held one; further runs are skipped. A reply has at
/// most this many.
pub(crate) const QUEUED_MAX: usize = 65_536;

/// A process's data for one tag, apart from the slot. It is on the heap, and the pointer to it is in wiped memory, so a
/// child creates its own.
pub(crate) struct Supply {
    pub(crate) stock: Mutex<Stock>,
    /// Notified when a run is installed, or the fetching thread fails.
    pub(crate) changed: Condvar,
}

pub(crate) struct Stock {
    /// The generation of the last installed run; each is used once.
    generation: u64,
    /// Runs that arrived together with an installed one.
    pub(crate) queued: VecDeque<HeldRun>,
    /// The request for the next run, if it was sent but not collected.
    pub(crate) refill: Option<Refill>,
    /// Whether a thread is fetching the next run.
    pub(crate) fetching: bool,
    pub(crate) waiting: u32,
    /// Whether ids of this tag may not be held.
    pub(crate) never_hold: bool,
    sizing: Sizing,
    current: Option<Current>,
}

#[derive(Clone, Copy)]
pub(crate) struct HeldRun {
    pub(crate) run: Run,
    pub(crate) hold_ms: u32,
    pub(crate) expires_ns: u64,
}

pub(crate) struct Refill {
    pub(crate) pooled: PooledConnection,
    /// Its number on the connection.
    pub(crate) number: u32,
    pub(crate) count: u32,
    pub(crate) sent_ns: u64,
}

/// The installed run's data, for learning from its use.
#[derive(Clone, Copy)]
struct Current {
    count: u32,
    hold_ms: u32,
    installed_ns: u64,
}

pub(crate) type Locked<'a> = MutexGuard<'a, Stock>;

// === impl Supply ===

impl Supply {
    pub(crate) fn new() -> Supply {
        let stock = Stock {
            generation: 0,
            queued: VecDeque::new(),
            refill: None,
            fetching: false,
            waiting: 0,
            never_hold: false,
            sizing: Sizing::new(),
            current: None,
        };
        Supply { stock: Mutex::new(stock), changed: Condvar::new() }
    }

    pub(crate) fn lock(&self) -> Locked<'_> {
        self.stock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn wake(&self, stock: &Stock) {
        if stock.waiting > 0 {
            self.changed.notify_all();
        }
    }
}

impl DrawnIds {
    /// The runs, in the form in which they are held.
    pub(crate) fn held_runs(&self) -> impl Iterator<Item = HeldRun> {
        let (hold_ms, expires_ns) = (self.hold_ms, self.expires_ns());
        self.runs.iter().map(move |&run| HeldRun { run, hold_ms, expires_ns })
    }
}

// === impl Stock ===

impl Stock {
    /// Stores drawn ids and takes the first one.
    pub(crate) fn stow(&mut self, slot: &Slot, drawn: &DrawnIds) -> u64 {
        let hold_ms = drawn.hold_ms;
        if hold_ms == 0 {
            // All ids but one are skipped.
            self.never_hold = true;
            return drawn.first_id();
        }
        let mut runs = drawn.held_runs();
        let id = runs.next().map_or(drawn.first_id(), |first| self.install(slot, first));
        self.queued.extend(runs);
        id
    }

    /// Installs a run and takes its first id, so that each fetch brings its caller an id.
    pub(crate) fn install(&mut self, slot: &Slot, held: HeldRun) -> u64 {
        let HeldRun { mut run, hold_ms, expires_ns } = held;
        let id = run.first;
        run.count = run.count.min(RUN_COUNT_MAX);
        let now_ns = exact_ns();
        // Only callers that waited use a run that arrived too late, so their rate is that of the round trips.
        let is_late = expires_ns <= now_ns;
        let installed_ns =
            if is_late { expires_ns - u64::from(hold_ms) * 1_000_000 } else { now_ns };
        self.current = Some(Current { count: run.count, hold_ms, installed_ns });
        if self.generation < GENERATION_MAX {
            self.generation += 1;
            slot.install(self.generation, run, 1, expires_ns);
        }
        id
    }

    pub(crate) fn take_queued(&mut self, now_ns: u64) -> Option<HeldRun> {
        while let Some(held) = self.queued.pop_front() {
            if held.expires_ns > now_ns {
                return Some(held);
            }
        }
        None
    }

    pub(crate) fn wish(&self) -> u32 {
        // Each waiting thread needs one id.
        self.sizing.wish().max(self.waiting + 1).min(COUNT_MAX).min(RUN_COUNT_MAX)
    }

    /// Learns from the use of the current run, once per run.
    pub(crate) fn learn(&mut self, slot: &Slot, now_ns: u64) {
        if let Some(current) = self.current.take() {
            let used = slot.offset(self.generation).unwrap_or(current.count).min(current.count);
            let lasted_ns = now_ns.saturating_sub(current.installed_ns);
            self.sizing.observe(current.hold_ms, current.count, used, lasted_ns);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::arena::Arena;

    #[test]
    fn a_run_that_came_too_late_is_measured_from_its_request() {
        let arena = Arena::new().unwrap();
        let cell = arena.cell().unwrap();
        // SAFETY: the cell is the arena's and all zeros, which is an empty slot.
        let slot = unsafe { &cell.as_ref().slot };
        let supply = Supply::new();
        let mut stock = supply.lock();
        let first_wish = stock.wish();
        for first in [1, 101] {
            let runs = vec![Run { first, count: first_wish, stride: 1 }];
            let drawn = DrawnIds { runs, hold_ms: 8, sent_ns: exact_ns() - 50_000_000 };
            assert_eq!(stock.stow(slot, &drawn), first);
            stock.learn(slot, exact_ns());
        }
        assert!(stock.wish() <= first_wish, "{} after two late runs", stock.wish());
    }
}
