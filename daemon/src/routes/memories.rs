//! What stores remember of names that they have no tag of, of deleted tags above all. It has to reach the stores where tags
//! of these names can be made from now on, in what their numbers mean, or ids of the earlier tags come again.

use std::collections::BTreeMap;

use anyhow::Result;

use super::moving::{Meaning, Stage};
use super::plan::Carried;
use super::sites::{Progress, Site};
use crate::config::Routing;
use crate::id::Tag;

/// What was claimed under a name.
#[derive(Debug, Default)]
pub(super) struct Memory {
    /// Every id that was ever claimed is below this.
    pub(super) end: u64,
    /// The stores that know the name, or have to, by their place in the list, and the end that each remembers, in its own
    /// numbers; 0 for none, and for one that need not be believed.
    pub(super) stores: Vec<(usize, u64)>,
}

/// By name, without those of which no store has anything to learn.
#[derive(Debug, Default)]
pub(super) struct Memories(pub(super) BTreeMap<Tag, Memory>);

impl Memory {
    fn note(&mut self, at: usize, end: u64) {
        match self.stores.iter_mut().find(|(of, _)| *of == at) {
            Some((_, known)) => *known = end.max(*known),
            None => self.stores.push((at, end)),
        }
    }
}

impl Memories {
    /// Enters what one store knows of a name, in its own numbers.
    pub(super) fn note(&mut self, at: usize, meaning: Meaning, tag: Tag, end: u64) {
        let memory = self.0.entry(tag).or_default();
        memory.end = memory.end.max(meaning.id(end));
        memory.note(at, end);
    }

    /// Enters what every store remembers, but for tags that are `carried` from it, and who has to know it. Tells the names
    /// of which nobody knows what was claimed, each with its store.
    pub(super) async fn survey(
        &mut self,
        sites: &[Site],
        routing: &Routing,
        carried: &BTreeMap<Tag, Carried>,
    ) -> Result<Vec<(usize, Tag)>> {
        let mut unknown = Vec::new();
        for (at, site) in sites.iter().enumerate() {
            // As with its rows: some ends are counted in the old way and others in the new one.
            let unsure = site.progress() == Progress::Moving(Stage::Raising);
            let meaning = site.meaning();
            site.each_end(|tag, end| {
                let is_row = carried
                    .get(&tag)
                    .is_some_and(|carried| carried.stores.iter().any(|(of, _)| *of == at));
                // Below 1 there is no number.
                if end <= 1 || is_row || !is_concerned(site, sites, routing, &tag) {
                    return;
                }
                match unsure {
                    true => unknown.push((at, tag)),
                    false => self.note(at, meaning, tag, end),
                }
            })
            .await?;
        }
        unknown.retain(|(at, tag)| match self.0.get_mut(tag) {
            Some(memory) => {
                memory.note(*at, 0);
                false
            }
            // Its rows tell, or its home does, which was told before that store's numbers were touched.
            None => !carried.contains_key(tag) && !is_home_steady(sites, routing, tag),
        });
        for (tag, memory) in &mut self.0 {
            spread(memory, sites, routing, tag);
        }
        Ok(unknown)
    }
}

/// Adds the stores that have to know a name.
fn spread(memory: &mut Memory, sites: &[Site], routing: &Routing, tag: &Tag) {
    for (at, site) in sites.iter().enumerate() {
        if site.is_home_of(routing, tag) {
            memory.note(at, 0);
        }
    }
    // While the numbers of one are being changed another one has to know it; and one has to that is not retired.
    let (mut stays, mut steady) = (false, memory.stores.len() > 1);
    for (at, _) in &memory.stores {
        stays |= sites[*at].index.is_some();
        steady |= !sites[*at].is_rebased();
    }
    if !stays || !steady {
        let others = (0..sites.len()).filter(|at| memory.stores.iter().all(|(of, _)| of != at));
        // The stores of the new configuration come first.
        if let Some(other) = others.min_by_key(|at| sites[*at].index.is_none()) {
            memory.note(other, 0);
        }
    }
}

/// Whether what a store remembers of a name has to be known elsewhere, or comes to mean something else.
fn is_concerned(site: &Site, sites: &[Site], routing: &Routing, tag: &Tag) -> bool {
    if site.is_home_of(routing, tag) {
        return !is_home_steady(sites, routing, tag);
    }
    // Of a name that is at home nowhere the store itself goes on to know it.
    site.index.is_none() || routing.home(tag).is_some() || sites.iter().any(Site::is_rebased)
}

/// Whether a name is at home in stores whose numbers go on to mean what they do.
fn is_home_steady(sites: &[Site], routing: &Routing, tag: &Tag) -> bool {
    let mut homes = sites.iter().filter(|site| site.is_home_of(routing, tag)).peekable();
    homes.peek().is_some() && homes.all(|home| !home.is_rebased())
}
