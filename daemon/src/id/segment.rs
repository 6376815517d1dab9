//! Which numbers of one tag may be issued: segments claimed from the store, each with a mark in the
//! journal, and the requests that wait for more.
//!
//! Like Leaf's double buffer, the allocator draws from a current segment while the next one is on hand.
//! Unlike it, it claims by time: so much that the tag lasts `autonomy` at its measured rate. The caller
//! does what [`Allocator::claim_wanted`] and [`Allocator::marks_wanted`] ask for and reports back; nothing
//! is issued above a mark that was not reported durable.

use std::collections::VecDeque;
use std::ops::Range;

use leafd_wire::Run;

use super::{BootMs, RateMeter};

/// How an allocator provides for the future.
#[derive(Clone, Copy, Debug)]
pub struct Provision {
    /// How long claimed numbers should last, in milliseconds.
    pub autonomy_ms: u64,
    /// The most that is claimed ahead of need at once.
    pub step_max: u64,
    /// How far marks move ahead of use, in milliseconds of the tag's rate.
    pub mark_ahead_ms: u64,
}

/// A request for numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Want {
    /// How many, from 1.
    pub count: u32,
    /// Whether fewer will do (at least one).
    pub fewer_will_do: bool,
}

/// A request that waits. `T` is the caller's handle on it.
#[derive(Debug)]
struct Waiter<T> {
    want: Want,
    deadline: BootMs,
    handle: T,
}

/// A mark to be made durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MarkMove {
    /// The segment's end, which names it.
    pub end: u64,
    /// Numbers below this may be issued once it is durable.
    pub mark: u64,
}

/// A claimed range.
#[derive(Clone, Debug)]
struct Segment {
    start: u64,
    /// The first number not issued.
    next: u64,
    /// Numbers below it may be issued: the journal says so.
    mark: u64,
    end: u64,
}

/// Where the tag's claim is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ClaimState {
    Idle,
    InFlight,
    RetryAt(BootMs),
}

/// The numbers of one tag that this host may issue.
#[derive(Debug)]
pub struct Allocator<T> {
    provision: Provision,
    held: VecDeque<Segment>,
    waiting: VecDeque<Waiter<T>>,
    /// How many numbers the waiting requests need at least: kept, so that a request costs the same however
    /// many wait.
    waited_for: u64,
    /// No waiting request's deadline is before it.
    deadline_first: BootMs,
    claim: ClaimState,
    mark_in_flight: bool,
    /// Below this `next` of the current segment nothing needs the caller's attention.
    watch: u64,
    rate: RateMeter,
    step: u64,
    claimed_last: u64,
    /// One past the highest number that this host has ever seen claimed or issued.
    highest_end: u64,
    issued: u64,
}

/// The least that a mark moves ahead, so that an idle tag's burst outruns few marks.
const MARK_AHEAD_MIN: u64 = 64;

/// How much larger than the last one a claim may be: a tag that turns hot gets there in a few claims,
/// and one burst does not burn ten million numbers.
const CLAIM_GROWTH: u64 = 8;

/// Claims below this need not grow step by step.
const CLAIM_GROWTH_FLOOR: u64 = 1_000;

impl<T> Allocator<T> {
    /// An allocator that holds nothing.
    #[must_use]
    pub fn new(provision: Provision, now: BootMs) -> Self {
        Allocator {
            provision,
            held: VecDeque::new(),
            waiting: VecDeque::new(),
            waited_for: 0,
            deadline_first: BootMs(u64::MAX),
            claim: ClaimState::Idle,
            mark_in_flight: false,
            watch: 0,
            rate: RateMeter::new(now),
            step: 1,
            claimed_last: 0,
            highest_end: 0,
            issued: 0,
        }
    }

