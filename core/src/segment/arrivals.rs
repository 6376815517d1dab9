//! Requests that arrive while a strict tag's claim is on its way. The claim covers them too if they arrive before its
//! commit is sent: an id that any host has answered by then comes from an earlier commit, so it is lower.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::waiting::Ticket;
use crate::store::{ClaimPlan, ClaimWish, StoreError, TagRow, plan_claim};

/// What has arrived since a claim was sent. The thread that receives requests shares it with the one that calls the
/// store.
#[derive(Clone, Debug)]
pub struct Arrivals(Arc<Mutex<Counts>>);

#[derive(Debug)]
struct Counts {
    /// How many ids the waiting requests needed when the claim was sent.
    needed_then: u64,
    /// How many they need now.
    needed: u64,
    /// The ticket of the next request.
    next: Ticket,
    /// The claim covers the requests with lower tickets.
    before: Ticket,
}

impl Arrivals {
    /// For a claim that is sent now.
    pub(super) fn since(needed: u64, next: Ticket) -> Arrivals {
        let counts = Counts { needed_then: needed, needed, next, before: next };
        Arrivals(Arc::new(Mutex::new(counts)))
    }

    /// The waiting requests have changed.
    pub(super) fn note(&self, needed: u64, next: Ticket) {
        let mut counts = self.counts();
        (counts.needed, counts.next) = (needed, next);
    }

    /// Has the claim cover what has arrived by now, unless `plan` says that there aren't enough ids for it. `plan` gets
    /// how many more ids the claim must take. Call this before the claim's commit is sent, and again if the claim is
    /// repeated.
    pub fn cover<P>(&self, plan: impl FnOnce(u64) -> Option<P>) -> Option<P> {
        let mut counts = self.counts();
        let planned = plan(counts.needed.saturating_sub(counts.needed_then))?;
        counts.before = counts.next;
        Some(planned)
    }

    /// What a claim takes from a row, see [`plan_claim`]: for all that has arrived by now, if there are ids for all of it,
    /// and otherwise for the wish alone. Call this before the claim's commit is sent.
    ///
    /// # Errors
    /// As [`plan_claim`].
    pub fn plan(
        &self,
        row: &TagRow,
        claimed_end: i64,
        wish: ClaimWish,
    ) -> Result<ClaimPlan, StoreError> {
        let for_all = |more| plan_claim(row, claimed_end, wish.with_more(more)?).ok();
        self.cover(for_all).map_or_else(|| plan_claim(row, claimed_end, wish), Ok)
    }

    /// The claim covers the requests with lower tickets.
    pub(super) fn before(&self) -> Ticket {
        self.counts().before
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
