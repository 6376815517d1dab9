//! Segment tags: from a request to the tag's supply, and from what that wants to the journal (`marks`) and the
//! store (`claims`).
//!
//! - `supply`: a tag's numbers, held ahead or drawn one claim at a time.
//! - `claims`: what the supply wants from the store, and what comes of it.
//! - `in_use`: which tags are in use at all.
//! - `home`, `watch`, `guard`: the stores that tags live in; keeping company with them; their fail-overs.

mod claims;
mod guard;
mod home;
mod in_use;
mod marks;
mod supply;
mod watch;

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;

use leafd_wire::{Run, Status};

use super::backoff::Backoff;
use super::outbox::ReplyTo;
use super::underway::UnderWay;
use super::writer::Writer;
use super::{Failure, clock};
use crate::config::{Routing, TagHome};
use crate::id::segment::Provision;
use crate::id::{BootMs, Tag, Want};
use crate::journal::Recovered;
use crate::store::{Generation, StoreError};
use claims::{Sent, lane_number};
pub use home::Home;
pub(super) use supply::Supply;

/// How segment tags are kept.
#[derive(Clone, Copy, Debug)]
pub struct SegmentSettings {
    /// How far ahead to claim and to mark, at first.
    pub provision: Provision,
    /// Requests that may wait for one tag.
    pub waiters_max: usize,
    /// How long claims wait after a store's fail-over.
    pub failover_settle: Duration,
    /// How often to look whether a store is still the same.
    pub look_every: Duration,
}

/// Every segment tag in use.
pub struct Segments {
    settings: SegmentSettings,
    /// How far ahead to claim and to mark, as it is in force.
    provision: Cell<Provision>,
    homes: Vec<Rc<Home>>,
    routing: Routing,
    /// Which of several independent primaries this host turns to first.
    first_lane: usize,
    /// What the journal told at the start.
    start: Recovered,
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
}

/// One segment tag in use.
pub struct SegmentTag {
    pub(super) tag: Tag,
    pub(super) supply: RefCell<Supply>,
    /// The stores that feed it: one, or several independent primaries.
    lanes: Box<[Lane]>,
    /// Set when the tag was removed; whoever still holds it looks it up anew.
    dead: Cell<bool>,
    restless: Cell<bool>,
    backoff: RefCell<Backoff>,
    /// Why the last claim failed, and until when requests that need one are told so at once.
    refused: RefCell<Option<(Failure, BootMs)>>,
    /// What requests wait for, for the text of a deadline.
    waited_for: RefCell<String>,
}

/// A tag in one of its stores.
struct Lane {
    home: Rc<Home>,
    /// Set when its take-up has begun, so that it happens once.
    taking_up: Cell<bool>,
    /// What the journal has left of it is known.
    taken_up: Cell<bool>,
    /// The store doesn't have it.
    missing: Cell<bool>,
    generation: Cell<Option<Generation>>,
    /// Until when to believe that the store has no number left below the tag's ceiling.
    used_up_until: Cell<BootMs>,
    /// The last warning that its numbers come to an end, in percent.
    warned_percent: Cell<Option<u64>>,
}

/// How long ids of a segment tag may be held by a process.
pub const HOLD_MS: u32 = 60_000;

/// How often tags with waiting requests are looked at.
pub const TICK: Duration = Duration::from_millis(10);

/// Tags that may be looked up at once.
const LOADING_MAX: usize = 1_000;

impl Segments {
    /// No tag is in use yet.
    #[must_use]
    pub fn new(
        settings: SegmentSettings,
        homes: Vec<Rc<Home>>,
        routing: Routing,
        start: Recovered,
        writer: Rc<Writer>,
    ) -> Rc<Self> {
        Rc::new(Segments {
            settings,
            provision: Cell::new(settings.provision),
            homes,
            routing,
            first_lane: fastrand::usize(..),
            start,
            writer,
            tags: RefCell::default(),
            unknown: RefCell::default(),
            loading: Cell::new(0),
            restless: RefCell::default(),
            ticking: tokio::sync::Notify::new(),
            claims: Cell::new(0),
            claiming: Rc::default(),
            stopping: Cell::new(false),
        })
    }

