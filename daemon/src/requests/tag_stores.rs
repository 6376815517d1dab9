//! Where a tag lives, for its administration: one store, or several independent primaries that an operator sees
//! as one.

use std::collections::HashMap;
use std::rc::Rc;

use crate::engine::upstream::Upstream;
use leafd_core::Tag;
use leafd_core::store::{Generation, NewTag, StoreError, TagChange, TagRow};

/// The stores of one tag.
pub struct TagStores {
    upstreams: Vec<Rc<Upstream>>,
}

impl TagStores {
    /// One store, or all of a tag's primaries in their order.
    #[must_use]
    pub fn new(upstreams: Vec<Rc<Upstream>>) -> Self {
        TagStores { upstreams }
    }

    /// Creates the tag; of several primaries in each one that doesn't have it yet.
    pub async fn create(&self, new: &NewTag) -> Result<TagRow, StoreError> {
        if self.upstreams.len() > 1 && new.strict {
            return Err(StoreError::Refused(format!(
                "tag {:?} lives in {} independent primaries, so it can't be strict: the primaries don't know each other's claims",
                new.tag.as_str(),
                self.upstreams.len()
            )));
        }
        self.check_places().await?;
        self.check_ceiling(new.ceiling)?;
        self.check_start(new)?;
        let mut created = None;
        let mut exists = None;
        for upstream in &self.upstreams {
            let created_here = async {
                check_place(upstream).await?;
                upstream.store.create(new.clone()).await
            };
            match created_here.await {
                Ok(row) => created = Some(row),
                Err(error @ StoreError::TagExists { .. }) => exists = Some(error),
                Err(error) => return Err(self.partly(upstream, error)),
            }
        }
        match (created, exists) {
            (Some(row), _) => Ok(row),
            (None, Some(error)) => Err(error),
            (None, None) => Err(nowhere()),
        }
    }

    /// The tag's row; of several primaries the one that has come furthest. One that doesn't have the tag is passed over
    /// if another one has it: a creation or a deletion was interrupted, and can be repeated.
    pub async fn show(&self, tag: &Tag) -> Result<TagRow, StoreError> {
        let mut furthest: Option<TagRow> = None;
        let mut unknown = None;
        for upstream in &self.upstreams {
            let row = match upstream.store.show(tag).await {
                Ok(row) => row,
                Err(error @ StoreError::UnknownTag { .. }) => {
                    unknown = Some(error);
                    continue;
                }
                Err(error) => return Err(error),
            };
            let further = furthest.as_ref().is_none_or(|known| known.max_id < row.max_id);
            // The generation in the first primary that has it stands for all.
            let generation = furthest.as_ref().map_or(row.generation, |known| known.generation);
            if further {
                furthest = Some(TagRow { generation, ..row });
            }
        }
        furthest.ok_or_else(|| unknown.unwrap_or_else(nowhere))
    }

    /// The first rows after a name, in the first store's order; of several primaries as [`TagStores::show`] has them.
    pub async fn list(&self, after: Option<&Tag>, limit: u32) -> Result<Vec<TagRow>, StoreError> {
        self.check_places().await?;
        let Some((first, others)) = self.upstreams.split_first() else { return Err(nowhere()) };
        let mut rows = first.store.list(after, limit).await?;
        for upstream in others {
            let there = upstream.store.list(after, limit).await?;
            let there: HashMap<Tag, TagRow> =
                there.into_iter().map(|row| (row.tag.clone(), row)).collect();
            for row in &mut rows {
                // Servers differ in the order of names, so that it may be on another page there.
                let found = match there.get(&row.tag) {
                    Some(found) => found.clone(),
                    None => match upstream.store.show(&row.tag).await {
                        Err(StoreError::UnknownTag { .. }) => continue,
                        found => found?,
                    },
                };
                if found.max_id > row.max_id {
                    *row = TagRow { generation: row.generation, ..found };
                }
            }
        }
        Ok(rows)
    }

    /// Changes the tag's settings everywhere.
    pub async fn set(&self, tag: &Tag, change: &TagChange) -> Result<TagRow, StoreError> {
        self.check_places().await?;
        change.ceiling.map_or(Ok(()), |ceiling| self.check_ceiling(ceiling))?;
        self.check_everywhere(tag).await?;
        for upstream in &self.upstreams {
            let set = async {
                check_place(upstream).await?;
                upstream.store.set(tag, change.clone()).await
            };
            set.await.map_err(|error| self.partly(upstream, error))?;
        }
        self.show(tag).await
    }

