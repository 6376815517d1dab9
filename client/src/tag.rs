//! A handle for a tag whose name has been looked up.

use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

use crate::core::Core;
use crate::deadline::Deadline;
use crate::error::Result;
use crate::held::next_slow;
use crate::ids::Ids;
use crate::names::TagEntry;
use crate::slot::Slot;

/// One tag of a client, created by [`crate::Client::tag`]. It is cheap to clone, and usable in forked children.
///
/// ```no_run
/// # fn main() -> Result<(), leafd_client::Error> {
/// let client = leafd_client::Client::builder().build()?;
/// let orders = client.tag("orders")?;
/// for _ in 0..1_000_000 {
///     let id = orders.next()?;
/// }
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Tag {
    core: Arc<Core>,
    /// It is in the core's table, so it lives as long as `core` does.
    entry: NonNull<TagEntry>,
    /// The entry's slot, looked up in advance; it lives as long as the entry.
    slot: NonNull<Slot>,
    /// Whether ids may be taken from the held run.
    pub(crate) holds: bool,
    /// The time limit of each call; `None`: the client's own.
    limit: Option<Duration>,
}

// SAFETY: entry and slot are only shared by reference, which is allowed because they are `Sync`.
unsafe impl Send for Tag {}
// SAFETY: as above.
unsafe impl Sync for Tag {}

// === impl Tag ===

impl Tag {
    pub(crate) fn new(core: &Arc<Core>, name: &str, limit: Option<Duration>) -> Result<Tag> {
        let entry = core.entry(name)?;
        let slot = NonNull::from(entry.slot());
        let (entry, holds) = (NonNull::from(entry), core.holds);
        Ok(Tag { entry, slot, core: Arc::clone(core), holds, limit })
    }

    /// Returns a handle of the same tag that draws every id directly, with a separate request.
    pub fn direct(mut self) -> Tag {
        self.holds = false;
        self
    }

    /// Returns a handle of the same tag that limits each call to `limit` (see [`crate::Client::within`]).
    pub fn within(mut self, limit: Duration) -> Tag {
        self.limit = Some(limit);
        self
    }

    /// Returns the tag's name.
    pub fn name(&self) -> &str {
        self.entry().name()
    }

    /// Returns the next id; see [`crate::Client::next`]. From a held run this takes nanoseconds.
    ///
    /// # Errors
    /// Any [`crate::Error`] of the connection or the daemon.
    #[inline]
    pub fn next(&self) -> Result<u64> {
        match self.take() {
            Some(id) => Ok(id),
            None => self.next_by(&mut self.core.deadline(self.limit)),
        }
    }

    pub(crate) fn next_by(&self, deadline: &mut Deadline) -> Result<u64> {
        next_slow(&self.core, self.entry(), self.holds, deadline)
    }

    /// Draws `count` ids from the daemon; see [`crate::Client::next_batch`].
    ///
    /// # Errors
    /// Same as [`crate::Client::next_batch`].
    pub fn next_batch(&self, count: u64) -> Result<Ids> {
        self.core.draw_batch(self.name(), count, &mut self.core.deadline(self.limit))
    }

    /// Returns an id from the held run, if there is one. It never waits.
    ///
    /// Bindings use this if they must do something before they wait. [`Tag::next`] starts with the same step.
    #[inline]
    pub fn take(&self) -> Option<u64> {
        let taken = self.take_for_loop()?;
        if taken.refill_due {
            self.entry().refill(&self.core);
        }
        Some(taken.id)
    }

    #[inline]
    pub(crate) fn slot(&self) -> &Slot {
        // SAFETY: the slot is the entry's, which lives as long as the core that `self` holds.
        unsafe { self.slot.as_ref() }
    }

    #[inline]
    pub(crate) fn entry(&self) -> &TagEntry {
        // SAFETY: the core's table keeps its entries until the core is dropped, and `self` holds the core.
        unsafe { self.entry.as_ref() }
    }
}

impl fmt::Debug for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tag")
            .field("name", &self.name())
            .field("direct", &!self.holds)
            .finish_non_exhaustive()
    }
}
