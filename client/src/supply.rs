//! The slow path of one tag: where its runs come from.
//!
//! One thread at a time fetches a tag's next run; the others wait for it, each by its own
//! deadline. No lock is held meanwhile, and other tags are not held up. Well before a run's end the
//! thread that takes that id asks for the next one, without waiting for the answer.

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

/// Most runs of a tag that wait for the held one's end; more are skipped. A reply has no more of them.
const QUEUED_MAX: usize = 65_536;

/// What a process keeps of one tag besides the slot. It lives on the heap; the way to it is wiped
/// memory, so that a child makes its own.
pub(crate) struct Supply {
    /// The process that made it.
    pid: u32,
    stock: Mutex<Stock>,
    /// A run was installed, or whoever fetched one gave up.
    changed: Condvar,
}

struct Stock {
    /// Of the run installed last; each is used once.
    generation: u64,
    /// Runs that came along with an installed one.
    queued: VecDeque<Held>,
    /// The next run, asked for and not yet awaited.
    refill: Option<Refill>,
    /// A thread awaits the next run.
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

/// What the installed run was, to learn from how it went.
#[derive(Clone, Copy)]
struct Current {
    count: u32,
    hold_ms: u32,
    installed_ns: u64,
}

type Locked<'a> = MutexGuard<'a, Stock>;

// === impl Node ===

impl Node {
    /// An id out of a held run, or a new run's first.
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
                // The one who fetches may be this very thread.
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

    /// Asks for the next run, if nobody has and nobody is in the way.
    #[cold]
    pub(crate) fn refill(&self, core: &Core) {
        if let Ok(mut stock) = self.supply().stock.try_lock() {
            stock.refill(self, core);
        }
    }

    /// An id of the run that is held now, or of the next one in the queue.
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
            // SAFETY: made by `Box::into_raw`; the core is being dropped, so nobody uses it.
            drop(unsafe { Box::from_raw(supply) });
        } else {
            crate::inherited::keep(self.made.load(Ordering::Acquire));
        }
    }

    /// Whether what the cell holds was put there by this process. For cells that the kernel doesn't wipe.
    #[cold]
    pub(crate) fn is_own(&self) -> bool {
        let found = self.cell().supply.load(Ordering::Acquire);
        // SAFETY: as in `supply`.
        unsafe { found.as_ref() }.is_some_and(|supply| supply.pid == std::process::id())
    }

    fn supply(&self) -> &Supply {
        let place = &self.cell().supply;
        let found = place.load(Ordering::Acquire);
        // SAFETY: null, or made by `Box::into_raw` below and freed with the core only. (In a child
        // where nobody wipes it may be the parent's; its process id is a copy in plain memory.)
        if let Some(supply) = unsafe { found.as_ref() } {
            if self.is_wiped() || supply.pid == std::process::id() {
                return supply;
            }
            // The run is the parent's as well. Before the swap: once the new supply is out, another thread
            // may install a run of this process.
            self.slot().clear();
        }
        let new = Box::into_raw(Box::new(Supply::new()));
        match place.compare_exchange(found, new, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => {
                crate::inherited::keep(self.made.swap(new, Ordering::AcqRel));
                // SAFETY: just made; freed with the core only.
                unsafe { &*new }
            }
            // SAFETY: `new` was never seen by others; `theirs` is this process's.
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

    /// One id by a request of its own.
    fn next_unheld(&self, core: &Core, supply: &Supply, deadline: &mut Deadline) -> Result<u64> {
        let (drawn, _) = core.draw(self.name(), 1, true, deadline)?;
        if drawn.hold_ms > 0 {
            // The tag was made anew, as one whose ids may be held.
            supply.lock().never_hold = false;
        }
        Ok(drawn.first.first)
    }
}

/// The answer to a refill, if it brought ids that are still good. `Err`: it is still to come.
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
        // Whatever went wrong was some time ago: a request of now tells what is the matter now.
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
    /// Puts drawn ids where they belong and takes the first.
    fn stow(&mut self, slot: &Slot, drawn: &Drawn, sent_ns: u64) -> u64 {
        let hold_ms = drawn.hold_ms;
        if hold_ms == 0 {
            // Whatever came beyond the one id is skipped.
            self.never_hold = true;
            return drawn.first.first;
        }
        // Counted from the sending: when the daemon issued them is not known any better.
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
        // Each thread that waits is to get one.
        self.sizing.wish().max(self.waiting + 1).min(COUNT_MAX).min(RUN_COUNT_MAX)
    }

    /// Learns from how the current run went so far; once a run.
    fn learn(&mut self, slot: &Slot, now_ns: u64) {
        if let Some(current) = self.current.take() {
            let used = slot.offset(self.generation).unwrap_or(current.count).min(current.count);
            let lasted_ns = now_ns.saturating_sub(current.installed_ns);
            self.sizing.observe(current.hold_ms, current.count, used, lasted_ns);
        }
    }

    /// Sends a request for the next run, if there is nothing to wait for in doing so.
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
        // One that can't be sent is not missed: the end of the run asks again.
        if let Ok(ticket) = link.submit(asked, None, |id, out| request.put(true, id, out)) {
            link.send();
            self.refill = Some(Refill { ticket, sent_ns });
        }
    }
}
