//! Takes ids from held runs, and fetches the next run.
//!
//! One thread at a time fetches a tag's next run. The others wait for it, each up to its own deadline. No lock is held
//! meanwhile, and other tags don't wait. Well before a run's end, one thread requests the next run without waiting for
//! the answer.

use std::sync::PoisonError;
use std::time::{Duration, Instant};

use leafd_wire::{IdsRequest, opcode};

use crate::clock::{coarse_ns, exact_ns};
use crate::core::Core;
use crate::deadline::Deadline;
use crate::error::Result;
use crate::interruption::{Outside, SLICE, has_ended, in_handler, is_ended, is_watched};
use crate::names::TagEntry;
use crate::replies::{DrawnIds, RequestOutcome};
use crate::slot::RUN_COUNT_MAX;
use crate::supply::{Locked, QUEUED_MAX, Refill, Stock, Supply};

/// Returns the next id, from the held run if there is one.
#[inline]
pub(crate) fn next(
    core: &Core,
    entry: &TagEntry,
    holds: bool,
    limit: Option<Duration>,
) -> Result<u64> {
    if holds && let Some(taken) = entry.slot().take(coarse_ns()) {
        if taken.refill_due {
            entry.refill(core);
        }
        return Ok(taken.id);
    }
    next_slow(core, entry, holds, &mut core.deadline(limit))
}

/// Returns the next id if no run is held, or none may be held.
pub(crate) fn next_slow(
    core: &Core,
    entry: &TagEntry,
    holds: bool,
    deadline: &mut Deadline,
) -> Result<u64> {
    if holds {
        return entry.next_slow(core, deadline);
    }
    Ok(core.draw(entry.name(), 1, false, deadline)?.first_id())
}

// === impl TagEntry ===

impl TagEntry {
    /// Returns an id from a held run, or the first id of a new run.
    #[cold]
    pub(crate) fn next_slow(&self, core: &Core, deadline: &mut Deadline) -> Result<u64> {
        let _outside = Outside::new();
        let supply = self.supply();
        let mut stock = supply.lock();
        loop {
            // Another thread may have installed a run in the meantime.
            if let Some(taken) = self.slot().take(coarse_ns()) {
                if taken.refill_due {
                    ask_ahead(&mut stock, self, core);
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
                return Ok(core.draw(self.name(), 1, false, deadline)?.first_id());
            }
            let left = deadline.last_moment().saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(deadline.missed());
            }
            // No signal ends this wait.
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

    /// Requests the next run, unless it has been requested already or a lock is taken.
    #[cold]
    pub(crate) fn refill(&self, core: &Core) {
        if let Ok(mut stock) = self.supply().stock.try_lock() {
            ask_ahead(&mut stock, self, core);
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

    /// Returns how many ids to request when `waiting` callers have none.
    pub(crate) fn wish(&self, waiting: u32) -> u32 {
        let mut stock = self.supply().lock();
        stock.learn(self.slot(), exact_ns());
        if stock.never_hold { 1 } else { stock.wish().max(waiting.min(RUN_COUNT_MAX)) }
    }

    /// Queues drawn runs behind the held one. Returns an id if they may not be held or arrived too late for that.
    pub(crate) fn queue(&self, drawn: &DrawnIds) -> Option<u64> {
        let mut stock = self.supply().lock();
        stock.never_hold = drawn.hold_ms == 0;
        if drawn.expires_ns() <= exact_ns() {
            return Some(drawn.first_id());
        }
        let room = QUEUED_MAX.saturating_sub(stock.queued.len());
        stock.queued.extend(drawn.held_runs().take(room));
        None
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

        let was_asked = refill.is_some();
        let ahead = refill.and_then(|refill| collect(core, refill, deadline));
        let outcome = match ahead {
            Some(drawn) => Ok(drawn),
            None if has_ended() || was_asked && deadline.is_over() => Err(deadline.missed()),
            None => core.draw(self.name(), count, true, deadline),
        };

        let mut stock = supply.lock();
        stock.fetching = false;
        supply.wake(&stock);
        Ok(stock.stow(self.slot(), &outcome?))
    }

    /// Draws one id with a separate request.
    fn next_unheld(&self, core: &Core, supply: &Supply, deadline: &mut Deadline) -> Result<u64> {
        let drawn = core.draw(self.name(), 1, true, deadline)?;
        if drawn.hold_ms > 0 {
            // The tag was recreated, and its ids may be held now.
            supply.lock().never_hold = false;
        }
        Ok(drawn.first_id())
    }
}

/// The result of a request that was sent ahead, if it is usable. An old error is ignored, because a new request shows
/// the current problem.
fn collect(core: &Core, refill: Refill, deadline: &Deadline) -> Option<DrawnIds> {
    let Refill { pooled, number, count, sent_ns } = refill;
    match core.pool().answer(pooled, number, opcode::IDS, true, deadline.end_of_grace())? {
        RequestOutcome::Body(body) => DrawnIds::decode(&body, count, true, sent_ns)
            .ok()
            .filter(|drawn| drawn.expires_ns() > exact_ns()),
        _ => None,
    }
}

/// Sends a request for the next run, if that is possible without waiting.
fn ask_ahead(stock: &mut Stock, entry: &TagEntry, core: &Core) {
    if stock.refill.is_some() || stock.fetching || !stock.queued.is_empty() || stock.never_hold {
        return;
    }
    // If no connection is free, nothing is lost, because the request is repeated at the end of the run.
    let Some(mut pooled) = core.pool().take_ahead() else { return };
    let sent_ns = exact_ns();
    stock.learn(entry.slot(), sent_ns);
    let count = stock.wish();
    let deadline_ms = u32::try_from(core.limit.as_millis()).unwrap_or(u32::MAX);
    let request = IdsRequest { tag: entry.name().as_bytes(), count, deadline_ms };
    let number = pooled.connection.submit(|id, out| request.put(true, id, out));
    pooled.connection.send();
    stock.refill = Some(Refill { pooled, number, count, sent_ns });
}
