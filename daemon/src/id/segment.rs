//! Which numbers of one tag may be issued: segments claimed from the store, each with a mark in the
//! journal, and the requests that wait for more.
//!
//! Like Leaf's double buffer, the allocator draws from a current segment while the next one is on hand.
//! Unlike it, it claims by time: so much that the tag lasts `autonomy` at its measured rate. The caller
//! does what [`Allocator::claim_wanted`] and [`Allocator::marks_wanted`] ask for and reports back; nothing
//! is issued above a mark that was not reported durable.
//!
//! A tag that N independent stores feed has N **lanes**. Store i counts numbers k, and its number k is the
//! id k * N + i, so that no two stores ever name the same id. All numbers that go in and out of here are a
//! lane's k, as store and journal have them; ids are what is issued. Within a lane numbers ascend. With one
//! lane number and id are the same, and ids ascend too.

use std::ops::Range;

use leafd_wire::Run;

use super::held::Held;
pub use super::held::{Cut, MarkMove};
pub use super::provision::Provision;
use super::provision::{Need, Sizing};
use super::strict::StrictQueue;
use super::waiting::{Ticket, Waiting};
use super::{BootMs, ID_MAX, Want};

/// Where the tag's claim is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ClaimState {
    Idle,
    /// The store has not answered. Requests with a ticket below `before` were waiting when it was sent.
    Sent {
        before: Ticket,
    },
    /// The store has granted numbers, which the journal has not recorded.
    Granted {
        lane: u32,
    },
    /// As before, but the lane was forgotten meanwhile: the numbers are not to be held.
    Void,
    RetryAt(BootMs),
}

/// What is known of one lane.
#[derive(Clone, Debug)]
struct Lane {
    /// One past the highest number that was ever seen claimed or issued.
    highest_end: u64,
    /// What is held from now on starts at or above it.
    floor: u64,
    /// The largest number that may be issued.
    ceiling: u64,
}

/// The numbers of one tag that this host may issue.
#[derive(Debug)]
pub struct Allocator<T> {
    lanes: Vec<Lane>,
    held: Held,
    waiting: Waiting<T>,
    claim: ClaimState,
    mark_in_flight: bool,
    sizing: Sizing,
    issued: u64,
}

/// Lanes are numbered from 0; every method that takes a lane panics when the tag has no such lane.
impl<T> Allocator<T> {
    /// An allocator that holds nothing.
    ///
    /// `lanes`: how many stores feed the tag, from 1.
    ///
    /// # Panics
    /// When there are no lanes.
    #[must_use]
    pub fn new(provision: Provision, lanes: u32, now: BootMs) -> Self {
        assert!(lanes > 0, "a tag has a store");
        Allocator {
            lanes: (0..lanes).map(|lane| Lane::new(lane, lanes)).collect(),
            held: Held::new(lanes),
            waiting: Waiting::new(),
            claim: ClaimState::Idle,
            mark_in_flight: false,
            sizing: Sizing::new(provision, now),
            issued: 0,
        }
    }

    /// Claims and marks by another provision from now on; what is held stays.
    pub fn set_provision(&mut self, provision: Provision) {
        self.sizing.provision = provision;
    }

    /// How many lanes the tag has.
    #[must_use]
    pub fn lanes(&self) -> u32 {
        u32::try_from(self.lanes.len()).expect("as many as were asked for")
    }

    /// Takes up what the journal has left of a lane: ranges claimed and certainly not issued, ascending.
    /// Nothing of them is issued before their marks have moved. They follow what is held of other lanes.
    ///
    /// Once for each lane, when its store is met: before its first claim, or a range that lies below what
    /// was claimed meanwhile is lost, and what was claimed below `highest_end` is.
    pub fn restore(&mut self, lane: u32, unissued: Vec<Range<u64>>, highest_end: u64) -> Cut {
        // A claim below what the journal knows of was made of commits that the store has lost.
        let mut cut = self.held.cut_below(lane, highest_end);
        let known = self.lane(lane);
        known.highest_end = known.highest_end.max(highest_end);
        let ceiling = known.ceiling;
        let mut floor = known.floor;
        for range in unissued {
            assert!(range.start < range.end, "a leftover range is not empty");
            if range.start < floor {
                cut.close(lane, range.end, range.end - range.start);
            } else {
                floor = range.end;
                self.held.push(lane, &range, range.start);
            }
        }
        let known = self.lane(lane);
        known.floor = floor.max(highest_end);
        known.highest_end = known.highest_end.max(floor);
        cut.and(self.held.cut_from(lane, ceiling + 1))
    }

