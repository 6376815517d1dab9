//! For event loops that talk to the daemon on their own socket. They ask for runs, and the runs are held
//! here, where a fork wipes them.
//!
//! A loop takes ids by [`Tag::take_for_loop`] and, if that has none, by [`Tag::advance`]. If neither has one,
//! or if the first reports that the next run is due, the loop sends an IDS request with the flag HOLD for
//! [`Tag::wish`] ids. It passes the reply's body to [`Tag::hold`].
//!
//! Of a run that the user's processes share, a loop takes ids by [`Tag::draw`]. If the daemon has to be asked, the loop
//! sends a SHARE request with the number of [`Tag::shared_page`], passes the reply to [`Tag::share`] and what came
//! with it, and goes on with [`Tag::draw_asked`].

use std::os::fd::BorrowedFd;

use leafd_wire::ShareReply;
use leafd_wire::share::DESCRIPTORS;

use crate::clock::{coarse_ns, exact_ns};
use crate::error::{Error, Result};
use crate::sharing::{Lack, Place};
use crate::slot::Taken;
use crate::tag::Tag;

/// An id of a held run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// The id.
    pub id: u64,
    /// It is time to ask for the next run. True once per run.
    pub refill_due: bool,
}

/// What a loop got that drew from a shared run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Draw {
    /// An id. If a refill is due, the loop asks without waiting, by SHARE if there is a [`Tag::shared_page`].
    Id(Held),
    /// The daemon has to be asked, by SHARE.
    Ask,
    /// The tag is not shared at present, and nothing is held: ids are to be had as without sharing.
    Nothing,
}

impl Tag {
    /// As [`Tag::take`], but the caller asks for the next run.
    ///
    /// It takes no lock and allocates nothing, so a signal handler may call it. (The handler's thread then
    /// calls [`Tag::next`] for the next run.)
    #[inline]
    #[must_use]
    pub fn take_for_loop(&self) -> Option<Held> {
        self.take_of_run(coarse_ns()).map(Held::from)
    }

    /// The first id of the next run from [`Tag::hold`], or of the present one if another thread was faster.
    /// `None`: nothing usable is left, and the daemon has to be asked.
    #[must_use]
    pub fn advance(&self) -> Option<u64> {
        if self.holds() { self.node().advance() } else { None }
    }

    /// How many ids to ask for when `waiting` callers have none.
    #[must_use]
    pub fn wish(&self, waiting: u32) -> u32 {
        if self.holds() { self.node().wish(waiting) } else { 1 }
    }

    /// Takes in the body of an OK reply to a request for `asked` ids to be held. `asked_ns`: when the request
    /// was sent, on `CLOCK_BOOTTIME`. If these ids may not be held, it returns one id, which belongs to the
    /// caller, and skips the rest.
    ///
    /// # Errors
    /// [`crate::Error::Protocol`] for a body that doesn't answer such a request. Nothing is held then.
    pub fn hold(&self, body: &[u8], asked: u32, asked_ns: u64) -> Result<Option<u64>> {
        let drawn = crate::requests::decode_held(body, asked)?;
        if !self.holds() {
            return Ok(Some(drawn.first.first));
        }
        // A time in the future would let the run live too long.
        Ok(self.node().queue(&drawn, asked_ns.min(exact_ns())))
    }

    /// An id of the shared run, or of the held one where the tag is not shared.
    #[inline]
    #[must_use]
    pub fn draw(&self) -> Draw {
        if self.shares() {
            match self.node().take_published() {
                Ok(taken) => return Draw::Id(taken.into()),
                Err(Lack::Ask(_)) => return Draw::Ask,
                Err(Lack::NotShared) => {}
            }
        }
        self.take_for_loop().map_or(Draw::Nothing, Draw::Id)
    }

    /// As [`Tag::draw`], for a call that waits: before the daemon is asked, and after each answer. It never waits
    /// itself. `place`: the call's own, by default at first. The call keeps its ticket there, which brings it an id before
    /// those that draw later.
    #[must_use]
    pub fn draw_asked(&self, place: &mut Place) -> Draw {
        if !self.shares() {
            return Draw::Nothing;
        }
        match self.node().take_asked(std::mem::take(place)) {
            Ok(taken) => Draw::Id(taken.into()),
            Err(Lack::Ask(waiting)) => {
                *place = waiting;
                Draw::Ask
            }
            Err(Lack::NotShared) => Draw::Nothing,
        }
    }

    /// The number of the pages that ids are drawn from, for a SHARE request; 0: of none.
    #[must_use]
    pub fn shared_page(&self) -> u64 {
        if self.shares() { self.node().page_number() } else { 0 }
    }

    /// Takes in the body of an OK reply to a SHARE request. `descriptors`: those that came with it; they may be closed
    /// afterwards. `asked_ns`: when the request was sent, on `CLOCK_BOOTTIME`.
    ///
    /// # Errors
    /// [`crate::Error::Protocol`] for a body that doesn't answer such a request, [`crate::Error::Resources`] if the pages
    /// can't be mapped.
    pub fn share(
        &self,
        body: &[u8],
        descriptors: Option<[BorrowedFd<'_>; DESCRIPTORS]>,
        asked_ns: u64,
    ) -> Result<()> {
        let protocol = |what: &str| Error::Protocol { what: what.to_owned() };
        let reply = ShareReply::decode(body).map_err(|error| protocol(error.what))?;
        if matches!(reply, ShareReply::Pages { .. }) && descriptors.is_none() {
            return Err(protocol("no descriptors came with a shared run"));
        }
        match self.shares() {
            true => self.node().take_in(&reply, descriptors, asked_ns),
            false => Ok(()),
        }
    }
}

impl From<Taken> for Held {
    fn from(Taken { id, refill_due }: Taken) -> Held {
        Held { id, refill_due }
    }
}

impl From<leafd_wire::share::Taken> for Held {
    fn from(taken: leafd_wire::share::Taken) -> Held {
        Held { id: taken.id, refill_due: taken.refill_due }
    }
}
