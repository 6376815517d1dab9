//! Segment tags: from a request to the tag's allocator, and from what the allocator wants to the journal
//! (here) and the store (`claims`); which tags are in use at all (`in_use`).

mod claims;
mod in_use;

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;

use leafd_wire::Run;

use super::backoff::Backoff;
use super::outbox::ReplyTo;
use super::underway::UnderWay;
use super::writer::Writer;
use super::{Failure, clock};
use crate::id::segment::{Allocator, MarkMove, Provision, Want};
use crate::id::{BootMs, Tag};
use crate::journal::Write;
use crate::store::thread::StoreHandle;
use crate::store::{Generation, Identity, StoreError, StoreId};

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
    /// What the store was when it was introduced to.
    identity: Identity,
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
    /// Claims that the store or the journal has not answered.
    claiming: Rc<UnderWay>,
    /// The daemon stops: no more claims.
    stopping: Cell<bool>,
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

/// Tags that may be looked up at once.
const LOADING_MAX: usize = 1_000;

impl Segments {
    /// No tag is in use yet. `leftovers`: whether the journal's may be used.
    #[must_use]
    pub fn new(
        settings: SegmentSettings,
        store: StoreHandle,
        identity: Identity,
        leftovers: bool,
        writer: Rc<Writer>,
    ) -> Rc<Self> {
        Rc::new(Segments {
            settings,
            store,
            store_id: identity.id.clone(),
            identity,
            leftovers,
            writer,
            tags: RefCell::default(),
            unknown: RefCell::default(),
            loading: Cell::new(0),
            restless: RefCell::default(),
            ticking: tokio::sync::Notify::new(),
            claims: Cell::new(0),
            claiming: Rc::default(),
            stopping: Cell::new(false),
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

    /// Lets a request wait, until `deadline`. It is answered at once when waiting is of no use.
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
        self.attend(tag);
        if deadline <= now {
            // It has been seen to; to look at all the others each time would let one client starve them.
            let expired = tag.allocator.borrow_mut().expire_last(now);
            if let Some(reply) = expired {
                reply.failure(&Failure::deadline(&tag.tag, &tag.waited_for.borrow()));
            }
        } else {
            self.unsettle(tag);
        }
    }

    /// Serves who waits, and sees to marks and claims.
    fn attend(self: &Rc<Self>, tag: &Rc<SegmentTag>) {
        if !tag.loaded.get() || tag.dead.get() || self.stopping.get() {
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
            let begun = self.claiming.begin();
            tokio::task::spawn_local(Rc::clone(self).claim(Rc::clone(tag), want, begun));
        }
    }

    fn serve(&self, tag: &SegmentTag) {
        let mut allocator = tag.allocator.borrow_mut();
        if self.writer.failed() || allocator.waiting() == 0 {
            return;
        }
        let mut runs = Vec::new();
        loop {
            // Dropping an answer wakes its connection and no more, so the borrow may last.
            allocator.drop_head_while(ReplyTo::gone);
            let Some(reply) = allocator.serve_next(&mut runs) else { return };
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

    /// A tag was created or changed through this daemon: what was believed of it no longer holds.
    pub fn changed(self: &Rc<Self>, name: &Tag) {
        self.unknown.borrow_mut().remove(name.as_str());
        if let Some(tag) = self.tags.borrow().get(name) {
            *tag.refused.borrow_mut() = None;
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

    /// Claims nothing more: the daemon stops.
    pub fn stop_claiming(&self) {
        self.stopping.set(true);
    }

    /// Waits until the claims under way are in the journal or have failed.
    pub async fn claims_ended(&self) {
        self.claiming.all_ended().await;
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
