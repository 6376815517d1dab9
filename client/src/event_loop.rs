//! For event loops that talk to the daemon on their own socket. They request runs, and the runs are held here, where a
//! fork wipes them.
//!
//! A loop takes ids by [`Tag::take_for_loop`] and, if that has none, by [`Tag::advance`]. If neither has one,
//! or if the first reports that the next run is due, the loop sends an IDS request with the flag HOLD for
//! [`Tag::wish`] ids. It passes the reply's body to [`Tag::hold`].

use crate::clock::{coarse_ns, exact_ns};
use crate::error::Result;
use crate::replies::DrawnIds;
use crate::slot::HeldId;
use crate::tag::Tag;

impl Tag {
    /// Like [`Tag::take`], but the caller requests the next run.
    ///
    /// It takes no lock and allocates nothing, so a signal handler may call it. (The handler's thread then
    /// calls [`Tag::next`] for the next run.)
    #[doc(hidden)]
    #[inline]
    pub fn take_for_loop(&self) -> Option<HeldId> {
        if !self.holds {
            return None;
        }
        self.slot().take(coarse_ns())
    }

    /// Returns the first id of the next run from [`Tag::hold`], or of the current one if another thread was faster.
    /// `None`: no usable ids are left, and the caller must send a request.
    #[doc(hidden)]
    pub fn advance(&self) -> Option<u64> {
        if self.holds { self.entry().advance() } else { None }
    }

    /// Returns how many ids to request when `waiting` callers have none.
    #[doc(hidden)]
    pub fn wish(&self, waiting: u32) -> u32 {
        if self.holds { self.entry().wish(waiting) } else { 1 }
    }

    /// Handles the body of an OK reply to a request for `asked` ids to be held. `asked_ns`: when the request was sent,
    /// on `CLOCK_BOOTTIME`. If these ids may not be held, or the reply came too late for that, this returns one id and
    /// skips the rest. That id is for a call that began before the request was sent. If there is no such call, skip it.
    ///
    /// # Errors
    /// [`crate::Error::Protocol`] for a body that doesn't answer such a request. Nothing is held then.
    #[doc(hidden)]
    pub fn hold(&self, body: &[u8], asked: u32, asked_ns: u64) -> Result<Option<u64>> {
        // A time in the future would keep the run for too long.
        let drawn = DrawnIds::decode(body, asked, true, asked_ns.min(exact_ns()))?;
        Ok(if self.holds { self.entry().queue(&drawn) } else { Some(drawn.first_id()) })
    }
}
