//! How much each user of the host draws.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use leafd_checkup::snapshot::User;

use crate::clock;
use leafd_core::RateMeter;

/// How many users are listed individually.
const USERS_MAX: usize = 256;

/// What one user has drawn.
#[derive(Debug)]
pub struct Drawn {
    ids: Cell<u64>,
    rate: RefCell<RateMeter>,
}

/// What all users have drawn.
#[derive(Debug)]
pub struct Users {
    /// Shared with each connection of the user.
    known: RefCell<BTreeMap<u32, Rc<Drawn>>>,
    /// Users beyond the limit, and forgotten ones.
    others: Rc<Drawn>,
}

impl Drawn {
    fn new() -> Rc<Drawn> {
        Rc::new(Drawn { ids: Cell::default(), rate: RefCell::new(RateMeter::new(clock::boot())) })
    }

    /// Counts ids issued to the user.
    pub fn count(&self, ids: u64) {
        self.ids.set(self.ids.get().wrapping_add(ids));
        self.rate.borrow_mut().count(ids);
    }

    fn connections(self: &Rc<Self>) -> usize {
        Rc::strong_count(self) - 1
    }

    fn show(self: &Rc<Self>, uid: Option<u32>) -> User {
        User {
            uid,
            connections: self.connections() as u64,
            issued: self.ids.get(),
            ids_per_second: self.rate.borrow_mut().per_second(clock::boot()).round(),
        }
    }
}

impl Default for Users {
    fn default() -> Self {
        Users { known: RefCell::default(), others: Drawn::new() }
    }
}

impl Users {
    /// Where a connection of this user counts its ids.
    pub(super) fn connect(&self, uid: u32) -> Rc<Drawn> {
        let mut known = self.known.borrow_mut();
        if let Some(drawn) = known.get(&uid) {
            return Rc::clone(drawn);
        }
        if known.len() >= USERS_MAX {
            known.retain(|_, drawn| {
                let stays = drawn.connections() > 0;
                if !stays {
                    // Old draws must not raise the current rate.
                    self.others.ids.set(self.others.ids.get().wrapping_add(drawn.ids.get()));
                }
                stays
            });
        }
        if known.len() >= USERS_MAX {
            return Rc::clone(&self.others);
        }
        Rc::clone(known.entry(uid).or_insert_with(Drawn::new))
    }

    /// Users that have connected since the start, busiest first. The last entry, without a uid, is the total of the
    /// others.
    pub fn list(&self) -> Vec<User> {
        let known = self.known.borrow();
        let mut users: Vec<User> =
            known.iter().map(|(uid, drawn)| drawn.show(Some(*uid))).collect();
        users.sort_by(|one, other| {
            let busier = other.ids_per_second.total_cmp(&one.ids_per_second);
            busier.then(other.issued.cmp(&one.issued))
        });
        if self.others.ids.get() > 0 || self.others.connections() > 0 {
            users.push(self.others.show(None));
        }
        users
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_left_makes_room_and_nothing_is_lost() {
        let users = Users::default();
        let stays = users.connect(7);
        stays.count(1);
        for uid in 1_000..1_000 + USERS_MAX as u32 {
            users.connect(uid).count(2);
        }
        let list = users.list();
        let issued: u64 = list.iter().map(|user| user.issued).sum();
        assert_eq!(issued, 1 + 2 * USERS_MAX as u64);
        assert!(list.iter().any(|user| user.uid == Some(7) && user.connections == 1), "{list:?}");
        assert!(list.len() < 5 && list.last().unwrap().uid.is_none(), "{list:?}");

        // If all of them are connected, further users are counted together.
        let all: Vec<_> = (0..USERS_MAX as u32 + 5).map(|uid| users.connect(uid)).collect();
        all.last().unwrap().count(3);
        assert_eq!(users.list().len(), USERS_MAX + 1);
    }
}
