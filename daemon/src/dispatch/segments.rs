//! Segment tags in use: from a request to the tag's allocator, and from what the allocator wants to the
//! store and the journal.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;

use leafd_wire::Run;
use tracing::{info, warn};

use super::backoff::Backoff;
use super::outbox::ReplyTo;
use super::writer::Writer;
use super::{Failure, clock};
use crate::id::segment::{Allocator, MarkMove, Provision, Want};
use crate::id::{BootMs, Tag};
use crate::journal::Write;
use crate::store::thread::StoreHandle;
use crate::store::{Claim, ClaimWish, Generation, StoreError, StoreId};

/// How segment tags are kept.
#[derive(Clone, Copy, Debug)]
pub struct SegmentSettings {
    /// How far ahead to claim and to mark.
    pub provision: Provision,
    /// Requests that may wait for one tag.
    pub waiters_max: usize,
}

/// Every segment tag in use.
pub struct Segments {
    settings: SegmentSettings,
    store: StoreHandle,
    store_id: StoreId,
    /// Whether the journal's leftovers may be used.
    leftovers: bool,
    pub(super) writer: Rc<Writer>,
    tags: RefCell<HashMap<Tag, Rc<SegmentTag>>>,
    /// Tags that the store lately didn't have, and until when to believe it.
    unknown: RefCell<HashMap<Tag, BootMs>>,
    loading: Cell<usize>,
    /// Tags with waiting requests or a failed claim: looked at every [`TICK`].
    restless: RefCell<Vec<Rc<SegmentTag>>>,
    pub(super) ticking: tokio::sync::Notify,
    claims: Cell<u64>,
    store_failure: RefCell<Option<Failure>>,
}

/// One segment tag in use.
pub struct SegmentTag {
    pub(super) tag: Tag,
    pub(super) allocator: RefCell<Allocator<ReplyTo>>,
    generation: Cell<Option<Generation>>,
    /// Set when the tag was removed; whoever still holds it looks it up anew.
    dead: Cell<bool>,
    loaded: Cell<bool>,
    restless: Cell<bool>,
    backoff: RefCell<Backoff>,
    /// Why the last claim failed, and until when requests that need one are told so at once.
    refused: RefCell<Option<(Failure, BootMs)>>,
    /// What requests wait for, for the text of a deadline.
    waited_for: RefCell<String>,
}

/// How long ids of a segment tag may be held by a process.
pub const HOLD_MS: u32 = 60_000;

/// How often tags with waiting requests are looked at.
pub const TICK: Duration = Duration::from_millis(10);

/// How long a tag that the store doesn't have is answered without asking again, in milliseconds.
const UNKNOWN_MS: u64 = 1_000;

/// How many unknown tags are remembered.
const UNKNOWN_MAX: usize = 10_000;

/// Tags that may be looked up at once.
const LOADING_MAX: usize = 1_000;

/// How long a claim's refusal is repeated without asking the store again, in milliseconds.
const REFUSED_MS: u64 = 1_000;

impl Segments {
    /// No tag is in use yet. `leftovers`: whether the journal's may be used.
    #[must_use]
    pub fn new(
        settings: SegmentSettings,
        store: StoreHandle,
        store_id: StoreId,
        leftovers: bool,
        writer: Rc<Writer>,
    ) -> Rc<Self> {
        Rc::new(Segments {
            settings,
            store,
            store_id,
            leftovers,
            writer,
            tags: RefCell::default(),
            unknown: RefCell::default(),
            loading: Cell::new(0),
            restless: RefCell::default(),
            ticking: tokio::sync::Notify::new(),
            claims: Cell::new(0),
            store_failure: RefCell::default(),
        })
    }

