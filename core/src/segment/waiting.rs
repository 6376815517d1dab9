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
    /// `None` while no request waits, because a host may use a hundred thousand tags.
    line: Option<Box<Queue<T>>>,
    /// What the next request gets.
    ticket: Ticket,
}

/// The waiting requests; at least one.
#[derive(Debug)]
struct Queue<T> {
    queue: VecDeque<Waiter<T>>,
    /// How many numbers they need at least. It is kept up to date, so that a request's cost doesn't depend on how many
    /// wait.
    waited_for: u64,
    /// No deadline is before it.
    deadline_first: BootMs,
}

impl<T> Waiting<T> {
    /// No request waits.
    pub(super) fn new() -> Self {
        Waiting { line: None, ticket: Ticket(0) }
    }

    /// Lets a request wait behind those that came before it.
    pub(super) fn push(&mut self, want: Want, deadline: BootMs, handle: T) {
        let line = self.line.get_or_insert_default();
        line.push(Waiter { ticket: self.ticket, want, deadline, handle });
        self.ticket.0 += 1;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.line.is_none()
    }

    pub(super) fn len(&self) -> usize {
        self.line.as_ref().map_or(0, |line| line.queue.len())
    }

    /// How many numbers they need at least.
    pub(super) fn waited_for(&self) -> u64 {
        self.line.as_ref().map_or(0, |line| line.waited_for)
    }

    /// How many numbers the first requests need at least, as many of them as fit into `most` together. The first one
    /// always counts.
    pub(super) fn waited_for_within(&self, most: u64) -> u64 {
        let Some(line) = &self.line else { return 0 };
        if line.waited_for <= most {
            return line.waited_for;
        }
        let mut needed = 0;
        for waiter in &line.queue {
            let with_it = needed + u64::from(waiter.want.least());
            if needed > 0 && with_it > most {
                break;
            }
            needed = with_it;
        }
        needed
    }

    /// Every request that came so far has a ticket below this one, every later one has not.
    pub(super) fn next_ticket(&self) -> Ticket {
        self.ticket
    }

    /// The ticket and the wish of the request that has waited longest.
    pub(super) fn head(&self) -> Option<(Ticket, Want)> {
        self.line.as_ref()?.queue.front().map(|waiter| (waiter.ticket, waiter.want))
    }

    /// Takes out the request that has waited longest.
    pub(super) fn pop(&mut self) -> Option<T> {
        self.change(|line| {
            let waiter = line.queue.pop_front()?;
            line.waited_for -= u64::from(waiter.want.least());
            Some(waiter.handle)
        })
    }

    /// Takes out the request that came last, if its deadline has passed already: it did not want to wait.
    pub(super) fn expire_last(&mut self, now: BootMs) -> Option<T> {
        self.change(|line| {
            if line.queue.back()?.deadline > now {
                return None;
            }
            let waiter = line.queue.pop_back()?;
            line.waited_for -= u64::from(waiter.want.least());
            Some(waiter.handle)
        })
    }

    /// Takes out the requests whose deadline has passed.
    pub(super) fn expire(&mut self, now: BootMs) -> Vec<T> {
        if self.line.as_ref().is_none_or(|line| now < line.deadline_first) {
            return Vec::new();
        }
        self.take_where(|waiter| waiter.deadline <= now)
    }

    /// Takes out the requests that need more than `most` at least.
    pub(super) fn take_larger(&mut self, most: u64) -> Vec<T> {
        self.take_where(|waiter| u64::from(waiter.want.least()) > most)
    }

    /// Drops the requests at the head for which `useless` is true.
    pub(super) fn drop_head_while(&mut self, useless: impl Fn(&T) -> bool) {
        let head = |line: &Queue<T>| line.queue.front().is_some_and(|one| useless(&one.handle));
        while self.line.as_deref().is_some_and(head) {
            self.pop();
        }
    }

    /// Drops every request for which `useless` is true.
    pub(super) fn drop_where(&mut self, useless: impl Fn(&T) -> bool) {
        self.take_where(|waiter| useless(&waiter.handle));
    }

    /// Takes out every request.
    pub(super) fn abandon(&mut self) -> Vec<T> {
        self.take_where(|_| true)
    }

    /// Takes out the requests for which `out` is true.
    fn take_where(&mut self, out: impl Fn(&Waiter<T>) -> bool) -> Vec<T> {
        let mut taken = Vec::new();
        if let Some(line) = self.line.take() {
            for waiter in line.queue {
                if out(&waiter) {
                    taken.push(waiter.handle);
                } else {
                    self.line.get_or_insert_default().push(waiter);
                }
            }
        }
        taken
    }

    /// Changes the queue, and frees it when it is empty.
    fn change<R>(&mut self, change: impl FnOnce(&mut Queue<T>) -> Option<R>) -> Option<R> {
        let line = self.line.as_mut()?;
        let changed = change(line);
        if line.queue.is_empty() {
            self.line = None;
        }
        changed
    }
}

impl<T> Queue<T> {
    fn push(&mut self, waiter: Waiter<T>) {
        self.waited_for += u64::from(waiter.want.least());
        self.deadline_first = self.deadline_first.min(waiter.deadline);
        self.queue.push_back(waiter);
    }
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Queue { queue: VecDeque::new(), waited_for: 0, deadline_first: BootMs(u64::MAX) }
    }
}

impl Want {
    /// The fewest numbers that satisfy it.
    #[must_use]
    pub fn least(self) -> u32 {
        if self.allow_partial { 1 } else { self.count }
    }
}