    /// Issues ids if that can be done at once and nobody waits. True: they are in `runs`.
    ///
    /// This is the hot path: a few comparisons, no look at a clock.
    pub fn take(&mut self, want: Want, runs: &mut Vec<Run>) -> bool {
        self.waiting.is_empty() && self.issue(want, runs)
    }

    /// Whether the caller should ask for claims and marks now. Cheap, for after each [`Allocator::take`].
    #[must_use]
    pub fn wants_attention(&self) -> bool {
        self.held.wants_attention()
    }

    /// Lets a request wait behind those that came before it.
    pub fn enqueue(&mut self, want: Want, deadline: BootMs, handle: T) {
        self.waiting.push(want, deadline, handle);
    }

    /// How many requests wait.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Issues to the request that has waited longest, if there is enough for it.
    pub fn serve_next(&mut self, runs: &mut Vec<Run>) -> Option<T> {
        let (_, want) = self.waiting.head()?;
        if !self.issue(want, runs) {
            return None;
        }
        self.waiting.pop()
    }

    /// Takes out the request that came last, if its deadline has passed already: it did not want to wait.
    pub fn expire_last(&mut self, now: BootMs) -> Option<T> {
        self.waiting.expire_last(now)
    }

    /// Takes out the requests whose deadline has passed.
    pub fn expire(&mut self, now: BootMs) -> Vec<T> {
        self.waiting.expire(now)
    }

    /// Drops the requests at the head that `useless` picks out: nobody is there to take their numbers.
    pub fn drop_head_while(&mut self, useless: impl Fn(&T) -> bool) {
        self.waiting.drop_head_while(useless);
    }

    /// Takes out every waiting request: what they wait for can't come.
    pub fn abandon(&mut self) -> Vec<T> {
        self.waiting.abandon()
    }

    /// How many numbers to claim now, if any, in whichever lane the caller likes. The caller then claims
    /// and reports with [`Allocator::claimed`] or [`Allocator::claim_failed`]; until then there is no
    /// second claim.
    pub fn claim_wanted(&mut self, now: BootMs) -> Option<u64> {
        match self.claim {
            ClaimState::Sent { .. } | ClaimState::Granted { .. } | ClaimState::Void => return None,
            ClaimState::RetryAt(instant) if now < instant => return None,
            ClaimState::Idle | ClaimState::RetryAt(_) => {}
        }
        let need = Need {
            held: self.held.unissued(),
            segments: self.held.segments(),
            waited_for: self.waiting.waited_for(),
            head: self.waiting.head().map_or(0, |(_, want)| u64::from(want.least())),
        };
        let Some(want) = self.sizing.claim(now, need) else {
            self.claim = ClaimState::Idle;
            return None;
        };
        self.claim = ClaimState::Sent { before: self.waiting.next_ticket() };
        Some(want)
    }