    /// The tag, brought into use if it isn't.
    ///
    /// # Errors
    /// The store doesn't have it, as far as is known, or too many are being looked up.
    pub fn tag(self: &Rc<Self>, name: &Tag) -> Result<Rc<SegmentTag>, Failure> {
        if let Some(tag) = self.tags.borrow().get(name) {
            return Ok(Rc::clone(tag));
        }
        let now = clock::boot();
        if self.unknown.borrow().get(name).is_some_and(|until| now < *until) {
            return Err(Failure::from(&StoreError::UnknownTag { tag: name.clone() }));
        }
        if self.loading.get() >= LOADING_MAX {
            return Err(Failure::overloaded("the limit of tags looked up at once", LOADING_MAX));
        }
        let tag = Rc::new(SegmentTag {
            tag: name.clone(),
            allocator: RefCell::new(Allocator::new(self.settings.provision, now)),
            generation: Cell::new(None),
            dead: Cell::new(false),
            loaded: Cell::new(false),
            restless: Cell::new(false),
            backoff: RefCell::default(),
            refused: RefCell::default(),
            waited_for: RefCell::new("the tag is being looked up".to_owned()),
        });
        self.tags.borrow_mut().insert(name.clone(), Rc::clone(&tag));
        self.loading.set(self.loading.get() + 1);
        tokio::task::spawn_local(Rc::clone(self).load(Rc::clone(&tag)));
        Ok(tag)
    }

    /// Draws ids at once if they are there. True: they are in `runs`.
    pub fn take(self: &Rc<Self>, tag: &Rc<SegmentTag>, want: Want, runs: &mut Vec<Run>) -> bool {
        let mut allocator = tag.allocator.borrow_mut();
        let taken = allocator.take(want, runs);
        let attention = allocator.wants_attention();
        drop(allocator);
        if attention {
            self.attend(tag);
        }
        taken
    }

    /// Lets a request wait, until `deadline`.
    ///
    /// # Errors
    /// The failure to answer with, and the handle to answer, when waiting is of no use.
    pub fn wait(
        self: &Rc<Self>,
        tag: &Rc<SegmentTag>,
        want: Want,
        deadline: BootMs,
        reply: ReplyTo,
    ) {
        let now = clock::boot();
        let refused = tag.refused.borrow().as_ref().filter(|(_, until)| now < *until).cloned();
        if let Some((failure, _)) = refused {
            return reply.failure(&failure);
        }
        if tag.allocator.borrow().waiting() >= self.settings.waiters_max {
            let limit = self.settings.waiters_max;
            return reply.failure(&Failure::overloaded(
                "waiters_max, the limit of requests that wait for a tag,",
                limit,
            ));
        }
        tag.allocator.borrow_mut().enqueue(want, deadline, reply);
        self.unsettle(tag);
        self.attend(tag);
        if deadline <= now {
            self.expire(tag, now);
        }
    }

    /// Serves who waits, and sees to marks and claims.
    fn attend(self: &Rc<Self>, tag: &Rc<SegmentTag>) {
        if !tag.loaded.get() || tag.dead.get() {
            return;
        }
        self.serve(tag);
        let now = clock::boot();
        let moves = tag.allocator.borrow_mut().marks_wanted(now);
        if !moves.is_empty() {
            self.move_marks(tag, moves);
        }
        let wanted = tag.allocator.borrow_mut().claim_wanted(now);
        if let Some(want) = wanted {
            tokio::task::spawn_local(Rc::clone(self).claim(Rc::clone(tag), want));
        }
    }

    fn serve(&self, tag: &SegmentTag) {
        let mut allocator = tag.allocator.borrow_mut();
        if self.writer.failed() || allocator.waiting() == 0 {
            return;
        }
        // Dropping an answer wakes its connection and no more, so the borrow may last.
        allocator.drop_waiting(ReplyTo::gone);
        let mut runs = Vec::new();
        while let Some(reply) = allocator.serve_next(&mut runs) {
            reply.ids(HOLD_MS, &runs);
            runs.clear();
        }
    }