    /// Takes up what the journal has left: ranges claimed and certainly not issued, ascending. Nothing of
    /// them is issued before their marks have moved.
    pub fn restore(&mut self, unissued: Vec<Range<u64>>, highest_end: u64) {
        assert!(self.held.is_empty(), "leftovers come before the first claim");
        self.highest_end = highest_end;
        for range in unissued {
            assert!(range.start < range.end, "a leftover range is not empty");
            self.highest_end = self.highest_end.max(range.end);
            self.held.push_back(Segment {
                start: range.start,
                next: range.start,
                mark: range.start,
                end: range.end,
            });
        }
    }

    /// Issues numbers if that can be done at once and nobody waits. True: they are in `runs`.
    ///
    /// This is the hot path: a few comparisons, no look at a clock.
    pub fn take(&mut self, want: Want, runs: &mut Vec<Run>) -> bool {
        self.waiting.is_empty() && self.issue(want, runs)
    }

    /// Whether the caller should ask for claims and marks now. Cheap, for after each [`Allocator::take`].
    #[must_use]
    pub fn wants_attention(&self) -> bool {
        self.held.front().is_none_or(|current| current.next >= self.watch)
    }

    /// Lets a request wait behind those that came before it.
    pub fn enqueue(&mut self, want: Want, deadline: BootMs, handle: T) {
        self.waited_for += u64::from(want.least());
        self.deadline_first = self.deadline_first.min(deadline);
        self.waiting.push_back(Waiter { want, deadline, handle });
    }

    /// How many requests wait.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Issues to the request that has waited longest, if there is enough for it.
    pub fn serve_next(&mut self, runs: &mut Vec<Run>) -> Option<T> {
        let want = self.waiting.front()?.want;
        if !self.issue(want, runs) {
            return None;
        }
        self.pop_front()
    }

    /// Takes out the request that came last, if its deadline has passed already: it did not want to wait.
    pub fn expire_last(&mut self, now: BootMs) -> Option<T> {
        if self.waiting.back()?.deadline > now {
            return None;
        }
        let waiter = self.waiting.pop_back()?;
        self.waited_for -= u64::from(waiter.want.least());
        Some(waiter.handle)
    }

    /// Takes out the requests whose deadline has passed.
    pub fn expire(&mut self, now: BootMs) -> Vec<T> {
        let mut expired = Vec::new();
        if now < self.deadline_first {
            return expired;
        }
        self.deadline_first = BootMs(u64::MAX);
        for waiter in std::mem::take(&mut self.waiting) {
            if waiter.deadline <= now {
                self.waited_for -= u64::from(waiter.want.least());
                expired.push(waiter.handle);
            } else {
                self.deadline_first = self.deadline_first.min(waiter.deadline);
                self.waiting.push_back(waiter);
            }
        }
        expired
    }

    /// Drops the requests at the head that `useless` picks out: nobody is there to take their numbers.
    pub fn drop_head_while(&mut self, useless: impl Fn(&T) -> bool) {
        while self.waiting.front().is_some_and(|waiter| useless(&waiter.handle)) {
            self.pop_front();
        }
    }

    /// Takes out every waiting request: what they wait for can't come.
    pub fn abandon(&mut self) -> Vec<T> {
        self.waited_for = 0;
        self.deadline_first = BootMs(u64::MAX);
        self.waiting.drain(..).map(|waiter| waiter.handle).collect()
    }

    /// How many numbers to claim now, if any. The caller then claims and reports with
    /// [`Allocator::claimed`] or [`Allocator::claim_failed`]; until then there is no second claim.
    pub fn claim_wanted(&mut self, now: BootMs) -> Option<u64> {
        match self.claim {
            ClaimState::InFlight => return None,
            ClaimState::RetryAt(instant) if now < instant => return None,
            ClaimState::Idle | ClaimState::RetryAt(_) => {}
        }
        let held = self.unissued();
        let waited_for = self.waited_for;
        let rate_need = self.rate.ids_in(now, self.provision.autonomy_ms);
        let low = rate_need.min(self.provision.step_max).max(self.step / 4);
        let short = waited_for > held;
        let prefetch = self.held.len() < 2 && held <= low;
        if !(short || prefetch) {
            self.claim = ClaimState::Idle;
            return None;
        }
        let grown = self.claimed_last.saturating_mul(CLAIM_GROWTH).max(CLAIM_GROWTH_FLOOR);
        let ahead = rate_need.min(grown.max(self.step)).max(self.step);
        let need = waited_for.saturating_sub(held);
        // One request may ask for more than max_step; it must be served all the same.
        let head_need = self.waiting.front().map_or(0, |waiter| u64::from(waiter.want.least()));
        let want = ahead
            .saturating_add(need)
            .min(self.provision.step_max)
            .max(head_need.saturating_sub(held))
            .max(1);
        self.claim = ClaimState::InFlight;
        Some(want)
    }

