//! Does the regular work for all tags in use: looks them up in their stores, moves marks back, and removes idle tags
//! from memory. It handles some tags at a time, so that no request waits while a hundred thousand are checked.
//!
//! Before a tag leaves memory, the journal records its held ids exactly. The next request loads the tag as after a
//! restart, and continues at the first id that was not issued.

use std::rc::Rc;
use std::time::Duration;

use tokio::time::Instant;

use super::{SegmentTag, Segments};
use crate::clock;
use crate::engine::upstream::Upstream;
use crate::journal::Write;
use crate::memory;
use leafd_core::BootMs;

/// How many tags are checked before requests are served again: as many as one statement to a store may name.
const SLICE: usize = 200;

/// The duration of a round that moves marks back.
const ROUND: Duration = Duration::from_secs(10);

/// If more tags than this are in use, tags leave memory after being idle for `CROWD_IDLE`.
const CROWD: usize = 1 << 17;

/// The shorter idle time while very many tags are in use.
const CROWD_IDLE: Duration = Duration::from_secs(60);

/// The approximate memory that a tag takes.
const TAG_BYTES: u64 = 512;

impl Segments {
    /// Visits every tag in use once in each round, round after round, until dropped: a slice at a time, each in its part
    /// of the round.
    async fn in_rounds(&self, round: Duration, mut visit: impl AsyncFnMut(Vec<Rc<SegmentTag>>)) {
        let mut next = 0;
        loop {
            let begun = Instant::now();
            visit(self.slice(&mut next)).await;
            tokio::task::yield_now().await;
            let slices = u32::try_from(self.count().div_ceil(SLICE)).unwrap_or(u32::MAX);
            tokio::time::sleep_until(begun + round / slices.max(1)).await;
        }
    }

    /// The next tags in a round, which goes from the last one to the first: a tag that was just brought into use comes
    /// early in the next round, and one that takes the place of a removed tag may come twice.
    fn slice(&self, next: &mut usize) -> Vec<Rc<SegmentTag>> {
        let tags = self.tags.borrow();
        let end = if *next == 0 { tags.len() } else { tags.len().min(*next) };
        *next = end.saturating_sub(SLICE);
        tags[*next..end].values().cloned().collect()
    }

    /// Looks up each tag in its stores within `every`, until dropped.
    pub async fn check_in_rounds(self: &Rc<Self>, every: Duration) {
        let check = async |tags: Vec<_>| {
            for upstream in &self.upstreams {
                self.check_terms(upstream, &tags).await;
            }
        };
        self.in_rounds(every, check).await;
    }

    /// Looks up all tags in one store, as fast as it answers.
    pub(super) async fn check_all(self: Rc<Self>, upstream: Rc<Upstream>) {
        let tags = self.all_in_use();
        for some in tags.chunks(SLICE) {
            self.check_terms(&upstream, some).await;
            tokio::task::yield_now().await;
        }
    }

    /// Checks each tag, as fast as requests allow.
    pub(super) async fn drive_in_turns(self: Rc<Self>, tags: Vec<Rc<SegmentTag>>) {
        for some in tags.chunks(SLICE) {
            some.iter().for_each(|tag| self.drive(tag));
            tokio::task::yield_now().await;
        }
    }

    /// Moves marks back and removes idle tags, until dropped.
    pub(super) async fn keep_small(self: &Rc<Self>) {
        let round = ROUND.min(self.settings.tag_idle);
        let keep_small = async |tags: Vec<_>| {
            if !self.stopping.get() && !self.writer.failed() {
                tags.iter().for_each(|tag| self.keep_tag_small(tag));
            }
        };
        self.in_rounds(round, keep_small).await;
    }

    fn keep_tag_small(self: &Rc<Self>, tag: &Rc<SegmentTag>) {
        let now = clock::boot();
        let undrawn = tag.undrawn_for(now);
        if undrawn >= self.idle() && tag.may_rest(now) {
            return self.lay_to_rest(tag);
        }
        if undrawn.is_zero() {
            // The rate may have risen since the last claim.
            self.drive(tag);
        }
        self.draw_marks_back(tag, now);
    }

    /// How long a tag must be idle before it leaves memory.
    fn idle(&self) -> Duration {
        let idle = self.settings.tag_idle;
        if self.count() > CROWD { idle.min(CROWD_IDLE) } else { idle }
    }

    /// Makes the journal move back marks that are further ahead of use than necessary.
    fn draw_marks_back(self: &Rc<Self>, tag: &Rc<SegmentTag>, now: BootMs) {
        if tag.is_masked() {
            return;
        }
        let moved = tag.allocator.borrow_mut().draw_marks_back(now);
        let writes = tag.drawn_back(moved);
        if !writes.is_empty() {
            self.write_journal(tag, &tag.shards[0], writes, || {});
        }
    }

    /// Makes the journal record a tag's exact position, and takes the tag out of use when that is durable, unless it
    /// has been drawn meanwhile.
    fn lay_to_rest(self: &Rc<Self>, tag: &Rc<SegmentTag>) {
        let (moved, issued) = {
            let mut allocator = tag.allocator.borrow_mut();
            (allocator.draw_all_marks_back(), allocator.issued())
        };
        if moved.is_empty() {
            return self.rest(tag);
        }
        let writes = tag.drawn_back(moved);
        let (segments, resting) = (Rc::clone(self), Rc::clone(tag));
        self.write_journal(tag, &tag.shards[0], writes, move || {
            // If a mark had moved since then, its change would be pending, or ids would have been issued.
            let untouched = resting.allocator.borrow().issued() == issued;
            if untouched && resting.may_rest(clock::boot()) && !segments.stopping.get() {
                segments.rest(&resting);
            }
        });
    }

    /// Takes a tag out of use. The journal has recorded all of its held ids.
    fn rest(&self, tag: &SegmentTag) {
        tag.evicted.set(true);
        self.issued_before.set(self.issued_before.get() + tag.allocator.borrow().issued());
        self.put_out_of_use(tag);
        self.outcomes.borrow_mut().forget(&tag.tag);
        memory::let_go(TAG_BYTES);
    }
}

impl SegmentTag {
    /// Whether the journal can record all of it, because no work is pending and a load would find its held ids.
    fn may_rest(&self, now: BootMs) -> bool {
        let allocator = self.allocator.borrow();
        let holds = allocator.held.unissued() > 0;
        let can_be_loaded = |shard: &super::TagShard| {
            let known = shard.upstream.key().is_some() && shard.generation.get().is_some();
            shard.is_loaded() && shard.upstream.leftovers.get() && (known || !holds)
        };
        allocator.is_idle()
            && !self.evicted.get()
            && !self.in_retry_queue.get()
            && self.unconfirmed.borrow().is_none()
            // A tag that is loaded again has full quotas.
            && self.quotas.borrow().are_full(now)
            // For a masked tag, the journal records no unused ids.
            && !(holds && self.is_masked())
            && self.shards.iter().all(can_be_loaded)
    }

    /// What the journal records about marks that moved back.
    fn drawn_back(&self, moved: Vec<(u32, leafd_core::Run, u64)>) -> Vec<Write> {
        let write = |(number, run, mark): (u32, leafd_core::Run, u64)| {
            let shard = &self.shards[number as usize];
            let (store, generation) = (shard.upstream.key()?, shard.generation.get()?);
            Some(Write::DrawBack { store, tag: self.tag.clone(), generation, run, mark })
        };
        moved.into_iter().filter_map(write).collect()
    }
}
