//! For event loops that talk to the daemon on a socket of their own: they ask for runs, and the runs are held
//! here, where a fork wipes them.
//!
//! A loop takes ids by [`Tag::take_for_loop`] and, when there is none, by [`Tag::advance`]. When neither has
//! one, or the first says that the next run is due, it sends an IDS request with the flag HOLD for
//! [`Tag::wish`] ids, and gives the body of the reply to [`Tag::hold`].

use crate::clock::{coarse_ns, exact_ns};
use crate::error::Result;
use crate::slot::Taken;
use crate::tag::Tag;

/// An id of a held run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// The id.
    pub id: u64,
    /// Enough of the run is used: it is time to ask for the next one. True once a run.
    pub refill_due: bool,
}

impl Tag {
    /// As [`Tag::take`], but the next run is the caller's to ask for.
    ///
    /// It takes no lock and allocates nothing, so that a signal handler may call it (whose thread then calls
    /// [`Tag::next`] for the next run).
    #[inline]
    #[must_use]
    pub fn take_for_loop(&self) -> Option<Held> {
        let Taken { id, refill_due } = self.take_of_run(coarse_ns())?;
        Some(Held { id, refill_due })
    }

    /// The first id of the next run that [`Tag::hold`] was given, or of the present one if another thread was
    /// first. `None`: there is nothing left that may be used, and the daemon has to be asked.
    #[must_use]
    pub fn advance(&self) -> Option<u64> {
        if self.holds() { self.node().advance() } else { None }
    }

    /// How many ids to ask for when `waiting` callers have none.
    #[must_use]
    pub fn wish(&self, waiting: u32) -> u32 {
        if self.holds() { self.node().wish(waiting) } else { 1 }
    }

    /// Takes in the body of the reply, whose status is OK, to a request for `asked` ids to be held.
    /// `asked_ns`: when that was sent, on `CLOCK_BOOTTIME`. Returns an id if they may not be held: it is
    /// the caller's, and the rest is skipped.
    ///
    /// # Errors
    /// [`crate::Error::Protocol`] for a body that is not the answer to such a request. Nothing is held then.
    pub fn hold(&self, body: &[u8], asked: u32, asked_ns: u64) -> Result<Option<u64>> {
        let drawn = crate::requests::decode_held(body, asked)?;
        if !self.holds() {
            return Ok(Some(drawn.first.first));
        }
        // A moment to come would let the run live longer than it may.
        Ok(self.node().queue(&drawn, asked_ns.min(exact_ns())))
    }
}
