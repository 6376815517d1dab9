//! Shared runs: ids of a tag that all processes of a user draw from memory, without a request.
//!
//! What is published in such memory counts as issued: it lies below the journal's mark, as any id that goes out does. A
//! page is drawn from only while the daemon renews it, and ends for good in the moment in which ids of the tag may not be
//! drawn any more.
//!
//! - `memory`: the pages themselves.
//! - `figures`: what is counted of them.

mod figures;
mod memory;

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io;
use std::rc::{Rc, Weak};
use std::time::Duration;

use leafd_core::quota::Bucket;
use leafd_core::shared::{self, Publisher};
use leafd_core::shares::{Claimant, Shares};
use leafd_core::{BootMs, Run, Tag, Want};
use leafd_wire::ShareReply;
use serde_json::Value;
use tokio::sync::Notify;
use tracing::{debug, warn};

use super::{SegmentTag, Segments};
use crate::clock;
use crate::random;
use crate::reply::outbox::ReplyTo;
use crate::reply::users::Drawn;
use figures::{End, Figures};
use memory::Memory;

/// Pages at once, shared out by user.
pub const PAGES_MAX: u64 = 256;

/// Pages that were not used for so long make room for others, in milliseconds.
const UNUSED_MS: u64 = 10_000;

/// A page is renewed for so long after somebody drew from it, in milliseconds.
const KEPT_MS: u64 = 3_000;

/// Who may not share is told to ask again after this, in milliseconds.
pub const NOT_SHARED_MS: u32 = 5_000;

/// All shared runs.
pub(super) struct SharedRuns {
    pages: RefCell<HashMap<(u32, Tag), Rc<Page>>>,
    places: RefCell<Shares>,
    /// Nothing is published before.
    opens: Cell<BootMs>,
    /// The daemon stops: nothing is published any more.
    closed: Cell<bool>,
    /// Somebody may draw.
    used: Notify,
    warned: Cell<bool>,
    figures: Figures,
}

/// One user's run of one tag.
pub(super) struct Page {
    tag: Rc<SegmentTag>,
    claimant: Claimant,
    number: u64,
    memory: Memory,
    publisher: RefCell<Publisher>,
    /// What the user may draw of the tag.
    quota: Option<Rc<RefCell<Bucket>>>,
    /// The largest id that was published.
    largest: Cell<u64>,
    used_at: Cell<BootMs>,
    /// Fewer ids could be published than were wanted.
    short: Cell<bool>,
    /// Where the user's ids are counted, while it has connections.
    drawn_by: RefCell<Weak<Drawn>>,
}

impl Default for SharedRuns {
    fn default() -> Self {
        SharedRuns {
            pages: RefCell::default(),
            places: RefCell::new(Shares::new(PAGES_MAX)),
            opens: Cell::new(BootMs(0)),
            closed: Cell::new(false),
            used: Notify::new(),
            warned: Cell::new(false),
            figures: Figures::default(),
        }
    }
}

// === impl Segments ===

impl Segments {
    /// The daemon before this one may have been killed: nothing is published while its pages may be drawn from.
    pub fn share_after_crash(&self) {
        self.shared.opens.set(BootMs(clock::boot().0 + shared::AFTER_CRASH_MS));
    }

    /// When ids may be published for the first time.
    #[must_use]
    pub fn shares_from(&self) -> BootMs {
        self.shared.opens.get()
    }

