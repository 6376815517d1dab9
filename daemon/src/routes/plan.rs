//! Whether a change of routes may be made: no tag may move, no id may be given by two stores, and no store may be
//! left out.

use std::collections::BTreeMap;

use anyhow::{Result, bail};

use super::memories::Memories;
use super::moving::{Meaning, Moving, RETIRED, Stage};
use super::sites::{Progress, Site};
use crate::config::Routing;
use crate::id::Tag;
use crate::store::CEILING_MAX;

/// Offending rows that are shown.
const SHOWN_MAX: usize = 10;

/// What the stores' rows say, after all of them were looked at.
pub(super) struct Survey {
    /// How many rows each store has.
    pub(super) rows: Vec<usize>,
    /// The tags whose numbers come to mean something else in one of their stores.
    pub(super) carried: BTreeMap<Tag, Carried>,
    /// What is remembered of names, and has to be known where tags of them are made from now on.
    pub(super) memories: Memories,
    /// Rows that keep the change from being made: the first ones, in words.
    pub(super) offenders: Vec<String>,
    /// How many there are of them.
    pub(super) offending: usize,
}

/// A tag whose numbers are converted.
#[derive(Debug)]
pub(super) struct Carried {
    /// Every id that was ever claimed is below this.
    pub(super) end: u64,
    /// Its ceiling as an id.
    pub(super) ceiling: u64,
    pub(super) step: i64,
    pub(super) description: Option<String>,
    /// The stores that have it, by their place in the list, and where each would claim next, in its own numbers.
    pub(super) stores: Vec<(usize, u64)>,
}

/// Refuses what can be told from what the stores record.
pub(super) fn check_places(sites: &[Site], routing: &Routing) -> Result<()> {
    for (index, site) in sites.iter().enumerate() {
        if let Some(same) =
            sites[..index].iter().find(|other| other.identity.id == site.identity.id)
        {
            bail!("{:?} and {:?} lead to the same database: name it once", same.name, site.name);
        }
        match Moving::parse(site.role()) {
            Some(moving) if moving.to != site.to => bail!(
                "the store {:?} is in the middle of another change, to {:?}: finish that one first, with its configuration",
                site.name,
                moving.to
            ),
            _ => {}
        }
        if site.role() == RETIRED && site.index.is_some() {
            bail!(
                "the store {:?} was left out of the routes by an earlier change: its rows are of that time; use an empty \
                 database instead",
                site.name
            );
        }
        for name in stores_named(&site.place()) {
            if !sites.iter().any(|site| site.name == name) {
                bail!(
                    "the routes that the store {:?} records name a store {name:?}, which the configuration has no more: give \
                     the former configuration too, with --former",
                    site.name
                );
            }
        }
    }
    check_eras(sites, routing)
}

/// Where one member of a list of primaries comes to give other numbers, the era has to be one that none of them has had.
fn check_eras(sites: &[Site], routing: &Routing) -> Result<()> {
    let mut former = 0;
    for site in sites.iter().filter(|site| site.progress() != Progress::Done) {
        let changes = site.meaning() != site.meant();
        let era = site.meaning().primary().map_or(0, |primary| primary.era);
        former = former.max(if changes { era } else { 0 });
    }
    for site in sites {
        let (Some(primary), Some(index)) = (site.meant().primary(), site.index) else { continue };
        let together = sites.iter().filter(|other| {
            other.index.is_some_and(|other| routing.are_primaries_together(index, other))
        });
        let mut changed = together
            .filter(|other| other.progress() != Progress::Done && other.meaning() != other.meant());
        let Some(changed) = changed.next() else { continue };
        // One that is being changed was looked at before, and may have been empty: then it has the new era already.
        let own = match site.progress() {
            Progress::Before => site.meaning().primary().map_or(0, |primary| primary.era),
            Progress::Moving(_) | Progress::Done => 0,
        };
        let highest = former.max(own);
        if primary.era <= highest {
            bail!(
                "the list of primaries with {:?} changes (so does what {:?} is), but its era is {} and the stores have had \
                 era {highest}: give it era {}",
                site.name,
                changed.name,
                primary.era,
                highest.saturating_add(1)
            );
        }
    }
    Ok(())
}

/// The names of the stores in the routes of a place, as `Routing::role` writes them.
fn stores_named(place: &str) -> Vec<String> {
    let Some((_, routes)) = place.split_once(", of: ") else { return Vec::new() };
    let mut names = Vec::new();
    for rule in outside_quotes(routes) {
        let Some((_, home)) = rule.rsplit_once("->") else { continue };
        let list = home
            .split_once('(')
            .map_or(home, |(_, rest)| rest.split_once(')').map_or(rest, |(list, _)| list));
        names.extend(list.split(',').map(str::to_owned));
    }
    names
}

/// The parts between semicolons, but for those in quotes.
fn outside_quotes(text: &str) -> Vec<&str> {
    let (mut parts, mut begin, mut quoted, mut escaped) = (Vec::new(), 0, false, false);
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            ';' if !quoted => {
                parts.push(&text[begin..at]);
                begin = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[begin..]);
    parts
}

