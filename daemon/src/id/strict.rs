//! Numbers of a strict tag: whoever asks after another was answered gets a larger one, on any host.
//!
//! Nothing is held. Requests that wait when a claim is sent share what it grants; those that come later wait
//! for the next one, since by then another host may have claimed and answered. What nobody takes is dropped.

use std::ops::Range;

use leafd_wire::Run;

use super::waiting::{Ticket, Waiting};
use super::{BootMs, ID_MAX, RateMeter, Want};

/// Where the queue's claim is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ClaimState {
    Idle,
    /// The store has not answered. Requests with a ticket below `before` share it.
    Sent {
        before: Ticket,
    },
    RetryAt(BootMs),
}

/// The requests for a strict tag's numbers. `T` is the caller's handle on one.
#[derive(Debug)]
pub struct StrictQueue<T> {
    /// The most that is claimed at once, but for a single request.
    step_max: u64,
    waiting: Waiting<T>,
    claim: ClaimState,
    highest_end: u64,
    rate: RateMeter,
    issued: u64,
}

/// What came of a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "who is served has to be told"]
pub struct Shared<T> {
    /// Who is served with what, in the order in which they came. Strides are 1.
    pub served: Vec<(T, Run)>,
    /// How many of the numbers nobody gets.
    pub dropped: u64,
}

impl<T> StrictQueue<T> {
    /// A queue that nobody waits in.
    ///
    /// `step_max`: the most numbers to claim at once, unless a single request needs more.
    #[must_use]
    pub fn new(step_max: u64, now: BootMs) -> Self {
        StrictQueue {
            step_max,
            waiting: Waiting::new(),
            claim: ClaimState::Idle,
            highest_end: 0,
            rate: RateMeter::new(now),
            issued: 0,
        }
    }

    /// Claims at most so many numbers at once from now on, unless a single request needs more.
    pub fn set_step_max(&mut self, step_max: u64) {
        self.step_max = step_max;
    }

    /// Goes on with what another queue had. `shared_before`: a claim is under way, which was sent when this
    /// was the next ticket.
    pub(super) fn take_over(
        step_max: u64,
        waiting: Waiting<T>,
        shared_before: Option<Ticket>,
        highest_end: u64,
        rate: RateMeter,
        issued: u64,
    ) -> Self {
        let claim = shared_before.map_or(ClaimState::Idle, |before| ClaimState::Sent { before });
        StrictQueue { step_max, waiting, claim, highest_end, rate, issued }
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

    /// How many numbers to claim now, if any, for all who wait now. The caller then claims and reports with
    /// [`StrictQueue::claimed`] or [`StrictQueue::claim_failed`]; until then there is no second claim.
    pub fn claim_wanted(&mut self, now: BootMs) -> Option<u64> {
        match self.claim {
            ClaimState::Sent { .. } => return None,
            ClaimState::RetryAt(instant) if now < instant => return None,
            ClaimState::Idle | ClaimState::RetryAt(_) => {}
        }
        if self.waiting.is_empty() {
            self.claim = ClaimState::Idle;
            return None;
        }
        self.claim = ClaimState::Sent { before: self.waiting.next_ticket() };
        Some(self.waiting.waited_for_within(self.step_max))
    }

    /// Reports what the store granted: more or fewer numbers than were wanted will do. They go, first come
    /// first served, to those who share the claim and still wait; a request that will do with fewer gets one.
    /// Who finds too few left goes on waiting for the next claim, as do all behind.
    ///
    /// Whether the grant is of the tag and the store that are used now is the caller's to judge: a grant that
    /// is not to be used is a claim that failed.
    ///
    /// # Errors
    /// The numbers lie below what was seen claimed before: the store has lost commits. They are not to be
    /// used; the error is the end to raise the store to. The claim has not ended: report that it failed.
    pub fn claimed(&mut self, numbers: Range<u64>) -> Result<Shared<T>, u64> {
        let ClaimState::Sent { before } = self.claim else {
            panic!("a claim comes back that was not sent")
        };
        assert!(numbers.start < numbers.end && numbers.start > 0, "a claim has positive numbers");
        if numbers.start < self.highest_end {
            return Err(self.highest_end);
        }
        self.highest_end = numbers.end;
        self.claim = ClaimState::Idle;
        let mut next = numbers.start;
        let mut served = Vec::new();
        while let Some((ticket, want)) = self.waiting.head() {
            let count = want.least();
            let Some(end) = next.checked_add(u64::from(count)) else { break };
            if ticket >= before || end > numbers.end.min(ID_MAX + 1) {
                break;
            }
            let handle = self.waiting.pop().expect("there is a head");
            served.push((handle, Run { first: next, count, stride: 1 }));
            next = end;
        }
        let issued = next - numbers.start;
        self.issued += issued;
        self.rate.count(issued);
        Ok(Shared { served, dropped: numbers.end - next })
    }

    /// Reports that a claim failed: who shared it goes on waiting. None is wanted again before `retry_at`.
    pub fn claim_failed(&mut self, retry_at: BootMs) {
        self.claim = ClaimState::RetryAt(retry_at);
    }

    /// One past the highest number that this host has seen claimed.
    #[must_use]
    pub fn highest_end(&self) -> u64 {
        self.highest_end
    }

    /// Learns that numbers below `end` were claimed by somebody: claims below it are refused from now on.
    pub fn raise_highest_end(&mut self, end: u64) {
        self.highest_end = self.highest_end.max(end);
    }

    /// Numbers issued since the tag came into use.
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
        matches!(self.claim, ClaimState::Sent { .. })
    }

    /// Whether a claim failed and is to be tried again.
    #[must_use]
    pub fn retrying(&self) -> bool {
        matches!(self.claim, ClaimState::RetryAt(_))
    }
}
