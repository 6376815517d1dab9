//! Requests that wait for the same scarce resource. Users are served in turn, and so are the connections of each user. So
//! no user or connection has to wait until another one's requests are all served.

use std::collections::VecDeque;

use crate::shares::{Claimant, Shares};

/// The origin of a waiting request: a user, and one of its connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asker {
    pub claimant: Claimant,
    /// Identifies one of its connections.
    pub connection: u64,
}

/// The lines of waiting requests. `T` is the caller's handle of a request.
#[derive(Debug)]
pub struct Lines<T> {
    /// The users with a line, and their connections with a line; the first user and the first connection are next. No
    /// line is empty.
    users: Turns<u32, Turns<u64, Line<T>>>,
    places: Shares,
}

/// Entries by their keys; the first one is next.
type Turns<K, V> = VecDeque<(K, V)>;

/// The requests of one connection.
type Line<T> = VecDeque<(Claimant, T)>;

impl<T> Lines<T> {
    /// Creates empty lines. At most `places` requests may wait in total, divided between users.
    pub fn new(places: u64) -> Lines<T> {
        Lines { users: VecDeque::new(), places: Shares::new(places) }
    }

    /// Queues a request at the end of its connection's line.
    ///
    /// # Errors
    /// Returns the handle if no place is left for this user.
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
        let (uid, mut connections) = self.users.pop_front()?;
        let (connection, mut line) = connections.pop_front()?;
        let (claimant, handle) = line.pop_front()?;
        if !line.is_empty() {
            connections.push_back((connection, line));
        }
        if !connections.is_empty() {
            self.users.push_back((uid, connections));
        }
        self.places.give_back(claimant, 1);
        Some((Asker { claimant, connection }, handle))
    }

    /// Puts an unfinished request back at the front of its line.
    pub fn put_back(&mut self, asker: Asker, handle: T) {
        self.places.force(asker.claimant, 1);
        self.line(asker).push_front((asker.claimant, handle));
    }

    /// Removes and returns every request for which `picked` is true.
    pub fn take_out(&mut self, picked: impl Fn(&T) -> bool) -> Vec<T> {
        let mut out = Vec::new();
        self.users.retain_mut(|(_, connections)| {
            connections.retain_mut(|(_, line)| {
                for (claimant, handle) in std::mem::take(line) {
                    if picked(&handle) {
                        self.places.give_back(claimant, 1);
                        out.push(handle);
                    } else {
                        line.push_back((claimant, handle));
                    }
                }
                !line.is_empty()
            });
            !connections.is_empty()
        });
        out
    }

    /// How many connections wait.
    pub fn connections(&self) -> usize {
        self.users.iter().map(|(_, connections)| connections.len()).sum()
    }

    /// How many requests wait.
    pub fn len(&self) -> usize {
        self.lines().map(VecDeque::len).sum()
    }

    /// All requests, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.lines().flatten().map(|(_, handle)| handle)
    }

    fn lines(&self) -> impl Iterator<Item = &Line<T>> {
        self.users.iter().flat_map(|(_, connections)| connections).map(|(_, line)| line)
    }

    /// Whether no request waits.
    pub fn is_empty(&self) -> bool {
        self.users.is_empty()
    }

    fn line(&mut self, asker: Asker) -> &mut Line<T> {
        entry_of(entry_of(&mut self.users, asker.claimant.uid), asker.connection)
    }
}

/// The value of a key, added behind all others if it is new.
fn entry_of<K: PartialEq, V: Default>(entries: &mut Turns<K, V>, key: K) -> &mut V {
    let place = entries.iter().position(|(known, _)| *known == key).unwrap_or(entries.len());
    if place == entries.len() {
        entries.push_back((key, V::default()));
    }
    &mut entries[place].1
}
