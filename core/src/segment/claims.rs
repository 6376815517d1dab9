//! Claims: what an allocator requests from the store, and what it does with the grant.

use leafd_wire::Run;

use super::arrivals::Arrivals;
use super::hold::{HoldNeed, StrictHold};
use super::prefetch::{Need, PrefetchPolicy};
use super::{Allocator, ClaimState, MarkMove, Truncation, Waiting};
use crate::BootMs;
use crate::store::{ClaimWish, Holding};

/// How a strict tag's grant was distributed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "the requests that are served need an answer"]
pub struct Distribution<T> {
    /// The requests that got ids, in the order of their ids.
    pub served: Vec<(T, Run)>,
    /// How many granted or held ids were dropped.
    pub dropped: u64,
}

impl<T> Allocator<T> {
    /// What to claim now, if anything; the caller chooses the shard. The caller claims and then reports with
    /// [`Allocator::claimed`] or [`Allocator::claimed_strictly`], [`Allocator::exhausted`] or
    /// [`Allocator::claim_failed`]. No second claim is requested before that.
    pub fn claim_wanted(&mut self, now: BootMs) -> Option<ClaimWish> {
        match self.claim {
            ClaimState::Sent { .. } | ClaimState::Granted { .. } | ClaimState::Void => return None,
            ClaimState::RetryAt(instant) if now < instant => return None,
            ClaimState::Idle | ClaimState::RetryAt(_) => {}
        }
        let wish = match self.is_strict() {
            true => self.strict_wish(now),
            false => self.held_wish(now),
        };
        self.claim = match wish {
            Some(_) => ClaimState::Sent { before: self.waiting.next_ticket, at: now },
            None => ClaimState::Idle,
        };
        wish
    }

    /// The requests that arrive from now on, which the last claim may still cover. `None` unless the tag is known to be
    /// strict.
    pub fn arrivals(&self) -> Option<Arrivals> {
        self.waiting.arrivals.clone()
    }

    /// A claim for all waiting requests, with more ids if the tag is held; `None` if nothing needs to be claimed.
    fn strict_wish(&mut self, now: BootMs) -> Option<ClaimWish> {
        let PrefetchPolicy { step_max, hold_ms, .. } = *self.sizing.provision;
        let most = self.left.map_or(step_max, |left| left.min(step_max));
        let waited_for = self.waiting.waited_for_within(most);
        let need = HoldNeed {
            hold_ms,
            waited_for,
            drawn: self.sizing.rate.ids_in(now, hold_ms),
            claimed_last: self.sizing.claimed_last,
            ceiling: self.shards[0].ceiling,
            most: step_max,
        };
        let (want, hold) = self.strict.as_mut()?.wish(now, need)?;
        let Waiting { waited_for: needed, next_ticket, .. } = self.waiting;
        self.waiting.arrivals = Some(Arrivals::since(needed, next_ticket));
        Some(ClaimWish { least: waited_for.max(1), hold, ..ClaimWish::new(want, step_max) })
    }

    fn held_wish(&mut self, now: BootMs) -> Option<ClaimWish> {
        let need = Need {
            held: self.held.unissued(),
            segments: self.held.segments().count(),
            waited_for: self.waiting.waited_for,
            head: self.waiting.head().map_or(0, |want| u64::from(want.least())),
        };
        let wish = self.sizing.claim(now, need)?;
        // With several stores, the others may have the rest of what a request needs.
        let least = if self.shards.len() > 1 { 1 } else { wish.least };
        Some(ClaimWish { least, ..wish })
    }

    /// Reports what a shard's store granted. Returns the mark to journal with the segment. The claim stays in flight
    /// until [`Allocator::add_segment`] reports that the journal has it.
    ///
    /// The caller must check that the grant belongs to the current tag and store, also after [`Allocator::forget`]. A
    /// grant that must not be used counts as a failed claim.
    ///
    /// # Errors
    /// The numbers lie below some that were claimed before, because the store has lost commits. They must not be used.
    /// The error is the end to which the store must be raised. The claim is still in flight: report that it failed.
    pub fn claimed(
        &mut self,
        now: BootMs,
        shard: u32,
        claimed: Run,
        step: u64,
    ) -> Result<MarkMove, u64> {
        assert!(!self.is_strict(), "what a strict tag is granted is shared");
        self.set_step(step);
        self.accept(shard, claimed)?;
        self.sizing.note_claim(claimed.count);
        let marked = self.held.marked();
        let held = self.held.unissued() + u64::from(claimed.count);
        let ahead = self.mark_target(now, held).saturating_sub(marked);
        // A segment that is not the next one gets its mark when its turn approaches.
        let first = if self.held.unissued() <= marked { ahead } else { 0 };
        let mark =
            claimed.bound(u32::try_from(first).map_or(claimed.count, |n| n.min(claimed.count)));
        Ok(MarkMove { shard, end: claimed.end(), mark })
    }

