//! Names that no journal or store has confirmed yet. Users can invent names, so their number is limited for each user,
//! and they are forgotten as soon as no request waits for them.

use std::rc::Rc;

use leafd_core::shares::{Claimant, ShareSlot};

use super::{SegmentTag, Segments};
use crate::reply::Failure;

/// How many names may be unconfirmed at a time, divided among the users.
pub(super) const UNCONFIRMED_MAX: usize = 1_000;

impl Segments {
    /// A place for a name that this user requests.
    ///
    /// # Errors
    /// Too many of the user's names are not confirmed yet.
    pub(super) fn name_place(&self, claimant: Claimant) -> Result<ShareSlot, Failure> {
        ShareSlot::take(&self.unconfirmed, claimant).ok_or_else(|| {
            Failure::overloaded(
                "this user is looking up too many new tags at once",
                "the limit",
                UNCONFIRMED_MAX,
            )
        })
    }

    /// Forgets a tag about which nothing is known and for which no request waits, because its name may be invented. A
    /// name with a pending claim keeps its place until the store has answered, and one that waits to claim until its
    /// turn.
    pub(super) fn forget_unconfirmed(&self, tag: &Rc<SegmentTag>) {
        let idle = || {
            let allocator = tag.allocator.borrow();
            allocator.waiting.is_empty() && !allocator.claiming() && !tag.awaits_turn.get()
        };
        if tag.unconfirmed.borrow().is_none() || !idle() || tag.evicted.replace(true) {
            return;
        }
        self.put_out_of_use(tag);
    }
}