    /// Reports what a lane's store granted. The answer is the mark to journal with the segment; the claim
    /// stays in flight until [`Allocator::hold`] says that the journal has it.
    ///
    /// Whether the grant is of the tag and the store that are used now is the caller's to judge, also after
    /// [`Allocator::forget`]: a grant that is not to be used is a claim that failed.
    ///
    /// # Errors
    /// The numbers lie below what was seen claimed before: the store has lost commits. They are not to be
    /// used; the error is the end to raise the store to. The claim has not ended: report that it failed.
    pub fn claimed(
        &mut self,
        now: BootMs,
        lane: u32,
        numbers: &Range<u64>,
        step: u64,
    ) -> Result<MarkMove, u64> {
        let sent = matches!(self.claim, ClaimState::Sent { .. });
        assert!(sent, "a claim comes back that was not sent");
        assert!(numbers.start < numbers.end && numbers.start > 0, "a claim has positive numbers");
        self.set_step(step);
        let known = self.lane(lane);
        if numbers.start < known.highest_end {
            return Err(known.highest_end);
        }
        known.highest_end = numbers.end;
        self.claim = ClaimState::Granted { lane };
        self.sizing.claimed_last = numbers.end - numbers.start;
        let marked = self.held.marked();
        let ahead = self.sizing.mark_target(now, self.waiting.waited_for()).saturating_sub(marked);
        // A segment that is not next in line is marked when its turn nears.
        let first = if self.unissued() <= marked { ahead } else { 0 };
        let mark = numbers.start.saturating_add(first).min(numbers.end);
        Ok(MarkMove { lane, end: numbers.end, mark })
    }

    /// Reports that the journal has a claimed segment with the mark that [`Allocator::claimed`] named.
    ///
    /// What was cut of it: all when it was forgotten meanwhile, or else what lies above the ceiling.
    pub fn hold(&mut self, lane: u32, numbers: &Range<u64>, mark: u64) -> Cut {
        assert!(mark >= numbers.start && mark <= numbers.end, "a mark lies within its segment");
        let granted = match std::mem::replace(&mut self.claim, ClaimState::Idle) {
            ClaimState::Granted { lane: granted } => granted == lane,
            ClaimState::Void => false,
            _ => panic!("a claim is held that was not granted"),
        };
        let known = self.lane(lane);
        let first_lost = known.ceiling + 1;
        if !granted || numbers.start < known.floor {
            let mut cut = Cut::default();
            cut.close(lane, numbers.end, numbers.end - numbers.start);
            return cut;
        }
        known.floor = numbers.end;
        self.held.push(lane, numbers, mark);
        self.held.cut_from(lane, first_lost)
    }

    /// Reports that a claim failed; none is wanted again before `retry_at`.
    pub fn claim_failed(&mut self, retry_at: BootMs) {
        self.claim = ClaimState::RetryAt(retry_at);
    }

    /// Which marks to move now, so that use doesn't reach them. The caller makes them durable and reports
    /// with [`Allocator::marked`]; until then no further ones are wanted.
    pub fn marks_wanted(&mut self, now: BootMs) -> Vec<MarkMove> {
        if self.mark_in_flight {
            return Vec::new();
        }
        let target = self.sizing.mark_target(now, self.waiting.waited_for());
        let marked = self.held.marked();
        // The next look is due when half of what is marked ahead is used.
        self.held.look_after(marked - marked.min(target / 2));
        if marked > target / 2 && marked >= self.waiting.waited_for() {
            return Vec::new();
        }
        let moves = self.held.mark_moves(target);
        self.mark_in_flight = !moves.is_empty();
        moves
    }

    /// Reports marks as durable.
    pub fn marked(&mut self, moves: &[MarkMove]) {
        assert!(self.mark_in_flight, "marks come back that were not sent");
        self.mark_in_flight = false;
        // Ends and floors only rise, so that no later segment has the name of one that was forgotten.
        moves.iter().for_each(|moved| self.held.set_mark(*moved));
    }