/// Looks at every row of every store, and at what they remember.
pub(super) async fn survey(sites: &[Site], routing: &Routing) -> Result<Survey> {
    let mut survey = Survey {
        rows: Vec::new(),
        carried: BTreeMap::new(),
        memories: Memories::default(),
        offenders: Vec::new(),
        offending: 0,
    };
    let rebased = sites.iter().any(|site| site.is_rebased() && site.progress() != Progress::Done);
    let mut unknown = Vec::new();
    for (at, site) in sites.iter().enumerate() {
        let mut rows = 0;
        // Of these nobody knows which are counted in the old way and which in the new one.
        let unsure = site.progress() == Progress::Moving(Stage::Raising);
        let meaning = if site.progress() == Progress::Done { site.meant() } else { site.meaning() };
        site.each_row(|row, end| {
            rows += 1;
            if let Some(why) = offence(site, routing, &row.tag, row.strict) {
                survey.offend(format!("{} in {}: {why}", row.tag.as_str(), site.name));
            }
            let concerned = rebased
                && sites.iter().any(|site| site.is_rebased() && site.is_home_of(routing, &row.tag));
            match (concerned, unsure) {
                (true, false) => survey.carry(at, meaning, row, end),
                (true, true) => unknown.push((at, row.tag)),
                // Its home counts on in its own numbers, and has to know of those of the retired one.
                (false, _) if site.index.is_none() => {
                    survey.memories.note(at, meaning, row.tag, end)
                }
                (false, _) => {}
            }
        })
        .await?;
        survey.rows.push(rows);
    }
    survey.check_known(sites, unknown);
    survey.check_complete(sites);
    let unknown = survey.memories.survey(sites, routing, &survey.carried).await?;
    survey.check_known(sites, unknown);
    for (tag, memory) in &survey.memories.0 {
        if let Some(carried) = survey.carried.get_mut(tag) {
            carried.end = carried.end.max(memory.end);
        }
    }
    Ok(survey)
}

/// Why a row keeps the change from being made.
fn offence(site: &Site, routing: &Routing, tag: &Tag, strict: bool) -> Option<String> {
    let Some(index) = site.index else {
        // A former primary's ids are counted in where its tags live from now on.
        let primary = site.meaning().primary().is_some();
        let nowhere = routing.home(tag).is_none();
        return (!primary || nowhere).then(|| "the new routes leave its store out".to_owned());
    };
    if !site.is_home_of(routing, tag) {
        return Some(match routing.home(tag) {
            Some(home) => format!("the new routes have it in {}", routing.names(home)),
            None => "no rule of the new routes matches it".to_owned(),
        });
    }
    (strict && routing.is_primary(index))
        .then(|| "it is strict, which it can't be in independent primaries".to_owned())
}

impl Survey {
    fn offend(&mut self, words: String) {
        self.offending += 1;
        if self.offenders.len() < SHOWN_MAX {
            self.offenders.push(words);
        }
    }

    fn carry(&mut self, at: usize, meaning: Meaning, row: crate::store::TagRow, end: u64) {
        let (id, ceiling) = (meaning.id(end), meaning.id(row.ceiling));
        let carried = self.carried.entry(row.tag).or_insert_with(|| Carried {
            end: 1,
            ceiling: 1,
            step: row.step,
            // Others may have written what leafd doesn't.
            description: row.description.filter(|text| !text.chars().any(char::is_control)),
            stores: Vec::new(),
        });
        carried.end = carried.end.max(id);
        // What was rounded down for some of them was not for others.
        carried.ceiling = carried.ceiling.max(ceiling.min(CEILING_MAX));
        carried.stores.push((at, end));
    }

    /// While a store's rows are being changed another one has to tell what was claimed of each tag.
    fn check_known(&mut self, sites: &[Site], unknown: Vec<(usize, Tag)>) {
        for (at, tag) in unknown {
            if !self.carried.contains_key(&tag) {
                let (tag, name) = (tag.as_str(), &sites[at].name);
                self.offend(format!(
                    "{tag} in {name}: no other store tells what was claimed of it"
                ));
            }
        }
    }

    /// A tag of former primaries has to be in all of them: then each of them tells what was claimed, also while another
    /// one's numbers are being changed.
    fn check_complete(&mut self, sites: &[Site]) {
        let begun = |(site, rows): (&Site, &usize)| match site.progress() {
            Progress::Before | Progress::Moving(Stage::Frozen) => false,
            Progress::Moving(Stage::Raising) => true,
            // One without a row may have taken its place by itself.
            Progress::Done => *rows > 0,
        };
        if sites.iter().zip(&self.rows).any(begun) {
            return;
        }
        // One that was empty is not among the former primaries, whatever is in it by now.
        let former = |(at, _): &&(usize, u64)| {
            let site = &sites[*at];
            site.meaning().primary().filter(|_| site.meaning() != site.meant())
        };
        let lacking: Vec<String> = self
            .carried
            .iter()
            .filter_map(|(tag, carried)| {
                let of = carried.stores.iter().find_map(|store| former(&store))?.of;
                let there = carried.stores.iter().filter(|store| former(store).is_some()).count();
                (u32::try_from(there) != Ok(of)).then(|| {
                    let tag = tag.as_str();
                    format!("{tag}: it is in {there} of {of} primaries; create or delete it in all of them")
                })
            })
            .collect();
        lacking.into_iter().for_each(|words| self.offend(words));
    }

    /// What keeps the change from being made, in words.
    pub(super) fn refusal(&self) -> Option<String> {
        if self.offending == 0 {
            return None;
        }
        let mut text = format!(
            "{} rows are not where the new routes have them, or can't be:\n",
            self.offending
        );
        for words in &self.offenders {
            text.push_str(&format!("  {words}\n"));
        }
        if self.offending > self.offenders.len() {
            text.push_str("  and so on\n");
        }
        text.push_str("change the routes so that each tag stays where it is");
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stores_of_a_place_are_found() {
        let of = |routes: &str| stores_named(&format!("store a, of: {routes}"));
        assert_eq!(of("orders,pay.*->c; *->hash(a,b)"), ["c", "a", "b"]);
        assert_eq!(of("x*->primaries(s0,s-1) era 3"), ["s0", "s-1"]);
        assert_eq!(of(r#""a;->b\"(;"*->d"#), ["d"]);
        assert_eq!(stores_named(""), [] as [String; 0]);
    }
}
