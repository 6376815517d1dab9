//! Decides whether a change of routes is allowed: no tag may move, no two stores may issue the same id, and no store
//! may be omitted.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, bail};

use super::members::{Member, Progress};
use super::migration_state::{Frozen, RETIRED};
use crate::config::Routing;
use leafd_core::Tag;
use leafd_core::store::{TagRow, UNFINISHED};

/// How many offending rows are shown.
const SHOWN_MAX: usize = 10;

/// The content of all stores' rows.
#[derive(Default)]
pub(super) struct Survey {
    /// How many rows each store has.
    pub(super) rows: Vec<usize>,
    /// The names that one store must take over from another, and what was claimed under them.
    pub(super) known: BTreeMap<Tag, Known>,
    /// Descriptions of the first rows that forbid the change.
    pub(super) offenders: Vec<String>,
    /// How many such rows there are.
    pub(super) offending: usize,
    /// What to do about them.
    remedies: BTreeSet<&'static str>,
}

/// Why a row forbids the change, and what to do.
type Offence = (String, &'static str);

const STAY: &str = "change the routes so that each tag stays in its store";
const FINISH: &str = "under the former routes, finish what was interrupted (leafctl tag create TAG) or undo it \
                      (leafctl tag delete TAG)";

/// What is known of a name that has, or once had, a tag.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// Every id that was ever claimed is below this; at least 1.
    pub(super) end: u64,
    /// The end of the claims that each store has recorded, by the store's index in the list.
    pub(super) ends: Vec<(usize, u64)>,
    /// The tag, if there is one.
    pub(super) row: Option<KnownRow>,
    /// The stores that must record the name, by their indices in the list.
    pub(super) needed_in: Vec<usize>,
}

/// A tag, as the stores that have it record it.
#[derive(Debug)]
pub(super) struct KnownRow {
    pub(super) ceiling: u64,
    pub(super) step: i64,
    pub(super) description: Option<String>,
    /// These stores, by their indices in the list.
    pub(super) stores: Vec<usize>,
}

/// Refuses changes that the recorded roles alone forbid.
pub(super) fn check_places(members: &[Member], routing: &Routing) -> Result<()> {
    for (index, member) in members.iter().enumerate() {
        if let Some(same) =
            members[..index].iter().find(|other| other.identity.id == member.identity.id)
        {
            bail!("{:?} and {:?} are the same database; list it only once", same.name, member.name);
        }
        match Frozen::parse(member.role()) {
            Some(frozen) if frozen.to != member.to => bail!(
                "an earlier change of the store {:?} to {:?} is unfinished; finish it first: run leafd routes apply \
                 with its configuration",
                member.name,
                frozen.to
            ),
            _ => {}
        }
        if member.role() == RETIRED && member.index.is_some() {
            bail!(
                "an earlier change removed the store {:?} from the routes, and its rows are out of date: use an empty \
                 database instead",
                member.name
            );
        }
        for name in stores_named(&member.place()) {
            if !members.iter().any(|member| member.name == name) {
                bail!(
                    "the store {:?} records routes that name a store {name:?}, but the configuration doesn't: pass the \
                     former configuration with --former",
                    member.name
                );
            }
        }
    }
    check_eras(members, routing)
}

/// If a member of a list of primaries will issue different ids, the era must be new to all members. An old copy of a
/// member is recognised by its era.
fn check_eras(members: &[Member], routing: &Routing) -> Result<()> {
    let era = |member: &Member| member.primary().map_or(0, |primary| primary.era);
    let undone = |member: &&Member| member.progress() != Progress::Done;
    let changing = members.iter().filter(undone).filter(|member| member.changes_shard());
    let former = changing.map(era).max().unwrap_or(0);
    for member in members {
        let (Some(primary), Some(index)) = (member.primary_to_be(), member.index) else { continue };
        let together = members.iter().filter(|other| {
            other.index.is_some_and(|other| routing.are_primaries_together(index, other))
        });
        let mut changed = together.filter(undone).filter(|other| other.changes_shard());
        let Some(changed) = changed.next() else { continue };
        // A member that has its new role and era is finished.
        let own = if undone(&member) { era(member) } else { 0 };
        let highest = former.max(own);
        if primary.era <= highest {
            bail!(
                "the list of primaries that contains {:?} changes (and with it the role of {:?}), but its era is {}, \
                 and the stores have already had era {highest}: set its era to {}",
                member.name,
                changed.name,
                primary.era,
                highest.saturating_add(1)
            );
        }
    }
    Ok(())
}

/// The names of the stores in the routes of a recorded role, as `Routing::role` writes them.
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

/// The parts between semicolons outside quotes.
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

