//! Which tags are in use: loads them from the journal, checks them against their stores, and removes deleted tags.

use std::rc::Rc;
use std::time::Duration;

use leafd_wire::Status;
use leafd_wire::text::shell_word;
use tracing::{info, warn};

use super::tag::shard_number;
use super::{Cause, SegmentTag, Segments, ShardState, TagShard};
use crate::clock;
use crate::engine::TICK;
use crate::engine::upstream::Upstream;
use crate::journal::{TagRecord, Write};
use crate::reply::Failure;
use leafd_core::shares::Claimant;
use leafd_core::store::{HostId, StoreError, TagTerms};
use leafd_core::{BootMs, Run, Tag};

/// How long a tag that the store doesn't have is refused without another call, in milliseconds.
const UNKNOWN_MS: u64 = 1_000;

/// How many unknown tags are remembered.
const UNKNOWN_MAX: usize = 10_000;

/// When tags leave use, memory for this many is kept.
const ROOM_KEPT: usize = 1_024;

/// How long it may take to read an unused tag from the journal.
const LOADED_WITHIN: Duration = Duration::from_secs(5);

/// If a store has not answered this long after the start, the held ids in the journal are used without asking it.
const FIRST_ANSWER_WITHIN: Duration = Duration::from_secs(1);

impl Segments {
    /// Loads the journal's record of a tag in one store, after checking with the store that it is still the same tag.
    /// If the journal doesn't know the store, and the store doesn't answer, the tag is loaded once it answers.
    pub(crate) async fn load(self: Rc<Self>, tag: Rc<SegmentTag>, index: usize) {
        let shard = &tag.shards[index];
        let _ = tokio::time::timeout(FIRST_ANSWER_WITHIN, shard.upstream.tried()).await;
        let Some(key) = shard.upstream.key() else { return };
        if tag.evicted.get() || shard.state.get() != ShardState::Unloaded {
            return;
        }
        shard.state.set(ShardState::Loading);
        let record = match self.writer.journal().tag(&key, &tag.tag).await {
            Ok(record) => record,
            Err(error) => return self.remove(&tag, &Failure::from(&error)),
        };
        if record.is_none()
            && let Err(failure) = self.check_former_stores(&tag, shard).await
        {
            match failure {
                Some(failure) => return self.remove(&tag, &failure),
                // It is loaded once its store answers.
                None => return shard.state.set(ShardState::Unloaded),
            }
        }
        let mut missing = false;
        if let Some(record) = record {
            let terms = match shard.upstream.present() {
                Some(under) => shard.upstream.look_up(&under, vec![tag.tag.clone()]).await.ok(),
                None => None,
            };
            let terms = terms.map(|mut found| found.pop().flatten());
            missing = terms == Some(None);
            // The store behind the URL changed while the journal was read.
            if shard.upstream.key().as_ref() != Some(&key) || tag.evicted.get() {
                shard.state.set(ShardState::Unloaded);
                return;
            }
            self.restore(&tag, index, record, terms.flatten().as_ref(), missing);
        }
        shard.state.set(ShardState::Loaded);
        self.progressed.notify_waiters();
        tag.waits_for("the journal or the store has not answered yet");
        if missing {
            let error = StoreError::UnknownTag { tag: tag.tag.clone() };
            return self.missing(&tag, shard, &Failure::from(&error));
        }
        self.drive(&tag);
    }

    /// Checks a tag that this host has never claimed from this store, but perhaps from a store that the configuration
    /// has replaced, because its ids must not start over.
    ///
    /// # Errors
    /// The tag lies below those claims. `None`: the store can't be asked now.
    async fn check_former_stores(
        &self,
        tag: &SegmentTag,
        shard: &TagShard,
    ) -> Result<(), Option<Failure>> {
        for (former, url) in &self.former_stores {
            let record = self.writer.journal().tag(former, &tag.tag).await;
            let seen = record.map_err(|error| Failure::from(&error))?;
            let Some(seen) = seen.map(|record| record.highest_end) else { continue };
            let under = shard.upstream.present().ok_or(None)?;
            let found = shard.upstream.look_up(&under, vec![tag.tag.clone()]).await;
            let terms = found.map_err(|_| None)?.pop().flatten();
            if let Some(terms) = terms.filter(|terms| terms.end < seen) {
                let (name, end) = (tag.tag.as_str(), terms.end);
                return Err(Some(Failure::new(
                    Status::StoreRefused,
                    format!(
                        "tag {name:?} would repeat ids: this host has seen {seen} as its next id in {url}, which it \
                         used before, but in {} its next id is {end}. Raise the tag with: leafctl tag raise {} --to \
                         {seen}",
                        shard.upstream.url,
                        shell_word(name)
                    ),
                )));
            }
        }
        Ok(())
    }

