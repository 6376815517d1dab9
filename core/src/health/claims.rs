//! The outcomes of recent claims. They show whether a store grants claims; a working connection doesn't.
//!
//! If a tag's claims fail while the store serves others, only the tag fails. If the store has served no claim since,
//! the store fails.

use std::collections::BTreeMap;

use crate::store::StoreError;
use crate::{BootMs, Tag};

/// A failure expires after this time, in milliseconds, unless another claim has been tried since.
const STALE_MS: u64 = 60_000;

/// How many tags' failures are remembered individually.
const TAGS_MAX: usize = 256;

#[derive(Clone, Debug)]
pub struct ClaimFailure {
    /// When the first of them was answered.
    pub since: BootMs,
    /// Why the last one failed.
    pub error: StoreError,
    at: BootMs,
}

/// The outcomes of recent claims, by store and tag.
#[derive(Debug)]
pub struct ClaimOutcomes {
    stores: Vec<StoreOutcomes>,
    tags: BTreeMap<Tag, (usize, ClaimFailure)>,
}

#[derive(Clone, Debug, Default)]
struct StoreOutcomes {
    succeeded: Option<BootMs>,
    failure: Option<ClaimFailure>,
}

impl ClaimFailure {
    fn is_fresh(&self, now: BootMs) -> bool {
        now.0.saturating_sub(self.at.0) < STALE_MS
    }

    fn again(&mut self, now: BootMs, error: &StoreError) {
        // After a pause without claims, this is a new failure.
        if !self.is_fresh(now) {
            self.since = now;
        }
        (self.at, self.error) = (now, error.clone());
    }
}

impl ClaimOutcomes {
    /// An empty record for this many stores.
    pub fn new(stores: usize) -> ClaimOutcomes {
        ClaimOutcomes { stores: vec![StoreOutcomes::default(); stores], tags: BTreeMap::new() }
    }

    /// A store granted a claim of a tag.
    pub fn succeeded(&mut self, now: BootMs, store: usize, tag: &Tag) {
        self.stores[store] = StoreOutcomes { succeeded: Some(now), failure: None };
        self.tags.remove(tag);
    }

    /// A store didn't grant a claim of a tag.
    pub fn failed(&mut self, now: BootMs, store: usize, tag: &Tag, error: &StoreError) {
        match error {
            StoreError::UnknownTag { .. } => return self.forget(tag),
            // The store works, but another host holds the tag for a moment.
            StoreError::Held { .. } => return self.succeeded(now, store, tag),
            // Only this tag is exhausted, so the store is fine.
            StoreError::Exhausted { .. } => return self.note(now, store, tag, error),
            _ => self.note(now, store, tag, error),
        }
        let outcomes = &mut self.stores[store];
        let alone = self.tags.get(tag).is_some_and(|(_, failure)| {
            outcomes.succeeded.is_some_and(|succeeded| succeeded > failure.since)
        });
        if alone {
            return;
        }
        match &mut outcomes.failure {
            Some(failure) => failure.again(now, error),
            None => {
                let failure = ClaimFailure { since: now, error: error.clone(), at: now };
                outcomes.failure = Some(failure);
            }
        }
    }

    fn note(&mut self, now: BootMs, store: usize, tag: &Tag, error: &StoreError) {
        if let Some((_, failure)) = self.tags.get_mut(tag) {
            return failure.again(now, error);
        }
        self.tags.retain(|_, (_, failure)| failure.is_fresh(now));
        if self.tags.len() < TAGS_MAX {
            let failure = ClaimFailure { since: now, error: error.clone(), at: now };
            self.tags.insert(tag.clone(), (store, failure));
        }
    }

    /// At this time, the store was confirmed to be the trusted one. This clears earlier failures of claims that reached
    /// another store, even if no new claim is made.
    pub fn found_trusted(&mut self, at: BootMs, store: usize) {
        let over = |failure: &ClaimFailure| {
            matches!(failure.error, StoreError::Changed { .. }) && failure.at < at
        };
        let outcomes = &mut self.stores[store];
        outcomes.failure.take_if(|failure| over(failure));
        self.tags.retain(|_, (of, failure)| *of != store || !over(failure));
    }

    /// A tag is no longer in use.
    pub fn forget(&mut self, tag: &Tag) {
        self.tags.remove(tag);
    }

    /// Since when and why a store's claims fail; `None` when the last one succeeded or none was tried recently.
    pub fn of_store(&self, now: BootMs, store: usize) -> Option<&ClaimFailure> {
        self.stores[store].failure.as_ref().filter(|failure| failure.is_fresh(now))
    }

    /// When a store last granted a claim.
    pub fn succeeded_at(&self, store: usize) -> Option<BootMs> {
        self.stores[store].succeeded
    }

    /// Tags that fail while their store serves others, or because they are exhausted; each with the number of its
    /// store.
    pub fn of_tags(&self, now: BootMs) -> impl Iterator<Item = (&Tag, usize, &ClaimFailure)> {
        let fresh = self.tags.iter().filter(move |(_, (_, failure))| failure.is_fresh(now));
        let alone = fresh.filter(move |(_, (store, failure))| {
            let used_up = matches!(failure.error, StoreError::Exhausted { .. });
            used_up || self.of_store(now, *store).is_none()
        });
        alone.map(|(tag, (store, failure))| (tag, *store, failure))
    }
}
