//! Segment tags: passes requests to the tag's allocator, and carries out what the allocator wants from the journal
//! (`marks`) and from the store (`claims`).
//!
//! - `claims`: carries out the claims that the allocator wants; `losses`: claimed ids that are never issued.
//! - `restart`: loads a tag again when the journal contradicts its held ids.
//! - `outlook`: whether ids can be issued, and for how long.
//! - `masked`: tags whose numbers are not their ids.
//! - `tag`: a tag, and its state in each of its stores; `tags`: which tags are in use;
//!   `unconfirmed`: names that no store has confirmed yet. `turns`: who claims next.
//! - `rounds`: the regular work for all tags in use.

mod claims;
mod losses;
mod marks;
mod masked;
mod outlook;
mod restart;
mod rounds;
mod tag;
mod tags;
mod turns;
mod unconfirmed;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use leafd_wire::{Run, Status};
use tokio::sync::Notify;

use crate::clock;
use crate::config::Routing;
use crate::engine::TICK;
use crate::engine::masks::Masks;
use crate::engine::upstream::Upstream;
use crate::engine::writer::Writer;
use crate::reply::Failure;
use crate::reply::outbox::ReplyTo;
pub use claims::ClaimLog;
use claims::{Sent, UnderWay};
use indexmap::IndexMap;
use leafd_core::health::{ClaimOutcomes, Lasts};
use leafd_core::segment::{Allocator, PrefetchPolicy};
use leafd_core::series::is_dense;
use leafd_core::shares::{Claimant, ShareSlot, Shares};
use leafd_core::store::{HostId, StoreError, StoreId};
use leafd_core::{BootMs, Tag, Want};
pub use losses::{Cause, Gap, Losses};
#[cfg(test)]
pub(crate) use marks::cut_writes;
use outlook::NearCeiling;
pub use outlook::StoreTrouble;
pub use tag::SegmentTag;
use tag::{ClaimRefusal, ShardState, TagShard, shard_number};
use turns::ClaimTurns;
use unconfirmed::UNCONFIRMED_MAX;

/// Settings of segment tags.
#[derive(Clone, Copy, Debug)]
pub struct SegmentSettings {
    /// How far ahead to claim ids and move marks, at the start.
    pub provision: PrefetchPolicy,
    /// How many requests may wait for one tag.
    pub waiters_max: usize,
    /// How long an idle tag stays in memory.
    pub tag_idle: Duration,
}

/// This host's past before this start.
#[derive(Debug)]
pub struct Past {
    /// Its identity in its stores.
    pub host: HostId,
    /// The stores that the configuration has replaced, each with its URL.
    pub former_stores: Vec<(StoreId, Arc<str>)>,
}

/// Every segment tag in use.
pub struct Segments {
    pub(crate) settings: SegmentSettings,
    /// How far ahead to claim ids and move marks now.
    provision: RefCell<Rc<PrefetchPolicy>>,
    /// The stores, in the order of the configuration.
    pub(crate) upstreams: Vec<Rc<Upstream>>,
    routing: Routing,
    /// The independent primary that this host tries first.
    first_shard: usize,
    /// This host's identity in its stores: the one in the journal at the start, unless a store knew a later start.
    pub(crate) host: RefCell<HostId>,
    former_stores: Vec<(StoreId, Arc<str>)>,
    /// How this host's claims are recorded in the store.
    claim_log: ClaimLog,
    /// Claimed ids that are never issued.
    pub(crate) losses: Rc<Losses>,
    pub(crate) writer: Rc<Writer>,
    /// The keys of masked tags.
    masks: Rc<Masks>,
    /// The tags in use. Their order allows work on some of them at a time, because there may be a hundred thousand, and
    /// work on all at once would delay every request.
    tags: RefCell<IndexMap<Tag, Rc<SegmentTag>>>,
    /// Tags that a store didn't have when it was last asked, and until when to rely on that.
    unknown: RefCell<HashMap<Tag, BootMs>>,
    /// The places for names that no store has confirmed yet, divided among the users.
    unconfirmed: Rc<RefCell<Shares>>,
    turns: ClaimTurns,
    /// Tags with waiting requests or a failed claim, and when to check them.
    retry_queue: RefCell<Vec<Rc<SegmentTag>>>,
    retry_at: Cell<Option<BootMs>>,
    pub(crate) ticking: Notify,
    /// Notified when a claim has ended, when a tag was loaded, and when it leaves use.
    progressed: Notify,
    /// Claims made since the start.
    pub(crate) claims: Cell<u64>,
    /// The latest results of claims.
    pub(crate) outcomes: RefCell<ClaimOutcomes>,
    /// For each store, an estimate of how long the held ids last without it, and when the estimate was made.
    estimates: RefCell<Vec<(BootMs, Option<Lasts>)>>,
    /// Tags in use that have few ids left.
    near_ceilings: RefCell<BTreeMap<Tag, NearCeiling>>,
    /// How many ids of tags that are no longer in use were issued.
    issued_before: Cell<u64>,
    /// How many claims wait for the store or the journal.
    claiming: Cell<usize>,
    /// Set when the daemon stops: no more claims.
    pub(crate) stopping: Cell<bool>,
}

