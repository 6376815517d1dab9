//! What few tags have, in the room of a pointer.

use std::cell::Cell;

/// Perhaps a value. Most have none.
pub(super) struct Rare<T>(Cell<Option<Box<T>>>);

impl<T> Rare<T> {
    pub(super) fn new(value: Option<T>) -> Self {
        Rare(Cell::new(value.map(Box::new)))
    }

    pub(super) fn is_none(&self) -> bool {
        self.with(|value| value.is_none())
    }

    pub(super) fn take(&self) -> Option<T> {
        self.0.take().map(|value| *value)
    }

    /// Looks at the value or changes it. `look` must not use the same place: it would find none there.
    pub(super) fn with<R>(&self, look: impl FnOnce(&mut Option<Box<T>>) -> R) -> R {
        let mut value = self.0.take();
        let answer = look(&mut value);
        let meanwhile = self.0.replace(value);
        debug_assert!(meanwhile.is_none(), "the place was used while it was looked at");
        answer
    }
}
