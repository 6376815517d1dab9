//! Which tags are in use: taken up from the journal, checked against the store, taken out when they are gone.

use std::rc::Rc;

use tracing::{info, warn};

use super::{SegmentTag, Segments};
use crate::clock;
use crate::dispatch::Failure;
use crate::id::{BootMs, Tag};
use crate::journal::Write;
use crate::store::{StoreError, TagTerms};

/// How long a tag that the store doesn't have is answered without asking again, in milliseconds.
const UNKNOWN_MS: u64 = 1_000;

/// How many unknown tags are remembered.
const UNKNOWN_MAX: usize = 10_000;

impl Segments {
    /// Takes up what the journal has of a tag, after asking the store whether it is still the same tag.
    pub(super) async fn load(self: Rc<Self>, tag: Rc<SegmentTag>) {
        let record = match self.writer.journal().tag(&self.store_id, &tag.tag).await {
            Ok(record) => record,
            Err(error) => {
                self.loading.set(self.loading.get() - 1);
                return self.remove(&tag, &Failure::from(&error));
            }
        };
        if let Some(record) = record {
            let highest_end = record.highest_end;
            let known = match &self.look_up(vec![tag.tag.clone()]).await.as_deref() {
                Ok([Some(terms)]) => terms.generation == record.generation,
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

    /// Asks the store, in one query, whether the tags in use are still there and still the same.
    pub async fn check_removed(self: &Rc<Self>) {
        let in_use: Vec<Rc<SegmentTag>> =
            self.tags.borrow().values().filter(|tag| tag.loaded.get()).cloned().collect();
        if in_use.is_empty() {
            return;
        }
        let names = in_use.iter().map(|tag| tag.tag.clone()).collect();
        let Ok(found) = self.look_up(names).await else { return };
        for (tag, terms) in in_use.iter().zip(found) {
            let generation = terms.map(|terms| terms.generation);
            if tag.dead.get() || tag.allocator.borrow().claiming() {
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

    async fn look_up(&self, tags: Vec<Tag>) -> Result<Vec<Option<TagTerms>>, StoreError> {
        self.store.look_up(&self.identity, tags).await
    }

    pub(super) fn forget(&self, tag: &SegmentTag) {
        let write = Write::Forget { store: self.store_id.clone(), tag: tag.tag.clone() };
        self.writer.write(write, || {});
    }
}
