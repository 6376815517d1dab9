//! Ids from a run that all processes of the user share: taken from memory, and asked for when there are none.
//!
//! The way to the mapped pages lies in memory that a fork wipes, so a child asks for them anew. Pages stay mapped until the
//! client goes, because another thread may be drawing from them.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::Ordering;
use std::time::Duration;

use leafd_wire::share::{DESCRIPTORS, Drawn, Taken};
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
    Ask(Place),
}

/// Where a call stands that waits for an id of a shared run: the ticket that it has taken, if any. By default none.
///
/// A ticket is good in the pages that it was taken from, for the process that took it, and nowhere else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    ticket: u64,
    /// The pages' number; 0: there is no ticket.
    page: u64,
    /// Of the process: when it mapped its first pages of the tag.
    mapped_ns: u64,
}

/// What the slow path came to.
pub(crate) enum Shared {
    Id(u64),
    /// As without sharing.
    Not,
}

// === impl Place ===

impl Place {
    /// As numbers, which mean nothing to others; all zeros are a place without a ticket.
    #[must_use]
    pub fn words(self) -> [u64; 3] {
        [self.ticket, self.page, self.mapped_ns]
    }

    /// From what [`Place::words`] has returned.
    #[must_use]
    pub fn of_words([ticket, page, mapped_ns]: [u64; 3]) -> Place {
        Place { ticket, page, mapped_ns }
    }
}

// === impl Node ===

impl Node {
    /// Takes an id from memory. It never waits.
    #[inline]
    pub(crate) fn take_shared(&self) -> std::result::Result<Taken, Lack> {
        let now_ns = coarse_ns();
        let Some(pages) = self.pages() else { return Err(self.without_pages(now_ns)) };
        self.draw_of(pages, now_ns)
    }

    /// As [`Node::take_shared`], but takes no ticket that doesn't stand for an id (unless another process is faster).
    pub(crate) fn take_published(&self) -> std::result::Result<Taken, Lack> {
        let now_ns = coarse_ns();
        let Some(pages) = self.pages() else { return Err(self.without_pages(now_ns)) };
        match pages.run.find(pages.tickets.taken()) {
            Drawn::Taken(_) => self.draw_of(pages, now_ns),
            Drawn::Unpublished | Drawn::Lost => Err(Lack::Ask(Place::default())),
        }
    }

    /// Takes an id when the daemon was asked: the ticket's of `place`, if it still is good for one.
    pub(crate) fn take_asked(&self, place: Place) -> std::result::Result<Taken, Lack> {
        // Not the coarse clock: what has just been renewed is to be found so.
        let now_ns = exact_ns();
        let Some(pages) = self.pages() else { return Err(self.without_pages(now_ns)) };
        if place.page == pages.run.number() && place.mapped_ns == self.mapped_ns() {
            match pages.run.find(place.ticket) {
                Drawn::Taken(taken) if pages.run.is_open(now_ns) => return Ok(taken),
                Drawn::Unpublished => return Err(Lack::Ask(place)),
                Drawn::Taken(_) | Drawn::Lost => {}
            }
        }
        self.draw_of(pages, now_ns)
    }

    #[inline]
    fn draw_of(&self, pages: Pages<'_>, now_ns: u64) -> std::result::Result<Taken, Lack> {
        match pages.run.draw(pages.tickets, now_ns) {
            Some(Ok(taken)) => Ok(taken),
            Some(Err(ticket)) => {
                let (page, mapped_ns) = (pages.run.number(), self.mapped_ns());
                Err(Lack::Ask(Place { ticket, page, mapped_ns }))
            }
            None => Err(Lack::Ask(Place::default())),
        }
    }

    #[cold]
    fn without_pages(&self, now_ns: u64) -> Lack {
        let until_ns = self.cell().unshared_until_ns.load(Ordering::Relaxed);
        if now_ns < until_ns { Lack::NotShared } else { Lack::Ask(Place::default()) }
    }

    fn mapped_ns(&self) -> u64 {
        self.cell().mapped_ns.load(Ordering::Relaxed)
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

    /// An id after the daemon was asked.
    #[cold]
    pub(crate) fn next_shared(
        &self,
        core: &Core,
        mut place: Place,
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
            let asked_ns = exact_ns();
            let (reply, descriptors) = self.ask_to_share(core, self.page_number(), deadline)?;
            let descriptors = descriptors.as_ref().map(|both| both.each_ref().map(AsFd::as_fd));
            self.take_in(&reply, descriptors, asked_ns)?;
            match self.take_asked(place) {
                Ok(taken) => return Ok(Shared::Id(crate::client::shared(core, self, taken))),
                Err(Lack::Ask(waiting)) => place = waiting,
                Err(Lack::NotShared) => return Ok(Shared::Not),
            }
        }
        Err(deadline.missed())
    }

    /// The number of the pages that ids are drawn from; 0: of none.
    pub(crate) fn page_number(&self) -> u64 {
        self.pages().map_or(0, |pages| pages.run.number())
    }

    /// Does as the daemon has answered to a request made at `asked_ns`.
    pub(crate) fn take_in(
        &self,
        reply: &ShareReply,
        descriptors: Option<[BorrowedFd<'_>; DESCRIPTORS]>,
        asked_ns: u64,
    ) -> Result<()> {
        match *reply {
            ShareReply::NotShared { again_ms: 0 } => return Ok(()),
            ShareReply::NotShared { again_ms } => {
                self.unshare(again_ms);
                return Ok(());
            }
            ShareReply::Same { .. } => {}
            ShareReply::Pages { page } => {
                if !self.adopt(page, descriptors)? {
                    self.unshare(UNKNOWN_MS);
                    return Ok(());
                }
            }
        }
        let of_another_clock =
            |pages: Pages<'_>| pages.run.is_of_another_clock(asked_ns, exact_ns());
        if self.pages().is_some_and(of_another_clock) {
            self.unshare(OTHER_CLOCK_MS);
        }
        Ok(())
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
    fn adopt(
        &self,
        number: u64,
        descriptors: Option<[BorrowedFd<'_>; DESCRIPTORS]>,
    ) -> Result<bool> {
        let Some(descriptors) = descriptors else { return Ok(false) };
        let no_room =
            |source| Error::Resources { what: "can't map the memory of a shared run", source };
        let Some(mapping) = Mapping::new(descriptors, number).map_err(no_room)? else {
            return Ok(false);
        };
        // Before there is a way to the pages: whoever draws from them finds it.
        let first = exact_ns();
        let _ =
            self.cell().mapped_ns.compare_exchange(0, first, Ordering::Relaxed, Ordering::Relaxed);
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