/// How often a tag with waiting requests is checked at least, in milliseconds.
const CHECK_EVERY_MS: u64 = 100;

/// How long a process may hold ids of a segment tag, in milliseconds.
pub const HOLD_MS: u32 = 60_000;

/// How long a process may hold ids of this tag: not at all if it is strict.
fn hold_ms<T>(allocator: &Allocator<T>) -> u32 {
    if allocator.is_strict() { 0 } else { HOLD_MS }
}

impl Segments {
    /// Creates the set of tags in use, which is empty at first.
    pub fn new(
        settings: SegmentSettings,
        upstreams: Vec<Rc<Upstream>>,
        routing: Routing,
        Past { host, former_stores }: Past,
        (claim_log, losses): (ClaimLog, Losses),
        writer: Rc<Writer>,
        masks: Rc<Masks>,
    ) -> Rc<Self> {
        let stores = upstreams.len();
        Rc::new(Segments {
            settings,
            provision: RefCell::new(Rc::new(settings.provision)),
            upstreams,
            routing,
            first_shard: usize::from(fastrand::u8(..)),
            host: RefCell::new(host),
            former_stores,
            claim_log,
            losses: Rc::new(losses),
            writer,
            masks,
            tags: RefCell::default(),
            unknown: RefCell::default(),
            unconfirmed: Rc::new(RefCell::new(Shares::new(UNCONFIRMED_MAX as u64))),
            turns: ClaimTurns::default(),
            retry_queue: RefCell::default(),
            retry_at: Cell::new(None),
            ticking: Notify::new(),
            progressed: Notify::new(),
            claims: Cell::new(0),
            outcomes: RefCell::new(ClaimOutcomes::new(stores)),
            estimates: RefCell::new(vec![(BootMs(0), None); stores]),
            near_ceilings: RefCell::default(),
            issued_before: Cell::new(0),
            claiming: Cell::new(0),
            stopping: Cell::new(false),
        })
    }

    /// The tag, which is brought into use if it isn't yet. `claimant` is the requesting process.
    ///
    /// # Errors
    /// No store is configured for it, its store didn't have it a moment ago, or too many names are being looked up.
    pub fn tag(self: &Rc<Self>, name: &Tag, claimant: Claimant) -> Result<Rc<SegmentTag>, Failure> {
        if let Some(tag) = self.tags.borrow().get(name.as_str()) {
            return Ok(Rc::clone(tag));
        }
        let now = clock::boot();
        if self.unknown.borrow().get(name).is_some_and(|until| now < *until) {
            return Err(Failure::from(&StoreError::UnknownTag { tag: name.clone() }));
        }
        let place = self.name_place(claimant)?;
        let shards = self.upstreams_of(name)?.into_iter().map(TagShard::new).collect();
        let tag = self.bring_into_use(name, shards, Some(place), now);
        for index in 0..tag.shards.len() {
            tokio::task::spawn_local(Rc::clone(self).load(Rc::clone(&tag), index));
        }
        Ok(tag)
    }

    /// A tag without held ids, which is not loaded yet.
    fn bring_into_use(
        &self,
        name: &Tag,
        shards: Vec<TagShard>,
        unconfirmed: Option<ShareSlot>,
        now: BootMs,
    ) -> Rc<SegmentTag> {
        let allocator = Allocator::new(self.provision_of(name), shard_number(shards.len()), now);
        let most = self.settings.waiters_max;
        let tag = SegmentTag::new(name.clone(), allocator, shards, unconfirmed, most, now);
        let tag = Rc::new(tag);
        self.tags.borrow_mut().insert(name.clone(), Rc::clone(&tag));
        tag
    }

    /// The stores of a tag: one, or independent primaries in their order.
    ///
    /// # Errors
    /// The configuration names no store.
    pub fn upstreams_of(&self, tag: &Tag) -> Result<Vec<Rc<Upstream>>, Failure> {
        let Some(indexes) = self.routing.placement(tag) else {
            return Err(Failure::new(
                Status::TagUnknown,
                format!("no rule in routes matches tag {tag:?}; add one to the configuration"),
            ));
        };
        Ok(indexes.iter().map(|index| Rc::clone(&self.upstreams[*index])).collect())
    }

