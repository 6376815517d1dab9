//! Turns: users share the thread that answers requests.
//!
//! A user whose connections have used up their time waits in a line of its own. After each check of all sockets, the
//! first connection in every line continues. So a client waits for one turn of each busy user, however many connections
//! that user has. A single user loses only the time of the checks.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::task::Waker;

use tokio::sync::Notify;

/// How long one connection may work before others get a turn, in microseconds.
pub const TURN_US: u64 = 1_000;

/// How much time a user's connections may use together before they must queue, in microseconds.
const USER_US: u64 = 1_000;

/// How long it takes until that much used time is forgotten, in microseconds, so that only busy users queue. A turn can
/// take longer, and is not forgotten when it ends.
const WINDOW_US: u64 = 4_000;

/// Users are forgotten when there are more than this and they have no line.
const USERS_KEPT: usize = 64;

/// The lines of all users.
#[derive(Debug, Default)]
pub struct Turns {
    users: RefCell<BTreeMap<u32, User>>,
    /// Some connection is waiting.
    waiting: Cell<bool>,
    woken: Notify,
}

#[derive(Debug, Default)]
struct User {
    /// The last window in which it entered.
    window: u64,
    /// The time it has used, minus what is forgotten.
    used_us: u64,
    line: VecDeque<Waker>,
}

impl Turns {
    /// Whether a connection of this user may work now. If not, it is woken when its turn comes.
    pub fn enter(&self, uid: u32, now_us: u64, waker: &Waker) -> bool {
        let mut users = self.users.borrow_mut();
        if users.len() > USERS_KEPT && !users.contains_key(&uid) {
            users.retain(|_, user| !user.line.is_empty());
        }
        let user = users.entry(uid).or_default();
        let window = now_us / WINDOW_US;
        let forgotten_us = window.saturating_sub(user.window).saturating_mul(USER_US);
        user.used_us = user.used_us.saturating_sub(forgotten_us);
        user.window = window;
        if user.used_us < USER_US {
            return true;
        }
        user.line.push_back(waker.clone());
        if !self.waiting.replace(true) {
            self.woken.notify_one();
        }
        false
    }

    /// A connection of this user has worked for this long.
    pub fn leave(&self, uid: u32, used_us: u64) {
        if let Some(user) = self.users.borrow_mut().get_mut(&uid) {
            user.used_us = user.used_us.saturating_add(used_us);
        }
    }

    /// Hands out turns until it is dropped.
    pub async fn run(&self) {
        loop {
            if !self.waiting.get() {
                self.woken.notified().await;
            }
            // The runtime checks every socket before it returns here.
            tokio::task::yield_now().await;
            let mut waiting = false;
            for user in self.users.borrow_mut().values_mut() {
                user.used_us = 0;
                if let Some(first) = user.line.pop_front() {
                    first.wake();
                }
                waiting |= !user.line.is_empty();
            }
            self.waiting.set(waiting);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_that_takes_long_is_not_forgotten_at_its_end() {
        let turns = Turns::default();
        assert!(turns.enter(7, 0, Waker::noop()));
        turns.leave(7, 5 * USER_US);
        let after = |windows: u64| turns.enter(7, windows * WINDOW_US, Waker::noop());
        assert!(!after(2) && !after(4), "each window makes up for one budget");
        assert!(turns.enter(8, 2 * WINDOW_US, Waker::noop()), "others have their own");
        assert!(after(5));
    }
}