    /// Uses the held ids in the journal's record if the store agrees or can't be asked.
    fn restore(
        self: &Rc<Self>,
        tag: &Rc<SegmentTag>,
        index: usize,
        record: TagRecord,
        terms: Option<&TagTerms>,
        missing: bool,
    ) {
        let shard = &tag.shards[index];
        let same = terms.is_none_or(|terms| terms.generation == record.generation);
        let lost = terms.is_some_and(|terms| same && terms.end < record.highest_end);
        let usable = same
            && !missing
            && (!lost || shard.upstream.embedded)
            && shard.upstream.leftovers.get();
        if usable {
            shard.generation.set(Some(record.generation));
            tag.unconfirmed.take();
        } else if !record.unissued.is_empty() {
            warn!(tag = %tag.tag, "dropping held ids from the journal: the tag was recreated, or other hosts may have claimed them");
            self.forget(tag, shard);
            for run in &record.unissued {
                self.losses.lose(&tag.tag, Cause::Journal, *run);
            }
        }
        let went_on = record.unissued.first().map_or(record.highest_end, |run| run.first);
        self.note_crash(tag, went_on..record.highest_end);
        let unissued = if usable { record.unissued } else { Vec::new() };
        let number = shard_number(index);
        let cut = tag.allocator.borrow_mut().restore(number, unissued, record.highest_end);
        self.journal_cut(tag, index, cut);
        // The ceiling may have been lowered while this host was off.
        if let Some(terms) = terms.filter(|_| usable) {
            self.set_terms(tag, index, terms);
        }
        if lost {
            shard.upstream.lost_commits(self, &tag.tag, record.highest_end);
        }
    }

    /// A store doesn't have the tag. If none of its stores has it, the tag is taken out of use.
    pub(super) fn missing(
        self: &Rc<Self>,
        tag: &Rc<SegmentTag>,
        shard: &TagShard,
        failure: &Failure,
    ) {
        shard.state.set(ShardState::Absent);
        if tag.shards.iter().all(|shard| shard.state.get() == ShardState::Absent) {
            self.remove(tag, failure);
        } else {
            tag.waits_for(failure.message.clone());
            self.drive(tag);
        }
    }

    /// Removes a tag from the tags in use. Requests that wait for it look it up again.
    pub(super) fn put_out_of_use(&self, tag: &SegmentTag) {
        // The tag itself may stay in the retry queue for a moment.
        tag.unconfirmed.take();
        let mut tags = self.tags.borrow_mut();
        tags.swap_remove(tag.tag.as_str());
        if tags.len() < tags.capacity() / 4 && tags.capacity() > ROOM_KEPT {
            let room = tags.len() * 2;
            tags.shrink_to(room);
        }
        self.progressed.notify_waiters();
    }

    /// Takes a tag out of use: waiting requests get `failure`, and held ids are dropped.
    pub(crate) fn remove(&self, tag: &Rc<SegmentTag>, failure: &Failure) {
        if tag.evicted.replace(true) {
            return;
        }
        self.leave(tag);
        self.abandon(tag, failure);
        self.put_out_of_use(tag);
        self.outcomes.borrow_mut().forget(&tag.tag);
        if failure.status == leafd_wire::Status::TagUnknown {
            for shard in tag.shards.iter() {
                if shard.generation.get().is_some() {
                    info!(tag = %tag.tag, store = %shard.upstream.url, "the tag was removed");
                    self.forget(tag, shard);
                }
            }
            let mut unknown = self.unknown.borrow_mut();
            if unknown.len() >= UNKNOWN_MAX {
                unknown.clear();
            }
            unknown.insert(tag.tag.clone(), BootMs(clock::boot().0 + UNKNOWN_MS));
        }
    }