    /// Lifts the tag's next number to at least `to`.
    pub async fn raise(&self, tag: &Tag, to: u64) -> Result<TagRow, StoreError> {
        self.check_places().await?;
        // Where it is not, raising moves nothing: so it must be there.
        self.check_everywhere(tag).await?;
        for upstream in &self.upstreams {
            let raised = async {
                check_place(upstream).await?;
                upstream.store.show(tag).await?;
                let under = upstream.store.identity().await?;
                upstream.store.raise(&under, vec![(tag.clone(), to)]).await
            };
            raised.await.map_err(|error| self.partly(upstream, error))?;
        }
        self.show(tag).await
    }

    /// Deletes the tag if it is still the one that was shown; answers with what was deleted.
    pub async fn delete(&self, tag: &Tag, generation: Generation) -> Result<TagRow, StoreError> {
        self.check_places().await?;
        let shown = self.show(tag).await?;
        if shown.generation != generation {
            return Err(StoreError::Refused(format!(
                "tag {:?} was deleted and created again in the meantime: read it again",
                tag.as_str()
            )));
        }
        for upstream in &self.upstreams {
            let deleted = async {
                check_place(upstream).await?;
                let row = upstream.store.show(tag).await?;
                upstream.store.delete(tag, row.generation).await
            };
            match deleted.await {
                // Deleted before, when another primary was away.
                Err(StoreError::UnknownTag { .. }) if self.upstreams.len() > 1 => {}
                Err(error) => return Err(self.partly(upstream, error)),
                Ok(_) => {}
            }
        }
        Ok(shown)
    }

    /// Refuses where the routes have been changed, and with them perhaps the tag's home, or what its numbers mean. One of
    /// several primaries that is away is passed over: what can be done without it is done, and it is checked again
    /// before anything is written there.
    async fn check_places(&self) -> Result<(), StoreError> {
        for upstream in &self.upstreams {
            match check_place(upstream).await {
                Err(StoreError::Unavailable { .. }) if self.upstreams.len() > 1 => {}
                checked => checked?,
            }
        }
        Ok(())
    }

    /// Every primary must have an id to give: its first one must not lie above the ceiling.
    fn check_ceiling(&self, ceiling: u64) -> Result<(), StoreError> {
        let firsts = self.upstreams.iter().map(|upstream| upstream.shard.first_from(1));
        match firsts.max() {
            Some(first) if ceiling < first => Err(StoreError::Refused(format!(
                "a tag's ceiling can't be {ceiling} in {} independent primaries: the last of them begins at {first}",
                self.upstreams.len()
            ))),
            _ => Ok(()),
        }
    }

    /// Every primary must have an id between the tag's start and its ceiling.
    fn check_start(&self, new: &NewTag) -> Result<(), StoreError> {
        let NewTag { start, ceiling, .. } = *new;
        let without =
            self.upstreams.iter().find(|upstream| upstream.shard.first_from(start) > ceiling);
        match without {
            Some(upstream) if self.upstreams.len() > 1 => Err(StoreError::Refused(format!(
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
            match upstream.store.show(tag).await {
                Ok(_) => has = true,
                Err(error @ StoreError::UnknownTag { .. }) => without = Some((upstream, error)),
                Err(error @ StoreError::Unavailable { .. }) => away = Some(error),
                Err(error) => return Err(error),
            }
        }
        match (without, away) {
            (Some((upstream, _)), _) if has => Err(StoreError::Refused(format!(
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

    /// Says which of several primaries has failed, and what to do.
    fn partly(&self, upstream: &Upstream, error: StoreError) -> StoreError {
        match error {
            StoreError::Unavailable { store, cause } if self.upstreams.len() > 1 => {
                StoreError::Unavailable {
                    store,
                    cause: format!(
                        "{cause}; the primaries before it are done: repeat this when primary {:?} is reachable again",
                        &*upstream.name
                    ),
                }
            }
            other => other,
        }
    }
}

fn nowhere() -> StoreError {
    StoreError::Refused("no store has the tag".to_owned())
}

/// Refuses a store whose place among the stores is not the configured one.
async fn check_place(upstream: &Upstream) -> Result<(), StoreError> {
    let found = upstream.store.identity().await?;
    if found.role == upstream.role {
        return Ok(());
    }
    Err(StoreError::Refused(format!(
        "the store {} now records the role {:?}, but this daemon is configured {}: restart it with the routes of the \
         other hosts",
        upstream.url,
        &*found.role.0,
        upstream.role.configured()
    )))
}
