//! Names that nothing is known of yet: anybody can make them up, so they are bounded, charged to whoever asked, and
//! forgotten as soon as nobody waits for them.

use std::cell::RefCell;
use std::rc::Rc;

use leafd_core::shares::{Claimant, Shares};

use super::{SegmentTag, Segments};
use crate::reply::Failure;

/// Names that may be unconfirmed at once, shared out by user.
const UNCONFIRMED_MAX: u64 = 1_000;

/// What all unconfirmed names share.
#[derive(Clone, Debug)]
pub(super) struct Names(Rc<RefCell<Shares>>);

/// One name's place. Dropping it gives the place back.
#[derive(Debug)]
pub(super) struct Place {
    names: Names,
    claimant: Claimant,
}

impl Default for Names {
    fn default() -> Self {
        Names(Rc::new(RefCell::new(Shares::new(UNCONFIRMED_MAX))))
    }
}

impl Names {
    /// A place for a name that this user asks for.
    ///
    /// # Errors
    /// The user has asked for too many that are not confirmed yet.
    pub(super) fn take(&self, claimant: Claimant) -> Result<Place, Failure> {
        if self.0.borrow_mut().take(claimant, 1) {
            return Ok(Place { names: self.clone(), claimant });
        }
        let limit = usize::try_from(UNCONFIRMED_MAX).unwrap_or(usize::MAX);
        Err(Failure::overloaded(
            "too many tags of this user are looked up at once",
            "the limit",
            limit,
        ))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.names.0.borrow_mut().give_back(self.claimant, 1);
    }
}

impl Segments {
    /// Forgets a tag that nothing is known of and nobody waits for: it may be a name that somebody made up. One whose
    /// claim is under way keeps its place until the store has answered.
    pub(super) fn forget_unconfirmed(&self, tag: &Rc<SegmentTag>) {
        let idle = || {
            let allocator = tag.allocator.borrow();
            allocator.waiting() == 0 && !allocator.claiming()
        };
        if tag.unconfirmed.borrow().is_some() && idle() && !tag.evicted.replace(true) {
            tag.unconfirmed.take();
            self.tags.borrow_mut().remove(tag.tag.as_str());
        }
    }
}

impl SegmentTag {
    /// The journal or a store knows the tag.
    pub(super) fn confirm(&self) {
        self.unconfirmed.take();
    }
}
