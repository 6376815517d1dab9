//! Which tags are in use: taken up from the journal, checked against their stores, taken out when they are gone.

use std::rc::Rc;
use std::time::Duration;

use tracing::{info, warn};

use super::claims::lane_number;
use super::home::Home;
use super::supply::Supply;
use super::{Lane, SegmentTag, Segments};
use crate::clock;
use crate::dispatch::Failure;
use crate::id::segment::Cut;
use crate::id::{BootMs, Tag};
use crate::journal::{TagRecord, Write};
use crate::store::{StoreError, TagTerms};

/// How long a tag that the store doesn't have is answered without asking again, in milliseconds.
const UNKNOWN_MS: u64 = 1_000;

/// How many unknown tags are remembered.
const UNKNOWN_MAX: usize = 10_000;

/// A store that has not answered so long after the start counts as away: then what the journal has left is used
/// without asking it.
const FIRST_ANSWER_WITHIN: Duration = Duration::from_secs(1);

impl Segments {
    /// Takes up what the journal has of a tag in one store, after asking that whether it is still the same tag.
    /// A store that the journal doesn't know and that doesn't answer is taken up when it does.
    pub(super) async fn take_up(self: Rc<Self>, tag: Rc<SegmentTag>, index: usize) {
        let lane = &tag.lanes[index];
        let _ = tokio::time::timeout(FIRST_ANSWER_WITHIN, lane.home.tried()).await;
        let Some(key) = lane.home.key() else { return };
        if tag.dead.get() || lane.taking_up.replace(true) {
            return;
        }
        let record = match self.writer.journal().tag(&key, &tag.tag).await {
            Ok(record) => record,
            Err(error) => return self.remove(&tag, &Failure::from(&error)),
        };
        let mut missing = false;
        if let Some(record) = record {
            let terms = match lane.home.present() {
                Some(under) => lane.home.store.look_up(&under, vec![tag.tag.clone()]).await.ok(),
                None => None,
            };
            let terms = terms.map(|mut found| found.pop().flatten());
            missing = terms == Some(None);
            // Another store took the place of the one that the journal knew, while this one was asked.
            if lane.home.key().as_ref() != Some(&key) || tag.dead.get() {
                lane.taking_up.set(false);
                return;
            }
            self.restore(&tag, index, record, terms.flatten().as_ref(), missing);
        }
        lane.taken_up.set(true);
        *tag.waited_for.borrow_mut() = "the journal or the store has not answered yet".to_owned();
        if missing {
            let error = StoreError::UnknownTag { tag: tag.tag.clone() };
            return self.missing(&tag, lane, &Failure::from(&error));
        }
        self.attend(&tag);
    }

    /// What the journal has left is used if the store says so, or can't be asked.
    fn restore(
        self: &Rc<Self>,
        tag: &Rc<SegmentTag>,
        index: usize,
        record: TagRecord,
        terms: Option<&TagTerms>,
        missing: bool,
    ) {
        let lane = &tag.lanes[index];
        let same = terms.is_none_or(|terms| terms.generation == record.generation);
        let lost = terms.is_some_and(|terms| same && terms.end < record.highest_end);
        let usable = same && !missing && (!lost || lane.home.embedded) && lane.home.leftovers();
        if usable {
            lane.generation.set(Some(record.generation));
        } else if !record.unissued.is_empty() {
            warn!(tag = %tag.tag, "numbers left from before are of another tag or in doubt: they are skipped");
            self.forget(tag, lane);
        }
        let unissued = if usable { record.unissued } else { Vec::new() };
        let cut = match &mut *tag.supply.borrow_mut() {
            Supply::Held(allocator) => {
                allocator.restore(lane_number(index), unissued, record.highest_end)
            }
            Supply::Strict(queue) => {
                queue.raise_highest_end(record.highest_end);
                Cut::default()
            }
        };
        self.journal_cut(tag, index, cut);
        if lost {
            self.report_loss(tag, lane, record.highest_end);
        }
    }

    fn report_loss(self: &Rc<Self>, tag: &Rc<SegmentTag>, lane: &Lane, seen: u64) {
        let (segments, tag, home) = (Rc::clone(self), Rc::clone(tag), Rc::clone(&lane.home));
        tokio::task::spawn_local(async move {
            if let Err(error) = segments.lost_commits(&home, &tag, seen).await {
                warn!(store = %home.url, "telling the store of its lost claims failed, and is tried again: {error}");
            }
        });
    }

    /// A store doesn't have the tag. When none of its stores has, it is taken out of use.
    pub(super) fn missing(self: &Rc<Self>, tag: &Rc<SegmentTag>, lane: &Lane, failure: &Failure) {
        lane.missing.set(true);
        if tag.lanes.iter().all(|lane| lane.missing.get()) {
            self.remove(tag, failure);
        } else {
            self.attend(tag);
        }
    }

    /// Takes a tag out of use: who waits is told, what is held is forgotten.
    pub(super) fn remove(&self, tag: &Rc<SegmentTag>, failure: &Failure) {
        if tag.dead.replace(true) {
            return;
        }
        let waiting = {
            let mut supply = tag.supply.borrow_mut();
            supply.forget();
            supply.abandon()
        };
        for reply in waiting {
            reply.failure(failure);
        }
        self.tags.borrow_mut().remove(tag.tag.as_str());
        if failure.status == leafd_wire::Status::TagUnknown {
            for lane in &tag.lanes {
                if lane.generation.get().is_some() {
                    info!(tag = %tag.tag, store = %lane.home.url, "the tag was removed");
                    self.forget(tag, lane);
                }
            }
            let mut unknown = self.unknown.borrow_mut();
            if unknown.len() >= UNKNOWN_MAX {
                unknown.clear();
            }
            unknown.insert(tag.tag.clone(), BootMs(clock::boot().0 + UNKNOWN_MS));
        }
    }

