//! The store or stores of a tag, for its administration. An operator sees several independent primaries as one.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use crate::engine::upstream::Upstream;
use crate::store::Store;
use leafd_core::Tag;
use leafd_core::store::{Generation, NewTag, StoreError, TagChange, TagRow, UNFINISHED};

/// The stores of one tag.
pub struct TagStores {
    upstreams: Vec<Rc<Upstream>>,
}

/// A tag's state in its stores.
#[derive(Debug)]
pub struct Shown {
    /// Its row. Of several primaries it is the row with the highest claimed id.
    pub row: TagRow,
    /// The primaries that didn't answer, and why. The tag's position there may be higher.
    pub away: Vec<Away>,
    /// The primaries that don't have the tag, or don't grant its ids yet, although another primary does, because its
    /// creation or deletion was interrupted.
    pub without: Vec<Arc<str>>,
}

/// The name of a primary that didn't answer, and the error of the call.
pub type Away = (Arc<str>, StoreError);

/// What was done when a primary fails that is not the first one.
const CHANGED: &str = "any primaries listed before it have been changed";

impl TagStores {
    /// One store, or all primaries of a tag in their order.
    pub fn new(upstreams: Vec<Rc<Upstream>>) -> Self {
        TagStores { upstreams }
    }

    fn several(&self) -> bool {
        self.upstreams.len() > 1
    }

    /// Creates the tag. With several primaries it is created in each that doesn't have it yet, once all of them have
    /// answered. Until every host has reported the highest ids it has seen, a store may have lost ids of the name: see
    /// [`Upstream::complete`].
    pub async fn create(&self, new: &NewTag) -> Result<Shown, StoreError> {
        if self.several() && (new.strict || new.masked.is_some()) {
            return Err(StoreError::refused(format!(
                "tag {:?} lives in {} independent primaries, which don't know each other's claims, so it can't be {}",
                new.tag.as_str(),
                self.upstreams.len(),
                if new.strict { "strict" } else { "masked" }
            )));
        }
        self.check_places().await?;
        self.check_ceiling(new.start, new.ceiling)?;
        match &self.upstreams[..] {
            [only] => {
                check_place(only).await?;
                let (under, new) = (only.complete()?, new.clone());
                let row = only.store.call(move |store| store.create(&under, &new)).await?;
                Ok(Shown { row, away: Vec::new(), without: Vec::new() })
            }
            _ => self.create_in_all(new).await,
        }
    }

    /// Creates the tag in each primary that lacks it. Nothing can be claimed from it before all of them have it, so a
    /// creation that was interrupted, or refused by one of them, does no harm. The next call finishes it.
    async fn create_in_all(&self, new: &NewTag) -> Result<Shown, StoreError> {
        let (lacking, mut unfinished) = self.without(new).await?;
        for upstream in lacking {
            let created_here = async {
                check_place(upstream).await?;
                let under = upstream.complete()?;
                let new = NewTag { ceiling: UNFINISHED, ..new.clone() };
                upstream.store.call(move |store| store.create(&under, &new)).await
            };
            match created_here.await {
                Ok(row) => unfinished.push((upstream, row)),
                // Another process created it at the same moment.
                Err(StoreError::TagExists { .. }) => {}
                Err(error) => {
                    return Err(self.not_in_all(upstream, error, "the tag issues no ids yet"));
                }
            }
        }
        if unfinished.is_empty() {
            return Err(StoreError::TagExists { tag: new.tag.clone() });
        }
        for (upstream, row) in unfinished {
            let finished = async {
                check_place(upstream).await?;
                if row.max_id < new.start.cast_signed() {
                    raise(upstream, &new.tag, new.start).await?;
                }
                let change = TagChange {
                    step: Some(new.step),
                    ceiling: Some(new.ceiling),
                    description: new.description.clone(),
                };
                set(upstream, &new.tag, change).await
            };
            finished.await.map_err(|error| self.not_in_all(upstream, error, CHANGED))?;
        }
        self.show(&new.tag).await
    }

    /// Returns the primaries that don't have a tag, and those with its row where its creation was interrupted. Asks all
    /// of them before anything is written in any: each must be reachable, and the start must lie above all claims under
    /// the name in each of them.
    async fn without(
        &self,
        new: &NewTag,
    ) -> Result<(Vec<&Rc<Upstream>>, Vec<(&Rc<Upstream>, TagRow)>), StoreError> {
        let (mut lacking, mut unfinished, mut end) = (Vec::new(), Vec::new(), 0);
        for upstream in &self.upstreams {
            let asked = async {
                check_place(upstream).await?;
                let tag = new.tag.clone();
                let look = move |store: &mut Store| match store.show(&tag) {
                    Err(StoreError::UnknownTag { .. }) => Ok((None, store.claimed_end(&tag)?)),
                    shown => shown.map(|row| (Some(row), 0)),
                };
                upstream.store.call(look).await
            };
            let (row, claimed_end) = asked
                .await
                .map_err(|error| self.not_in_all(upstream, error, "nothing was changed"))?;
            end = end.max(claimed_end);
            match row {
                None => lacking.push(upstream),
                Some(row) if row.ceiling == UNFINISHED => unfinished.push((upstream, row)),
                Some(_) => {}
            }
        }
        if lacking.is_empty() && unfinished.is_empty() {
            return Err(StoreError::TagExists { tag: new.tag.clone() });
        }
        new.check_above(i64::try_from(end).unwrap_or(i64::MAX))?;
        Ok((lacking, unfinished))
    }

