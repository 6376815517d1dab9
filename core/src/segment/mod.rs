//! Which numbers of one tag may be issued: segments claimed from the store, each with a mark in the journal, and the
//! requests that wait for more.
//!
//! Like Leaf's double buffer, the allocator draws from a current segment while the next one is at hand. Unlike Leaf, it
//! sizes claims by time: enough ids for `autonomy` at the tag's measured rate. The caller executes what
//! [`Allocator::claim_wanted`] and [`Allocator::marks_wanted`] request, and reports back. Nothing is issued above a
//! mark until that mark is reported durable.
//!
//! A tag that N independent stores feed has N **shards**. Store i grants the ids with the remainder i when divided by
//! N, so no two stores ever grant the same id. Claimed, held and issued ids have one type: a [`Run`]. Ids ascend within
//! a shard; with a single shard they all ascend.
//!
//! A **strict** tag's ids ascend across all hosts: a request made after another was answered gets a larger id.
//! Requests that arrive before a claim's commit is sent share its grant (`arrivals`). Later requests wait for the next
//! claim, because another host may have claimed and answered by then. Ids that no request takes are dropped, unless the host holds the tag for
//! a short time (`hold`). Every tag is treated as non-strict until its first claim shows whether it is strict.
//!
//! - `buffer`: the held segments; `marks`: how many of their ids may be issued.
//! - `claims`: what to claim, and what to do with the grant.
//! - `hold`: what a host holds of a strict tag while it draws alone.
//! - `prefetch`, `rate`: how much to claim and to mark ahead.
//! - `waiting`: the requests.

mod arrivals;
mod buffer;
mod claims;
mod hold;
mod marks;
mod prefetch;
mod rate;
mod waiting;

use std::rc::Rc;

use leafd_wire::Run;

use crate::{BootMs, ID_MAX};

pub use arrivals::Arrivals;
pub use buffer::{MarkMove, SegmentBuffer, Truncation};
pub use claims::Distribution;
use hold::StrictHold;
use prefetch::ClaimSizer;
pub use prefetch::PrefetchPolicy;
pub use rate::RateMeter;
use waiting::Ticket;
pub use waiting::{Waiting, Want};

/// The state of the tag's claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ClaimState {
    Idle,
    /// The store has not answered. Requests with a ticket below `before` were waiting when it was sent.
    Sent {
        before: Ticket,
        at: BootMs,
    },
    /// The store has granted numbers. The journal has not recorded them yet.
    Granted {
        shard: u32,
        before: Ticket,
    },
    /// As `Granted`, but the shard was forgotten meanwhile, so the numbers must not be held.
    Void,
    RetryAt(BootMs),
}

/// What is known of one shard.
#[derive(Clone, Debug)]
struct ShardBounds {
    /// One past the highest number that was ever seen claimed or issued.
    highest_end: u64,
    /// Only ids at or above this are held from now on.
    floor: u64,
    /// The largest number that may be issued.
    ceiling: u64,
}

/// The numbers of one tag that this host may issue.
#[derive(Debug)]
pub struct Allocator<T> {
    shards: Vec<ShardBounds>,
    pub held: SegmentBuffer,
    /// The requests that wait for more.
    pub waiting: Waiting<T>,
    claim: ClaimState,
    /// When marks were sent that the journal has not yet reported durable.
    marks_sent: Option<BootMs>,
    sizing: ClaimSizer,
    issued: u64,
    /// Set if the tag is strict.
    strict: Option<Box<StrictHold>>,
    /// How many ids the strict tag's store had left at the last claim, if fewer than needed.
    left: Option<u64>,
}

/// Shards are numbered from 0. A method that takes a shard panics when the tag has no such shard.
impl<T> Allocator<T> {
    /// An allocator without ids.
    ///
    /// All tags share `provision`. `shards` is the number of stores that feed the tag, at least 1.
    ///
    /// # Panics
    /// If `shards` is 0.
    pub fn new(provision: impl Into<Rc<PrefetchPolicy>>, shards: u32, now: BootMs) -> Self {
        assert!(shards > 0, "a tag has a store");
        Allocator {
            shards: (0..shards).map(|_| ShardBounds::default()).collect(),
            held: SegmentBuffer::default(),
            waiting: Waiting::new(),
            claim: ClaimState::Idle,
            marks_sent: None,
            sizing: ClaimSizer::new(provision.into(), now),
            issued: 0,
            strict: None,
            left: None,
        }
    }

    /// Whether the tag is known to be strict.
    pub fn is_strict(&self) -> bool {
        self.strict.is_some()
    }

    /// Whether the store records that this host holds the strict tag.
    pub fn holds(&self) -> bool {
        self.strict.as_ref().is_some_and(|hold| hold.is_held())
    }

