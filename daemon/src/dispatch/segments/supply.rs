//! A tag's numbers: held ahead, or of a strict tag claimed anew for whoever waits.

use crate::dispatch::outbox::ReplyTo;
use crate::id::segment::{Allocator, Cut, MarkMove, Provision};
use crate::id::strict::StrictQueue;
use crate::id::{BootMs, Want};

/// Where a tag's numbers come from. Every tag begins as one whose numbers are held; that it is strict is learnt
/// with its terms or its first claim.
pub enum Supply {
    /// Claimed and marked ahead of need.
    Held(Allocator<ReplyTo>),
    /// Claimed for those who wait, the rest dropped.
    Strict(StrictQueue<ReplyTo>),
}

/// Calls what both kinds have.
macro_rules! either {
    ($supply:expr, $one:ident => $call:expr) => {
        match $supply {
            Supply::Held($one) => $call,
            Supply::Strict($one) => $call,
        }
    };
}

impl Supply {
    /// Nothing is held yet; `lanes` stores feed it.
    pub(super) fn new(provision: Provision, lanes: u32, now: BootMs) -> Supply {
        Supply::Held(Allocator::new(provision, lanes, now))
    }

    /// The strict queue that it is, or becomes: what is held is dropped, who waits goes on waiting.
    pub(super) fn strict(&mut self) -> &mut StrictQueue<ReplyTo> {
        if let Supply::Held(allocator) = self {
            let nothing = Provision { autonomy_ms: 0, step_max: 1, mark_ahead_ms: 0 };
            let held = std::mem::replace(allocator, Allocator::new(nothing, 1, BootMs(0)));
            *self = Supply::Strict(held.into_strict());
        }
        match self {
            Supply::Strict(queue) => queue,
            Supply::Held(_) => unreachable!("it was replaced above"),
        }
    }

    /// Whether the tag is known to be strict.
    pub fn is_strict(&self) -> bool {
        matches!(self, Supply::Strict(_))
    }

    pub(super) fn enqueue(&mut self, want: Want, deadline: BootMs, reply: ReplyTo) {
        either!(self, one => one.enqueue(want, deadline, reply));
    }

    /// How many requests wait.
    pub fn waiting(&self) -> usize {
        either!(self, one => one.waiting())
    }

    pub(super) fn expire(&mut self, now: BootMs) -> Vec<ReplyTo> {
        either!(self, one => one.expire(now))
    }

    pub(super) fn expire_last(&mut self, now: BootMs) -> Option<ReplyTo> {
        either!(self, one => one.expire_last(now))
    }

    pub(super) fn abandon(&mut self) -> Vec<ReplyTo> {
        either!(self, one => one.abandon())
    }

    /// Whether what is held is enough for who comes next, without another claim.
    pub(super) fn has_enough(&self) -> bool {
        match self {
            Supply::Held(allocator) => allocator.has_enough(),
            Supply::Strict(_) => false,
        }
    }

    pub(super) fn claiming(&self) -> bool {
        either!(self, one => one.claiming())
    }

    pub(super) fn retrying(&self) -> bool {
        either!(self, one => one.retrying())
    }

    pub(super) fn claim_failed(&mut self, retry_at: BootMs) {
        either!(self, one => one.claim_failed(retry_at));
    }

    pub(super) fn claim_wanted(&mut self, now: BootMs) -> Option<u64> {
        if let Supply::Strict(queue) = self {
            queue.drop_head_while(ReplyTo::gone);
        }
        either!(self, one => one.claim_wanted(now))
    }

    pub(super) fn marks_wanted(&mut self, now: BootMs) -> Vec<MarkMove> {
        match self {
            Supply::Held(allocator) => allocator.marks_wanted(now),
            Supply::Strict(_) => Vec::new(),
        }
    }

    pub(super) fn forget(&mut self) {
        if let Supply::Held(allocator) = self {
            allocator.forget();
        }
    }

    pub(super) fn forget_lane(&mut self, lane: u32) {
        if let Supply::Held(allocator) = self {
            allocator.forget_lane(lane);
        }
    }

    /// Claims by another provision from now on; of a strict tag only its largest step counts.
    pub(super) fn set_provision(&mut self, provision: Provision) {
        match self {
            Supply::Held(allocator) => allocator.set_provision(provision),
            Supply::Strict(queue) => queue.set_step_max(provision.step_max),
        }
    }

    /// Takes over the terms of a lane's store. What was held and may not be issued any more is cut.
    pub(super) fn set_terms(&mut self, lane: u32, step: u64, ceiling: u64) -> Cut {
        match self {
            Supply::Held(allocator) => {
                allocator.set_step(step);
                allocator.set_ceiling(lane, ceiling)
            }
            Supply::Strict(_) => Cut::default(),
        }
    }

    /// One past the highest number that this host has seen claimed in a lane.
    pub fn highest_end(&self, lane: u32) -> u64 {
        match self {
            Supply::Held(allocator) => allocator.highest_end(lane),
            Supply::Strict(queue) => queue.highest_end(),
        }
    }

    /// The same for every lane.
    pub fn highest_ends(&self) -> Vec<u64> {
        match self {
            Supply::Held(allocator) => {
                (0..allocator.lanes()).map(|lane| allocator.highest_end(lane)).collect()
            }
            Supply::Strict(queue) => vec![queue.highest_end()],
        }
    }

    /// Numbers held and not issued.
    pub fn unissued(&self) -> u64 {
        match self {
            Supply::Held(allocator) => allocator.unissued(),
            Supply::Strict(_) => 0,
        }
    }

    /// Numbers issued since the tag came into use.
    pub fn issued(&self) -> u64 {
        either!(self, one => one.issued())
    }

    /// The measured rate.
    pub fn ids_per_second(&mut self, now: BootMs) -> f64 {
        either!(self, one => one.ids_per_second(now))
    }
}