    /// Answers who asks to share a tag, as soon as there is an id to draw, or by `deadline`.
    pub fn share(
        self: &Rc<Self>,
        tag: &Rc<SegmentTag>,
        quota: Option<Rc<RefCell<Bucket>>>,
        deadline: BootMs,
        reply: ReplyTo,
    ) {
        self.shared.figures.asked();
        let again_ms = NOT_SHARED_MS;
        if self.shared.closed.get() || !tag.can_be_shared() {
            return reply.share(ShareReply::NotShared { again_ms }, None);
        }
        let Some(page) = self.page(tag, reply.claimant(), quota) else {
            return reply.share(ShareReply::NotShared { again_ms }, None);
        };
        page.used_at.set(clock::boot());
        page.drawn_by.replace(reply.drawn_by());
        self.refill(&page);
        match self.live(tag, page.claimant) {
            // While no id may be issued the page is not open, whatever it has.
            Some(page) if page.has_ids() && tag.may_issue() => page.answer(reply),
            // Its tickets were tampered with: the next one is made when it is asked for.
            None => reply.share(ShareReply::NotShared { again_ms: 0 }, None),
            Some(_) => self.wait(tag, Want { count: 1, allow_partial: true }, deadline, reply),
        }
    }

    /// Whether a user's processes find ids that are published.
    #[must_use]
    pub fn has_shared_ids(&self, tag: &SegmentTag, claimant: Claimant) -> bool {
        self.live(tag, claimant).is_some_and(|page| page.has_ids())
    }

    /// Answers who waited for ids to be published.
    pub(super) fn answer_sharing(&self, tag: &SegmentTag, reply: ReplyTo, runs: &[Run]) {
        match self.live(tag, reply.claimant()) {
            Some(page) if !tag.is_masked() => {
                // One id may come for each who waits, and others may have brought more meanwhile.
                if !page.has_ids() {
                    self.publish(&page, runs);
                }
                page.short.set(true);
                page.renew();
                page.answer(reply);
            }
            _ => reply.share(ShareReply::NotShared { again_ms: 0 }, None),
        }
    }

    /// Publishes more of a tag whose ids had come to an end.
    pub(super) fn refill_shared(self: &Rc<Self>, tag: &SegmentTag) {
        if tag.pages.get() == 0 {
            return;
        }
        let short: Vec<Rc<Page>> =
            self.shared.of(tag).into_iter().filter(|page| page.short.get()).collect();
        short.iter().for_each(|page| self.publish_wanted(page));
    }

    /// Ends the shared runs of a tag.
    pub(super) fn end_shared(&self, tag: &SegmentTag) {
        if tag.pages.get() > 0 {
            self.shared.of(tag).iter().for_each(|page| self.shared.end(page, End::Revoked));
        }
    }

    /// Ends the shared runs of a tag with ids above a ceiling.
    pub(super) fn end_shared_above(&self, tag: &SegmentTag, ceiling: u64) {
        if tag.pages.get() > 0 {
            let pages = self.shared.of(tag);
            let above = pages.iter().filter(|page| page.largest.get() > ceiling);
            above.for_each(|page| self.shared.end(page, End::Revoked));
        }
    }

    /// Ends all shared runs: who may still share one asks again.
    pub fn end_all_shared(&self) {
        self.shared.all().iter().for_each(|page| self.shared.end(page, End::Revoked));
    }

    /// Ends all shared runs, and begins none any more.
    pub(super) fn close_shared(&self) {
        self.shared.closed.set(true);
        self.end_all_shared();
    }

    /// Draws from no page go on beyond what may be issued by now.
    pub(super) fn bound_shared(&self) {
        self.shared.all().iter().for_each(|page| page.renew());
    }

    /// Renews and refills what is drawn from, until dropped.
    pub(super) async fn keep_shared(self: &Rc<Self>) {
        loop {
            if !self.shared.in_use(clock::boot()) {
                self.shared.used.notified().await;
            }
            tokio::time::sleep(Duration::from_millis(shared::RENEW_MS)).await;
            let now = clock::boot();
            for page in self.shared.all() {
                if page.publisher.borrow_mut().was_used(page.memory.tickets().taken()) {
                    page.used_at.set(now);
                    self.refill(&page);
                } else if page.is_kept(now) {
                    page.renew();
                }
            }
        }
    }

