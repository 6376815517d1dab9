//! Shared runs: ids of a tag that all processes of a user draw from memory, without a request.
//!
//! Ids that are published in this memory count as issued: like all issued ids they lie below the journal's mark.
//! Processes draw from a page only while the daemon renews it. The page ends for good at the moment from which ids of
//! the tag may not be drawn any more.
//!
//! - `memory`: the pages.
//! - `figures`: the counts.

mod figures;
mod memory;

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io;
use std::rc::{Rc, Weak};
use std::time::Duration;

use leafd_core::shared::{self, Publisher};
use leafd_core::shares::{Claimant, Shares};
use leafd_core::{BootMs, Run, Tag, Want};
use leafd_wire::ShareReply;
use serde_json::Value;
use tokio::sync::Notify;
use tracing::{debug, warn};

use super::{SegmentTag, Segments};
use crate::clock;
use crate::engine::quotas::QuotaBucket;
use crate::random;
use crate::reply::outbox::ReplyTo;
use crate::reply::users::Drawn;
use figures::{End, Figures};
use memory::Memory;

/// Most pages at a time, divided among the users.
pub const PAGES_MAX: u64 = 256;

/// A page that was not used for so long makes room for another one, in milliseconds.
const UNUSED_MS: u64 = 10_000;

/// How long a page is renewed after somebody drew from it, in milliseconds.
const KEPT_MS: u64 = 3_000;

/// When to ask again if a tag can't be shared, in milliseconds.
pub const NOT_SHARED_MS: u32 = 5_000;

/// All shared runs.
pub(super) struct SharedRuns {
    pages: RefCell<HashMap<(u32, Tag), Rc<Page>>>,
    places: RefCell<Shares>,
    /// Nothing is published before this instant.
    opens: Cell<BootMs>,
    /// Set when the daemon stops: nothing is published any more.
    closed: Cell<bool>,
    /// Notified when somebody may draw.
    used: Notify,
    warned: Cell<bool>,
    figures: Figures,
}

/// A user's shared run of a tag.
pub(super) struct Page {
    tag: Rc<SegmentTag>,
    claimant: Claimant,
    number: u64,
    memory: Memory,
    publisher: RefCell<Publisher>,
    /// The user's quota of the tag.
    quota: Option<QuotaBucket>,
    /// The largest id that was published.
    largest: Cell<u64>,
    used_at: Cell<BootMs>,
    /// Whether fewer ids could be published than were wanted.
    short: Cell<bool>,
    /// Where the user's draws are counted, while the user has connections.
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
    /// A former daemon may have been killed. So nothing is published while processes may still draw from its pages.
    pub fn share_after_crash(&self) {
        self.shared.opens.set(BootMs(clock::boot().0 + shared::AFTER_CRASH_MS));
    }

    /// The first instant at which ids may be published.
    #[must_use]
    pub fn shares_from(&self) -> BootMs {
        self.shared.opens.get()
    }

