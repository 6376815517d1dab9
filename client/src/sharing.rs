//! Ids from a run that all processes of the user share: taken from memory, and asked for when there are none.
//!
//! The way to the mapped pages lies in memory that a fork wipes, so a child asks for them anew. Pages stay mapped until the
//! client goes, because another thread may be drawing from them.

use std::sync::atomic::Ordering;
use std::time::Duration;

use leafd_wire::share::{Drawn, Taken};
use leafd_wire::{ShareReply, ShareRequest, Status};

use crate::clock::{coarse_ns, exact_ns};
use crate::core::{Attempts, Core};
use crate::deadline::Deadline;
use crate::error::{Error, Result};
use crate::mapping::{Mapping, Pages};
use crate::names::Node;
use crate::requests::{Asked, Outcome, SharedPages};

/// Most pages of one tag that a process maps in its life: a daemon's restart or a change of its rules makes new ones.
const MAPPINGS_MAX: usize = 1_024;

/// Before the daemon is asked again that could not tell yet, or whose ids others had taken.
const PAUSE: Duration = Duration::from_millis(1);

/// A daemon that doesn't know shared runs is asked again after this.
const UNKNOWN_MS: u32 = 60_000;

/// A daemon with another clock is asked again after this: this process may be moved to its time namespace.
const OTHER_CLOCK_MS: u32 = 15_000;

/// Why no id was taken from memory.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Lack {
    /// The tag is not shared at present: ids are to be had as without.
    NotShared,
    /// The daemon has to be asked.
    Ask {
        /// A ticket that stands for an id when there is one.
        waiting: Option<Waiting>,
    },
}

/// A ticket that stands for nothing yet. It is good on the page that it was taken from, and on no other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    page: u64,
    ticket: u64,
}

/// What the slow path came to.
pub(crate) enum Shared {
    Id(u64),
    /// As without sharing.
    Not,
}

// === impl Node ===

impl Node {
    /// Takes an id from memory. It never waits.
    #[inline]
    pub(crate) fn take_shared(&self) -> std::result::Result<Taken, Lack> {
        let now_ns = coarse_ns();
        let Some(pages) = self.pages() else {
            let until_ns = self.cell().unshared_until_ns.load(Ordering::Relaxed);
            return Err(if now_ns < until_ns {
                Lack::NotShared
            } else {
                Lack::Ask { waiting: None }
            });
        };
        match pages.run.draw(pages.tickets, now_ns) {
            Some(Ok(taken)) => Ok(taken),
            Some(Err(ticket)) => {
                Err(Lack::Ask { waiting: Some(Waiting { page: pages.run.number(), ticket }) })
            }
            None => Err(Lack::Ask { waiting: None }),
        }
    }

    /// Has the daemon publish more, without waiting for it.
    #[cold]
    pub(crate) fn ask_for_more(&self, core: &Core) {
        let Some(pages) = self.pages() else { return };
        let state = core.state();
        // The answers to what was asked before: nobody else may be reading.
        state.probe();
        let Some(mut link) = state.try_lock() else { return };
        if !link.is_connected() || !link.is_sent() || !link.requests.has_room_ahead() {
            return;
        }
        let request =
            ShareRequest { tag: self.name().as_bytes(), deadline_ms: 0, page: pages.run.number() };
        // One that can't be sent is not missed: whoever finds no id asks again.
        if let Ok(ticket) = link.submit(Asked::Share, None, |id, out| request.put(id, out)) {
            link.send();
            drop(link);
            state.abandon(ticket);
        }
    }

