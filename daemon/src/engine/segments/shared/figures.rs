//! Counts what happens with shared runs, for people. Nothing that is issued depends on it.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;

use leafd_core::BootMs;
use serde_json::{Map, Value, json};

use super::{Page, SharedRuns};

/// Why a run has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The user may not use its ids any more, or may not draw them from memory.
    Revoked,
    /// A process wrote something else than a draw into the ticket page.
    Tampered,
    /// Nobody drew from it, and another run needed its place.
    Unused,
}

/// Counts since the start.
#[derive(Debug, Default)]
pub(super) struct Figures {
    begun: Cell<u64>,
    ended: [Cell<u64>; End::ALL.len()],
    requests: Cell<u64>,
    published: Cell<u64>,
    /// Ids drawn from runs that have ended.
    drawn: Cell<u64>,
    /// When the log last reported that a user tampers with ticket pages.
    warned_at: RefCell<HashMap<u32, BootMs>>,
}

/// How often the log reports the same user, in milliseconds. Otherwise the user could flood the log.
const WARN_EVERY_MS: u64 = 60_000;

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

    /// Counts a request of a process for a run, or for more ids in it.
    pub(super) fn asked(&self) {
        add(&self.requests, 1);
    }

    pub(super) fn published(&self, ids: u64) {
        add(&self.published, ids);
    }

    /// Whether to report in the log now that this user tampers with ticket pages.
    pub(super) fn warns_of(&self, uid: u32, now: BootMs) -> bool {
        let mut warned_at = self.warned_at.borrow_mut();
        warned_at.retain(|_, at| now.0.saturating_sub(at.0) < WARN_EVERY_MS);
        let is_due = !warned_at.contains_key(&uid);
        warned_at.entry(uid).or_insert(now);
        is_due
    }

    pub(super) fn ended(&self, page: &Page, end: End) {
        add(&self.ended[end as usize], 1);
        add(&self.drawn, page.drawn());
    }
}

impl SharedRuns {
    /// The figures as STATUS shows them.
    pub(super) fn told(&self) -> Value {
        let pages = self.pages.borrow();
        let Figures { begun, ended, requests, published, drawn, .. } = &self.figures;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_user_is_warned_of_once_a_minute() {
        let figures = Figures::default();
        let warns = |uid, ms| figures.warns_of(uid, BootMs(ms));
        assert!(warns(1, 0) && warns(2, 0));
        assert!(!warns(1, 59_999) && !warns(2, 59_999));
        assert!(warns(1, 60_000) && !warns(1, 60_001));
        assert!(warns(2, 200_000));
        assert_eq!(figures.warned_at.borrow().len(), 1, "who is quiet is forgotten");
    }
}
