//! Carries a change of routes out. It can be cut off anywhere, and be finished by the same command:
//!
//! 1. Every store is frozen: it records that it is being changed, and from what to what. No daemon claims from it then.
//! 2. All rows are looked at once more, as tags may have been created meanwhile.
//! 3. Where numbers come to mean something else, each store is told the end of every tag first, in what its numbers mean
//!    so far: then the others know it while the rows of one are being changed, and these need not be believed.
//! 4. One store after the other has its numbers lifted above every id that was ever claimed, in what they are to mean, and
//!    records its new place. It is in use from then on.

use anyhow::{Result, bail};

use super::moving::Stage;
use super::plan::{Survey, survey};
use super::sites::{Progress, Site};
use super::thaw;
use crate::config::Routing;
use crate::id::Tag;
use crate::store::{CEILING_MAX, NewTag, STEP_MAX, StoreError, TagChange};

/// Tags raised in one call.
const RAISED_AT_ONCE: usize = 500;

/// A ceiling so near the largest number counts as none: it was rounded for a primary.
const CEILING_NONE: u64 = CEILING_MAX - 64;

/// Does it.
pub(super) async fn carry_out(sites: &mut [Site], routing: &Routing) -> Result<()> {
    let mut frozen = Vec::new();
    for (at, site) in sites.iter_mut().enumerate() {
        if site.progress() == Progress::Before {
            // Nothing in it can be taken for anything else: its first rows are counted in the new way.
            let fresh = site.role().is_empty() && site.is_new().await?;
            let former = site.role().to_owned();
            let from = if fresh { site.to.clone() } else { former.clone() };
            site.record_stage(Stage::Frozen, from).await?;
            frozen.push((at, former));
        }
    }
    let found = survey(sites, routing).await?;
    if let Some(refusal) = found.refusal() {
        let said = thaw::refuse(sites, frozen, true, &refusal).await?;
        bail!("tags were created meanwhile: {said}");
    }
    equalise(sites, routing, &found).await?;
    // What was begun first: while it is unfinished nobody believes that store, and there must be another one to believe.
    let order: Vec<usize> = begun_first(sites);
    for at in order {
        let site = &mut sites[at];
        if site.is_rebased() {
            convert(at, site, routing, &found).await?;
        }
        let to = site.to.clone();
        site.record(&to).await?;
    }
    Ok(())
}

/// Makes every store that will have a tag know its end and its ceiling, in what the store's numbers mean so far; and the
/// ends of names whose tags were deleted.
async fn equalise(sites: &[Site], routing: &Routing, found: &Survey) -> Result<()> {
    for (at, site) in sites.iter().enumerate() {
        if site.progress() == Progress::Moving(Stage::Raising) {
            continue;
        }
        let meaning = site.meaning();
        let mut ends = Vec::new();
        for (tag, carried) in &found.carried {
            let first = meaning.first(carried.end);
            match carried.stores.iter().find(|(of, _)| *of == at) {
                Some((_, end)) if *end < first => ends.push((tag.clone(), first)),
                Some(_) => {}
                None if site.is_home_of(routing, tag) => {
                    let ceiling = meaning.last(unless_none(carried.ceiling));
                    let new = NewTag {
                        tag: tag.clone(),
                        start: first,
                        step: u64::try_from(carried.step).unwrap_or(1).clamp(1, STEP_MAX),
                        ceiling,
                        strict: false,
                        description: carried.description.clone(),
                    };
                    create(site, new, ceiling).await?;
                }
                None => {}
            }
        }
        for (tag, memory) in &found.memories.0 {
            let first = meaning.first(memory.end);
            if memory.stores.iter().any(|(of, end)| *of == at && *end < first) {
                ends.push((tag.clone(), first));
            }
        }
        raise(site, ends).await?;
    }
    Ok(())
}

/// Creates a tag with this ceiling, which may be below its start: then it is used up.
async fn create(site: &Site, mut new: NewTag, ceiling: u64) -> Result<()> {
    loop {
        new.ceiling = ceiling.max(new.start);
        match site.store.create(new.clone()).await {
            // A tag of its name was there before, and had come further. How far nobody tells: gaps cost little.
            Err(StoreError::Refused(_)) if new.start < CEILING_NONE / 2 => new.start *= 2,
            Err(error) => return Err(error.into()),
            Ok(_) if ceiling < new.start => return set_ceiling(site, &new.tag, ceiling).await,
            Ok(_) => return Ok(()),
        }
    }
}

/// Changes what the numbers of a store mean, the one at this place in the list.
async fn convert(at: usize, site: &mut Site, routing: &Routing, found: &Survey) -> Result<()> {
    if site.progress() != Progress::Moving(Stage::Raising) {
        let from = site.place();
        site.record_stage(Stage::Raising, from).await?;
    }
    let (meant, mut ends) = (site.meant(), Vec::new());
    for (tag, carried) in found.carried.iter().filter(|(tag, _)| site.is_home_of(routing, tag)) {
        ends.push((tag.clone(), meant.first(carried.end)));
        if carried.ceiling < CEILING_NONE {
            set_ceiling(site, tag, meant.last(carried.ceiling)).await?;
        }
    }
    for (tag, memory) in &found.memories.0 {
        if memory.stores.iter().any(|(of, _)| *of == at) {
            ends.push((tag.clone(), meant.first(memory.end)));
        }
    }
    raise(site, ends).await
}

/// The stores that are not done, those whose rows are being changed before the others.
fn begun_first(sites: &[Site]) -> Vec<usize> {
    let undone = |at: &usize| sites[*at].progress() != Progress::Done;
    let mut order: Vec<usize> = (0..sites.len()).filter(undone).collect();
    order.sort_by_key(|at| sites[*at].progress() != Progress::Moving(Stage::Raising));
    order
}

fn unless_none(ceiling: u64) -> u64 {
    if ceiling < CEILING_NONE { ceiling } else { CEILING_MAX }
}

async fn set_ceiling(site: &Site, tag: &Tag, ceiling: u64) -> Result<()> {
    let change = TagChange { ceiling: Some(ceiling), ..TagChange::default() };
    site.store.set(tag, change).await?;
    Ok(())
}

async fn raise(site: &Site, ends: Vec<(Tag, u64)>) -> Result<()> {
    for some in ends.chunks(RAISED_AT_ONCE) {
        site.store.raise(&site.identity, some.to_vec()).await?;
    }
    Ok(())
}