    /// An id after the daemon was asked. `waiting`: a ticket that was taken.
    #[cold]
    pub(crate) fn next_shared(
        &self,
        core: &Core,
        mut waiting: Option<Waiting>,
        deadline: &mut Deadline,
    ) -> Result<Shared> {
        for round in 0_u32.. {
            if round > 0 {
                if deadline.is_over() {
                    break;
                }
                // Most find an id at once. Without one nothing else is drawn: whoever draws from memory gets smaller ones.
                std::thread::sleep(PAUSE);
            }
            let before = self.pages().map_or(0, |pages| pages.run.number());
            let asked_ns = exact_ns();
            match self.ask_to_share(core, before, deadline)? {
                (ShareReply::NotShared { again_ms: 0 }, _) => continue,
                (ShareReply::NotShared { again_ms }, _) => {
                    self.unshare(again_ms);
                    return Ok(Shared::Not);
                }
                (ShareReply::Same { .. }, _) => {}
                (ShareReply::Pages { page }, descriptors) => {
                    if !self.adopt(page, descriptors)? {
                        self.unshare(UNKNOWN_MS);
                        return Ok(Shared::Not);
                    }
                }
            }
            let Some(pages) = self.pages() else { continue };
            // Not the coarse clock: what has just been renewed is to be found so.
            let now_ns = exact_ns();
            if pages.run.is_of_another_clock(asked_ns, now_ns) {
                self.unshare(OTHER_CLOCK_MS);
                return Ok(Shared::Not);
            }
            // Another thread may have mapped another page at any moment, where the number is another process's.
            let page = pages.run.number();
            let kept = waiting.take().filter(|taken| taken.page == page);
            match kept.map(|kept| (kept, pages.run.find(kept.ticket))) {
                Some((_, Drawn::Taken(taken))) if pages.run.is_open(now_ns) => {
                    return Ok(Shared::Id(taken.id));
                }
                Some((kept, Drawn::Unpublished)) => waiting = Some(kept),
                _ => match pages.run.draw(pages.tickets, now_ns) {
                    Some(Ok(taken)) => {
                        if taken.refill_due {
                            self.ask_for_more(core);
                        }
                        return Ok(Shared::Id(taken.id));
                    }
                    Some(Err(ticket)) => waiting = Some(Waiting { page, ticket }),
                    None => {}
                },
            }
        }
        Err(deadline.missed())
    }

    fn ask_to_share(
        &self,
        core: &Core,
        page: u64,
        deadline: &mut Deadline,
    ) -> Result<(ShareReply, Option<SharedPages>)> {
        let attempts = Some(Attempts::default());
        let outcome = core.exchange(Asked::Share, attempts, deadline, |deadline, id, out| {
            let deadline_ms = deadline.left_ms();
            ShareRequest { tag: self.name().as_bytes(), deadline_ms, page }.put(id, out);
        });
        match outcome {
            Ok(Outcome::Share(reply, descriptors)) => Ok((reply, descriptors)),
            Ok(_) => Err(Error::Protocol { what: "an answer that is not SHARE's".to_owned() }),
            Err(error) if error.status() == Some(Status::UnknownOpcode) => {
                Ok((ShareReply::NotShared { again_ms: UNKNOWN_MS }, None))
            }
            Err(error) => Err(error),
        }
    }

    /// Maps pages, unless another thread has. `false`: this build can't draw from them.
    fn adopt(&self, number: u64, descriptors: Option<SharedPages>) -> Result<bool> {
        let Some(descriptors) = descriptors else { return Ok(false) };
        let no_room =
            |source| Error::Resources { what: "can't map the memory of a shared run", source };
        let Some(mapping) = Mapping::new(&descriptors, number).map_err(no_room)? else {
            return Ok(false);
        };
        Ok(self.keep_mapping(number, mapping, MAPPINGS_MAX))
    }

    /// From now on no id is taken from memory, for so long.
    fn unshare(&self, again_ms: u32) {
        let cell = self.cell();
        let until_ns = exact_ns().saturating_add(u64::from(again_ms) * 1_000_000);
        cell.unshared_until_ns.store(until_ns, Ordering::Relaxed);
        cell.shared.store(std::ptr::null_mut(), Ordering::Release);
    }

    #[inline]
    pub(crate) fn pages(&self) -> Option<Pages<'_>> {
        // SAFETY: the supply keeps every mapping until the core goes, which callers hold.
        unsafe { Pages::kept(&self.cell().shared) }
    }
}