    /// The tag; with several primaries, the row with the highest position. A primary that doesn't have it, or doesn't
    /// answer, is named in the result if another one has the tag.
    pub async fn show(&self, tag: &Tag) -> Result<Shown, StoreError> {
        let mut furthest: Option<TagRow> = None;
        let (mut away, mut without, mut unknown) = (Vec::new(), Vec::new(), None);
        let mut unfinished = None;
        for upstream in &self.upstreams {
            let row = match upstream.show(tag).await {
                Ok(row) if row.ceiling == UNFINISHED => {
                    without.push(Arc::clone(&upstream.name));
                    unfinished = Some(row);
                    continue;
                }
                Ok(row) => row,
                Err(error @ StoreError::UnknownTag { .. }) => {
                    without.push(Arc::clone(&upstream.name));
                    unknown = Some(error);
                    continue;
                }
                Err(error @ StoreError::Unavailable { .. }) => {
                    away.push((Arc::clone(&upstream.name), error));
                    continue;
                }
                Err(error) => return Err(error),
            };
            let further = furthest.as_ref().is_none_or(|known| known.max_id < row.max_id);
            // The generation in the first primary that has the tag counts for all.
            let generation = furthest.as_ref().map_or(row.generation, |known| known.generation);
            if further {
                furthest = Some(TagRow { generation, ..row });
            }
        }
        match furthest.or(unfinished) {
            Some(row) => Ok(Shown { row, away, without }),
            // It is unknown whether a primary that didn't answer has it.
            None => Err(away.pop().map(|(_, error)| error).or(unknown).unwrap_or_else(nowhere)),
        }
    }

    /// The first rows after a name, in the order of the first store that answers, each as [`TagStores::show`] returns
    /// it, and the primaries that didn't answer.
    pub async fn list(
        &self,
        after: Option<&Tag>,
        limit: u32,
    ) -> Result<(Vec<TagRow>, Vec<Away>), StoreError> {
        self.check_places().await?;
        let (mut pages, mut away) = (Vec::new(), Vec::new());
        for upstream in &self.upstreams {
            let after = after.cloned();
            match upstream.store.call(move |store| store.list(after.as_ref(), limit)).await {
                Ok(rows) => pages.push((upstream, rows)),
                Err(error @ StoreError::Unavailable { .. }) => {
                    away.push((Arc::clone(&upstream.name), error));
                }
                Err(error) => return Err(error),
            }
        }
        let mut pages = pages.into_iter();
        let Some((_, mut rows)) = pages.next() else {
            return Err(away.pop().map_or_else(nowhere, |(_, error)| error));
        };
        for (upstream, there) in pages {
            let there: HashMap<Tag, TagRow> =
                there.into_iter().map(|row| (row.tag.clone(), row)).collect();
            for row in &mut rows {
                // Servers order names differently, so the row may be on another page there.
                let found = match there.get(&row.tag) {
                    Some(found) => found.clone(),
                    None => match upstream.show(&row.tag).await {
                        Err(StoreError::UnknownTag { .. }) => continue,
                        found => found?,
                    },
                };
                if found.max_id > row.max_id {
                    *row = TagRow { generation: row.generation, ..found };
                }
            }
        }
        Ok((rows, away))
    }

    /// Changes the tag's settings everywhere.
    pub async fn set(&self, tag: &Tag, change: &TagChange) -> Result<Shown, StoreError> {
        self.check_places().await?;
        change.ceiling.map_or(Ok(()), |ceiling| self.check_ceiling(1, ceiling))?;
        self.check_everywhere(tag).await?;
        for upstream in &self.upstreams {
            let set = async {
                check_place(upstream).await?;
                set(upstream, tag, change.clone()).await
            };
            set.await.map_err(|error| self.not_in_all(upstream, error, CHANGED))?;
        }
        self.show(tag).await
    }

    /// Raises the tag's first unclaimed id to at least `to`.
    pub async fn raise(&self, tag: &Tag, to: u64) -> Result<Shown, StoreError> {
        self.check_places().await?;
        // In a store without the tag this would change nothing, so every store must have the tag.
        self.check_everywhere(tag).await?;
        for upstream in &self.upstreams {
            let raised = async {
                check_place(upstream).await?;
                upstream.show(tag).await?;
                raise(upstream, tag, to).await
            };
            raised.await.map_err(|error| self.not_in_all(upstream, error, CHANGED))?;
        }
        self.show(tag).await
    }