    /// Answers a request to share a tag, as soon as there is an id to draw, or by `deadline`.
    pub fn share(
        self: &Rc<Self>,
        tag: &Rc<SegmentTag>,
        quota: Option<QuotaBucket>,
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
            // While no id may be issued, the page is closed, whatever it contains.
            Some(page) if page.has_ids() && tag.may_issue() => page.answer(reply),
            // Somebody tampered with its tickets. The next request makes a new page.
            None => reply.share(ShareReply::NotShared { again_ms: 0 }, None),
            Some(_) => self.wait(tag, Want { count: 1, allow_partial: true }, deadline, reply),
        }
    }

    /// Whether a user's processes find published ids.
    #[must_use]
    pub fn has_shared_ids(&self, tag: &SegmentTag, claimant: Claimant) -> bool {
        self.live(tag, claimant).is_some_and(|page| page.has_ids())
    }

    /// Answers a request that waited for ids to be published.
    pub(super) fn answer_sharing(&self, tag: &SegmentTag, reply: ReplyTo, runs: &[Run]) {
        match self.live(tag, reply.claimant()) {
            Some(page) if !tag.is_masked() => {
                // One id may have been issued for each waiting request, and other requests may have published more
                // meanwhile.
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

    /// Publishes more ids of a tag whose published ids were used up.
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

    /// Ends the shared runs of a tag that have ids above a ceiling.
    pub(super) fn end_shared_above(&self, tag: &SegmentTag, ceiling: u64) {
        if tag.pages.get() > 0 {
            let pages = self.shared.of(tag);
            let above = pages.iter().filter(|page| page.largest.get() > ceiling);
            above.for_each(|page| self.shared.end(page, End::Revoked));
        }
    }

    /// Ends all shared runs. Users who may still share a tag ask again.
    pub fn end_all_shared(&self) {
        self.shared.all().iter().for_each(|page| self.shared.end(page, End::Revoked));
    }

    /// Ends all shared runs, and starts no new ones.
    pub(super) fn close_shared(&self) {
        self.shared.closed.set(true);
        self.end_all_shared();
    }

    /// Limits draws from all pages to the time until which ids may now be issued.
    pub(super) fn bound_shared(&self) {
        self.shared.all().iter().for_each(|page| page.renew());
    }

    /// Renews and refills the pages from which processes draw, until dropped.
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

    /// A user's page of a tag; makes one if there is none.
    fn page(
        &self,
        tag: &Rc<SegmentTag>,
        claimant: Claimant,
        quota: Option<QuotaBucket>,
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

    /// A user's page of a tag, if there is one.
    fn live(&self, tag: &SegmentTag, claimant: Claimant) -> Option<Rc<Page>> {
        let key = (claimant.uid, tag.tag.clone());
        let page = self.shared.pages.borrow().get(&key).cloned()?;
        if std::ptr::eq(&raw const *page.tag, tag) && !tag.evicted.get() {
            return Some(page);
        }
        self.shared.end(&page, End::Revoked);
        None
    }

    /// Publishes as many ids as are wanted, renews the page, and makes sure that more ids will be there.
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

    /// Figures of the shared runs.
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

    /// Ends the page: from this moment on nobody draws from it.
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

    /// Ends the page that was not used for the longest time, if that is long enough.
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
    /// Whether somebody drew from it lately.
    fn is_kept(&self, now: BootMs) -> bool {
        now.0 < self.used_at.get().0 + KEPT_MS
    }

    fn has_ids(&self) -> bool {
        self.publisher.borrow().has_ids(self.memory.tickets().taken())
    }

    /// How many ids were drawn from it, as far as is known.
    fn drawn(&self) -> u64 {
        self.publisher.borrow_mut().drawn(self.memory.tickets().taken())
    }

    /// How many ids the user's quota still allows.
    fn allowed(&self) -> u64 {
        let available = |bucket: &QuotaBucket| bucket.borrow_mut().available(clock::boot());
        self.quota.as_ref().map_or(u64::MAX, available)
    }

    /// Publishes issued ids. Whatever happens to them, they are never issued again.
    fn publish(&self, runs: &[Run]) {
        let (now, issued) = (clock::boot(), ids_of(runs));
        if let Some(user) = self.drawn_by.borrow().upgrade() {
            user.count(issued);
        }
        if let Some(bucket) = &self.quota {
            // The quota only leaves ids for other users. A request that waited for an id gets it even beyond the
            // quota.
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
    /// Whether the published numbers would be ids, each good for any process that draws it.
    fn can_be_shared(&self) -> bool {
        !self.is_masked() && !self.allocator.borrow().is_strict()
    }

    /// The instant from which none of its held ids may be issued.
    fn issues_until(&self) -> BootMs {
        let ends = self.shards.iter().map(|shard| shard.upstream.issues_until());
        ends.min().unwrap_or(BootMs(0))
    }
}