    fn move_marks(self: &Rc<Self>, tag: &Rc<SegmentTag>, moves: Vec<MarkMove>) {
        let moves = Rc::new(moves);
        for (index, moved) in moves.iter().enumerate() {
            let write = Write::Mark {
                store: self.store_id.clone(),
                tag: tag.tag.clone(),
                end: moved.end,
                mark: moved.mark,
            };
            let last = index + 1 == moves.len();
            let (segments, tag, moves) = (Rc::clone(self), Rc::clone(tag), Rc::clone(&moves));
            self.writer.write(write, move || {
                if last {
                    tag.allocator.borrow_mut().marked(&moves);
                    segments.attend(&tag);
                }
            });
        }
    }

    /// Takes up what the journal has of a tag, after asking the store whether it is still the same tag.
    async fn load(self: Rc<Self>, tag: Rc<SegmentTag>) {
        let record = match self.writer.journal().tag(&self.store_id, &tag.tag).await {
            Ok(record) => record,
            Err(error) => {
                self.loading.set(self.loading.get() - 1);
                return self.remove(&tag, &Failure::from(&error));
            }
        };
        if let Some(record) = record {
            let highest_end = record.highest_end;
            let known = match &self.store.generations(vec![tag.tag.clone()]).await.as_deref() {
                Ok([Some(generation)]) => *generation == record.generation,
                Ok(_) => false,
                // Not to be asked now: go on with what this host holds.
                Err(_) => true,
            };
            let usable = known && self.leftovers;
            if usable {
                tag.generation.set(Some(record.generation));
            } else if !record.unissued.is_empty() {
                warn!(tag = %tag.tag, "numbers left from before are of another tag or in doubt: they are skipped");
                self.forget(&tag);
            }
            let unissued = if usable { record.unissued } else { Vec::new() };
            tag.allocator.borrow_mut().restore(unissued, highest_end);
        }
        self.loading.set(self.loading.get() - 1);
        tag.loaded.set(true);
        *tag.waited_for.borrow_mut() = "the journal or the store has not answered yet".to_owned();
        self.attend(&tag);
    }

    /// Claims numbers and has the journal record them.
    async fn claim(self: Rc<Self>, tag: Rc<SegmentTag>, want: u64) {
        let wish = ClaimWish { want, step_max: self.settings.provision.step_max };
        *tag.waited_for.borrow_mut() = "the store has not answered a claim yet".to_owned();
        match self.store.claim(&tag.tag, wish).await {
            Ok(claim) => self.claimed(&tag, claim).await,
            Err(error) => self.claim_failed(&tag, &error),
        }
    }

    async fn claimed(self: &Rc<Self>, tag: &Rc<SegmentTag>, claim: Claim) {
        self.claims.set(self.claims.get() + 1);
        if tag.dead.get() {
            // Removed meanwhile: nobody may use the numbers.
            return;
        }
        *self.store_failure.borrow_mut() = None;
        *tag.backoff.borrow_mut() = Backoff::default();
        *tag.refused.borrow_mut() = None;
        *tag.waited_for.borrow_mut() = "the journal has not recorded a claim yet".to_owned();
        if tag
            .generation
            .replace(Some(claim.generation))
            .is_some_and(|known| known != claim.generation)
        {
            warn!(tag = %tag.tag, "the tag was made anew: numbers held of the old one are dropped");
            tag.allocator.borrow_mut().forget();
            self.forget(tag);
        }
        let now = clock::boot();
        let marked = tag.allocator.borrow_mut().claimed(now, &claim.numbers, claim.step);
        match marked {
            Ok(moved) => {
                let write = Write::Segment {
                    store: self.store_id.clone(),
                    tag: tag.tag.clone(),
                    generation: claim.generation,
                    numbers: claim.numbers.clone(),
                    mark: moved.mark,
                };
                let (segments, tag) = (Rc::clone(self), Rc::clone(tag));
                self.writer.write(write, move || {
                    tag.allocator.borrow_mut().hold(&claim.numbers, moved.mark);
                    segments.attend(&tag);
                });
            }
            Err(end) => {
                warn!(
                    tag = %tag.tag, claimed = ?claim.numbers, seen = end,
                    "the store gave numbers that were claimed before: it has lost commits; raising it"
                );
                let error = match self.store.raise(&tag.tag, end).await {
                    Ok(()) => StoreError::Refused(format!(
                        "the store had lost claims of tag {:?}; it was raised to {end}",
                        tag.tag
                    )),
                    Err(error) => error,
                };
                self.retry_claim(tag, Failure::from(&error));
            }
        }
    }

