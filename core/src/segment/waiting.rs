//! Requests that wait for numbers of one tag, each until its deadline. Users are served in turn, so that no user has to
//! wait until another one's requests are all served. The requests of one user are served in the order in which they
//! came.

use std::collections::VecDeque;

use super::arrivals::Arrivals;
use crate::BootMs;

/// A request for numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Want {
    /// How many, from 1.
    pub count: u32,
    /// Whether fewer are acceptable (at least one).
    pub allow_partial: bool,
}

/// A request's place in the order of arrival: lower tickets came earlier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Ticket(u64);

/// A request that waits.
#[derive(Debug)]
struct Waiter<T> {
    ticket: Ticket,
    want: Want,
    deadline: BootMs,
    handle: T,
}

/// The requests that wait. `T` is the caller's handle on one.
#[derive(Debug)]
pub struct Waiting<T> {
    /// The users with waiting requests, and these requests; the first user is next. None is empty.
    users: VecDeque<(u32, VecDeque<Waiter<T>>)>,
    /// The minimum that they need in total. It is kept up to date, so that a request's cost doesn't depend on how many
    /// wait.
    pub(super) waited_for: u64,
    /// A lower bound of all deadlines.
    deadline_first: BootMs,
    /// The ticket of the next request. Every earlier request has a lower one.
    pub(super) next_ticket: Ticket,
    /// A strict tag's claim that is on its way and may cover more requests.
    pub(super) arrivals: Option<Arrivals>,
}

impl<T> Waiting<T> {
    pub(super) fn new() -> Self {
        let (users, waited_for, deadline_first) = (VecDeque::new(), 0, BootMs(u64::MAX));
        Waiting { users, waited_for, deadline_first, next_ticket: Ticket(0), arrivals: None }
    }

    /// Queues a request behind the same user's earlier ones.
    pub fn push(&mut self, uid: u32, want: Want, deadline: BootMs, handle: T) {
        let waiter = Waiter { ticket: self.next_ticket, want, deadline, handle };
        self.next_ticket.0 += 1;
        self.waited_for += u64::from(want.least());
        self.deadline_first = self.deadline_first.min(deadline);
        match self.users.iter_mut().find(|(user, _)| *user == uid) {
            Some((_, queue)) => queue.push_back(waiter),
            None => self.users.push_back((uid, VecDeque::from([waiter]))),
        }
        self.note_arrivals();
    }

    /// Whether no request waits.
    pub fn is_empty(&self) -> bool {
        self.users.is_empty()
    }

    /// An instant before which no request's deadline passes; `None` if none waits.
    pub(super) fn deadline(&self) -> Option<BootMs> {
        (!self.is_empty()).then_some(self.deadline_first)
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.queues().map(VecDeque::len).sum()
    }

    /// The users whose requests wait; the first one is next.
    pub fn users(&self) -> impl Iterator<Item = u32> + Clone {
        self.users.iter().map(|(uid, _)| *uid)
    }

    fn queues(&self) -> impl Iterator<Item = &VecDeque<Waiter<T>>> {
        self.users.iter().map(|(_, queue)| queue)
    }

    /// The minimum that the first requests need together: as many requests as fit into `most`, but at least one.
    pub(super) fn waited_for_within(&self, most: u64) -> u64 {
        if self.waited_for <= most {
            return self.waited_for;
        }
        let longest = self.queues().map(VecDeque::len).max().unwrap_or(0);
        let in_turn =
            (0..longest).flat_map(|round| self.queues().filter_map(move |queue| queue.get(round)));
        let mut needed = 0;
        for waiter in in_turn {
            let with_it = needed + u64::from(waiter.want.least());
            if needed > 0 && with_it > most {
                break;
            }
            needed = with_it;
        }
        needed
    }

    /// The wish of the request that is next.
    pub(super) fn head(&self) -> Option<Want> {
        self.users.front().map(|(_, queue)| queue[0].want)
    }

    /// The wish of the next request with a ticket below `before`, and the index of its user.
    pub(super) fn head_before(&self, before: Ticket) -> Option<(usize, Want)> {
        let place = self.queues().position(|queue| queue[0].ticket < before)?;
        Some((place, self.users[place].1[0].want))
    }

