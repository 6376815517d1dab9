//! Requests that wait for the same scarce resource. Users are served in turn, and so are the connections of each user. So
//! no user or connection has to wait until another one's requests are all served.

use std::collections::{BTreeMap, VecDeque};

use crate::shares::{Claimant, Shares};

/// Who waits: a user, by one of its connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asker {
    pub claimant: Claimant,
    /// Identifies one of its connections.
    pub connection: u64,
}

/// Lines of waiting requests. `T` is the caller's handle on one.
#[derive(Debug)]
pub struct Lines<T> {
    /// By user and connection. None is empty.
    lines: BTreeMap<(u32, u64), VecDeque<(Claimant, T)>>,
    /// The connections of each user that have a line; the first one is next.
    connections: BTreeMap<u32, VecDeque<u64>>,
    /// Users with a line; the first one is next.
    users: VecDeque<u32>,
    places: Shares,
}

impl<T> Lines<T> {
    /// Empty lines. `places`: how many requests may wait in total, divided between users.
    pub fn new(places: u64) -> Lines<T> {
        Lines {
            lines: BTreeMap::new(),
            connections: BTreeMap::new(),
            users: VecDeque::new(),
            places: Shares::new(places),
        }
    }

    /// Lets a request wait at the end of its connection's line.
    ///
    /// # Errors
    /// The handle, if no place is left for this user.
    pub fn push(&mut self, asker: Asker, handle: T) -> Result<(), T> {
        if !self.places.take(asker.claimant, 1) {
            return Err(handle);
        }
        self.line(asker).push_back((asker.claimant, handle));
        Ok(())
    }

    /// Takes out the next request: the first one of the next connection of the next user. User and connection then move
    /// behind all others.
    pub fn pop(&mut self) -> Option<(Asker, T)> {
        let uid = self.users.pop_front()?;
        let connections = self.connections.get_mut(&uid).expect("a user with a turn has a line");
        let connection = connections.pop_front().expect("a user with a turn has a line");
        let line =
            self.lines.get_mut(&(uid, connection)).expect("a connection with a turn has a line");
        let (claimant, handle) = line.pop_front().expect("a line is not empty");
        if line.is_empty() {
            self.lines.remove(&(uid, connection));
        } else {
            connections.push_back(connection);
        }
        if connections.is_empty() {
            self.connections.remove(&uid);
        } else {
            self.users.push_back(uid);
        }
        self.places.give_back(claimant, 1);
        Some((Asker { claimant, connection }, handle))
    }

    /// Puts an unfinished request back at the front of its line.
    pub fn put_back(&mut self, asker: Asker, handle: T) {
        self.places.force(asker.claimant, 1);
        self.line(asker).push_front((asker.claimant, handle));
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
        self.connections.retain(|uid, connections| {
            connections.retain(|connection| self.lines.contains_key(&(*uid, *connection)));
            !connections.is_empty()
        });
        self.users.retain(|uid| self.connections.contains_key(uid));
        out
    }

    /// How many connections wait.
    pub fn connections(&self) -> usize {
        self.lines.len()
    }

    /// How many requests wait.
    pub fn len(&self) -> usize {
        self.lines.values().map(VecDeque::len).sum()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    fn line(&mut self, asker: Asker) -> &mut VecDeque<(Claimant, T)> {
        let (uid, connection) = (asker.claimant.uid, asker.connection);
        self.lines.entry((uid, connection)).or_insert_with(|| {
            let connections = self.connections.entry(uid).or_insert_with(|| {
                self.users.push_back(uid);
                VecDeque::new()
            });
            connections.push_back(connection);
            VecDeque::new()
        })
    }
}