    fn claim_failed(self: &Rc<Self>, tag: &Rc<SegmentTag>, error: &StoreError) {
        let failure = Failure::from(error);
        match error {
            StoreError::UnknownTag { .. } => {
                tag.allocator.borrow_mut().claim_failed(clock::boot());
                self.remove(tag, &failure);
            }
            StoreError::Exhausted { .. } | StoreError::Refused(_) => {
                let until = BootMs(clock::boot().0 + REFUSED_MS);
                *tag.refused.borrow_mut() = Some((failure.clone(), until));
                self.serve(tag);
                for reply in tag.allocator.borrow_mut().abandon() {
                    reply.failure(&failure);
                }
                self.retry_claim(tag, failure);
            }
            _ => {
                if self.store_failure.replace(Some(failure.clone())).is_none() {
                    warn!("{error}; issuing goes on from what is claimed");
                }
                self.retry_claim(tag, failure);
            }
        }
    }

    fn retry_claim(self: &Rc<Self>, tag: &Rc<SegmentTag>, failure: Failure) {
        let wait_ms = tag.backoff.borrow_mut().next_ms();
        *tag.waited_for.borrow_mut() = failure.message;
        tag.allocator.borrow_mut().claim_failed(BootMs(clock::boot().0 + wait_ms));
        self.unsettle(tag);
    }

    /// Takes a tag out of use: who waits is told, what is held is forgotten.
    pub(super) fn remove(&self, tag: &Rc<SegmentTag>, failure: &Failure) {
        tag.dead.set(true);
        let mut allocator = tag.allocator.borrow_mut();
        allocator.forget();
        for reply in allocator.abandon() {
            reply.failure(failure);
        }
        drop(allocator);
        self.tags.borrow_mut().remove(tag.tag.as_str());
        if failure.status == leafd_wire::Status::TagUnknown {
            if tag.generation.get().is_some() {
                info!(tag = %tag.tag, "the tag was removed");
                self.forget(tag);
            }
            let mut unknown = self.unknown.borrow_mut();
            if unknown.len() >= UNKNOWN_MAX {
                unknown.clear();
            }
            unknown.insert(tag.tag.clone(), BootMs(clock::boot().0 + UNKNOWN_MS));
        }
    }

    /// A tag was created or changed through this daemon: what was believed of it no longer holds.
    pub fn changed(self: &Rc<Self>, name: &Tag) {
        self.unknown.borrow_mut().remove(name.as_str());
        if let Some(tag) = self.tags.borrow().get(name) {
            *tag.refused.borrow_mut() = None;
        }
    }

    /// Asks the store, in one query, whether the tags in use are still there and still the same.
    pub async fn check_removed(self: &Rc<Self>) {
        let in_use: Vec<Rc<SegmentTag>> =
            self.tags.borrow().values().filter(|tag| tag.loaded.get()).cloned().collect();
        if in_use.is_empty() {
            return;
        }
        let names = in_use.iter().map(|tag| tag.tag.clone()).collect();
        let Ok(generations) = self.store.generations(names).await else { return };
        for (tag, generation) in in_use.iter().zip(generations) {
            if tag.dead.get() || tag.allocator.borrow().busy() {
                // A claim under way will find out by itself.
                continue;
            }
            match (tag.generation.get(), generation) {
                (_, None) => {
                    let error = StoreError::UnknownTag { tag: tag.tag.clone() };
                    self.remove(tag, &Failure::from(&error));
                }
                (Some(known), Some(found)) if known != found => {
                    warn!(tag = %tag.tag, "the tag was made anew: numbers held of the old one are dropped");
                    tag.allocator.borrow_mut().forget();
                    tag.generation.set(Some(found));
                    self.forget(tag);
                }
                _ => {}
            }
        }
    }