    /// A user's page of a tag, made if there is none.
    fn page(
        &self,
        tag: &Rc<SegmentTag>,
        claimant: Claimant,
        quota: Option<Rc<RefCell<Bucket>>>,
    ) -> Option<Rc<Page>> {
        if let Some(page) = self.live(tag, claimant) {
            return Some(page);
        }
        let shared = &self.shared;
        if !shared.places.borrow().admits(claimant, 1) {
            shared.make_room(clock::boot());
        }
        if !shared.places.borrow_mut().take(claimant, 1) {
            return None;
        }
        let made = random::number().map_err(io::Error::other);
        let made = made.and_then(|number| Ok((number, Memory::new(number)?)));
        let (number, memory) = match made {
            Ok(made) => made,
            Err(error) => {
                shared.places.borrow_mut().give_back(claimant, 1);
                if !shared.warned.replace(true) {
                    warn!(
                        "ids can't be shared in memory: {error}; processes hold runs of their own instead"
                    );
                }
                return None;
            }
        };
        debug!(tag = %tag.tag, uid = claimant.uid, "begin a shared run");
        let page = Rc::new(Page {
            tag: Rc::clone(tag),
            claimant,
            number,
            memory,
            publisher: RefCell::default(),
            quota,
            largest: Cell::new(0),
            used_at: Cell::new(clock::boot()),
            short: Cell::new(false),
            drawn_by: RefCell::default(),
        });
        shared.figures.begun();
        tag.pages.set(tag.pages.get() + 1);
        shared.pages.borrow_mut().insert((claimant.uid, tag.tag.clone()), Rc::clone(&page));
        Some(page)
    }

    /// A user's page of a tag, if it has one.
    fn live(&self, tag: &SegmentTag, claimant: Claimant) -> Option<Rc<Page>> {
        let key = (claimant.uid, tag.tag.clone());
        let page = self.shared.pages.borrow().get(&key).cloned()?;
        if std::ptr::eq(&raw const *page.tag, tag) && !tag.evicted.get() {
            return Some(page);
        }
        self.shared.end(&page, End::Revoked);
        None
    }

    /// Publishes as much as is wanted, renews, and sees to it that there will be more.
    fn refill(self: &Rc<Self>, page: &Rc<Page>) {
        if page.tag.evicted.get() || !page.tag.can_be_shared() {
            return self.shared.end(page, End::Revoked);
        }
        self.publish_wanted(page);
        page.renew();
        self.shared.used.notify_one();
        if page.tag.allocator.borrow().wants_attention() {
            self.drive(&page.tag);
        }
    }

    fn publish_wanted(&self, page: &Rc<Page>) {
        let wanted = page.publisher.borrow_mut().wanted(page.memory.tickets().taken());
        let Ok(wanted) = wanted else {
            if self.shared.figures.warns_of(page.claimant.uid, clock::boot()) {
                warn!(
                    uid = page.claimant.uid, tag = %page.tag.tag,
                    "a process of this user has written into the memory by which its processes share a run: they may \
                     have given one another the same ids; the run ends, and others are not affected"
                );
            }
            return self.shared.end(page, End::Tampered);
        };
        let allowed = page.allowed().min(u64::from(wanted)) as u32;
        if allowed == 0 {
            return page.short.set(wanted > 0);
        }
        let mut runs = Vec::new();
        let may = !self.writer.failed() && page.tag.may_issue();
        let want = Want { count: allowed, allow_partial: true };
        if may && page.tag.allocator.borrow_mut().take(want, &mut runs) {
            self.publish(page, &runs);
        }
        page.short.set(ids_of(&runs) < u64::from(wanted));
    }

    fn publish(&self, page: &Page, runs: &[Run]) {
        self.shared.figures.published(ids_of(runs));
        page.publish(runs);
    }

    /// What is shared, in numbers.
    #[must_use]
    pub fn shared_figures(&self) -> Value {
        self.shared.told()
    }
}

// === impl SharedRuns ===

impl SharedRuns {
    fn all(&self) -> Vec<Rc<Page>> {
        self.pages.borrow().values().cloned().collect()
    }

