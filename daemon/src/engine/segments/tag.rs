//! A segment tag in use, and its state in each of its stores.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use super::masked::Form;
use crate::engine::quotas::Quotas;
use crate::engine::upstream::Upstream;
use crate::reply::Failure;
use crate::reply::given::TagMark;
use crate::reply::outbox::ReplyTo;
use leafd_core::segment::Allocator;
use leafd_core::shares::{ShareSlot, Shares};
use leafd_core::store::Generation;
use leafd_core::{Backoff, BootMs, Tag, Want};

/// A segment tag in use.
pub struct SegmentTag {
    pub(crate) tag: Tag,
    /// Identifies the tag in the records of which process got which ids.
    pub(crate) trace_key: TagMark,
    pub(crate) allocator: RefCell<Allocator<ReplyTo>>,
    /// The stores from which its ids come: one, or several independent primaries.
    pub(super) shards: Vec<TagShard>,
    /// Set when the tag is taken out of use. Code that still refers to it must look it up again.
    pub(crate) evicted: Cell<bool>,
    pub(super) in_retry_queue: Cell<bool>,
    /// Whether it waits for a turn to claim.
    pub(super) awaits_turn: Cell<bool>,
    /// When a draw from it was last noticed.
    pub(super) drawn: Cell<LastDraw>,
    /// Its place among the unconfirmed names.
    pub(super) unconfirmed: RefCell<Option<ShareSlot>>,
    /// How its numbers become ids.
    pub(super) form: RefCell<Form>,
    /// The places for waiting requests, divided among the users.
    pub(super) places: Rc<RefCell<Shares>>,
    /// What remains of the users' quotas, if an access rule sets some.
    pub(crate) quotas: RefCell<Quotas>,
    pub(super) last_claim: Cell<LastClaim>,
    /// What requests wait for. It is part of the error when a deadline passes.
    waits_for: RefCell<Cow<'static, str>>,
    pub(super) trouble: RefCell<Trouble>,
}

/// A tag's problems.
#[derive(Debug, Default)]
pub(super) struct Trouble {
    /// Counts claims that failed in a row.
    pub(super) backoff: Backoff,
    /// Counts how often in a row the tag was loaded again because the journal refused a change.
    pub(super) restarts: Backoff,
    /// Why the last claim failed, and until when requests that need a claim are refused immediately.
    pub(super) refused: Option<ClaimRefusal>,
    /// Whether the daemon has crashed since the last known claim, so that there may be another claim that this host
    /// doesn't know.
    pub(super) after_crash: bool,
}

/// When a draw from a tag was last noticed, and how many ids had been drawn by then.
#[derive(Clone, Copy, Debug)]
pub(super) struct LastDraw {
    ids: u64,
    at: BootMs,
}

/// Why requests that need a claim are refused without calling the store again.
#[derive(Debug)]
pub(super) struct ClaimRefusal {
    pub(super) failure: Failure,
    /// A request for at most this many ids may be served all the same.
    pub(super) above: u64,
    pub(super) until: BootMs,
}

/// Distinguishes the last claim of a tag from those shortly before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LastClaim {
    /// The shard whose store it was sent to.
    shard: usize,
    number: u64,
}

/// The state of a tag in one of its stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ShardState {
    /// The journal's record of it has not been read yet.
    Unloaded,
    Loading,
    /// The journal's record of it is known.
    Loaded,
    /// The journal's record is known, and the store doesn't have the tag.
    Absent,
}

/// A tag in one of its stores.
pub(super) struct TagShard {
    pub(super) upstream: Rc<Upstream>,
    pub(super) state: Cell<ShardState>,
    /// The tag's generation in this store, if it is known.
    pub(super) generation: Cell<Option<Generation>>,
    /// Until when to believe that the store has no id left below the tag's ceiling.
    pub(super) used_up_until: Cell<BootMs>,
}

