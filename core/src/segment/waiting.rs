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
pub struct Waiting<T> {
    queue: VecDeque<Waiter<T>>,
    /// How many numbers they need at least. It is kept up to date, so that a request's cost doesn't depend on how many
    /// wait.
    pub(super) waited_for: u64,
    /// No deadline is before it.
    deadline_first: BootMs,
    /// What the next request gets: every request that came so far has a lower ticket.
    pub(super) next_ticket: Ticket,
}

impl<T> Waiting<T> {
    pub(super) fn new() -> Self {
        let (queue, waited_for, deadline_first) = (VecDeque::new(), 0, BootMs(u64::MAX));
        Waiting { queue, waited_for, deadline_first, next_ticket: Ticket(0) }
    }

    /// Lets a request wait behind those that came before it.
    pub fn push(&mut self, want: Want, deadline: BootMs, handle: T) {
        self.add(Waiter { ticket: self.next_ticket, want, deadline, handle });
        self.next_ticket.0 += 1;
    }

    fn add(&mut self, waiter: Waiter<T>) {
        self.waited_for += u64::from(waiter.want.least());
        self.deadline_first = self.deadline_first.min(waiter.deadline);
        self.queue.push_back(waiter);
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.queue.len()
    }

    /// How many numbers the first requests need at least, as many of them as fit into `most` together. The first one
    /// always counts.
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

    /// The ticket and the wish of the request that has waited longest.
    pub(super) fn head(&self) -> Option<(Ticket, Want)> {
        self.queue.front().map(|waiter| (waiter.ticket, waiter.want))
    }

    /// Takes out the request that has waited longest.
    pub(super) fn pop(&mut self) -> Option<T> {
        let waiter = self.queue.pop_front()?;
        Some(self.left(waiter))
    }

    /// Takes out the request that came last, if its deadline has passed already: it did not want to wait.
    pub fn expire_last(&mut self, now: BootMs) -> Option<T> {
        if self.queue.back()?.deadline > now {
            return None;
        }
        let waiter = self.queue.pop_back()?;
        Some(self.left(waiter))
    }

    fn left(&mut self, waiter: Waiter<T>) -> T {
        self.waited_for -= u64::from(waiter.want.least());
        if self.queue.is_empty() {
            // A host may use a hundred thousand tags: a queue that is empty keeps no memory.
            self.queue = VecDeque::new();
        }
        waiter.handle
    }

    /// Takes out the requests whose deadline has passed.
    pub fn expire(&mut self, now: BootMs) -> Vec<T> {
        if now < self.deadline_first {
            return Vec::new();
        }
        self.take_where(|waiter| waiter.deadline <= now)
    }

    /// Takes out the requests that need more than `most` at least.
    pub(super) fn take_larger(&mut self, most: u64) -> Vec<T> {
        self.take_where(|waiter| u64::from(waiter.want.least()) > most)
    }

    /// Drops the requests at the head for which `useless` is true.
    pub fn drop_head_while(&mut self, useless: impl Fn(&T) -> bool) {
        while self.queue.front().is_some_and(|head| useless(&head.handle)) {
            self.pop();
        }
    }

    /// Drops every request for which `useless` is true.
    pub fn drop_where(&mut self, useless: impl Fn(&T) -> bool) {
        self.take_where(|waiter| useless(&waiter.handle));
    }

    /// Takes out every request.
    pub fn abandon(&mut self) -> Vec<T> {
        self.take_where(|_| true)
    }

    /// Takes out the requests for which `out` is true.
    fn take_where(&mut self, out: impl Fn(&Waiter<T>) -> bool) -> Vec<T> {
        let mut taken = Vec::new();
        (self.waited_for, self.deadline_first) = (0, BootMs(u64::MAX));
        for waiter in std::mem::take(&mut self.queue) {
            if out(&waiter) {
                taken.push(waiter.handle);
            } else {
                self.add(waiter);
            }
        }
        taken
    }
}

impl Want {
    /// The fewest numbers that satisfy it.
    pub fn least(self) -> u32 {
        if self.allow_partial { 1 } else { self.count }
    }
}
