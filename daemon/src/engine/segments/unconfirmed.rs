//! Names that no journal or store has confirmed yet. Users can invent names, so their number is limited for each user,
//! and they are forgotten as soon as no request waits for them. The store is asked for only a few of each user's names
//! at a time: its calls run one after the other, and other users' names must soon have their turn.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::rc::{Rc, Weak};

use leafd_core::shares::{Claimant, Shares};

use super::{SegmentTag, Segments};
use crate::reply::Failure;

/// How many names may be unconfirmed at a time, divided among the users.
const UNCONFIRMED_MAX: u64 = 1_000;

/// For how many of a user's names the store is asked at a time.
const ASKED_AT_ONCE: usize = 8;

/// The state that all unconfirmed names share.
#[derive(Clone)]
pub(super) struct Names(Rc<RefCell<State>>);

struct State {
    places: Shares,
    /// By user. Users without names are removed.
    turns: HashMap<u32, Turns>,
}

/// The order of one user's names.
#[derive(Default)]
struct Turns {
    /// For how many names the store is being asked.
    asked: usize,
    waiting: VecDeque<Weak<SegmentTag>>,
}

/// The place of a name. Dropping it frees the place.
pub(super) struct NameSlot {
    names: Names,
    claimant: Claimant,
    /// Whether the name waits for its turn.
    waits: Cell<bool>,
}

/// A name for which the store is being asked. Dropping it passes the turn to the user's next name.
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
    /// A place for a name that this user requests.
    ///
    /// # Errors
    /// Too many of the user's names are not confirmed yet.
    pub(super) fn take(&self, claimant: Claimant) -> Result<NameSlot, Failure> {
        if self.0.borrow_mut().places.take(claimant, 1) {
            return Ok(NameSlot { names: self.clone(), claimant, waits: Cell::new(false) });
        }
        let limit = usize::try_from(UNCONFIRMED_MAX).unwrap_or(usize::MAX);
        Err(Failure::overloaded(
            "this user is looking up too many new tags at once",
            "the limit",
            limit,
        ))
    }
}

impl Drop for NameSlot {
    fn drop(&mut self) {
        self.names.0.borrow_mut().places.give_back(self.claimant, 1);
    }
}

impl NameSlot {
    /// Whether the store may be asked for the name now. If not, [`Asked::answered`] returns it later.
    pub(super) fn has_its_turn(&self, tag: &Rc<SegmentTag>) -> bool {
        let mut names = self.names.0.borrow_mut();
        let Some(turns) = names.turns.get_mut(&self.claimant.uid) else { return true };
        if turns.asked < ASKED_AT_ONCE {
            self.waits.set(false);
            return true;
        }
        if !self.waits.replace(true) {
            // Names that were forgotten while they waited still take memory.
            if turns.waiting.len() as u64 >= UNCONFIRMED_MAX {
                turns.waiting.retain(|tag| tag.strong_count() > 0);
            }
            turns.waiting.push_back(Rc::downgrade(tag));
        }
        false
    }

    /// The store is being asked. Keep this until it has answered.
    pub(super) fn ask(&self) -> Asked {
        let uid = self.claimant.uid;
        self.names.0.borrow_mut().turns.entry(uid).or_default().asked += 1;
        Asked { names: self.names.clone(), uid }
    }
}

impl Asked {
    /// The store has answered. Returns the next name, if one waits.
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
            // Names that still wait are checked together with the other waiting requests.
            if turns.asked == 0 {
                names.turns.remove(&self.uid);
            }
        }
    }
}

impl Segments {
    /// Forgets a tag about which nothing is known and for which no request waits, because its name may be invented. A
    /// name with a pending claim keeps its place until the store has answered.
    pub(super) fn forget_unconfirmed(&self, tag: &Rc<SegmentTag>) {
        let idle = || {
            let allocator = tag.allocator.borrow();
            allocator.waiting.is_empty() && !allocator.claiming()
        };
        if tag.unconfirmed.borrow().is_none() || !idle() || tag.evicted.replace(true) {
            return;
        }
        tag.unconfirmed.take();
        self.put_out_of_use(tag);
    }
}
