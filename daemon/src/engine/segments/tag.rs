//! One segment tag in use, and how far it has come in each of its stores.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use super::masked::Form;
use super::unconfirmed::Place;
use crate::engine::upstream::Upstream;
use crate::reply::Failure;
use crate::reply::outbox::ReplyTo;
use leafd_core::segment::Allocator;
use leafd_core::shares::Shares;
use leafd_core::store::Generation;
use leafd_core::{Backoff, BootMs, Tag, Want};

/// One segment tag in use.
pub struct SegmentTag {
    pub(crate) tag: Tag,
    pub(crate) allocator: RefCell<Allocator<ReplyTo>>,
    /// The stores that feed it: one, or several independent primaries.
    pub(super) shards: Box<[Shard]>,
    /// Set when the tag was removed; whoever still holds it looks it up anew.
    pub(super) evicted: Cell<bool>,
    /// The place of a name that nothing is known of yet.
    pub(super) unconfirmed: RefCell<Option<Place>>,
    pub(super) in_retry_queue: Cell<bool>,
    /// How its numbers become ids.
    pub(super) form: RefCell<Form>,
    /// Places for waiting requests, shared out by user.
    pub(super) places: Rc<RefCell<Shares>>,
    pub(super) backoff: RefCell<Backoff>,
    /// Counts how often the tag was loaded anew in a row because the journal refused a change of it.
    pub(super) restarts: RefCell<Backoff>,
    /// Why the last claim failed, and until when requests that need one are told so at once.
    pub(super) refused: RefCell<Option<Refusal>>,
    /// What requests wait for, for the text of a deadline.
    pub(super) waited_for: RefCell<String>,
}

/// Why requests that need a claim are told so without asking the store again.
pub(super) struct Refusal {
    pub(super) failure: Failure,
    /// Requests for no more than this may be met all the same.
    pub(super) above: u64,
    pub(super) until: BootMs,
}

/// How far a tag has come in one of its stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ShardState {
    /// What the journal has left of it has not been asked for.
    Unloaded,
    Loading,
    /// What the journal has left of it is known.
    Loaded,
    /// As before, and the store doesn't have the tag.
    Absent,
}

/// A tag in one of its stores.
pub(super) struct Shard {
    pub(super) upstream: Rc<Upstream>,
    pub(super) state: Cell<ShardState>,
    pub(super) generation: Cell<Option<Generation>>,
    /// Until when to believe that the store has no number left below the tag's ceiling.
    pub(super) used_up_until: Cell<BootMs>,
    /// The last warning that its numbers come to an end, in percent.
    pub(super) warned_percent: Cell<Option<u64>>,
}

impl SegmentTag {
    /// Why a request can't be met, as the store has said a moment ago.
    pub(super) fn recent_refusal(&self, want: Want, now: BootMs) -> Option<Failure> {
        let refused = self.refused.borrow();
        let refused = refused.as_ref().filter(|refusal| now < refusal.until)?;
        (u64::from(want.least()) > refused.above).then(|| refused.failure.clone())
    }

    /// Whether the tag was taken out of use: look it up anew.
    #[must_use]
    pub fn evicted(&self) -> bool {
        self.evicted.get()
    }

    /// Why a request's deadline has passed: no store can be claimed from, or what is under way takes too long.
    pub(super) fn deadline(&self) -> Failure {
        let excuses: Vec<_> =
            self.shards.iter().map(|shard| shard.upstream.unavailable_reason()).collect();
        match excuses.into_iter().collect::<Option<Vec<_>>>().and_then(|mut all| all.pop()) {
            Some(unavailable_reason) => Failure {
                message: format!(
                    "no id of tag {:?} within the deadline: {}",
                    self.tag, unavailable_reason.message
                ),
                ..unavailable_reason
            },
            None => Failure::deadline(&self.tag, &self.waited_for.borrow()),
        }
    }
}

impl Shard {
    pub(super) fn new(upstream: Rc<Upstream>) -> Shard {
        Shard {
            upstream,
            state: Cell::new(ShardState::Unloaded),
            generation: Cell::new(None),
            used_up_until: Cell::new(BootMs(0)),
            warned_percent: Cell::new(None),
        }
    }

    pub(super) fn is_loaded(&self) -> bool {
        matches!(self.state.get(), ShardState::Loaded | ShardState::Absent)
    }
}
