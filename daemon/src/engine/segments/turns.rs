//! Users take turns in claiming: a store's calls run one after the other, and users who draw from many tags, or invent
//! names of tags, must not keep it busy for themselves.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::rc::{Rc, Weak};

use super::SegmentTag;
use crate::engine::upstream::Upstream;

/// How many claims of one user are sent to a store at a time: enough to keep it busy.
const SENT_AT_ONCE: usize = 4;

/// Stands for the user if no request waits. No user has this id.
const NOBODY: u32 = u32::MAX;

/// The claims under way, and the tags that wait to claim. Users without any are removed.
#[derive(Default)]
pub(super) struct ClaimTurns(RefCell<HashMap<Turn, Queue>>);

/// The right of a user to send a claim to a store, which is identified by its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Turn {
    store: usize,
    uid: u32,
}

#[derive(Default)]
struct Queue {
    sent: usize,
    waiting: VecDeque<Weak<SegmentTag>>,
}

impl ClaimTurns {
    /// A turn for any of the users who wait for the tag. If none has one, [`ClaimTurns::next`] returns the tag later.
    pub(super) fn take(&self, tag: &Rc<SegmentTag>, upstream: &Rc<Upstream>) -> Option<Turn> {
        let store = Rc::as_ptr(upstream).addr();
        let allocator = tag.allocator.borrow();
        let nobody = allocator.waiting.is_empty().then_some(NOBODY);
        let mut turns = allocator.waiting.users().chain(nobody).map(|uid| Turn { store, uid });
        let first = turns.clone().next()?;
        let mut queues = self.0.borrow_mut();
        let free = turns.find(|turn| queues.get(turn).is_none_or(|at| at.sent < SENT_AT_ONCE));
        let queue = queues.entry(free.unwrap_or(first)).or_default();
        if free.is_some() {
            queue.sent += 1;
        } else if !tag.awaits_turn.replace(true) {
            queue.waiting.push_back(Rc::downgrade(tag));
        }
        free
    }

    /// Gives a turn back: the store has answered, or nothing had to be claimed.
    pub(super) fn give_back(&self, turn: Turn) {
        let mut queues = self.0.borrow_mut();
        let queue = queues.get_mut(&turn).expect("a turn that was taken");
        queue.sent -= 1;
        if queue.sent == 0 && queue.waiting.is_empty() {
            queues.remove(&turn);
        }
    }

    /// The user's tag that waits longest, if the user has a turn for it.
    pub(super) fn next(&self, turn: Turn) -> Option<Rc<SegmentTag>> {
        let mut queues = self.0.borrow_mut();
        let queue = queues.get_mut(&turn).filter(|queue| queue.sent < SENT_AT_ONCE)?;
        let next = std::iter::from_fn(|| queue.waiting.pop_front()).find_map(|tag| tag.upgrade());
        match &next {
            Some(tag) => tag.awaits_turn.set(false),
            None if queue.sent == 0 => drop(queues.remove(&turn)),
            None => {}
        }
        next
    }
}
