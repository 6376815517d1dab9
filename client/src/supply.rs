//! The slow path of one tag: where its runs come from.
//!
//! One thread at a time fetches a tag's next run. The others wait for it, each by its own deadline. No
//! lock is held meanwhile, and other tags don't wait. Well before a run's end, one thread asks for the
//! next run without waiting for the answer.

use std::collections::VecDeque;
use std::ptr;
use std::sync::atomic::Ordering;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use leafd_wire::{COUNT_MAX, IdsRequest, Run};

use crate::clock::{coarse_ns, exact_ns};
use crate::core::Core;
use crate::deadline::Deadline;
use crate::error::Result;
use crate::interruption::{Outside, SLICE, in_handler, is_ended, is_watched};
use crate::names::Node;
use crate::requests::{Asked, Drawn, Outcome, Ticket};
use crate::sizing::Sizing;
use crate::slot::{GENERATION_MAX, RUN_COUNT_MAX, Slot};

/// The most runs of a tag that queue behind the held one; more are skipped. A reply has no more of them.
const QUEUED_MAX: usize = 65_536;

/// A process's data of one tag besides the slot. It lives on the heap. The pointer to it is in wiped
/// memory, so a child makes its own.
pub(crate) struct Supply {
    /// The process that made it.
    pid: u32,
    stock: Mutex<Stock>,
    /// A run was installed, or the fetching thread gave up.
    changed: Condvar,
}

struct Stock {
    /// The generation of the last installed run; each is used once.
    generation: u64,
    /// Runs that came along with an installed one.
    queued: VecDeque<Held>,
    /// The request for the next run, if it was sent but not collected.
    refill: Option<Refill>,
    /// A thread is fetching the next run.
    fetching: bool,
    waiting: u32,
    /// Ids of this tag may not be held.
    never_hold: bool,
    sizing: Sizing,
    current: Option<Current>,
}

#[derive(Clone, Copy)]
struct Held {
    run: Run,
    hold_ms: u32,
    expires_ns: u64,
}

#[derive(Clone, Copy)]
struct Refill {
    ticket: Ticket,
    sent_ns: u64,
}

/// The installed run's data, to learn from its use.
#[derive(Clone, Copy)]
struct Current {
    count: u32,
    hold_ms: u32,
    installed_ns: u64,
}

type Locked<'a> = MutexGuard<'a, Stock>;

// === impl Node ===