    /// The tag, brought into use if it isn't.
    ///
    /// # Errors
    /// No store is configured for it, or its store doesn't have it, as far as is known, or too many are
    /// being looked up.
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
        let lanes: Box<[Lane]> = self.homes_of(name)?.into_iter().map(Lane::new).collect();
        let supply = Supply::new(self.provision.get(), lane_number(lanes.len()), now);
        let tag = Rc::new(SegmentTag {
            tag: name.clone(),
            supply: RefCell::new(supply),
            lanes,
            dead: Cell::new(false),
            restless: Cell::new(false),
            backoff: RefCell::default(),
            refused: RefCell::default(),
            waited_for: RefCell::new("the tag is being looked up".to_owned()),
        });
        self.tags.borrow_mut().insert(name.clone(), Rc::clone(&tag));
        for index in 0..tag.lanes.len() {
            self.loading.set(self.loading.get() + 1);
            let (segments, tag) = (Rc::clone(self), Rc::clone(&tag));
            tokio::task::spawn_local(async move {
                Rc::clone(&segments).take_up(tag, index).await;
                segments.loading.set(segments.loading.get() - 1);
            });
        }
        Ok(tag)
    }

    /// The stores that a tag lives in: one, or independent primaries in their order.
    ///
    /// # Errors
    /// The configuration names none.
    pub fn homes_of(&self, tag: &Tag) -> Result<Vec<Rc<Home>>, Failure> {
        let indexes = match self.routing.home(tag) {
            Some(TagHome::One(index)) => vec![index],
            Some(TagHome::Primaries { members, .. }) => members.to_vec(),
            None => {
                return Err(Failure::new(
                    Status::TagUnknown,
                    format!(
                        "no rule of routes says which store tag {tag:?} lives in; add one to the configuration"
                    ),
                ));
            }
        };
        Ok(indexes.into_iter().map(|index| Rc::clone(&self.homes[index])).collect())
    }

    /// The stores with the same tags as this one: itself, or all primaries of its list in their order.
    pub fn homes_beside(&self, index: usize) -> Vec<Rc<Home>> {
        self.routing.together(index).iter().map(|index| Rc::clone(&self.homes[*index])).collect()
    }

    /// Draws ids at once if they are there. True: they are in `runs`.
    pub fn take(self: &Rc<Self>, tag: &Rc<SegmentTag>, want: Want, runs: &mut Vec<Run>) -> bool {
        let mut supply = tag.supply.borrow_mut();
        let Supply::Held(allocator) = &mut *supply else { return false };
        let taken = allocator.take(want, runs);
        let attention = allocator.wants_attention();
        drop(supply);
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
        if tag.supply.borrow().waiting() >= self.settings.waiters_max {
            let limit = self.settings.waiters_max;
            return reply.failure(&Failure::overloaded(
                "waiters_max, the limit of requests that wait for a tag,",
                limit,
            ));
        }
        tag.supply.borrow_mut().enqueue(want, deadline, reply);
        self.attend(tag);
        if deadline <= now {
            // It has been seen to; to look at all the others each time would let one client starve them.
            let expired = tag.supply.borrow_mut().expire_last(now);
            if let Some(reply) = expired {
                reply.failure(&tag.deadline());
            }
        } else {
            self.unsettle(tag);
        }
    }

    /// Serves who waits, and sees to marks and claims.
    fn attend(self: &Rc<Self>, tag: &Rc<SegmentTag>) {
        let taken_up = tag.lanes.iter().any(|lane| lane.taken_up.get());
        if !taken_up || tag.dead.get() || self.stopping.get() {
            return;
        }
        self.serve(tag);
        let now = clock::boot();
        let moves = tag.supply.borrow_mut().marks_wanted(now);
        if !moves.is_empty() {
            self.move_marks(tag, moves);
        }
        // While no store can be claimed from nothing is asked; whatever waits goes on when one can.
        let Some((lane, under)) = self.lane_to_claim(tag) else { return };
        let wanted = tag.supply.borrow_mut().claim_wanted(now);
        if let Some(want) = wanted {
            let sent = Sent { lane, under, want, _begun: self.claiming.begin() };
            tokio::task::spawn_local(Rc::clone(self).claim(Rc::clone(tag), sent));
        }
    }

    fn serve(&self, tag: &SegmentTag) {
        let mut supply = tag.supply.borrow_mut();
        let Supply::Held(allocator) = &mut *supply else { return };
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

    /// A tag was created or changed through this daemon: what was believed of it no longer holds. Waits until
    /// its stores have been asked.
    pub async fn changed(self: &Rc<Self>, name: &Tag) {
        self.unknown.borrow_mut().remove(name.as_str());
        let tag = self.tags.borrow().get(name).cloned();
        if let Some(tag) = tag {
            *tag.refused.borrow_mut() = None;
            tag.lanes.iter().for_each(|lane| lane.used_up_until.set(BootMs(0)));
            for lane in &tag.lanes {
                self.check_terms(&lane.home).await;
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
                let restless = tag.supply.borrow().waiting() > 0 || tag.supply.borrow().retrying();
                if restless && !tag.dead.get() {
                    self.unsettle(&tag);
                }
            }
        }
    }

    fn expire(&self, tag: &SegmentTag, now: BootMs) {
        let expired = tag.supply.borrow_mut().expire(now);
        if !expired.is_empty() {
            let failure = tag.deadline();
            for reply in expired {
                reply.failure(&failure);
            }
        }
    }

    /// Answers every waiting request with a failure.
    pub fn abandon_all(&self, failure: &Failure) {
        for tag in self.tags.borrow().values() {
            for reply in tag.supply.borrow_mut().abandon() {
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

    /// Claims and marks by another provision from now on, also for tags in use.
    pub fn set_provision(&self, provision: Provision) {
        self.provision.set(provision);
        self.each(|tag| tag.supply.borrow_mut().set_provision(provision));
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

    /// The stores, in the order of the configuration.
    #[must_use]
    pub fn homes(&self) -> &[Rc<Home>] {
        &self.homes
    }

    /// Whether any store can be claimed from: there are tags that ids can be had of.
    #[must_use]
    pub fn ready(&self) -> bool {
        self.homes.iter().any(|home| home.excuse().is_none())
    }

    /// Which stores can't be claimed from, and why; `None` when all can.
    #[must_use]
    pub fn store_failure(&self) -> Option<String> {
        let excuses = self.homes.iter().filter_map(|home| home.excuse());
        let texts: Vec<String> = excuses.map(|failure| failure.message).collect();
        (!texts.is_empty()).then(|| texts.join("; "))
    }
}

impl SegmentTag {
    /// Whether the tag was taken out of use: look it up anew.
    #[must_use]
    pub fn dead(&self) -> bool {
        self.dead.get()
    }

    /// Why a request's deadline has passed: no store can be claimed from, or what is under way takes too long.
    fn deadline(&self) -> Failure {
        let excuses: Vec<_> = self.lanes.iter().map(|lane| lane.home.excuse()).collect();
        match excuses.into_iter().collect::<Option<Vec<_>>>().and_then(|mut all| all.pop()) {
            Some(excuse) => Failure {
                message: format!(
                    "no id of tag {:?} within the deadline: {}",
                    self.tag, excuse.message
                ),
                ..excuse
            },
            None => Failure::deadline(&self.tag, &self.waited_for.borrow()),
        }
    }
}

impl Lane {
    fn new(home: Rc<Home>) -> Lane {
        Lane {
            home,
            taking_up: Cell::new(false),
            taken_up: Cell::new(false),
            missing: Cell::new(false),
            generation: Cell::new(None),
            used_up_until: Cell::new(BootMs(0)),
            warned_percent: Cell::new(None),
        }
    }
}