    /// Discards the tag's known state, which is wrong. The next request looks it up again.
    pub(crate) fn start_over(&self, tag: &Rc<SegmentTag>) {
        let failure = Failure::store_away(format!(
            "tag {:?} was deleted and recreated; retry",
            tag.tag.as_str()
        ));
        self.remove(tag, &failure);
    }

    /// Call this after a tag was created or changed through this daemon, because its known state is out of date. Waits
    /// until its stores have been asked.
    pub async fn changed(self: &Rc<Self>, name: &Tag) {
        self.unknown.borrow_mut().remove(name.as_str());
        let tag = self.in_use(name);
        if let Some(tag) = tag {
            tag.trouble.borrow_mut().refused = None;
            tag.shards.iter().for_each(|shard| shard.used_up_until.set(BootMs(0)));
            for (index, shard) in tag.shards.iter().enumerate() {
                // The store has just accepted the change, even if its last probe failed.
                shard.upstream.reach_now().await;
                // The claim's answer may be from before the change.
                self.claim_ended(&tag, index).await;
                self.check_terms(&shard.upstream, std::slice::from_ref(&tag)).await;
                // If a claim began since then, the tag wasn't checked, but the claim's answer includes the change.
                self.claim_ended(&tag, index).await;
            }
        }
    }

    /// Waits until the pending claim from this shard's store has ended. While the journal can't be written, no claim
    /// ends and no claimed ids are issued, so this returns.
    async fn claim_ended(&self, tag: &SegmentTag, shard: usize) {
        let under_way = tag.last_claim.get();
        let ended = async {
            loop {
                let progressed = self.progressed.notified();
                let over = tag.evicted.get() || tag.last_claim.get() != under_way;
                if over || !tag.claims_from(shard) {
                    return;
                }
                progressed.await;
            }
        };
        tokio::select! {
            () = ended => {}
            () = self.writer.stalled() => {}
        }
    }

    /// The ids of a tag that this host holds and has not issued, and for each of the tag's stores the highest end that it
    /// has seen there. Waits for the journal if the tag is not in use.
    ///
    /// # Errors
    /// As for [`Segments::tag`]; also when the journal or the store takes long.
    pub async fn held_of(
        self: &Rc<Self>,
        name: &Tag,
        claimant: Claimant,
    ) -> Result<(Vec<Run>, Vec<u64>), Failure> {
        Ok(self.loaded(name, claimant).await?.held())
    }

    /// Makes the tag hold this many ids, although no request waits for them. They are claimed in the background.
    ///
    /// # Errors
    /// As for [`Segments::held_of`].
    pub async fn hold(
        self: &Rc<Self>,
        name: &Tag,
        ids: u64,
        claimant: Claimant,
    ) -> Result<(), Failure> {
        let tag = self.loaded(name, claimant).await?;
        tag.allocator.borrow_mut().expect(ids);
        self.drive(&tag);
        Ok(())
    }

    /// The tag, once the journal's record of it is known.
    pub(super) async fn loaded(
        self: &Rc<Self>,
        name: &Tag,
        claimant: Claimant,
    ) -> Result<Rc<SegmentTag>, Failure> {
        let loaded = async {
            loop {
                let progressed = self.progressed.notified();
                let tag = self.tag(name, claimant)?;
                if tag.shards.iter().all(|shard| shard.is_loaded()) {
                    return Ok(tag);
                }
                progressed.await;
                if tag.evicted.get() {
                    // Its load failed. The next one may fail at once as well.
                    tokio::time::sleep(TICK).await;
                }
            }
        };
        match tokio::time::timeout(LOADED_WITHIN, loaded).await {
            Ok(loaded) => loaded,
            Err(_) => Err(self.tag(name, claimant)?.deadline(self.writer.trouble())),
        }
    }

    /// Asks a store, in one query, whether these tags still exist and are the same, and for their current terms.
    pub(super) async fn check_terms(
        self: &Rc<Self>,
        upstream: &Rc<Upstream>,
        tags: &[Rc<SegmentTag>],
    ) {
        let Some(under) = upstream.present() else { return };
        let of_store: Vec<_> = tags.iter().filter_map(|tag| tag.loaded_from(upstream)).collect();
        if of_store.is_empty() {
            return;
        }
        let names = of_store.iter().map(|(tag, _)| tag.tag.clone()).collect();
        let Ok(found) = upstream.look_up(&under, names).await else { return };
        for ((tag, index), terms) in of_store.into_iter().zip(found) {
            // A pending claim from this store will find out by itself.
            if !tag.evicted.get() && !tag.claims_from(index) {
                self.judge_terms(tag, index, terms.as_ref());
            }
        }
    }

