//! Claims: carries out the claims that the allocator wants, and handles their results.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tracing::warn;

use super::tag::shard_number;
use super::turns::Turn;
use super::{Cause, ClaimRefusal, SegmentTag, Segments, ShardState, TagShard};
use crate::clock;
use crate::journal::Write;
use crate::reply::Failure;
use crate::store::{Store, StoreHandle};
use leafd_core::store::{Claim, ClaimWish, ClaimedBy, Identity, StoreError};
use leafd_core::{Backoff, BootMs};

/// How long a refused claim is refused again without calling the store, in milliseconds.
const REFUSED_MS: u64 = 1_000;

/// One claim in this many is followed by a deletion of old records. Claims are chosen at random, so that hosts don't
/// delete at the same time.
const CLAIMS_A_DELETION: u32 = 16;

/// The maximum number of old records to delete: more than were added in between, so that their number decreases.
const DELETED_AT_ONCE: u32 = 64;

/// How this host's claims are recorded in the store.
#[derive(Debug)]
pub struct ClaimLog {
    name: Arc<str>,
    /// How long records are kept. Zero: nothing is recorded.
    kept: Duration,
    /// Whether the log already says that old records can't be deleted.
    warned: Cell<bool>,
}

/// A claim that was sent to the store.
pub(crate) struct Sent {
    pub(crate) shard: usize,
    pub(crate) under: Identity,
    pub(crate) wish: ClaimWish,
    pub(crate) turn: Turn,
    pub(crate) _under_way: UnderWay,
}

/// A claim in progress. [`Segments::claims_ended`] waits until all of these are dropped.
pub(crate) struct UnderWay(Rc<Segments>);

impl UnderWay {
    pub(crate) fn new(segments: &Rc<Segments>) -> UnderWay {
        segments.claiming.set(segments.claiming.get() + 1);
        UnderWay(Rc::clone(segments))
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.claiming.set(self.0.claiming.get() - 1);
        self.0.progressed.notify_waiters();
    }
}

impl ClaimLog {
    /// Records claims under this name of the host, and keeps the records for `kept`; zero for no records.
    pub fn new(name: Arc<str>, kept: Duration) -> ClaimLog {
        ClaimLog { name, kept, warned: Cell::new(false) }
    }
}

impl Segments {
    /// The shard to claim from next: the host's first choice, or the next one whose store can be reached. `None` while
    /// the journal's record of the first choice is being read, because otherwise all hosts would choose the shard whose
    /// record is read first.
    pub(crate) fn shard_to_claim(&self, tag: &SegmentTag) -> Option<(usize, Identity)> {
        let shards = tag.shards.len();
        let now = clock::boot();
        let preferred = &tag.shards[self.first_shard % shards];
        if preferred.state.get() == ShardState::Loading && preferred.upstream.claimable().is_some()
        {
            return None;
        }
        (0..shards).map(|turn| (self.first_shard + turn) % shards).find_map(|index| {
            let shard = &tag.shards[index];
            let open = shard.is_loaded() && shard.may_have_some(now);
            shard.upstream.claimable().filter(|_| open).map(|under| (index, under))
        })
    }

    /// Claims ids and has the journal record them.
    pub(crate) async fn claim(self: Rc<Self>, tag: Rc<SegmentTag>, sent: Sent) {
        let upstream = &tag.shards[sent.shard].upstream;
        let wish = ClaimWish { shard: upstream.shard, ..sent.wish };
        let sent_at = Instant::now();
        let by = self.claimed_by(&tag, sent.shard);
        let (under, name) = (sent.under.clone(), tag.tag.clone());
        let arrivals = tag.allocator.borrow().arrivals();
        let claim = move |store: &mut Store| {
            store.claim(by.as_ref(), &under, &name, wish, arrivals.as_ref())
        };
        let outcome = upstream.store.call(claim).await;
        upstream.claims.answered(&outcome, sent_at.elapsed());
        self.turns.give_back(sent.turn);
        while let Some(next) = self.turns.next(sent.turn) {
            self.drive(&next);
            self.forget_unconfirmed(&next);
        }
        self.note_outcome(&tag, upstream, outcome.as_ref().map(drop));
        match outcome {
            Ok(claim) => {
                self.note_unanswered(&tag, sent.shard, &claim);
                self.claimed(&tag, claim, sent);
                self.forget_claims(&upstream.store).await;
            }
            Err(error) => self.claim_failed(&tag, sent.shard, &error),
        }
    }