    /// Reports a claim. The answer is the mark to journal with the segment; the claim stays in flight until
    /// [`Allocator::hold`] says that the journal has it.
    ///
    /// # Errors
    /// The numbers lie below what was seen claimed before: the store has lost commits. They are not to be
    /// used; the error is the end to raise the store to.
    pub fn claimed(
        &mut self,
        now: BootMs,
        numbers: &Range<u64>,
        step: u64,
    ) -> Result<MarkMove, u64> {
        assert!(self.claim == ClaimState::InFlight, "a claim comes back that was not sent");
        assert!(numbers.start < numbers.end && numbers.start > 0, "a claim has positive numbers");
        self.step = step.max(1);
        if numbers.start < self.highest_end {
            return Err(self.highest_end);
        }
        self.highest_end = numbers.end;
        self.claimed_last = numbers.end - numbers.start;
        let marked: u64 = self.held.iter().map(|segment| segment.mark - segment.next).sum();
        let ahead = self.mark_target(now).saturating_sub(marked);
        // A segment that is not next in line is marked when its turn nears.
        let first = if self.unissued() <= marked { ahead } else { 0 };
        let mark = numbers.start.saturating_add(first).min(numbers.end);
        Ok(MarkMove { end: numbers.end, mark })
    }

    /// Reports that the journal has a claimed segment with the mark that [`Allocator::claimed`] named.
    pub fn hold(&mut self, numbers: &Range<u64>, mark: u64) {
        assert!(self.claim == ClaimState::InFlight, "a claim is held that was not sent");
        assert!(mark >= numbers.start && mark <= numbers.end, "a mark lies within its segment");
        assert!(self.held.back().is_none_or(|last| last.end <= numbers.start), "segments ascend");
        self.claim = ClaimState::Idle;
        self.held.push_back(Segment {
            start: numbers.start,
            next: numbers.start,
            mark,
            end: numbers.end,
        });
        self.watch = 0;
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
        let target = self.mark_target(now);
        let marked: u64 = self.held.iter().map(|segment| segment.mark - segment.next).sum();
        // The next look is due when half of what is marked ahead is used.
        if let Some(current) = self.held.front() {
            self.watch =
                current.next + (marked - marked.min(target / 2)).min(current.end - current.next);
            self.watch = self.watch.max(current.next + 1);
        }
        if marked > target / 2 && marked >= self.waited_for {
            return Vec::new();
        }
        let mut moves = Vec::new();
        let mut wanted = target;
        for segment in &self.held {
            let mark = segment.next.saturating_add(wanted).min(segment.end);
            if mark > segment.mark {
                moves.push(MarkMove { end: segment.end, mark });
            }
            wanted -= wanted.min(segment.end - segment.next);
            if wanted == 0 {
                break;
            }
        }
        self.mark_in_flight = !moves.is_empty();
        moves
    }

    /// Reports marks as durable.
    pub fn marked(&mut self, moves: &[MarkMove]) {
        assert!(self.mark_in_flight, "marks come back that were not sent");
        self.mark_in_flight = false;
        for moved in moves {
            if let Some(segment) = self.held.iter_mut().find(|segment| segment.end == moved.end) {
                assert!(moved.mark >= segment.mark && moved.mark <= segment.end, "marks move up");
                segment.mark = moved.mark;
            }
        }
        self.watch = 0;
    }