    fn judge_terms(self: &Rc<Self>, tag: &Rc<SegmentTag>, index: usize, terms: Option<&TagTerms>) {
        let shard = &tag.shards[index];
        let Some(terms) = terms else {
            let error = StoreError::UnknownTag { tag: tag.tag.clone() };
            return self.missing(tag, shard, &Failure::from(&error));
        };
        shard.state.set(ShardState::Loaded);
        if shard.generation.get().is_some_and(|known| known != terms.generation) {
            shard.generation.set(Some(terms.generation));
            self.made_anew(tag, index);
        }
        let seen = tag.allocator.borrow().highest_end(shard_number(index));
        if terms.end < seen {
            return shard.upstream.lost_commits(self, &tag.tag, seen);
        }
        self.set_terms(tag, index, terms);
    }

    /// Adopts a store's terms, and drops held ids that may not be issued any more.
    fn set_terms(self: &Rc<Self>, tag: &Rc<SegmentTag>, index: usize, terms: &TagTerms) {
        self.lose_held(tag, index, terms.ceiling.saturating_add(1), Cause::Ceiling);
        self.note_ceiling(tag, terms.end.saturating_sub(1), terms.ceiling);
        let cut = {
            let mut allocator = tag.allocator.borrow_mut();
            allocator.set_step(terms.step);
            allocator.set_ceiling(shard_number(index), terms.ceiling)
        };
        if cut.lost > 0 {
            warn!(
                tag = %tag.tag, ceiling = terms.ceiling, numbers = cut.lost,
                "dropped the held ids above the tag's new ceiling"
            );
        }
        self.journal_cut(tag, index, cut);
    }

    pub(crate) fn made_anew(&self, tag: &SegmentTag, index: usize) {
        warn!(tag = %tag.tag, "the tag was deleted and recreated; dropped the held ids of the old one");
        self.forget_shard(tag, index, Cause::Removed);
        tag.form.take();
        self.forget(tag, &tag.shards[index]);
    }

    /// Drops a tag's held ids, and counts them and its issued ids, because the tag leaves use.
    pub(super) fn leave(&self, tag: &SegmentTag) {
        for index in 0..tag.shards.len() {
            self.lose_held(tag, index, 0, Cause::Removed);
        }
        let mut allocator = tag.allocator.borrow_mut();
        allocator.forget();
        self.issued_before.set(self.issued_before.get() + allocator.issued());
        self.near_ceilings.borrow_mut().remove(&tag.tag);
    }

    /// Drops the held ids of one shard.
    fn forget_shard(&self, tag: &SegmentTag, index: usize, cause: Cause) {
        self.lose_held(tag, index, 0, cause);
        tag.allocator.borrow_mut().forget_shard(shard_number(index));
    }

    /// Whether this host has mask keys.
    pub fn masking(&self) -> bool {
        self.masks.any().is_some()
    }

    /// Drops the held ids of the store, here and in the journal, because another host may have them.
    pub fn drop_held(&self, upstream: &Rc<Upstream>) {
        self.set_aside(upstream);
        if let Some(store) = upstream.key() {
            // The journal can't refuse this.
            self.writer.write(vec![Write::ForgetAll { store }], |_| {});
        }
    }

    /// Drops the held ids of the store here, because they must not be issued now. The journal keeps them.
    pub fn set_aside(&self, upstream: &Rc<Upstream>) {
        upstream.leftovers.set(false);
        for (tag, index) in self.loaded_in(upstream) {
            self.forget_shard(&tag, index, Cause::Store);
        }
    }

    /// Does the same for every store.
    pub fn set_all_aside(&self) {
        self.upstreams.iter().for_each(|upstream| self.set_aside(upstream));
    }

    /// This host's identity in its stores.
    pub fn host(&self) -> HostId {
        self.host.borrow().clone()
    }

    /// Continues as another host, which has this identity.
    pub fn begin_anew(&self, host: HostId) {
        self.host.replace(host);
    }