    fn of(&self, tag: &SegmentTag) -> Vec<Rc<Page>> {
        let pages = self.pages.borrow();
        let of_tag = |page: &&Rc<Page>| std::ptr::eq(&raw const *page.tag, tag);
        pages.values().filter(of_tag).cloned().collect()
    }

    fn in_use(&self, now: BootMs) -> bool {
        self.pages.borrow().values().any(|page| page.is_kept(now))
    }

    /// Nobody draws from the page any more, from this moment on.
    fn end(&self, page: &Page, end: End) {
        page.memory.run().retire();
        let key = (page.claimant.uid, page.tag.tag.clone());
        let mut pages = self.pages.borrow_mut();
        if pages.get(&key).is_some_and(|found| found.number == page.number) {
            pages.remove(&key);
            self.figures.ended(page, end);
            self.places.borrow_mut().give_back(page.claimant, 1);
            page.tag.pages.set(page.tag.pages.get() - 1);
        }
    }

    /// Ends the page that was not used for longest, if that is long enough.
    fn make_room(&self, now: BootMs) {
        let oldest = self.all().into_iter().min_by_key(|page| page.used_at.get());
        if let Some(page) = oldest.filter(|page| page.used_at.get().0 + UNUSED_MS < now.0) {
            self.end(&page, End::Unused);
        }
    }
}

fn ids_of(runs: &[Run]) -> u64 {
    runs.iter().map(|run| u64::from(run.count)).sum()
}

// === impl Page ===

impl Page {
    /// Whether somebody drew not long ago.
    fn is_kept(&self, now: BootMs) -> bool {
        now.0 < self.used_at.get().0 + KEPT_MS
    }

    fn has_ids(&self) -> bool {
        self.publisher.borrow().has_ids(self.memory.tickets().taken())
    }

    /// How many ids were drawn, as far as is known.
    fn drawn(&self) -> u64 {
        self.publisher.borrow_mut().drawn(self.memory.tickets().taken())
    }

    /// What the user's quota leaves.
    fn allowed(&self) -> u64 {
        let available = |bucket: &Rc<RefCell<Bucket>>| bucket.borrow_mut().available(clock::boot());
        self.quota.as_ref().map_or(u64::MAX, available)
    }

    /// Publishes ids that are issued: whatever becomes of them, they are never given again.
    fn publish(&self, runs: &[Run]) {
        let (now, issued) = (clock::boot(), ids_of(runs));
        if let Some(user) = self.drawn_by.borrow().upgrade() {
            user.count(issued);
        }
        if let Some(bucket) = &self.quota {
            // It is a matter of what others may have; one that waited for an id gets it.
            let _ = bucket.borrow_mut().draw(issued, now);
        }
        let last = runs.iter().filter_map(Run::last).max();
        self.largest.set(self.largest.get().max(last.unwrap_or(0)));
        let entries = self.publisher.borrow_mut().place(runs, self.memory.tickets().taken(), now);
        entries.into_iter().for_each(|entry| self.memory.run().publish(entry));
    }

    /// Lets processes draw for a while, but not beyond the moment from which no id of the tag may be issued.
    fn renew(&self) {
        let valid_until_ns = shared::valid_until_ns(clock::boot(), self.tag.issues_until());
        self.memory.run().renew(valid_until_ns);
    }

    fn answer(&self, reply: ReplyTo) {
        let page = self.number;
        match reply.shares() {
            Some(has) if has == page => reply.share(ShareReply::Same { page }, None),
            _ => reply.share(ShareReply::Pages { page }, Some(self.memory.descriptors())),
        }
    }
}

impl SegmentTag {
    /// Whether what is published of it would be ids, each good for whoever draws it.
    fn can_be_shared(&self) -> bool {
        !self.is_masked() && !self.allocator.borrow().is_strict()
    }

    /// From when on nothing that is held of it may be issued.
    fn issues_until(&self) -> BootMs {
        let ends = self.shards.iter().map(|shard| shard.upstream.issues_until());
        ends.min().unwrap_or(BootMs(0))
    }
}