    /// What is held, each with its exact mark, for a clean stop. Numbers marked but not issued are kept.
    pub fn exact_marks(&self) -> impl Iterator<Item = (Range<u64>, u64)> + '_ {
        self.held.iter().map(|segment| (segment.start..segment.end, segment.next))
    }

    /// Drops every number held: the tag is gone or another one.
    pub fn forget(&mut self) {
        self.held.clear();
        self.watch = 0;
    }

    /// Numbers held and not issued.
    #[must_use]
    pub fn unissued(&self) -> u64 {
        self.held.iter().map(|segment| segment.end - segment.next).sum()
    }

    /// One past the highest number that this host has seen claimed.
    #[must_use]
    pub fn highest_end(&self) -> u64 {
        self.highest_end
    }

    /// Numbers issued since the allocator was made.
    #[must_use]
    pub fn issued(&self) -> u64 {
        self.issued
    }

    /// The measured rate, in ids per second.
    pub fn ids_per_second(&mut self, now: BootMs) -> f64 {
        self.rate.per_second(now)
    }

    /// Whether a claim is under way.
    #[must_use]
    pub fn claiming(&self) -> bool {
        self.claim == ClaimState::InFlight
    }

    /// Whether a claim failed and is to be tried again.
    #[must_use]
    pub fn retrying(&self) -> bool {
        matches!(self.claim, ClaimState::RetryAt(_))
    }

    fn issue(&mut self, want: Want, runs: &mut Vec<Run>) -> bool {
        let Some(current) = self.held.front_mut() else { return false };
        let marked = current.mark - current.next;
        if u64::from(want.count) <= marked {
            runs.push(Run { first: current.next, count: want.count, stride: 1 });
            current.next += u64::from(want.count);
            self.drop_used_up();
            self.account(want.count);
            return true;
        }
        self.issue_across(want, runs)
    }

    /// Issues from several segments, or fewer than wanted.
    fn issue_across(&mut self, want: Want, runs: &mut Vec<Run>) -> bool {
        // Only what lies below an unbroken row of marks: an earlier number must not follow a later one.
        let mut reach = 0;
        for segment in &self.held {
            reach += segment.mark - segment.next;
            if segment.mark < segment.end {
                break;
            }
        }
        let count = u64::from(want.count).min(reach);
        if count == 0 || (count < u64::from(want.count) && !want.fewer_will_do) {
            return false;
        }
        let mut left = count;
        while left > 0 {
            let current = self.held.front_mut().expect("reach counted these segments");
            let taken = left.min(current.mark - current.next);
            if taken > 0 {
                let count = u32::try_from(taken).expect("a count is 32 bits wide");
                runs.push(Run { first: current.next, count, stride: 1 });
                current.next += taken;
                left -= taken;
            }
            self.drop_used_up();
        }
        self.account(u32::try_from(count).expect("a count is 32 bits wide"));
        true
    }

    fn account(&mut self, count: u32) {
        self.issued += u64::from(count);
        self.rate.count(u64::from(count));
    }

    fn drop_used_up(&mut self) {
        if self.held.front().is_some_and(|current| current.next == current.end) {
            self.held.pop_front();
            self.watch = 0;
        }
    }

    /// How many numbers should be marked ahead of use.
    fn mark_target(&mut self, now: BootMs) -> u64 {
        let ahead = self.rate.ids_in(now, self.provision.mark_ahead_ms).max(MARK_AHEAD_MIN);
        ahead.saturating_add(self.waited_for)
    }

    fn pop_front(&mut self) -> Option<T> {
        let waiter = self.waiting.pop_front()?;
        self.waited_for -= u64::from(waiter.want.least());
        Some(waiter.handle)
    }
}

impl Want {
    /// The fewest numbers that satisfy it.
    fn least(self) -> u32 {
        if self.fewer_will_do { 1 } else { self.count }
    }
}