    /// The highest ends that this daemon has seen of the tags in use.
    pub fn seen_in_use(&self, upstream: &Rc<Upstream>) -> Vec<(Tag, u64)> {
        let seen = self.loaded_in(upstream).into_iter().map(|(tag, index)| {
            let end = tag.allocator.borrow().highest_end(shard_number(index));
            (tag.tag.clone(), end)
        });
        seen.filter(|(_, end)| *end > 0).collect()
    }

    /// The store can be asked again, or claimed from. Loads tags for which it has not been asked yet, and continues with
    /// the others.
    pub fn resume(self: Rc<Self>, upstream: &Rc<Upstream>) {
        let mut known = self.all_in_use();
        known.retain(|tag| tag.shard_in(upstream).is_some());
        for tag in &known {
            let unloaded = |index: &usize| tag.shards[*index].state.get() == ShardState::Unloaded;
            if let Some(index) = tag.shard_in(upstream).filter(unloaded) {
                tokio::task::spawn_local(Rc::clone(&self).load(Rc::clone(tag), index));
            }
        }
        let (segments, upstream) = (self, Rc::clone(upstream));
        tokio::task::spawn_local(async move {
            Rc::clone(&segments).drive_in_turns(known).await;
            segments.check_all(upstream).await;
        });
    }

    /// The store can't be used until an operator acts. Answers the requests that wait for it.
    pub fn refused(self: Rc<Self>, upstream: &Rc<Upstream>) {
        let mut known = self.all_in_use();
        known.retain(|tag| tag.shard_in(upstream).is_some());
        tokio::task::spawn_local(self.drive_in_turns(known));
    }

    /// Answers the requests that wait for something that only an operator can change.
    pub(super) fn refuse(&self, tag: &SegmentTag) {
        if tag.allocator.borrow().waiting.is_empty() || tag.allocator.borrow().has_enough() {
            return;
        }
        if let Some(failure) = tag.refusal() {
            self.abandon(tag, &failure);
        }
    }

    fn loaded_in(&self, upstream: &Rc<Upstream>) -> Vec<(Rc<SegmentTag>, usize)> {
        let tags = self.tags.borrow();
        let loaded = tags.values().filter_map(|tag| tag.loaded_from(upstream));
        loaded.map(|(tag, index)| (Rc::clone(tag), index)).collect()
    }

    pub(super) fn forget(&self, tag: &SegmentTag, shard: &TagShard) {
        if let Some(store) = shard.upstream.key() {
            // The journal can't refuse this.
            let tag = tag.tag.clone();
            self.writer.write(vec![Write::Forget { store, tag }], |_| {});
        }
    }
}

impl SegmentTag {
    /// The held ids, and the highest end seen in each store.
    fn held(&self) -> (Vec<Run>, Vec<u64>) {
        let allocator = self.allocator.borrow();
        let held = allocator.held.exact_marks().map(|(_, run, first)| Run {
            first,
            count: run.count - run.count_below(first),
            ..run
        });
        (held.filter(|run| run.count > 0).collect(), allocator.highest_ends())
    }

    /// The index of its shard in this store.
    fn shard_in(&self, upstream: &Rc<Upstream>) -> Option<usize> {
        self.shards.iter().position(|shard| Rc::ptr_eq(&shard.upstream, upstream))
    }

    /// The same, if the journal's record of that shard is known.
    fn loaded_from(self: &Rc<Self>, upstream: &Rc<Upstream>) -> Option<(&Rc<Self>, usize)> {
        let index = self.shard_in(upstream)?;
        self.shards[index].is_loaded().then_some((self, index))
    }

    /// Whether no other host can have claimed its held ids.
    pub(super) fn may_issue(&self) -> bool {
        self.shards.iter().all(|shard| shard.upstream.may_issue())
    }

    /// Why no store of it can be claimed from until an operator acts. Call this once the journal's record is known.
    fn refusal(&self) -> Option<Failure> {
        let mut refusals = self.shards.iter().map(|shard| {
            let known = shard.is_loaded() || shard.upstream.key().is_none();
            shard.upstream.refusal().filter(|_| known)
        });
        let first = refusals.next()??;
        refusals.all(|refusal| refusal.is_some()).then_some(first)
    }
}