    /// The stores with the same tags as this one: itself, or all primaries of its list in their order.
    pub fn upstreams_beside(&self, index: usize) -> Vec<Rc<Upstream>> {
        self.routing
            .together(index)
            .iter()
            .map(|index| Rc::clone(&self.upstreams[*index]))
            .collect()
    }

    /// Draws ids at once if there are enough. If it returns true, they are in `runs`.
    pub fn take(self: &Rc<Self>, tag: &Rc<SegmentTag>, want: Want, runs: &mut Vec<Run>) -> bool {
        if !tag.may_issue() {
            return false;
        }
        let mut allocator = tag.allocator.borrow_mut();
        let (taken, attention) = match allocator.is_strict() {
            // The clock is read now, after the request has come: see `leafd_core::segment`.
            true => {
                let now = clock::boot();
                (allocator.take_held(want, now, runs), allocator.hold_is_due(now))
            }
            false => (allocator.take(want, runs), allocator.held.wants_attention()),
        };
        drop(allocator);
        if attention {
            self.drive(tag);
        }
        taken
    }

    /// Queues a request until `deadline`. Answers it immediately if waiting is useless.
    pub fn wait(
        self: &Rc<Self>,
        tag: &Rc<SegmentTag>,
        want: Want,
        deadline: BootMs,
        mut reply: ReplyTo,
    ) {
        let now = clock::boot();
        if let Some(failure) = tag.recent_refusal(want, now) {
            return reply.failure(&failure);
        }
        if !reply.take_place(&tag.places) {
            return reply.failure(&Failure::overloaded(
                "too many of this user's requests are waiting for the tag",
                "waiters_max",
                self.settings.waiters_max,
            ));
        }
        let uid = reply.asker().claimant.uid;
        tag.allocator.borrow_mut().waiting.push(uid, want, deadline, reply);
        self.drive(tag);
        if deadline <= now {
            // The others were checked before. Checking all of them each time would let one client starve the others.
            let expired = tag.allocator.borrow_mut().waiting.expire_last(now);
            if let Some(reply) = expired {
                reply.failure(&tag.deadline(self.writer.trouble()));
            }
        } else {
            self.schedule_retry(tag);
        }
    }

    /// Serves waiting requests, and starts the claims and moves of marks that are needed.
    fn drive(self: &Rc<Self>, tag: &Rc<SegmentTag>) {
        self.refuse(tag);
        let is_loaded = tag.shards.iter().any(|shard| shard.is_loaded());
        // The answer to a claim that was under way at a stop may hold a strict tag. One more claim releases it.
        let is_held = tag.allocator.borrow().holds();
        if !is_loaded || tag.evicted.get() || self.stopping.get() && !is_held {
            return;
        }
        if self.stopping.get() {
            tag.allocator.borrow_mut().give_up();
        }
        self.serve(tag);
        let now = clock::boot();
        let moves = tag.allocator.borrow_mut().marks_wanted(now);
        if !moves.is_empty() {
            self.move_marks(tag, moves);
        }
        if let Some(failure) = self.lacks_key(tag) {
            return self.abandon(tag, &failure);
        }
        // While no store can be claimed from, no claim is made. Waiting requests continue when one can.
        let Some((shard, under)) = self.shard_to_claim(tag) else { return };
        tag.allocator.borrow_mut().waiting.drop_head_while(ReplyTo::gone);
        let Some(turn) = self.turns.take(tag, &tag.shards[shard].upstream) else { return };
        let wish = tag.allocator.borrow_mut().claim_wanted(now);
        if wish.is_none() {
            self.turns.give_back(turn);
        }
        if let Some(wish) = wish {
            let sent = Sent { shard, under, wish, turn, _under_way: UnderWay::new(self) };
            tag.sends_claim(sent.shard);
            tokio::task::spawn_local(Rc::clone(self).claim(Rc::clone(tag), sent));
        }
    }

    fn serve(&self, tag: &SegmentTag) {
        let mut allocator = tag.allocator.borrow_mut();
        if self.writer.failed() || allocator.waiting.is_empty() || !tag.may_issue() {
            return;
        }
        let (mut runs, now) = (Vec::new(), clock::boot());
        loop {
            // Dropping an answer only wakes its connection, so the borrow may last.
            allocator.waiting.drop_head_while(ReplyTo::gone);
            let next = match allocator.is_strict() {
                true => allocator.serve_next_held(now, &mut runs),
                false => allocator.serve_next(&mut runs),
            };
            let Some(reply) = next else { return };
            self.answer(tag, reply, hold_ms(&allocator), &runs);
            runs.clear();
        }
    }

    /// Does the regular work for the tags in use, until dropped.
    pub async fn run(self: &Rc<Self>) {
        tokio::join!(self.retry(), self.keep_small());
    }