impl Node {
    /// An id from a held run, or the first one of a new run.
    #[cold]
    pub(crate) fn next_slow(&self, core: &Core, deadline: &mut Deadline) -> Result<u64> {
        let _outside = Outside::new();
        let supply = self.supply();
        let mut stock = supply.lock();
        loop {
            // Another thread may have installed a run since.
            if let Some(taken) = self.slot().take(coarse_ns()) {
                if taken.refill_due {
                    stock.refill(self, core);
                }
                return Ok(taken.id);
            }
            stock.learn(self.slot(), exact_ns());
            self.slot().clear();
            if stock.never_hold {
                drop(stock);
                return self.next_unheld(core, supply, deadline);
            }
            if let Some(held) = stock.take_queued(exact_ns()) {
                let id = stock.install(self.slot(), held);
                supply.wake(&stock);
                return Ok(id);
            }
            if !stock.fetching {
                return self.fetch(core, supply, stock, deadline);
            }
            if in_handler() {
                // The fetching thread may be this very one.
                drop(stock);
                let (drawn, _) = core.draw(self.name(), 1, false, deadline)?;
                return Ok(drawn.first.first);
            }
            let left = deadline.last_moment().saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(deadline.missed());
            }
            // No signal wakes it.
            let left = if is_watched() { left.min(SLICE) } else { left };
            stock.waiting += 1;
            stock =
                supply.changed.wait_timeout(stock, left).unwrap_or_else(PoisonError::into_inner).0;
            stock.waiting -= 1;
            if is_watched() {
                drop(stock);
                if is_ended() {
                    return Err(deadline.missed());
                }
                stock = supply.lock();
            }
        }
    }

    /// Asks for the next run, unless that was done or a lock is taken.
    #[cold]
    pub(crate) fn refill(&self, core: &Core) {
        if let Ok(mut stock) = self.supply().stock.try_lock() {
            stock.refill(self, core);
        }
    }

    /// An id of the held run, or of the next one in the queue.
    pub(crate) fn advance(&self) -> Option<u64> {
        let supply = self.supply();
        let mut stock = supply.lock();
        if let Some(taken) = self.slot().take(coarse_ns()) {
            return Some(taken.id);
        }
        stock.learn(self.slot(), exact_ns());
        self.slot().clear();
        let held = stock.take_queued(exact_ns())?;
        let id = stock.install(self.slot(), held);
        supply.wake(&stock);
        Some(id)
    }

    /// How many ids to ask for when `waiting` callers have none.
    pub(crate) fn wish(&self, waiting: u32) -> u32 {
        let mut stock = self.supply().lock();
        stock.learn(self.slot(), exact_ns());
        if stock.never_hold { 1 } else { stock.wish().max(waiting.min(RUN_COUNT_MAX)) }
    }

    /// Queues drawn runs behind the held one. Returns an id if they may not be held.
    pub(crate) fn queue(&self, drawn: &Drawn, sent_ns: u64) -> Option<u64> {
        let mut stock = self.supply().lock();
        let hold_ms = drawn.hold_ms;
        stock.never_hold = hold_ms == 0;
        if stock.never_hold {
            return Some(drawn.first.first);
        }
        let expires_ns = expiry_ns(sent_ns, hold_ms);
        let runs = std::iter::once(&drawn.first).chain(&drawn.rest);
        let room = QUEUED_MAX.saturating_sub(stock.queued.len());
        stock.queued.extend(runs.map(|&run| Held { run, hold_ms, expires_ns }).take(room));
        None
    }

    /// Frees the supply, unless it is a parent's.
    pub(crate) fn drop_supply(&self) {
        let supply = self.cell().supply.swap(ptr::null_mut(), Ordering::AcqRel);
        let own = |supply: &Supply| self.is_wiped() || supply.pid == std::process::id();
        // SAFETY: as in `supply`.
        if unsafe { supply.as_ref() }.is_some_and(own) {
            // SAFETY: made by `Box::into_raw`; the core is being dropped, so nothing else uses it.
            drop(unsafe { Box::from_raw(supply) });
        } else {
            crate::inherited::keep(self.made.load(Ordering::Acquire));
        }
    }

    /// Whether this process filled the cell. For cells that the kernel doesn't wipe.
    #[cold]
    pub(crate) fn is_own(&self) -> bool {
        let found = self.cell().supply.load(Ordering::Acquire);
        // SAFETY: as in `supply`.
        unsafe { found.as_ref() }.is_some_and(|supply| supply.pid == std::process::id())
    }

    fn supply(&self) -> &Supply {
        let place = &self.cell().supply;
        let found = place.load(Ordering::Acquire);
        // SAFETY: null, or made by `Box::into_raw` below and freed with the core only. (In a child without
        // wiping it may be the parent's; its process id is plain memory, copied into the child.)
        if let Some(supply) = unsafe { found.as_ref() } {
            if self.is_wiped() || supply.pid == std::process::id() {
                return supply;
            }
            // The run is the parent's too. Clear it before the swap: once the new supply is visible,
            // another thread may install a run of this process.
            self.slot().clear();
        }
        let new = Box::into_raw(Box::new(Supply::new()));
        match place.compare_exchange(found, new, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => {
                crate::inherited::keep(self.made.swap(new, Ordering::AcqRel));
                // SAFETY: just made; freed with the core only.
                unsafe { &*new }
            }
            // SAFETY: no other thread has seen `new`; `theirs` is this process's.
            Err(theirs) => unsafe {
                drop(Box::from_raw(new));
                &*theirs
            },
        }
    }

    /// Gets the next run while others wait, and takes its first id.
    fn fetch(
        &self,
        core: &Core,
        supply: &Supply,
        mut stock: Locked<'_>,
        deadline: &mut Deadline,
    ) -> Result<u64> {
        stock.fetching = true;
        let refill = stock.refill.take();
        let count = stock.wish();
        drop(stock);

        let mut drawn = None;
        let mut pending = None;
        if let Some(refill) = refill {
            match await_refill(core, refill, deadline) {
                Ok(answer) => drawn = answer.map(|answer| (answer, refill.sent_ns)),
                Err(()) => pending = Some(refill),
            }
        }
        let outcome = match (drawn, pending) {
            (_, Some(_)) => Err(deadline.missed()),
            (Some(drawn), None) => Ok(drawn),
            (None, None) => core.draw(self.name(), count, true, deadline),
        };

        let mut stock = supply.lock();
        stock.fetching = false;
        stock.refill = pending;
        supply.wake(&stock);
        let (drawn, sent_ns) = outcome?;
        Ok(stock.stow(self.slot(), &drawn, sent_ns))
    }

    /// Draws one id by a request of its own.
    fn next_unheld(&self, core: &Core, supply: &Supply, deadline: &mut Deadline) -> Result<u64> {
        let (drawn, _) = core.draw(self.name(), 1, true, deadline)?;
        if drawn.hold_ms > 0 {
            // The tag was created anew, and its ids may be held now.
            supply.lock().never_hold = false;
        }
        Ok(drawn.first.first)
    }
}

