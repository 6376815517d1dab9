//! Requests that arrive while a strict tag's claim is on its way. The claim covers them too if they arrive before its
//! commit is sent: an id that any host has answered by then comes from an earlier commit, so it is lower.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::waiting::Ticket;

/// What has arrived since a claim was sent. The thread that receives requests shares it with the one that calls the
/// store.
#[derive(Clone, Debug)]
pub struct Arrivals(Arc<Mutex<Counts>>);

#[derive(Debug)]
struct Counts {
    /// How many ids the requests need at least that have arrived since.
    ids: u64,
    /// The ticket of the next request.
    next: Ticket,
    /// The claim covers the requests with lower tickets.
    before: Ticket,
}

impl Arrivals {
    pub(super) fn since(next: Ticket) -> Arrivals {
        Arrivals(Arc::new(Mutex::new(Counts { ids: 0, next, before: next })))
    }

    /// A request has arrived that needs so many ids; `next` is the ticket of the one after it.
    pub(super) fn note(&self, ids: u32, next: Ticket) {
        let mut counts = self.counts();
        counts.ids += u64::from(ids);
        counts.next = next;
    }

    /// Has the claim cover what has arrived by now. Returns how many more ids it must take. Call this before the claim's
    /// commit is sent, and again if the claim is repeated.
    pub fn cover(&self) -> u64 {
        let mut counts = self.counts();
        counts.before = counts.next;
        counts.ids
    }

    /// The claim covers the requests with lower tickets.
    pub(super) fn before(&self) -> Ticket {
        self.counts().before
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