    /// A tag is not what it was believed to be: the next request looks it up anew.
    pub(super) fn start_over(&self, tag: &Rc<SegmentTag>) {
        let failure =
            Failure::store_away(format!("tag {:?} was made anew; ask again", tag.tag.as_str()));
        self.remove(tag, &failure);
    }

    /// Asks a store, in one query, whether the tags in use are still there, still the same, and on which terms.
    pub async fn check_terms(self: &Rc<Self>, home: &Rc<Home>) {
        let Some(under) = home.present() else { return };
        let in_use = self.taken_up_in(home);
        if in_use.is_empty() {
            return;
        }
        let names = in_use.iter().map(|(tag, _)| tag.tag.clone()).collect();
        let Ok(found) = home.store.look_up(&under, names).await else { return };
        for ((tag, index), terms) in in_use.iter().zip(found) {
            // A claim under way will find out by itself.
            if !tag.dead.get() && !tag.supply.borrow().claiming() {
                self.judge_terms(tag, *index, terms.as_ref());
            }
        }
    }

    fn judge_terms(self: &Rc<Self>, tag: &Rc<SegmentTag>, index: usize, terms: Option<&TagTerms>) {
        let lane = &tag.lanes[index];
        let Some(terms) = terms else {
            let error = StoreError::UnknownTag { tag: tag.tag.clone() };
            return self.missing(tag, lane, &Failure::from(&error));
        };
        lane.missing.set(false);
        if lane.generation.get().is_some_and(|known| known != terms.generation) {
            lane.generation.set(Some(terms.generation));
            self.made_anew(tag, index);
        }
        let seen = tag.supply.borrow().highest_end(lane_number(index));
        if terms.end < seen {
            return self.report_loss(tag, lane, seen);
        }
        let cut = tag.supply.borrow_mut().set_terms(lane_number(index), terms.step, terms.ceiling);
        if cut.lost > 0 {
            warn!(
                tag = %tag.tag, ceiling = terms.ceiling, numbers = cut.lost,
                "numbers held above the tag's new ceiling are dropped"
            );
        }
        self.journal_cut(tag, index, cut);
    }

    pub(super) fn made_anew(&self, tag: &SegmentTag, index: usize) {
        warn!(tag = %tag.tag, "the tag was made anew: numbers held of the old one are dropped");
        tag.supply.borrow_mut().forget_lane(lane_number(index));
        self.forget(tag, &tag.lanes[index]);
    }

    /// Drops what is held of a store: it is in doubt.
    pub(super) fn drop_held(&self, home: &Rc<Home>) {
        self.set_aside(home);
        if let Some(store) = home.key() {
            self.writer.write(Write::ForgetAll { store }, || {});
        }
    }

    /// Issues nothing of what is held of a store; the journal keeps it.
    pub(super) fn set_aside(&self, home: &Rc<Home>) {
        home.doubt_leftovers();
        for (tag, index) in self.taken_up_in(home) {
            tag.supply.borrow_mut().forget_lane(lane_number(index));
        }
    }

    /// The highest ends of the tags in use, as far as this daemon has seen.
    pub(super) fn seen_in_use(&self, home: &Rc<Home>) -> Vec<(Tag, u64)> {
        let seen = self.taken_up_in(home).into_iter().map(|(tag, index)| {
            let end = tag.supply.borrow().highest_end(lane_number(index));
            (tag.tag.clone(), end)
        });
        seen.filter(|(_, end)| *end > 0).collect()
    }

    /// A store answers: tags that it was not asked about yet are taken up, the others go on.
    pub(super) fn resume(self: &Rc<Self>, home: &Rc<Home>) {
        let tags: Vec<Rc<SegmentTag>> = self.tags.borrow().values().cloned().collect();
        for tag in tags {
            for (index, lane) in tag.lanes.iter().enumerate() {
                if !Rc::ptr_eq(&lane.home, home) {
                    continue;
                }
                if lane.taking_up.get() {
                    self.attend(&tag);
                } else {
                    tokio::task::spawn_local(Rc::clone(self).take_up(Rc::clone(&tag), index));
                }
            }
        }
        let (segments, home) = (Rc::clone(self), Rc::clone(home));
        tokio::task::spawn_local(async move { segments.check_terms(&home).await });
    }

    fn taken_up_in(&self, home: &Rc<Home>) -> Vec<(Rc<SegmentTag>, usize)> {
        let mut found = Vec::new();
        for tag in self.tags.borrow().values() {
            for (index, lane) in tag.lanes.iter().enumerate() {
                if lane.taken_up.get() && Rc::ptr_eq(&lane.home, home) {
                    found.push((Rc::clone(tag), index));
                }
            }
        }
        found
    }

    pub(super) fn forget(&self, tag: &SegmentTag, lane: &Lane) {
        if let Some(store) = lane.home.key() {
            self.writer.write(Write::Forget { store, tag: tag.tag.clone() }, || {});
        }
    }
}
