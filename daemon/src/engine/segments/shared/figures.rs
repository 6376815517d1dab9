//! What shared runs come to in numbers, for people. Nothing is issued by any of it.

use std::cell::Cell;

use serde_json::{Map, Value, json};

use super::{Page, SharedRuns};

/// Why a run has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The right to its ids, or to draw them so.
    Revoked,
    /// Somebody wrote into the ticket page.
    Tampered,
    /// Nobody drew from it, and another needed its place.
    Unused,
}

/// Counted since the start.
#[derive(Debug, Default)]
pub(super) struct Figures {
    begun: Cell<u64>,
    ended: [Cell<u64>; End::ALL.len()],
    requests: Cell<u64>,
    published: Cell<u64>,
    /// Of runs that have ended.
    drawn: Cell<u64>,
}

impl End {
    const ALL: [(End, &'static str); 3] =
        [(End::Revoked, "revoked"), (End::Tampered, "tampered"), (End::Unused, "unused")];
}

fn add(counter: &Cell<u64>, more: u64) {
    counter.set(counter.get().wrapping_add(more));
}

impl Figures {
    pub(super) fn begun(&self) {
        add(&self.begun, 1);
    }

    /// A user's process asked for a run, or for more ids in it.
    pub(super) fn asked(&self) {
        add(&self.requests, 1);
    }

    pub(super) fn published(&self, ids: u64) {
        add(&self.published, ids);
    }

    pub(super) fn ended(&self, page: &Page, end: End) {
        add(&self.ended[end as usize], 1);
        add(&self.drawn, page.drawn());
    }
}

impl SharedRuns {
    /// As STATUS tells it.
    pub(super) fn told(&self) -> Value {
        let pages = self.pages.borrow();
        let Figures { begun, ended, requests, published, drawn } = &self.figures;
        let ends = End::ALL.iter().zip(ended);
        let ended: Map<String, Value> =
            ends.map(|((_, name), count)| ((*name).to_owned(), json!(count.get()))).collect();
        json!({
            "live": pages.len(),
            "begun": begun.get(),
            "ended": ended,
            "requests": requests.get(),
            "published": published.get(),
            "drawn": drawn.get() + pages.values().map(|page| page.drawn()).sum::<u64>(),
        })
    }
}