    /// Reports what a strict tag's store granted; more or fewer ids than wanted are fine. The claim stays in flight
    /// until [`Allocator::distribute`] reports that the journal has it. No later start of the daemon may issue any of
    /// its ids. If the tag was not known to be strict, it is strict from now on, and its held ids are dropped.
    ///
    /// As with [`Allocator::claimed`], the caller must check whether the grant may be used.
    ///
    /// # Errors
    /// As [`Allocator::claimed`].
    ///
    /// # Panics
    /// If the tag has more than one shard, because independent stores can't order their ids.
    pub fn claimed_strictly(&mut self, claimed: Run, holding: Holding) -> Result<(), u64> {
        assert!(self.shards.len() == 1, "a strict tag has one store");
        let sent = match self.claim {
            ClaimState::Sent { at, .. } => at,
            _ => BootMs(0),
        };
        self.turn_strict();
        self.accept(0, claimed)?;
        self.turn_strict().granted(claimed, holding, sent);
        self.sizing.note_claim(claimed.count);
        self.left = None;
        Ok(())
    }

    fn turn_strict(&mut self) -> &mut StrictHold {
        self.held.forget(0);
        self.strict.get_or_insert_with(|| Box::new(StrictHold::new()))
    }

    /// Reports that another host holds the strict tag, so that the claim took nothing. The row then had this `end`, and
    /// recorded that the tag is held for this time. A claim is wanted again soon.
    pub fn held_elsewhere(&mut self, now: BootMs, end: u64, ms: u64) {
        let retry_at = self.turn_strict().held_elsewhere(now, end, ms);
        // The holder has claimed all ids below this. If the store loses them, this host can tell.
        self.raise_highest_end(0, end);
        self.claim_failed(retry_at);
    }

    /// Reports that the journal has a strict tag's grant. Its ids go to the requests that share the claim and still
    /// wait, round-robin by user. A request that accepts fewer gets at least one. The first request that finds too few
    /// left waits for the next claim, and so do all behind it. What is left is dropped unless the host holds the tag.
    /// If the shard was forgotten meanwhile, no request is served.
    pub fn distribute(&mut self, claimed: Run) -> Distribution<T> {
        let mut served = Vec::new();
        let hold = self.strict.as_mut().expect("a strict tag's claim was granted");
        let before = match std::mem::replace(&mut self.claim, ClaimState::Idle) {
            ClaimState::Granted { before, .. } => before,
            ClaimState::Void => return Distribution { served, dropped: claimed.count.into() },
            _ => panic!("a claim is shared that was not granted"),
        };
        let mut left = Some(hold.with_held(claimed));
        while let (Some(run), Some((place, want))) = (left, self.waiting.head_before(before)) {
            let count = want.least();
            if count > run.count {
                break;
            }
            let handle = self.waiting.pop_at(place).expect("there is a head");
            served.push((handle, Run { count, ..run }));
            left = run.without_first(count);
        }
        hold.keep(left);
        let dropped = std::mem::take(&mut hold.dropped);
        self.count_issued(served.iter().map(|(_, run)| u64::from(run.count)).sum());
        Distribution { served, dropped }
    }

    fn accept(&mut self, shard: u32, claimed: Run) -> Result<(), u64> {
        let ClaimState::Sent { before, .. } = self.claim else {
            panic!("a claim comes back that was not sent")
        };
        let known = self.shard(shard);
        if claimed.first < known.highest_end {
            return Err(known.highest_end);
        }
        known.highest_end = claimed.end();
        let covered = self.waiting.arrivals.take().map_or(before, |arrivals| arrivals.before());
        self.claim = ClaimState::Granted { shard, before: before.max(covered) };
        Ok(())
    }

    /// Reports that the journal has a claimed segment with the mark from [`Allocator::claimed`].
    ///
    /// Returns what was cut: all of it if the shard was forgotten meanwhile, otherwise the ids above the ceiling.
    pub fn add_segment(&mut self, shard: u32, claimed: Run, mark: u64) -> Truncation {
        let end = claimed.end();
        assert!(mark >= claimed.first && mark <= end, "a mark lies within its segment");
        let granted = match std::mem::replace(&mut self.claim, ClaimState::Idle) {
            ClaimState::Granted { shard: granted, .. } => granted == shard,
            ClaimState::Void => false,
            _ => panic!("a claim is held that was not granted"),
        };
        let known = self.shard(shard);
        let first_lost = known.ceiling + 1;
        if !granted || claimed.first < known.floor {
            let mut cut = Truncation::default();
            cut.close(shard, claimed, claimed.count);
            return cut;
        }
        known.floor = end;
        self.held.push(shard, claimed, mark);
        self.held.cut_from(shard, first_lost)
    }

    /// Reports that a claim failed. No claim is wanted again before `retry_at`.
    pub fn claim_failed(&mut self, retry_at: BootMs) {
        self.claim = ClaimState::RetryAt(retry_at);
        self.strict.iter_mut().for_each(|hold| hold.claim_failed());
    }

    /// Reports that a claim failed and took nothing, because the store has only `left` ids more. Takes out the requests
    /// that can't be met because they need more than these and what is held. No claim is wanted again before
    /// `retry_at`.
    pub fn exhausted(&mut self, left: u64, retry_at: BootMs) -> Vec<T> {
        self.left = Some(left);
        self.strict.iter_mut().for_each(|hold| hold.exhausted());
        self.claim_failed(retry_at);
        self.waiting.take_larger(self.held.unissued().saturating_add(left))
    }
}
