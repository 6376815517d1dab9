//! Where a tag lives, for its administration: one store, or several independent primaries that an operator sees
//! as one.
//!
//! Of N primaries, the one with index i holds a counter k for the ids k*N + i. What an operator names and is shown
//! are ids; what a store holds are counters.

use std::collections::HashMap;
use std::rc::Rc;

use super::segments::Home;
use crate::config::PrimaryRole;
use crate::id::Tag;
use crate::store::{Generation, NewTag, StoreError, TagChange, TagRow};

/// The stores of one tag.
pub struct Dwelling {
    homes: Vec<Rc<Home>>,
}

impl Dwelling {
    /// One store, or all of a tag's primaries in their order.
    #[must_use]
    pub fn new(homes: Vec<Rc<Home>>) -> Self {
        Dwelling { homes }
    }

    /// Creates the tag; of several primaries in each one that doesn't have it yet.
    pub async fn create(&self, new: &NewTag) -> Result<TagRow, StoreError> {
        if self.homes.len() > 1 && new.strict {
            return Err(StoreError::Refused(format!(
                "tag {:?} lives in {} independent primaries, and so can't be strict: none of them knows what the others give",
                new.tag.as_str(),
                self.homes.len()
            )));
        }
        self.check_places().await?;
        self.check_ceiling(new.ceiling)?;
        self.check_start(new)?;
        let mut created = None;
        let mut exists = None;
        for home in &self.homes {
            let counters = NewTag {
                start: first_counter(home.primary, new.start),
                ceiling: last_counter(home.primary, new.ceiling),
                ..new.clone()
            };
            let created_here = async {
                check_place(home).await?;
                home.store.create(counters).await
            };
            match created_here.await {
                Ok(row) => created = Some(shown_by(home, row)),
                Err(error @ StoreError::TagExists { .. }) => exists = Some(error),
                Err(error) => return Err(self.partly(home, error)),
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
        for home in &self.homes {
            let row = match home.store.show(tag).await {
                Ok(row) => shown_by(home, row),
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

    /// The first rows after a name, in the first store's order; of several primaries as [`Dwelling::show`] has them.
    pub async fn list(&self, after: Option<&Tag>, limit: u32) -> Result<Vec<TagRow>, StoreError> {
        self.check_places().await?;
        let Some((first, others)) = self.homes.split_first() else { return Err(nowhere()) };
        let rows = first.store.list(after, limit).await?;
        let mut rows: Vec<TagRow> = rows.into_iter().map(|row| shown_by(first, row)).collect();
        for home in others {
            let there = home.store.list(after, limit).await?;
            let there: HashMap<Tag, TagRow> =
                there.into_iter().map(|row| (row.tag.clone(), row)).collect();
            for row in &mut rows {
                // Servers differ in the order of names, so that it may be on another page there.
                let found = match there.get(&row.tag) {
                    Some(found) => found.clone(),
                    None => match home.store.show(&row.tag).await {
                        Err(StoreError::UnknownTag { .. }) => continue,
                        found => found?,
                    },
                };
                let found = shown_by(home, found);
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
        for home in &self.homes {
            let ceiling = change.ceiling.map(|ceiling| last_counter(home.primary, ceiling));
            let change = TagChange { ceiling, ..change.clone() };
            let set = async {
                check_place(home).await?;
                home.store.set(tag, change).await
            };
            set.await.map_err(|error| self.partly(home, error))?;
        }
        self.show(tag).await
    }

    /// Lifts the tag's next number to at least `to`.
    pub async fn raise(&self, tag: &Tag, to: u64) -> Result<TagRow, StoreError> {
        self.check_places().await?;
        // Where it is not, raising moves nothing: so it must be there.
        self.check_everywhere(tag).await?;
        for home in &self.homes {
            let counter = first_counter(home.primary, to);
            let raised = async {
                check_place(home).await?;
                home.store.show(tag).await?;
                let under = home.store.identity().await?;
                home.store.raise(&under, vec![(tag.clone(), counter)]).await
            };
            raised.await.map_err(|error| self.partly(home, error))?;
        }
        self.show(tag).await
    }

    /// Deletes the tag if it is still the one that was shown; answers with what was deleted.
    pub async fn delete(&self, tag: &Tag, generation: Generation) -> Result<TagRow, StoreError> {
        self.check_places().await?;
        let shown = self.show(tag).await?;
        if shown.generation != generation {
            return Err(StoreError::Refused(format!(
                "tag {:?} was deleted and made anew meanwhile: look at it again",
                tag.as_str()
            )));
        }
        for home in &self.homes {
            let deleted = async {
                check_place(home).await?;
                let row = home.store.show(tag).await?;
                home.store.delete(tag, row.generation).await
            };
            match deleted.await {
                // Deleted before, when another primary was away.
                Err(StoreError::UnknownTag { .. }) if self.homes.len() > 1 => {}
                Err(error) => return Err(self.partly(home, error)),
                Ok(_) => {}
            }
        }
        Ok(shown)
    }

    /// Refuses where the routes have been changed, and with them perhaps the tag's home, or what its numbers mean. One of
    /// several primaries that is away is passed over: what can be done without it is done, and it is checked again
    /// before anything is written there.
    async fn check_places(&self) -> Result<(), StoreError> {
        for home in &self.homes {
            match check_place(home).await {
                Err(StoreError::Unavailable { .. }) if self.homes.len() > 1 => {}
                checked => checked?,
            }
        }
        Ok(())
    }

    /// Every primary must have an id to give: its first one, for its counter 1, must not lie above the ceiling.
    fn check_ceiling(&self, ceiling: u64) -> Result<(), StoreError> {
        let firsts = self.homes.iter().filter_map(|home| Some(home.primary?.id(1)));
        match firsts.max() {
            Some(first) if ceiling < first => Err(StoreError::Refused(format!(
                "a tag's ceiling can't be {ceiling} in {} independent primaries: the last of them begins at {first}",
                self.homes.len()
            ))),
            _ => Ok(()),
        }
    }

    /// Every primary must have an id between the tag's start and its ceiling.
    fn check_start(&self, new: &NewTag) -> Result<(), StoreError> {
        let NewTag { start, ceiling, .. } = *new;
        let without = self.homes.iter().find(|home| {
            home.primary.is_some()
                && first_counter(home.primary, start) > last_counter(home.primary, ceiling)
        });
        match without {
            Some(home) => Err(StoreError::Refused(format!(
                "a tag from {start} to a ceiling of {ceiling} can't live in {of} independent primaries: primary {:?} \
                 would have no id to give; every {of} ids in a row hold one of each primary",
                &*home.name,
                of = self.homes.len()
            ))),
            None => Ok(()),
        }
    }

    /// Refuses a tag that only some of the primaries have, as far as they answer.
    async fn check_everywhere(&self, tag: &Tag) -> Result<(), StoreError> {
        let (mut has, mut without, mut away) = (false, None, None);
        for home in &self.homes {
            match home.store.show(tag).await {
                Ok(_) => has = true,
                Err(error @ StoreError::UnknownTag { .. }) => without = Some((home, error)),
                Err(error @ StoreError::Unavailable { .. }) => away = Some(error),
                Err(error) => return Err(error),
            }
        }
        match (without, away) {
            (Some((home, _)), _) if has => Err(StoreError::Refused(format!(
                "primary {:?} doesn't have tag {:?}, and another one has: its creation or its deletion was interrupted; \
                 repeat that first",
                &*home.name,
                tag.as_str()
            ))),
            (_, Some(away)) if !has => Err(away),
            (Some((_, unknown)), None) => Err(unknown),
            _ => Ok(()),
        }
    }

    /// Says which of several primaries has failed, and what to do.
    fn partly(&self, home: &Home, error: StoreError) -> StoreError {
        match error {
            StoreError::Unavailable { store, cause } if self.homes.len() > 1 => {
                StoreError::Unavailable {
                    store,
                    cause: format!(
                        "{cause}; primaries before it are done: repeat this when primary {:?} answers again",
                        &*home.name
                    ),
                }
            }
            other => other,
        }
    }
}

fn nowhere() -> StoreError {
    StoreError::Refused("the tag lives in no store".to_owned())
}

/// Refuses a store whose place among the stores is not the configured one.
async fn check_place(home: &Home) -> Result<(), StoreError> {
    let found = home.store.identity().await?;
    if found.role == home.role {
        return Ok(());
    }
    Err(StoreError::Refused(format!(
        "the store {} has the place {:?} by now, and this daemon is configured {}: start it with the routes of the \
         other hosts",
        home.url,
        &*found.role.0,
        home.role.configured()
    )))
}

fn shown_by(home: &Home, row: TagRow) -> TagRow {
    let Some(primary) = home.primary else { return row };
    let max_id =
        u64::try_from(row.max_id).map_or(row.max_id, |counter| primary.id(counter).cast_signed());
    TagRow { max_id, ceiling: primary.id(row.ceiling), ..row }
}

/// The least counter whose id is at least this one.
fn first_counter(primary: Option<PrimaryRole>, id: u64) -> u64 {
    let Some(PrimaryRole { index, of, .. }) = primary else { return id };
    id.saturating_sub(u64::from(index)).div_ceil(u64::from(of)).max(1)
}

/// The largest counter whose id is at most this one.
fn last_counter(primary: Option<PrimaryRole>, id: u64) -> u64 {
    let Some(PrimaryRole { index, of, .. }) = primary else { return id };
    id.saturating_sub(u64::from(index)) / u64::from(of)
}