    /// How many ids of a strict tag this host holds.
    pub fn held_strictly(&self) -> u64 {
        self.strict.as_ref().map_or(0, |hold| hold.left())
    }

    /// Whether a strict tag that this host holds needs a claim now, and none is in flight.
    pub fn hold_is_due(&self, now: BootMs) -> bool {
        self.claim == ClaimState::Idle && self.strict.as_ref().is_some_and(|hold| hold.is_due(now))
    }

    /// Releases a strict tag that this host holds. The next claim reports that to the store.
    pub fn give_up(&mut self) {
        self.strict.iter_mut().for_each(|hold| hold.give_up());
    }

    /// Uses another policy for the size of claims and marks from now on. Held ids stay.
    pub fn set_provision(&mut self, provision: impl Into<Rc<PrefetchPolicy>>) {
        self.sizing.provision = provision.into();
    }

    /// How many shards the tag has.
    pub fn shards(&self) -> u32 {
        u32::try_from(self.shards.len()).expect("as many as were asked for")
    }

    /// Takes over a shard's leftovers from the journal: ranges that were claimed and certainly not issued, ascending.
    /// None of these ids is issued before its mark has moved. They queue behind the held ids of other shards.
    ///
    /// Call this once for each shard, when its store answers for the first time and before the first claim. Otherwise a
    /// range below the ids claimed meanwhile is lost, and so is a claim below `highest_end`.
    pub fn restore(&mut self, shard: u32, unissued: Vec<Run>, highest_end: u64) -> Truncation {
        // A claim below the journal's records came from a store that has lost commits.
        let mut cut = self.held.cut_below(shard, highest_end);
        let known = self.shard(shard);
        known.highest_end = known.highest_end.max(highest_end);
        let ceiling = known.ceiling;
        let mut floor = known.floor;
        for run in unissued {
            if run.first < floor || self.is_strict() {
                cut.close(shard, run, run.count);
            } else {
                floor = run.end();
                self.held.push(shard, run, run.first);
            }
        }
        let known = self.shard(shard);
        known.floor = floor.max(highest_end);
        known.highest_end = known.highest_end.max(floor);
        cut.and(self.held.cut_from(shard, ceiling + 1))
    }

    /// Issues ids immediately, unless requests wait or too few ids are ready. Returns true if they are in `runs`.
    ///
    /// This is the hot path: a few comparisons, and no clock is read.
    pub fn take(&mut self, want: Want, runs: &mut Vec<Run>) -> bool {
        self.waiting.is_empty() && self.issue(want, runs)
    }

    /// Issues ids of a strict tag from memory, if this host holds the tag and no requests wait. The caller must have
    /// received the request before it read the time.
    pub fn take_held(&mut self, want: Want, now: BootMs, runs: &mut Vec<Run>) -> bool {
        self.waiting.is_empty() && self.issue_held(want, now, runs)
    }

    /// As [`Allocator::take_held`], to the waiting request that is next.
    pub fn serve_next_held(&mut self, now: BootMs, runs: &mut Vec<Run>) -> Option<T> {
        let want = self.waiting.head()?;
        if !self.issue_held(want, now, runs) {
            return None;
        }
        self.waiting.pop()
    }

    /// Issues to the request that is next, if there is enough for it.
    pub fn serve_next(&mut self, runs: &mut Vec<Run>) -> Option<T> {
        let want = self.waiting.head()?;
        if !self.issue(want, runs) {
            return None;
        }
        self.waiting.pop()
    }

    /// Drops all held numbers, and granted numbers that the journal has not recorded, because the tag was deleted or
    /// replaced. If the store has not answered a claim yet, the caller must still check that grant.
    pub fn forget(&mut self) {
        (0..self.shards()).for_each(|shard| self.forget_shard(shard));
    }

    /// As [`Allocator::forget`], for one shard whose store was removed or replaced.
    pub fn forget_shard(&mut self, shard: u32) {
        self.held.forget(shard);
        self.strict.iter_mut().for_each(|hold| hold.forget());
        if matches!(self.claim, ClaimState::Granted { shard: granted, .. } if granted == shard) {
            self.claim = ClaimState::Void;
        }
    }

    /// Sets the tag's step in the store, which is the minimum claim; from 1.
    pub fn set_step(&mut self, step: u64) {
        self.sizing.step = step.max(1);
    }

    /// Makes the next claim bring at least this many ids, although no request waits for them yet.
    pub fn expect(&mut self, ids: u64) {
        self.sizing.expected = ids;
    }

    /// Sets the largest number of a shard that may be issued. Cuts held numbers above it; they don't come back if it is
    /// raised again. Ids above 2^63 - 1 are never allowed.
    pub fn set_ceiling(&mut self, shard: u32, ceiling: u64) -> Truncation {
        let ceiling = ceiling.min(ID_MAX);
        if ceiling < self.shard(shard).ceiling {
            self.give_up();
        }
        self.shard(shard).ceiling = ceiling;
        self.held.cut_from(shard, ceiling + 1)
    }