    /// Checks the tags with waiting requests or failed claims when something may be due for one of them.
    async fn retry(self: &Rc<Self>) {
        loop {
            tokio::select! {
                () = clock::wait_until(self.retry_at.get()) => {}
                () = self.ticking.notified() => {}
            }
            let now = clock::boot();
            if self.retry_at.get().is_none_or(|at| now < at) {
                continue;
            }
            self.retry_at.set(None);
            for tag in self.retry_queue.take() {
                tag.in_retry_queue.set(false);
                self.expire(&tag, now);
                self.drive(&tag);
                self.forget_unconfirmed(&tag);
                self.schedule_retry(&tag);
            }
        }
    }

    fn expire(&self, tag: &SegmentTag, now: BootMs) {
        let expired = tag.allocator.borrow_mut().waiting.expire(now);
        if !expired.is_empty() {
            let failure = tag.deadline(self.writer.trouble());
            expired.into_iter().for_each(|reply| reply.failure(&failure));
        }
    }

    /// Drops the waiting requests of clients that have disconnected.
    pub fn drop_gone(&self, tag: &Rc<SegmentTag>) {
        tag.allocator.borrow_mut().waiting.drop_where(ReplyTo::gone);
        self.forget_unconfirmed(tag);
    }

    /// Answers every waiting request with a failure.
    pub fn abandon_all(&self, failure: &Failure) {
        self.tags.borrow().values().for_each(|tag| self.abandon(tag, failure));
    }

    pub(super) fn abandon(&self, tag: &SegmentTag, failure: &Failure) {
        let abandoned = tag.allocator.borrow_mut().waiting.abandon();
        abandoned.into_iter().for_each(|reply| reply.failure(failure));
    }

    /// Releases the strict tags that this host holds, so that no other host has to wait.
    pub fn give_up_holds(self: &Rc<Self>) {
        for tag in self.all_in_use() {
            if tag.allocator.borrow().holds() {
                tag.allocator.borrow_mut().give_up();
                self.drive(&tag);
            }
        }
    }

    /// Checks every tag again, after the journal has recovered.
    pub fn drive_all(self: &Rc<Self>) {
        tokio::task::spawn_local(Rc::clone(self).drive_in_turns(self.all_in_use()));
    }

    /// Checks the tag again in time, unless it is idle or was evicted.
    fn schedule_retry(&self, tag: &Rc<SegmentTag>) {
        let (now, soon_ms) = (clock::boot(), clock::millis(TICK));
        let at = tag.allocator.borrow().check_at(now, soon_ms, CHECK_EVERY_MS);
        let Some(at) = at.filter(|_| !tag.evicted.get()) else { return };
        if !tag.in_retry_queue.replace(true) {
            self.retry_queue.borrow_mut().push(Rc::clone(tag));
        }
        let at = at.max(BootMs(now.0.saturating_add(soon_ms)));
        if self.retry_at.get().is_none_or(|set| at < set) {
            self.retry_at.set(Some(at));
            self.ticking.notify_one();
        }
    }

    /// The tag, if it is in use.
    pub fn in_use(&self, name: &Tag) -> Option<Rc<SegmentTag>> {
        self.tags.borrow().get(name.as_str()).cloned()
    }

    /// Uses another prefetch policy from now on, also for tags in use.
    pub fn set_provision(&self, provision: PrefetchPolicy) {
        self.provision.replace(Rc::new(provision));
        for tag in self.tags.borrow().values() {
            tag.allocator.borrow_mut().set_provision(self.provision_of(&tag.tag));
        }
    }

    /// The prefetch policy of a tag. Hosts hold no ids of a dense series.
    fn provision_of(&self, name: &Tag) -> Rc<PrefetchPolicy> {
        let provision = self.provision.borrow();
        match is_dense(name) {
            true => Rc::new(PrefetchPolicy { step_max: 0, ..**provision }),
            false => Rc::clone(&provision),
        }
    }

    /// Waits until the claims in flight are in the journal or have failed.
    pub async fn claims_ended(&self) {
        loop {
            let progressed = self.progressed.notified();
            if self.claiming.get() == 0 {
                return;
            }
            progressed.await;
        }
    }

    /// The tags in use.
    pub fn all_in_use(&self) -> Vec<Rc<SegmentTag>> {
        self.tags.borrow().values().cloned().collect()
    }

    /// How many tags are in use.
    pub fn count(&self) -> usize {
        self.tags.borrow().len()
    }

    /// Ids issued since the start.
    pub fn issued(&self) -> u64 {
        let tags = self.tags.borrow();
        let present: u64 = tags.values().map(|tag| tag.allocator.borrow().issued()).sum();
        self.issued_before.get() + present
    }
}
