//! Names that nothing is known of yet: anybody can make them up, so they are bounded, charged to whoever asked, and
//! forgotten as soon as nobody waits for them. The store is asked for a few of each user's at once: its calls are made
//! one after the other, and those of other users come soon.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::rc::{Rc, Weak};

use leafd_core::shares::{Claimant, Shares};

use super::{SegmentTag, Segments};
use crate::reply::Failure;

/// Names that may be unconfirmed at once, shared out by user.
const UNCONFIRMED_MAX: u64 = 1_000;

/// So many of one user's names the store is asked for at once.
const ASKED_AT_ONCE: usize = 8;

/// What all unconfirmed names share.
#[derive(Clone)]
pub(super) struct Names(Rc<RefCell<State>>);

struct State {
    places: Shares,
    /// By user; those that ask for nothing are not kept.
    turns: HashMap<u32, Turns>,
}

/// Whose turn it is among one user's names.
#[derive(Default)]
struct Turns {
    /// How many the store is asked for.
    asked: usize,
    waiting: VecDeque<Weak<SegmentTag>>,
}

/// One name's place. Dropping it gives the place back.
pub(super) struct Place {
    names: Names,
    claimant: Claimant,
    /// Whether it waits for its turn.
    waits: Cell<bool>,
}

/// A name that the store is being asked for. Dropping it lets the user's next name have its turn.
pub(crate) struct Asked {
    names: Names,
    uid: u32,
}

impl Default for Names {
    fn default() -> Self {
        let state = State { places: Shares::new(UNCONFIRMED_MAX), turns: HashMap::new() };
        Names(Rc::new(RefCell::new(state)))
    }
}

impl Names {
    /// A place for a name that this user asks for.
    ///
    /// # Errors
    /// The user has asked for too many that are not confirmed yet.
    pub(super) fn take(&self, claimant: Claimant) -> Result<Place, Failure> {
        if self.0.borrow_mut().places.take(claimant, 1) {
            return Ok(Place { names: self.clone(), claimant, waits: Cell::new(false) });
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
        self.names.0.borrow_mut().places.give_back(self.claimant, 1);
    }
}

impl Place {
    /// Whether the store may be asked for the name now. If not, it is among the names that [`Asked::answered`] tells of.
    fn has_its_turn(&self, tag: &Rc<SegmentTag>) -> bool {
        let mut names = self.names.0.borrow_mut();
        let Some(turns) = names.turns.get_mut(&self.claimant.uid) else { return true };
        if turns.asked < ASKED_AT_ONCE {
            self.waits.set(false);
            return true;
        }
        if !self.waits.replace(true) {
            // Those that were forgotten while they waited still take memory.
            if turns.waiting.len() as u64 >= UNCONFIRMED_MAX {
                turns.waiting.retain(|tag| tag.strong_count() > 0);
            }
            turns.waiting.push_back(Rc::downgrade(tag));
        }
        false
    }

    fn ask(&self) -> Asked {
        let uid = self.claimant.uid;
        self.names.0.borrow_mut().turns.entry(uid).or_default().asked += 1;
        Asked { names: self.names.clone(), uid }
    }
}

impl Asked {
    /// The store has answered: the name that comes next, if one waits.
    pub(super) fn answered(self) -> Option<Rc<SegmentTag>> {
        let mut names = self.names.0.borrow_mut();
        let waiting = &mut names.turns.get_mut(&self.uid)?.waiting;
        std::iter::from_fn(|| waiting.pop_front()).find_map(|tag| tag.upgrade())
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        let mut names = self.names.0.borrow_mut();
        if let Some(turns) = names.turns.get_mut(&self.uid) {
            turns.asked -= 1;
            // Names that wait all the same are looked at with the other waiting requests.
            if turns.asked == 0 {
                names.turns.remove(&self.uid);
            }
        }
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
            self.end_shared(tag);
            self.tags.borrow_mut().remove(tag.tag.as_str());
        }
    }
}

impl SegmentTag {
    /// Whether its store may be asked for it: of names that nothing is known of, each user has a few at once.
    pub(super) fn has_its_turn(self: &Rc<Self>) -> bool {
        self.unconfirmed.borrow().as_ref().is_none_or(|place| place.has_its_turn(self))
    }

    /// To be kept until the store has answered.
    pub(super) fn ask(&self) -> Option<Asked> {
        self.unconfirmed.borrow().as_ref().map(|place| place.ask())
    }

    /// The journal or a store knows the tag.
    pub(super) fn confirm(&self) {
        self.unconfirmed.take();
    }
}