    fn claimed(self: &Rc<Self>, tag: &Rc<SegmentTag>, claim: Claim, sent: Sent) {
        self.claims.set(self.claims.get() + 1);
        if tag.evicted.get() {
            // The tag was removed meanwhile, so these ids must not be used.
            return self.losses.lose(&tag.tag, Cause::Removed, claim.run);
        }
        let shard = &tag.shards[sent.shard];
        let mut trouble = tag.trouble.borrow_mut();
        (trouble.backoff, trouble.refused) = (Backoff::default(), None);
        trouble.after_crash = false;
        drop(trouble);
        tag.waits_for("the journal has not recorded a claim yet");
        tag.unconfirmed.take();
        let known = shard.generation.replace(Some(claim.generation));
        if known.is_some_and(|known| known != claim.generation) {
            self.made_anew(tag, sent.shard);
        }
        // A daemon that was stopped asks the store before it issues held ids. These ids are not held yet, so that check
        // doesn't cover them.
        let is_late = claim.strict && !shard.upstream.may_issue();
        if is_late || !shard.upstream.counts(&sent.under) {
            // The store may have failed over since. It may grant these ids again before hosts have reported them.
            self.losses.lose(&tag.tag, Cause::Store, claim.run);
            let error = StoreError::Unavailable {
                store: shard.upstream.url.to_string(),
                cause: "it may have failed over while a claim was in flight".into(),
            };
            return self.retry_claim(tag, Failure::from(&error));
        }
        if let Err(failure) = self.note_form(tag, claim.masked) {
            // The claimed ids are lost. Nothing more is claimed until the host has the key.
            self.losses.note(&tag.tag, Cause::MaskKey, claim.run.range());
            self.abandon(tag, &failure);
            return self.retry_claim(tag, failure);
        }
        self.note_ceiling(tag, claim.run.end() - 1, claim.ceiling);
        if claim.strict {
            return self.distribute(tag, claim, sent);
        }
        let number = shard_number(sent.shard);
        if tag.allocator.borrow().is_strict() {
            // The strict tag was recreated as a plain one.
            return self.start_over(tag);
        }
        let cut = tag.allocator.borrow_mut().set_ceiling(number, claim.ceiling);
        self.journal_cut(tag, sent.shard, cut);
        shard.upstream.claims.remember(&tag.tag, claim.run);
        let now = clock::boot();
        let marked = tag.allocator.borrow_mut().claimed(now, number, claim.run, claim.step);
        match marked {
            Ok(moved) => {
                let Some(store) = shard.upstream.key() else { return };
                let mark = if tag.is_masked() { claim.run.end() } else { moved.mark };
                let write = Write::Segment {
                    store,
                    tag: tag.tag.clone(),
                    generation: claim.generation,
                    run: claim.run,
                    mark,
                };
                let (segments, held_tag) = (Rc::clone(self), Rc::clone(tag));
                self.write_journal(tag, shard, vec![write], move || {
                    let number = shard_number(sent.shard);
                    let cut = held_tag.allocator.borrow_mut().add_segment(number, claim.run, mark);
                    segments.journal_cut(&held_tag, sent.shard, cut);
                    held_tag.trouble.borrow_mut().restarts = Backoff::default();
                    drop(sent);
                    segments.drive(&held_tag);
                });
            }
            Err(seen) => self.claimed_too_low(tag, shard, seen),
        }
    }