    /// Removes and returns the next request.
    pub(super) fn pop(&mut self) -> Option<T> {
        self.pop_at(0)
    }

    /// Removes and returns the first request of the user at this index, who then moves behind all others.
    pub(super) fn pop_at(&mut self, place: usize) -> Option<T> {
        let (uid, mut queue) = self.users.remove(place)?;
        let waiter = queue.pop_front()?;
        if !queue.is_empty() {
            self.users.push_back((uid, queue));
        }
        Some(self.left(waiter))
    }

    /// Removes and returns the latest request if its deadline has already passed, because its client doesn't want to
    /// wait.
    pub fn expire_last(&mut self, now: BootMs) -> Option<T> {
        let came_last = |waiter: &Waiter<T>| waiter.ticket.0 + 1 == self.next_ticket.0;
        let place = self.queues().position(|queue| queue.back().is_some_and(came_last))?;
        let (_, queue) = &mut self.users[place];
        if queue.back()?.deadline > now {
            return None;
        }
        let waiter = queue.pop_back()?;
        if queue.is_empty() {
            self.users.remove(place);
        }
        Some(self.left(waiter))
    }

    fn left(&mut self, waiter: Waiter<T>) -> T {
        self.waited_for -= u64::from(waiter.want.least());
        self.note_arrivals();
        self.free_if_empty();
        waiter.handle
    }

    /// Tells a claim that is on its way what waits now.
    fn note_arrivals(&self) {
        if let Some(arrivals) = &self.arrivals {
            arrivals.note(self.waited_for, self.next_ticket);
        }
    }

    /// A host may use a hundred thousand tags, so an empty queue keeps no memory.
    fn free_if_empty(&mut self) {
        if self.users.is_empty() {
            self.users = VecDeque::new();
            self.deadline_first = BootMs(u64::MAX);
        }
    }

    /// Removes and returns the requests whose deadlines have passed.
    pub fn expire(&mut self, now: BootMs) -> Vec<T> {
        if now < self.deadline_first {
            return Vec::new();
        }
        self.take_where(|waiter| waiter.deadline <= now)
    }

    /// Removes and returns the requests that need more than `most` at least.
    pub(super) fn take_larger(&mut self, most: u64) -> Vec<T> {
        self.take_where(|waiter| u64::from(waiter.want.least()) > most)
    }

    /// Drops the requests at the head for which `useless` is true.
    pub fn drop_head_while(&mut self, useless: impl Fn(&T) -> bool) {
        while self.users.front().is_some_and(|(_, queue)| useless(&queue[0].handle)) {
            self.pop();
        }
    }

    /// Drops every request for which `useless` is true.
    pub fn drop_where(&mut self, useless: impl Fn(&T) -> bool) {
        self.take_where(|waiter| useless(&waiter.handle));
    }

    /// Removes and returns every request.
    pub fn abandon(&mut self) -> Vec<T> {
        self.take_where(|_| true)
    }

    /// Removes and returns the requests for which `out` is true.
    fn take_where(&mut self, out: impl Fn(&Waiter<T>) -> bool) -> Vec<T> {
        let mut taken = Vec::new();
        (self.waited_for, self.deadline_first) = (0, BootMs(u64::MAX));
        self.users.retain_mut(|(_, queue)| {
            for waiter in std::mem::take(queue) {
                if out(&waiter) {
                    taken.push(waiter.handle);
                } else {
                    self.waited_for += u64::from(waiter.want.least());
                    self.deadline_first = self.deadline_first.min(waiter.deadline);
                    queue.push_back(waiter);
                }
            }
            !queue.is_empty()
        });
        self.note_arrivals();
        self.free_if_empty();
        taken
    }
}

impl Want {
    /// The fewest numbers that satisfy it.
    pub fn least(self) -> u32 {
        if self.allow_partial { 1 } else { self.count }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_that_is_empty_keeps_no_memory() {
        let leaves: [fn(&mut Waiting<u32>); 2] = [|all| _ = all.pop(), |all| _ = all.abandon()];
        for leave in leaves {
            let mut waiting = Waiting::new();
            waiting.push(0, Want { count: 1, allow_partial: false }, BootMs(1), 0);
            leave(&mut waiting);
            assert_eq!(waiting.users.capacity(), 0);
        }
    }
}