/// Reads every row of every store, and the names without a tag that the stores remember.
pub(super) async fn survey(members: &[Member], routing: &Routing) -> Result<Survey> {
    let mut survey = Survey::default();
    for (at, member) in members.iter().enumerate() {
        let mut rows = 0;
        member
            .each_row(|row, end| {
                rows += 1;
                if let Some((why, remedy)) = offence(member, routing, &row) {
                    let words = format!("{} in {}: {why}", row.tag.as_str(), member.name);
                    survey.offend(words, remedy);
                }
                if let Some(known) = survey.known(members, routing, at, &row.tag) {
                    known.note_end(at, end);
                    known.note_row(at, row);
                }
            })
            .await?;
        survey.rows.push(rows);
        member
            .each_end(|tag, end| {
                // There are no ids below 1.
                if end > 1
                    && let Some(known) = survey.known(members, routing, at, &tag)
                {
                    known.note_end(at, end);
                }
            })
            .await?;
    }
    Ok(survey)
}

/// The stores that must take over what the store with this index knows about a name: the stores to which the name will
/// belong, unless it already belongs to exactly these.
fn needed_in(members: &[Member], routing: &Routing, at: usize, tag: &Tag) -> Vec<usize> {
    let homes: Vec<usize> =
        (0..members.len()).filter(|at| members[*at].is_home_of(routing, tag)).collect();
    if homes.contains(&at) {
        let changes = homes.iter().any(|home| members[*home].changes_shard());
        return if changes { homes } else { Vec::new() };
    }
    if homes.is_empty() && members[at].index.is_none() {
        // No store has the tag, and the store that remembers it is retired. A remaining store must remember it, in case
        // it is created again.
        return members.iter().position(|member| member.index.is_some()).into_iter().collect();
    }
    homes
}

fn offence(member: &Member, routing: &Routing, row: &TagRow) -> Option<Offence> {
    let tag = &row.tag;
    let Some(index) = member.index else {
        // A former primary's ids count in the tag's new stores.
        let primary = member.primary().is_some();
        if !primary || routing.placement(tag).is_none() {
            return Some(("the new routes don't use its store".to_owned(), STAY));
        }
        return unfinished(row);
    };
    if !member.is_home_of(routing, tag) {
        let why = match routing.placement(tag) {
            Some(home) => format!("the new routes send it to {}", routing.names(home)),
            None => "no rule of the new routes matches it".to_owned(),
        };
        return Some((why, STAY));
    }
    let kind = match row {
        TagRow { strict: true, .. } => "strict",
        TagRow { masked: Some(_), .. } => "masked",
        _ => return unfinished(row),
    };
    let why = format!("it is {kind}, but tags in independent primaries can't be");
    routing.is_primary(index).then_some((why, STAY)).or_else(|| unfinished(row))
}

/// A store that took over such a tag could neither grant its ids nor know that its creation must be repeated.
fn unfinished(row: &TagRow) -> Option<Offence> {
    (row.ceiling == UNFINISHED).then(|| ("its creation was interrupted".to_owned(), FINISH))
}

impl Survey {
    fn offend(&mut self, words: String, remedy: &'static str) {
        self.offending += 1;
        self.remedies.insert(remedy);
        if self.offenders.len() < SHOWN_MAX {
            self.offenders.push(words);
        }
    }

    /// What is known about a name, if another store must take it over.
    fn known(
        &mut self,
        members: &[Member],
        routing: &Routing,
        at: usize,
        tag: &Tag,
    ) -> Option<&mut Known> {
        let needed_in = needed_in(members, routing, at, tag);
        if needed_in.is_empty() {
            return None;
        }
        let known = self.known.entry(tag.clone()).or_default();
        for home in needed_in {
            if !known.needed_in.contains(&home) {
                known.needed_in.push(home);
            }
        }
        Some(known)
    }

    /// Describes what forbids the change.
    pub(super) fn refusal(&self) -> Option<String> {
        if self.offending == 0 {
            return None;
        }
        let mut text =
            format!("the new routes don't allow these {} tags where they are:\n", self.offending);
        for words in &self.offenders {
            text.push_str(&format!("  {words}\n"));
        }
        if self.offending > self.offenders.len() {
            text.push_str("  and others\n");
        }
        let remedies: Vec<&str> = self.remedies.iter().copied().collect();
        text.push_str(&remedies.join("; "));
        Some(text)
    }
}

impl Known {
    fn note_end(&mut self, at: usize, end: u64) {
        self.end = self.end.max(end).max(1);
        match self.ends.iter_mut().find(|(of, _)| *of == at) {
            Some((_, known)) => *known = end.max(*known),
            None => self.ends.push((at, end)),
        }
    }

    fn note_row(&mut self, at: usize, row: TagRow) {
        let known = self.row.get_or_insert_with(|| KnownRow {
            ceiling: row.ceiling,
            step: row.step,
            // Another program may have written a text that leafd would refuse.
            description: row.description.filter(|text| !text.chars().any(char::is_control)),
            stores: Vec::new(),
        });
        known.ceiling = known.ceiling.min(row.ceiling);
        known.stores.push(at);
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
