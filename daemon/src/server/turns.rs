//! Turns: users share the one thread that answers.
//!
//! A user whose connections have used up their time waits in a line of its own. After each look at all sockets, the
//! first one in every line continues. So a client waits for one turn of each busy user, however many connections that
//! user has. A user who is alone loses only the time of the looks.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::task::Waker;

use tokio::sync::Notify;

/// How long one connection may work before others get a turn, in microseconds.
pub const TURN_US: u64 = 1_000;

/// How much time a user's connections may use together before they have to line up, in microseconds.
const USER_US: u64 = 1_000;

/// The window after which used time is forgotten, in microseconds: only busy users line up.
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
    /// The window, or the look, in which `used_us` was used.
    window: u64,
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
        if user.window != window {
            (user.window, user.used_us) = (window, 0);
        }
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

    /// Gives out turns until it is dropped.
    pub async fn run(&self) {
        loop {
            if !self.waiting.get() {
                self.woken.notified().await;
            }
            // The runtime looks at every socket before it comes back here.
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