    /// Whether the held numbers suffice for the next request, waiting or future. They may still have to be marked.
    pub fn has_enough(&self) -> bool {
        let least = self.waiting.head().map_or(1, |want| u64::from(want.least()));
        least <= self.held.unissued()
    }

    /// One past the highest number of a shard that this host has seen claimed.
    pub fn highest_end(&self, shard: u32) -> u64 {
        self.shards[shard as usize].highest_end
    }

    /// The same for every shard.
    pub fn highest_ends(&self) -> Vec<u64> {
        self.shards.iter().map(|shard| shard.highest_end).collect()
    }

    /// The largest number that may be issued: the smallest of the shards' ceilings. `None` if only the size of ids
    /// limits it.
    pub fn ceiling(&self) -> Option<u64> {
        let lowest = self.shards.iter().map(|shard| shard.ceiling).min();
        lowest.filter(|ceiling| *ceiling < ID_MAX)
    }

    /// The highest number of any shard that this host has seen claimed; 0 if there is none.
    pub fn claimed_to(&self) -> u64 {
        let ends = self.shards.iter().map(|shard| shard.highest_end);
        ends.max().unwrap_or(0).saturating_sub(1)
    }

    /// Records that a shard's numbers below `end` are claimed. Claims below it are refused from now on. Held ids don't
    /// change.
    pub fn raise_highest_end(&mut self, shard: u32, end: u64) {
        let known = self.shard(shard);
        known.highest_end = known.highest_end.max(end);
    }

    /// Which fraction of the shard's allowed numbers is claimed, from 0 to 1, for the shard with the largest fraction.
    pub fn ceiling_used(&self) -> f64 {
        let used = |shard: &ShardBounds| {
            shard.highest_end.saturating_sub(1) as f64 / shard.ceiling.max(1) as f64
        };
        self.shards.iter().map(used).fold(0.0, f64::max)
    }

    /// Ids issued since the allocator was made.
    pub fn issued(&self) -> u64 {
        self.issued
    }

    /// The measured rate, in ids per second.
    pub fn ids_per_second(&mut self, now: BootMs) -> f64 {
        self.sizing.rate.per_second(now)
    }

    /// Whether a claim is in flight.
    pub fn claiming(&self) -> bool {
        !matches!(self.claim, ClaimState::Idle | ClaimState::RetryAt(_))
    }

    /// Whether nothing is in progress: no request waits, and no claim or mark awaits an answer or a retry.
    pub fn is_idle(&self) -> bool {
        let is_quiet = self.claim == ClaimState::Idle && self.marks_sent.is_none();
        is_quiet && self.waiting.is_empty() && !self.holds()
    }

    /// When to check the tag again even if nothing happens until then: in `later_ms` at the latest, or in `soon_ms` if
    /// this host holds the strict tag. `None` if no request waits, no claim is to be retried, and no hold ends.
    pub fn check_at(&self, now: BootMs, soon_ms: u64, later_ms: u64) -> Option<BootMs> {
        let retry_at = match self.claim {
            ClaimState::RetryAt(at) => Some(at),
            _ => None,
        };
        let deadline = self.waiting.deadline();
        let holds = self.strict.as_ref().is_some_and(|hold| hold.is_timed(now));
        if !holds && deadline.or(retry_at).is_none() {
            return None;
        }
        let latest = BootMs(now.0.saturating_add(if holds { soon_ms } else { later_ms }));
        // A retry that is overdue waits for its store to become usable.
        let retry_at = retry_at.filter(|at| *at > now);
        Some([deadline, retry_at].into_iter().flatten().fold(latest, BootMs::min))
    }

    fn shard(&mut self, shard: u32) -> &mut ShardBounds {
        &mut self.shards[shard as usize]
    }

    #[inline]
    fn issue(&mut self, want: Want, runs: &mut Vec<Run>) -> bool {
        let Some(count) = self.held.issue(want, runs) else { return false };
        self.count_issued(u64::from(count));
        true
    }

    fn issue_held(&mut self, want: Want, now: BootMs, runs: &mut Vec<Run>) -> bool {
        let hold = self.strict.as_mut();
        let Some(run) = hold.and_then(|hold| hold.issue(want.least(), now)) else { return false };
        runs.push(run);
        self.count_issued(run.count.into());
        true
    }

    #[inline]
    fn count_issued(&mut self, ids: u64) {
        self.issued += ids;
        self.sizing.count(ids);
    }
}

impl Default for ShardBounds {
    fn default() -> Self {
        ShardBounds { highest_end: 0, floor: 0, ceiling: ID_MAX }
    }
}