    /// What is held, each with its lane and exact mark, for a clean stop. Numbers marked but not issued are
    /// kept.
    pub fn exact_marks(&self) -> impl Iterator<Item = (u32, Range<u64>, u64)> + '_ {
        self.held.exact_marks()
    }

    /// Drops every number held, and those granted that the journal has not recorded: the tag is gone or
    /// another one. A claim that the store has not answered stays the caller's to judge.
    pub fn forget(&mut self) {
        (0..self.lanes()).for_each(|lane| self.forget_lane(lane));
    }

    /// As [`Allocator::forget`], for what came of one lane: its store is gone or another one.
    pub fn forget_lane(&mut self, lane: u32) {
        self.held.forget(lane);
        if self.claim == (ClaimState::Granted { lane }) {
            self.claim = ClaimState::Void;
        }
    }

    /// Sets the tag's step, from 1, as the store has it: how much to claim at least.
    pub fn set_step(&mut self, step: u64) {
        self.sizing.step = step.max(1);
    }

    /// Sets the largest number of a lane that may be issued. Held numbers above it are cut, and stay so
    /// when it is raised again. It never allows ids above 2^63 - 1.
    pub fn set_ceiling(&mut self, lane: u32, ceiling: u64) -> Cut {
        let ceiling = ceiling.min(Lane::ceiling_max(lane, self.lanes()));
        self.lane(lane).ceiling = ceiling;
        self.held.cut_from(lane, ceiling + 1)
    }

    /// The queue of a tag that turned out to be strict: whoever waits goes on waiting, in the same order, and
    /// what is held is dropped. A claim that the store has not answered is the queue's to be told of: those
    /// share it who were waiting when it was sent. A grant that the journal has not recorded is lost.
    ///
    /// # Panics
    /// When the tag has more than one lane: independent stores can't order their ids.
    #[must_use]
    pub fn into_strict(self) -> StrictQueue<T> {
        let [lane] = &self.lanes[..] else { panic!("a strict tag has one store") };
        let shared_before = match self.claim {
            ClaimState::Sent { before } => Some(before),
            _ => None,
        };
        let Sizing { provision, rate, .. } = self.sizing;
        StrictQueue::take_over(
            provision.step_max,
            self.waiting,
            shared_before,
            lane.highest_end,
            rate,
            self.issued,
        )
    }

    /// Whether the request at the head, or the next one that comes, finds enough among the numbers held, though
    /// perhaps not before they are marked.
    #[must_use]
    pub fn has_enough(&self) -> bool {
        let least = self.waiting.head().map_or(1, |(_, want)| u64::from(want.least()));
        least <= self.unissued()
    }

    /// Numbers held and not issued.
    #[must_use]
    pub fn unissued(&self) -> u64 {
        self.held.unissued()
    }

    /// One past the highest number of a lane that this host has seen claimed.
    #[must_use]
    pub fn highest_end(&self, lane: u32) -> u64 {
        self.lanes[lane as usize].highest_end
    }

    /// Learns that a lane's numbers below `end` were claimed by somebody: claims below it are refused from
    /// now on. What is held is not touched.
    pub fn raise_highest_end(&mut self, lane: u32, end: u64) {
        let known = self.lane(lane);
        known.highest_end = known.highest_end.max(end);
    }

    /// Ids issued since the allocator was made.
    #[must_use]
    pub fn issued(&self) -> u64 {
        self.issued
    }

    /// The measured rate, in ids per second.
    pub fn ids_per_second(&mut self, now: BootMs) -> f64 {
        self.sizing.rate.per_second(now)
    }

    /// Whether a claim is under way.
    #[must_use]
    pub fn claiming(&self) -> bool {
        !matches!(self.claim, ClaimState::Idle | ClaimState::RetryAt(_))
    }

    /// Whether a claim failed and is to be tried again.
    #[must_use]
    pub fn retrying(&self) -> bool {
        matches!(self.claim, ClaimState::RetryAt(_))
    }

    fn lane(&mut self, lane: u32) -> &mut Lane {
        &mut self.lanes[lane as usize]
    }

    #[inline]
    fn issue(&mut self, want: Want, runs: &mut Vec<Run>) -> bool {
        let Some(count) = self.held.issue(want, runs) else { return false };
        self.issued += u64::from(count);
        self.sizing.rate.count(u64::from(count));
        true
    }
}

impl Lane {
    fn new(lane: u32, lanes: u32) -> Self {
        let ceiling = Lane::ceiling_max(lane, lanes);
        Lane { highest_end: 0, floor: 0, ceiling }
    }

    /// The largest number that makes an id.
    fn ceiling_max(lane: u32, lanes: u32) -> u64 {
        (ID_MAX - u64::from(lane)) / u64::from(lanes)
    }
}