    /// Answers the requests that wait for a strict tag's claim, once the journal has recorded the claim. After a
    /// fail-over, the host reports the tag's position from its journal. The journal counts all ids of the claim as
    /// issued, so that no restart issues the rest, because another host may have claimed by then.
    fn distribute(self: &Rc<Self>, tag: &Rc<SegmentTag>, claim: Claim, sent: Sent) {
        let shard = &tag.shards[sent.shard];
        if tag.shards.len() > 1 {
            let error = StoreError::refused(format!(
                "tag {:?} is strict, but tags in independent primaries can't be; delete it and create it without --strict",
                tag.tag.as_str()
            ));
            return self.claim_failed(tag, sent.shard, &error);
        }
        let granted = {
            let mut allocator = tag.allocator.borrow_mut();
            let _ = allocator.set_ceiling(0, claim.ceiling);
            allocator.claimed_strictly(claim.run, claim.holding)
        };
        if let Err(seen) = granted {
            return self.claimed_too_low(tag, shard, seen);
        }
        let Some(store) = shard.upstream.key() else { return };
        let Claim { generation, run, .. } = claim;
        let write =
            Write::Segment { store, tag: tag.tag.clone(), generation, run, mark: run.end() };
        let (segments, granted) = (Rc::clone(self), Rc::clone(tag));
        self.write_journal(tag, shard, vec![write], move || {
            // The daemon may have been stopped since the store's answer, as before it.
            let is_late = !granted.may_issue();
            if is_late {
                granted.allocator.borrow_mut().forget();
            }
            let distribution = granted.allocator.borrow_mut().distribute(run);
            match is_late {
                true => segments.losses.lose(&granted.tag, Cause::Store, run),
                false => segments.losses.count(Cause::Surplus, distribution.dropped),
            }
            for (reply, run) in distribution.served {
                reply.given(granted.trace_key, &[run]);
                reply.ids(0, &[run]);
            }
            granted.trouble.borrow_mut().restarts = Backoff::default();
            drop(sent);
            segments.drive(&granted);
        });
    }

    /// The store granted ids below earlier ones.
    fn claimed_too_low(self: &Rc<Self>, tag: &Rc<SegmentTag>, shard: &TagShard, seen: u64) {
        shard.upstream.lost_commits(self, &tag.tag, seen);
        let lost = StoreError::Unavailable {
            store: shard.upstream.url.to_string(),
            cause: format!(
                "it lost confirmed claims of tag {:?}; this host is reporting the highest ids it has seen",
                tag.tag.as_str()
            ).into(),
        };
        self.retry_claim(tag, Failure::from(&lost));
    }

    fn claim_failed(self: &Rc<Self>, tag: &Rc<SegmentTag>, shard: usize, error: &StoreError) {
        let index = shard;
        let shard = &tag.shards[index];
        let failure = Failure::from(error);
        let now = clock::boot();
        match error {
            StoreError::UnknownTag { .. } => {
                tag.allocator.borrow_mut().claim_failed(now);
                self.missing(tag, shard, &failure);
            }
            // The other primaries may have ids left.
            StoreError::Exhausted { .. } if tag.others_may_have_some(index, now) => {
                shard.used_up_until.set(BootMs(now.0 + REFUSED_MS));
                self.retry_claim(tag, failure);
            }
            StoreError::Exhausted { left, ceiling, .. } => self.exhausted(tag, *left, *ceiling),
            // Held ids are issued first.
            StoreError::Refused(_) if tag.allocator.borrow().has_enough() => {
                self.retry_claim(tag, failure);
            }
            StoreError::Refused(_) | StoreError::TagExists { .. } => {
                let until = BootMs(now.0 + REFUSED_MS);
                let refusal = ClaimRefusal { failure: failure.clone(), above: 0, until };
                tag.trouble.borrow_mut().refused = Some(refusal);
                self.serve(tag);
                self.abandon(tag, &failure);
                self.retry_claim(tag, failure);
            }
            StoreError::Overloaded { .. } => self.retry_claim(tag, failure),
            StoreError::Held { end, ms, .. } => {
                tag.waits_for(failure.message);
                tag.allocator.borrow_mut().held_elsewhere(now, *end, *ms);
                self.schedule_retry(tag);
            }
            StoreError::Changed { .. } => {
                shard.upstream.probe_soon();
                self.retry_claim(tag, failure);
            }
            StoreError::Unavailable { .. } => {
                shard.upstream.call_failed(error);
                self.retry_claim(tag, failure);
            }
        }
    }