/// The answer to a refill, if it brought usable ids. `Err`: it is still to come.
fn await_refill(
    core: &Core,
    refill: Refill,
    deadline: &Deadline,
) -> std::result::Result<Option<Drawn>, ()> {
    let state = core.state();
    let answer = state.answer(state.lock(), refill.ticket, true, deadline.end_of_grace());
    match answer {
        None => Err(()),
        Some(Outcome::Ids(drawn)) if expiry_ns(refill.sent_ns, drawn.hold_ms) > exact_ns() => {
            Ok(Some(drawn))
        }
        // An old error says little: a new request tells what is wrong now.
        Some(_) => Ok(None),
    }
}

fn expiry_ns(sent_ns: u64, hold_ms: u32) -> u64 {
    sent_ns.saturating_add(u64::from(hold_ms) * 1_000_000)
}

// === impl Supply ===

impl Supply {
    fn new() -> Supply {
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
        Supply { pid: std::process::id(), stock: Mutex::new(stock), changed: Condvar::new() }
    }

    fn lock(&self) -> Locked<'_> {
        self.stock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self, stock: &Stock) {
        if stock.waiting > 0 {
            self.changed.notify_all();
        }
    }
}

// === impl Stock ===

impl Stock {
    /// Stores drawn ids and takes the first one.
    fn stow(&mut self, slot: &Slot, drawn: &Drawn, sent_ns: u64) -> u64 {
        let hold_ms = drawn.hold_ms;
        if hold_ms == 0 {
            // Whatever came beyond the one id is skipped.
            self.never_hold = true;
            return drawn.first.first;
        }
        // Counted from when the request was sent, because the time of issue is not known better.
        let expires_ns = expiry_ns(sent_ns, hold_ms);
        self.queued.extend(drawn.rest.iter().map(|&run| Held { run, hold_ms, expires_ns }));
        self.install(slot, Held { run: drawn.first, hold_ms, expires_ns })
    }

    /// Installs a run and takes its first id, so that each fetch brings its caller an id.
    fn install(&mut self, slot: &Slot, held: Held) -> u64 {
        let Held { mut run, hold_ms, expires_ns } = held;
        let id = run.first;
        run.count = run.count.min(RUN_COUNT_MAX);
        let now_ns = exact_ns();
        self.current = Some(Current { count: run.count, hold_ms, installed_ns: now_ns });
        if self.generation < GENERATION_MAX {
            self.generation += 1;
            slot.install(self.generation, run, 1, expires_ns);
        }
        id
    }

    fn take_queued(&mut self, now_ns: u64) -> Option<Held> {
        while let Some(held) = self.queued.pop_front() {
            if held.expires_ns > now_ns {
                return Some(held);
            }
        }
        None
    }

    fn wish(&self) -> u32 {
        // Each waiting thread needs one.
        self.sizing.wish().max(self.waiting + 1).min(COUNT_MAX).min(RUN_COUNT_MAX)
    }

    /// Learns from the use of the current run; once per run.
    fn learn(&mut self, slot: &Slot, now_ns: u64) {
        if let Some(current) = self.current.take() {
            let used = slot.offset(self.generation).unwrap_or(current.count).min(current.count);
            let lasted_ns = now_ns.saturating_sub(current.installed_ns);
            self.sizing.observe(current.hold_ms, current.count, used, lasted_ns);
        }
    }

    /// Sends a request for the next run, if that needs no waiting.
    fn refill(&mut self, node: &Node, core: &Core) {
        if self.refill.is_some() || self.fetching || !self.queued.is_empty() || self.never_hold {
            return;
        }
        let Some(mut link) = core.state().try_lock() else { return };
        if !link.is_connected() || !link.is_sent() || !link.requests.has_room_ahead() {
            return;
        }
        let sent_ns = exact_ns();
        self.learn(node.slot(), sent_ns);
        let count = self.wish();
        let deadline_ms = u32::try_from(core.limits.deadline.as_millis()).unwrap_or(u32::MAX);
        let request = IdsRequest { tag: node.name().as_bytes(), count, deadline_ms };
        let asked = Asked::Ids { count, hold: true };
        // If it can't be sent, nothing is lost: the end of the run asks again.
        if let Ok(ticket) = link.submit(asked, None, |id, out| request.put(true, id, out)) {
            link.send();
            self.refill = Some(Refill { ticket, sent_ns });
        }
    }
}
