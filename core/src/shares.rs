//! A limited amount that users share. Whatever one user takes, something is left for the others.
//!
//! A user may take more only while it would hold no more than what is still free. So one user gets at most half of the
//! amount, two together at most two thirds, and the next one always finds some. This is the dynamic threshold of
//! Choudhury and Hahne (1998) for buffers that many queues share. No user needs a limit of its own.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// An amount, and how much of it each user holds. `K` identifies a user.
#[derive(Clone, Debug)]
pub struct Shares<K = u32> {
    /// The total amount.
    pub capacity: u64,
    /// Only trusted users may take this part.
    reserve: u64,
    /// The amount that all users hold together.
    pub taken: u64,
    /// Users that hold nothing have no entry.
    by_user: BTreeMap<K, u64>,
}

/// A user that takes something, and whether it may use the reserve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claimant<K = u32> {
    /// The user's number, as the kernel reports it; or any other key that identifies a user.
    pub uid: K,
    /// Whether it is root, the daemon's own user or an administrator.
    pub trusted: bool,
}

/// One of the places that users share. Dropping it returns the place.
#[derive(Debug)]
pub struct ShareSlot<K: Copy + Ord = u32> {
    places: Rc<RefCell<Shares<K>>>,
    claimant: Claimant<K>,
}

/// One part in this many of the capacity is reserved for trusted users.
const RESERVE_PART: u64 = 32;

impl<K: Copy + Ord> Shares<K> {
    /// All of `capacity` is free. A thirty-second of it is reserved for trusted users.
    pub fn new(capacity: u64) -> Shares<K> {
        Shares { capacity, reserve: capacity / RESERVE_PART, taken: 0, by_user: BTreeMap::new() }
    }

    /// Takes `amount` for a user. Returns false, and takes nothing, if the user would hold more than is left for
    /// others.
    pub fn take(&mut self, claimant: Claimant<K>, amount: u64) -> bool {
        let admitted = self.admits(claimant, amount);
        if admitted {
            self.force(claimant, amount);
        }
        admitted
    }

    /// Whether a user may take `amount`.
    pub fn admits(&self, claimant: Claimant<K>, amount: u64) -> bool {
        let free = self.capacity.saturating_sub(self.taken);
        if claimant.trusted {
            return amount <= free;
        }
        let open = free.saturating_sub(self.reserve);
        amount <= open && self.of(claimant.uid).saturating_add(amount) <= open
    }

    /// Takes `amount` without a check, for what can't be refused any more: the answer to an admitted request, for
    /// example.
    pub fn force(&mut self, claimant: Claimant<K>, amount: u64) {
        if amount > 0 {
            self.taken = self.taken.saturating_add(amount);
            let held = self.by_user.entry(claimant.uid).or_default();
            *held = held.saturating_add(amount);
        }
    }

    /// Returns what a user took.
    ///
    /// # Panics
    /// If the user holds less than that.
    pub fn give_back(&mut self, claimant: Claimant<K>, amount: u64) {
        if amount == 0 {
            return;
        }
        let held = self.by_user.get_mut(&claimant.uid).filter(|held| **held >= amount);
        let held = held.expect("what is given back was taken");
        *held -= amount;
        if *held == 0 {
            self.by_user.remove(&claimant.uid);
        }
        self.taken -= amount;
    }

    /// The amount that a user holds.
    pub fn of(&self, uid: K) -> u64 {
        self.by_user.get(&uid).copied().unwrap_or(0)
    }
}

impl<K: Copy + Ord> ShareSlot<K> {
    /// A place for a user; `None` if the user has as many as it may have.
    pub fn take(places: &Rc<RefCell<Shares<K>>>, claimant: Claimant<K>) -> Option<ShareSlot<K>> {
        let taken = places.borrow_mut().take(claimant, 1);
        taken.then(|| ShareSlot { places: Rc::clone(places), claimant })
    }
}

impl<K: Copy + Ord> Drop for ShareSlot<K> {
    fn drop(&mut self) {
        self.places.borrow_mut().give_back(self.claimant, 1);
    }
}