impl SegmentTag {
    /// A tag without held ids, which is not loaded yet.
    pub(super) fn new(
        tag: Tag,
        allocator: Allocator<ReplyTo>,
        shards: Vec<TagShard>,
        unconfirmed: Option<ShareSlot>,
        waiters_max: usize,
        now: BootMs,
    ) -> Self {
        SegmentTag {
            trace_key: TagMark::of(&tag),
            tag,
            allocator: RefCell::new(allocator),
            shards,
            evicted: Cell::new(false),
            in_retry_queue: Cell::new(false),
            awaits_turn: Cell::new(false),
            drawn: Cell::new(LastDraw { ids: 0, at: now }),
            unconfirmed: RefCell::new(unconfirmed),
            form: RefCell::default(),
            places: Rc::new(RefCell::new(Shares::new(waiters_max as u64))),
            quotas: RefCell::default(),
            last_claim: Cell::default(),
            waits_for: RefCell::new("the tag is still being looked up".into()),
            trouble: RefCell::default(),
        }
    }

    /// Call this when a claim is sent to the store of this shard.
    pub(super) fn sends_claim(&self, shard: usize) {
        let number = self.last_claim.get().number + 1;
        self.last_claim.set(LastClaim { shard, number });
        self.waits_for("the store has not answered a claim yet");
    }

    /// Whether a claim from this shard's store is in flight, or its result is being recorded in the journal.
    pub(super) fn claims_from(&self, shard: usize) -> bool {
        self.allocator.borrow().claiming() && self.last_claim.get().shard == shard
    }

    /// From now on requests wait for what this message describes.
    pub(super) fn waits_for(&self, what: impl Into<Cow<'static, str>>) {
        self.waits_for.replace(what.into());
    }

    /// How long no draw from it has been noticed. A draw since the last call restarts the time.
    pub(super) fn undrawn_for(&self, now: BootMs) -> Duration {
        let known = self.drawn.get();
        let ids = self.allocator.borrow().issued();
        if ids != known.ids {
            self.drawn.set(LastDraw { ids, at: now });
            return Duration::ZERO;
        }
        Duration::from_millis(now.0.saturating_sub(known.at.0))
    }

    /// The store's recent refusal, if it applies to this request.
    pub(super) fn recent_refusal(&self, want: Want, now: BootMs) -> Option<Failure> {
        let trouble = self.trouble.borrow();
        let refused = trouble.refused.as_ref().filter(|refusal| now < refusal.until)?;
        (u64::from(want.least()) > refused.above).then(|| refused.failure.clone())
    }

    /// Whether a request waits for it.
    pub fn is_waited_for(&self) -> bool {
        !self.allocator.borrow().waiting.is_empty()
    }

    /// Why a request's deadline has passed: no store can be claimed from, or the pending work takes too long.
    /// `trouble`: the journal's problem, if there is one.
    pub(super) fn deadline(&self, trouble: Option<Failure>) -> Failure {
        let excuses: Vec<_> =
            self.shards.iter().map(|shard| shard.upstream.unavailable_reason()).collect();
        let mut failure =
            match excuses.into_iter().collect::<Option<Vec<_>>>().and_then(|mut all| all.pop()) {
                Some(unavailable_reason) => Failure {
                    message: format!(
                        "no id of tag {:?} was available before the deadline: {}",
                        self.tag, unavailable_reason.message
                    ),
                    ..unavailable_reason
                },
                None => Failure::deadline(&self.tag, &self.waits_for.borrow()),
            };
        if let Some(trouble) = trouble {
            failure.message = format!("{}; {}", failure.message, trouble.message);
        }
        failure
    }
}

impl TagShard {
    pub(super) fn new(upstream: Rc<Upstream>) -> TagShard {
        TagShard {
            upstream,
            state: Cell::new(ShardState::Unloaded),
            generation: Cell::default(),
            used_up_until: Cell::new(BootMs(0)),
        }
    }

    pub(super) fn is_loaded(&self) -> bool {
        matches!(self.state.get(), ShardState::Loaded | ShardState::Absent)
    }
}

/// The allocator's number of a shard. There are at most as many shards as stores.
pub(super) fn shard_number(index: usize) -> u32 {
    u32::try_from(index).expect("there are at most 64 shards")
}