    /// Deletes the tag if it is still the one that was shown. Returns what was deleted.
    pub async fn delete(&self, tag: &Tag, generation: Generation) -> Result<Shown, StoreError> {
        self.check_places().await?;
        let mut shown = self.show(tag).await?;
        if let Some((_, error)) = shown.away.pop() {
            return Err(error);
        }
        if shown.row.generation != generation {
            return Err(StoreError::refused(format!(
                "tag {:?} was deleted and recreated in the meantime: read it again",
                tag.as_str()
            )));
        }
        for upstream in &self.upstreams {
            let deleted = async {
                check_place(upstream).await?;
                let tag = tag.clone();
                let delete = move |store: &mut Store| {
                    let row = store.show(&tag)?;
                    store.delete(&tag, row.generation)
                };
                upstream.store.call(delete).await
            };
            match deleted.await {
                // It was deleted earlier, while another primary didn't answer.
                Err(StoreError::UnknownTag { .. }) if self.several() => {}
                Err(error) => return Err(self.not_in_all(upstream, error, CHANGED)),
                Ok(_) => {}
            }
        }
        shown.without.clear();
        Ok(shown)
    }

    /// Fails if the routes have changed, and with them perhaps the tag's store or the meaning of its ids. A primary
    /// that doesn't answer is skipped, and checked again before anything is written there.
    async fn check_places(&self) -> Result<(), StoreError> {
        for upstream in &self.upstreams {
            match check_place(upstream).await {
                Err(StoreError::Unavailable { .. }) if self.upstreams.len() > 1 => {}
                checked => checked?,
            }
        }
        Ok(())
    }

    /// Every primary must be able to grant an id between the tag's start and its ceiling.
    fn check_ceiling(&self, start: u64, ceiling: u64) -> Result<(), StoreError> {
        let without =
            self.upstreams.iter().find(|upstream| upstream.shard.first_from(start) > ceiling);
        match without {
            Some(upstream) if self.upstreams.len() > 1 => Err(StoreError::refused(format!(
                "a tag from {start} to a ceiling of {ceiling} can't live in {of} independent primaries: primary {:?} \
                 would have no id, because each primary has only one of every {of} consecutive ids",
                &*upstream.name,
                of = self.upstreams.len()
            ))),
            _ => Ok(()),
        }
    }

    /// Refuses a tag that only some of the primaries have, as far as they answer.
    async fn check_everywhere(&self, tag: &Tag) -> Result<(), StoreError> {
        let (mut has, mut without, mut away) = (false, None, None);
        for upstream in &self.upstreams {
            match upstream.show(tag).await {
                Ok(_) => has = true,
                Err(error @ StoreError::UnknownTag { .. }) => without = Some((upstream, error)),
                Err(error @ StoreError::Unavailable { .. }) => away = Some(error),
                Err(error) => return Err(error),
            }
        }
        match (without, away) {
            (Some((upstream, _)), _) if has => Err(StoreError::refused(format!(
                "primary {:?} doesn't have tag {:?}, but another one has: its creation or deletion was interrupted; \
                 repeat that first",
                &*upstream.name,
                tag.as_str()
            ))),
            (_, Some(away)) if !has => Err(away),
            (Some((_, unknown)), None) => Err(unknown),
            _ => Ok(()),
        }
    }

    /// The error of a change that fails in one of several primaries; `so` describes what was done.
    fn not_in_all(&self, upstream: &Upstream, error: StoreError, so: &str) -> StoreError {
        let name = &*upstream.name;
        match error {
            StoreError::Unavailable { store, cause } if self.several() => StoreError::Unavailable {
                store,
                cause: format!(
                    "{cause}; {so}: repeat this when primary {name:?} is reachable again"
                )
                .into(),
            },
            StoreError::Refused(words) if self.several() => StoreError::refused(format!(
                "primary {name:?} refused: {words}; {so}. Correct that, then repeat the command"
            )),
            other => other,
        }
    }
}

async fn set(upstream: &Upstream, tag: &Tag, change: TagChange) -> Result<TagRow, StoreError> {
    let tag = tag.clone();
    upstream.store.call(move |store| store.set(&tag, &change)).await
}

/// Raises a tag in a store, whatever its identity is now.
async fn raise(upstream: &Upstream, tag: &Tag, to: u64) -> Result<Vec<bool>, StoreError> {
    let ends = [(tag.clone(), to)];
    let raise = move |store: &mut Store| {
        let under = store.identity()?;
        store.raise(&under, &ends, false)
    };
    upstream.store.call(raise).await
}

fn nowhere() -> StoreError {
    StoreError::refused("no store has the tag")
}

/// Refuses a store whose role among the stores is not the configured one.
async fn check_place(upstream: &Upstream) -> Result<(), StoreError> {
    let found = upstream.store.call(|store| store.identity()).await?;
    if found.role == upstream.role {
        return Ok(());
    }
    Err(StoreError::refused(format!(
        "the recorded routes of the store {} differ from this daemon's: they are {:?}, but this daemon is configured \
         {}. Restart it with the routes of the other hosts",
        upstream.url,
        &*found.role.0,
        upstream.role.configured()
    )))
}