    /// Looks at the tags with waiting requests or failed claims, every [`TICK`] while there are any.
    pub async fn run(self: &Rc<Self>) {
        loop {
            if self.restless.borrow().is_empty() {
                self.ticking.notified().await;
            }
            tokio::time::sleep(TICK).await;
            let now = clock::boot();
            for tag in self.restless.take() {
                tag.restless.set(false);
                self.expire(&tag, now);
                self.attend(&tag);
                let restless =
                    tag.allocator.borrow().waiting() > 0 || tag.allocator.borrow().retrying();
                if restless && !tag.dead.get() {
                    self.unsettle(&tag);
                }
            }
        }
    }

    fn expire(&self, tag: &SegmentTag, now: BootMs) {
        let expired = tag.allocator.borrow_mut().expire(now);
        if !expired.is_empty() {
            let failure = Failure::deadline(&tag.tag, &tag.waited_for.borrow());
            for reply in expired {
                reply.failure(&failure);
            }
        }
    }

    /// Answers every waiting request with a failure.
    pub fn abandon_all(&self, failure: &Failure) {
        for tag in self.tags.borrow().values() {
            for reply in tag.allocator.borrow_mut().abandon() {
                reply.failure(failure);
            }
        }
    }

    /// Looks at every tag again, after the journal was away.
    pub fn attend_all(self: &Rc<Self>) {
        let tags: Vec<_> = self.tags.borrow().values().cloned().collect();
        for tag in tags {
            self.attend(&tag);
        }
    }

    /// The exact marks of all tags, for a clean stop.
    #[must_use]
    pub fn exact_marks(&self) -> Vec<Write> {
        let mut writes = Vec::new();
        for tag in self.tags.borrow().values() {
            let Some(generation) = tag.generation.get() else { continue };
            // A segment and not just a mark: one that was marked to its end is forgotten by now.
            writes.extend(tag.allocator.borrow().exact_marks().map(|(numbers, mark)| {
                Write::Segment {
                    store: self.store_id.clone(),
                    tag: tag.tag.clone(),
                    generation,
                    numbers,
                    mark,
                }
            }));
        }
        writes
    }

    fn forget(&self, tag: &SegmentTag) {
        let write = Write::Forget { store: self.store_id.clone(), tag: tag.tag.clone() };
        self.writer.write(write, || {});
    }

    fn unsettle(&self, tag: &Rc<SegmentTag>) {
        if !tag.restless.replace(true) {
            self.restless.borrow_mut().push(Rc::clone(tag));
            self.ticking.notify_one();
        }
    }

    /// Calls `see` with each tag in use.
    pub fn each(&self, mut see: impl FnMut(&SegmentTag)) {
        self.tags.borrow().values().for_each(|tag| see(tag));
    }

    /// Claims made since the start.
    #[must_use]
    pub fn claims(&self) -> u64 {
        self.claims.get()
    }

    /// Which store the tags are of.
    #[must_use]
    pub fn store_id(&self) -> &StoreId {
        &self.store_id
    }

    /// The store, for administration.
    #[must_use]
    pub fn store(&self) -> &StoreHandle {
        &self.store
    }

    /// Why the store can't be used, when it lately couldn't.
    #[must_use]
    pub fn store_failure(&self) -> Option<Failure> {
        self.store_failure.borrow().clone()
    }
}

impl SegmentTag {
    /// Whether the tag was taken out of use: look it up anew.
    #[must_use]
    pub fn dead(&self) -> bool {
        self.dead.get()
    }
}
