//! Requests that wait for the same scarce resource, in one line per user. The lines are served in turn, so no user
//! waits for everything that another one has asked for.

use std::collections::{BTreeMap, VecDeque};

use crate::shares::{Claimant, Shares};

/// Lines of waiting requests. `T` is the caller's handle on one.
#[derive(Debug)]
pub struct Lines<T> {
    lines: BTreeMap<u32, VecDeque<(Claimant, T)>>,
    /// Users with a line; the first one is next.
    turns: VecDeque<u32>,
    places: Shares,
}

impl<T> Lines<T> {
    /// Empty lines. `places`: how many requests may wait in total, shared out by user.
    #[must_use]
    pub fn new(places: u64) -> Lines<T> {
        Lines { lines: BTreeMap::new(), turns: VecDeque::new(), places: Shares::new(places) }
    }

    /// Lets a request wait at the end of its user's line.
    ///
    /// # Errors
    /// The handle, when no place is left for this user.
    pub fn push(&mut self, claimant: Claimant, handle: T) -> Result<(), T> {
        if !self.places.take(claimant, 1) {
            return Err(handle);
        }
        self.line(claimant.uid).push_back((claimant, handle));
        Ok(())
    }

    /// Takes out the first request of the user whose turn it is. The next turn of that user comes after all others.
    pub fn pop(&mut self) -> Option<(Claimant, T)> {
        let uid = self.turns.pop_front()?;
        let line = self.lines.get_mut(&uid).expect("a user with a turn has a line");
        let (claimant, handle) = line.pop_front().expect("a line is not empty");
        if line.is_empty() {
            self.lines.remove(&uid);
        } else {
            self.turns.push_back(uid);
        }
        self.places.give_back(claimant, 1);
        Some((claimant, handle))
    }

    /// Puts an unfinished request back at the front of its user's line.
    pub fn put_back(&mut self, claimant: Claimant, handle: T) {
        self.places.force(claimant, 1);
        self.line(claimant.uid).push_front((claimant, handle));
    }

    /// Takes out every request for which `picked` is true.
    pub fn take_out(&mut self, picked: impl Fn(&T) -> bool) -> Vec<T> {
        let mut out = Vec::new();
        for line in self.lines.values_mut() {
            for (claimant, handle) in std::mem::take(line) {
                if picked(&handle) {
                    self.places.give_back(claimant, 1);
                    out.push(handle);
                } else {
                    line.push_back((claimant, handle));
                }
            }
        }
        self.lines.retain(|_, line| !line.is_empty());
        self.turns.retain(|uid| self.lines.contains_key(uid));
        out
    }

    /// How many users wait.
    #[must_use]
    pub fn users(&self) -> usize {
        self.turns.len()
    }

    /// How many requests wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lines.values().map(VecDeque::len).sum()
    }

    /// Whether none waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }

    fn line(&mut self, uid: u32) -> &mut VecDeque<(Claimant, T)> {
        self.lines.entry(uid).or_insert_with(|| {
            self.turns.push_back(uid);
            VecDeque::new()
        })
    }
}
