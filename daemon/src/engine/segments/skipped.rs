//! Counts claimed ids that nobody gets, by cause.

use std::cell::Cell;

/// Why nobody gets them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// A strict tag's claim had more ids than the waiting requests took.
    Surplus,
    /// They lie above a ceiling that was lowered.
    Ceiling,
    /// The tag was deleted, or the journal contradicted what was held of it.
    Removed,
    /// Their store failed over or was replaced by another one, so another host may have them.
    Store,
    /// At the start it was in doubt which ids the journal's records left.
    Journal,
}

/// The counts, by cause.
#[derive(Debug, Default)]
pub struct Skipped([Cell<u64>; Cause::ALL.len()]);

impl Cause {
    /// All causes with their names.
    pub const ALL: [(Cause, &'static str); 5] = [
        (Cause::Surplus, "surplus"),
        (Cause::Ceiling, "ceiling"),
        (Cause::Removed, "removed"),
        (Cause::Store, "store"),
        (Cause::Journal, "journal"),
    ];
}

impl Cause {
    /// The name of the cause.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::ALL[self as usize].1
    }
}

impl Skipped {
    /// Counts skipped ids.
    pub(super) fn add(&self, cause: Cause, ids: u64) {
        let count = &self.0[cause as usize];
        count.set(count.get().saturating_add(ids));
    }

    /// The counts, with the names of the causes.
    pub fn by_cause(&self) -> impl Iterator<Item = (&'static str, u64)> {
        Cause::ALL.iter().zip(&self.0).map(|((_, name), count)| (*name, count.get()))
    }
}
