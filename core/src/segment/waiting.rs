//! Requests that wait for numbers of one tag: first come, first served, each until its deadline.

use std::collections::VecDeque;

use crate::BootMs;

/// A request for numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Want {
    /// How many, from 1.
    pub count: u32,
    /// Whether fewer will do (at least one).
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
pub(super) struct Waiting<T> {
    queue: VecDeque<Waiter<T>>,
    /// The next request's ticket.
    ticket: Ticket,
    /// How many numbers the waiting requests need at least. It is kept so that a request costs the same
    /// however many wait.
    waited_for: u64,
    /// No deadline is earlier.
    deadline_first: BootMs,
}

impl<T> Waiting<T> {
    /// An empty queue.
    pub(super) fn new() -> Self {
        Waiting {
            queue: VecDeque::new(),
            ticket: Ticket(0),
            waited_for: 0,
            deadline_first: BootMs(u64::MAX),
        }
    }

    /// Queues a request behind those that came before it.
    pub(super) fn push(&mut self, want: Want, deadline: BootMs, handle: T) {
        self.waited_for += u64::from(want.least());
        self.deadline_first = self.deadline_first.min(deadline);
        self.queue.push_back(Waiter { ticket: self.ticket, want, deadline, handle });
        self.ticket.0 += 1;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }

    /// How many numbers the waiting requests need at least.
    pub(super) fn waited_for(&self) -> u64 {
        self.waited_for
    }

    /// How many numbers the requests at the head need at least that together fit into `most`. The first
    /// one always counts.
    pub(super) fn waited_for_within(&self, most: u64) -> u64 {
        if self.waited_for <= most {
            return self.waited_for;
        }
        let mut needed = 0;
        for waiter in &self.queue {
            let with_it = needed + u64::from(waiter.want.least());
            if needed > 0 && with_it > most {
                break;
            }
            needed = with_it;
        }
        needed
    }

    /// Every request so far has a lower ticket. Later requests don't.
    pub(super) fn next_ticket(&self) -> Ticket {
        self.ticket
    }

    /// The request that has waited longest.
    pub(super) fn head(&self) -> Option<(Ticket, Want)> {
        self.queue.front().map(|waiter| (waiter.ticket, waiter.want))
    }

    /// Takes out the request that has waited longest.
    pub(super) fn pop(&mut self) -> Option<T> {
        let waiter = self.queue.pop_front()?;
        self.waited_for -= u64::from(waiter.want.least());
        self.give_back_room();
        Some(waiter.handle)
    }

    /// Takes out the last request if its deadline has already passed: it did not want to wait.
    pub(super) fn expire_last(&mut self, now: BootMs) -> Option<T> {
        if self.queue.back()?.deadline > now {
            return None;
        }
        let waiter = self.queue.pop_back()?;
        self.waited_for -= u64::from(waiter.want.least());
        self.give_back_room();
        Some(waiter.handle)
    }

    /// Gives back the memory of an empty queue: there may be a hundred thousand tags.
    fn give_back_room(&mut self) {
        if self.queue.is_empty() {
            self.queue = VecDeque::new();
        }
    }

    /// Takes out the requests whose deadline has passed.
    pub(super) fn expire(&mut self, now: BootMs) -> Vec<T> {
        let mut expired = Vec::new();
        if now < self.deadline_first {
            return expired;
        }
        self.deadline_first = BootMs(u64::MAX);
        for waiter in std::mem::take(&mut self.queue) {
            if waiter.deadline <= now {
                self.waited_for -= u64::from(waiter.want.least());
                expired.push(waiter.handle);
            } else {
                self.deadline_first = self.deadline_first.min(waiter.deadline);
                self.queue.push_back(waiter);
            }
        }
        expired
    }

    /// Takes out the requests that need at least more than `most`.
    pub(super) fn take_larger(&mut self, most: u64) -> Vec<T> {
        let mut larger = Vec::new();
        for waiter in std::mem::take(&mut self.queue) {
            if u64::from(waiter.want.least()) > most {
                self.waited_for -= u64::from(waiter.want.least());
                larger.push(waiter.handle);
            } else {
                self.queue.push_back(waiter);
            }
        }
        larger
    }

    /// Drops requests at the head while `useless` picks them.
    pub(super) fn drop_head_while(&mut self, useless: impl Fn(&T) -> bool) {
        while self.queue.front().is_some_and(|waiter| useless(&waiter.handle)) {
            self.pop();
        }
    }

    /// Drops every request that `useless` picks.
    pub(super) fn drop_where(&mut self, useless: impl Fn(&T) -> bool) {
        let waited_for = &mut self.waited_for;
        self.queue.retain(|waiter| {
            let keep = !useless(&waiter.handle);
            *waited_for -= if keep { 0 } else { u64::from(waiter.want.least()) };
            keep
        });
        self.give_back_room();
    }

    /// Takes out every request.
    pub(super) fn abandon(&mut self) -> Vec<T> {
        self.waited_for = 0;
        self.deadline_first = BootMs(u64::MAX);
        std::mem::take(&mut self.queue).into_iter().map(|waiter| waiter.handle).collect()
    }
}

impl Want {
    /// The fewest numbers that satisfy it.
    #[must_use]
    pub fn least(self) -> u32 {
        if self.allow_partial { 1 } else { self.count }
    }
}