    /// The store has so few ids left that the claim took none of them. Requests that need more than these and the held
    /// ones are refused; the others continue.
    fn exhausted(self: &Rc<Self>, tag: &Rc<SegmentTag>, left: u64, ceiling: u64) {
        self.serve(tag);
        let now = clock::boot();
        let left_in_all = tag.allocator.borrow().held.unissued().saturating_add(left);
        let name = tag.tag.clone();
        let failure =
            Failure::from(&StoreError::Exhausted { tag: name, ceiling, left: left_in_all });
        let until = BootMs(now.0 + REFUSED_MS);
        let refusal = ClaimRefusal { failure: failure.clone(), above: left_in_all, until };
        let mut trouble = tag.trouble.borrow_mut();
        trouble.refused = Some(refusal);
        let wait_ms = trouble.backoff.next_ms(fastrand::u64(..));
        drop(trouble);
        let retry_at = BootMs(now.0 + wait_ms);
        let refused = tag.allocator.borrow_mut().exhausted(left, retry_at);
        for reply in refused {
            reply.failure(&failure);
        }
        tag.waits_for(failure.message);
        self.schedule_retry(tag);
    }

    /// What to record of a claim from a tag's shard; `None` if claims are not recorded.
    pub(super) fn claimed_by(&self, tag: &SegmentTag, shard: usize) -> Option<ClaimedBy> {
        let ClaimLog { name, kept, .. } = &self.claim_log;
        let allocator = tag.allocator.borrow();
        let held = allocator.held.exact_marks().filter(|(of, ..)| *of == shard_number(shard));
        (!kept.is_zero()).then(|| ClaimedBy {
            host: self.host.borrow().clone(),
            name: Arc::clone(name),
            holds_from: held.map(|(.., first)| first).min(),
        })
    }

    /// Occasionally deletes some records that are older than `kept`. Call this after the claim was answered.
    async fn forget_claims(&self, store: &StoreHandle) {
        let (kept, warned) = (self.claim_log.kept, &self.claim_log.warned);
        if kept.is_zero() || fastrand::u32(..CLAIMS_A_DELETION) != 0 {
            return;
        }
        let forget = move |store: &mut Store| store.forget_claims(kept, DELETED_AT_ONCE);
        if let Err(error) = store.call(forget).await
            && !warned.replace(true)
        {
            warn!("can't delete old claims from leafd_claim: {error}");
        }
    }

    fn retry_claim(self: &Rc<Self>, tag: &Rc<SegmentTag>, failure: Failure) {
        let wait_ms = tag.trouble.borrow_mut().backoff.next_ms(fastrand::u64(..));
        tag.waits_for(failure.message);
        tag.allocator.borrow_mut().claim_failed(BootMs(clock::boot().0 + wait_ms));
        self.schedule_retry(tag);
    }
}

impl SegmentTag {
    fn others_may_have_some(&self, index: usize, now: BootMs) -> bool {
        let mut others = self.shards.iter().enumerate().filter(|(other, _)| *other != index);
        others.any(|(_, shard)| shard.may_have_some(now))
    }
}

impl TagShard {
    /// Whether its store may have ids once it answers.
    fn may_have_some(&self, now: BootMs) -> bool {
        self.state.get() != ShardState::Absent && now >= self.used_up_until.get()
    }
}
