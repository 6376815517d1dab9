//! Where each tag belongs, and what a store records about its own role. That record reveals daemons that would look for
//! a tag in different stores.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::slice;

use super::hash;
use super::pattern::{Pattern, PatternIndex};
use super::routes::{PRIMARIES_MAX, RouteTarget, Rule};
use super::stores::StoreSpec;
use leafd_core::Tag;
use leafd_core::store::Shard;

/// The stores, and which tags belong to which.
#[derive(Clone, Debug)]
pub struct Routing {
    stores: Vec<StoreSpec>,
    homes: Vec<RouteTarget>,
    by_pattern: PatternIndex,
    /// The whole routing as text. Equal routings have equal texts; empty without routes.
    described: String,
}

/// What a store records about itself as one of several primaries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrimaryRole {
    /// Its index and the number of primaries, 2 to 64, which determine the ids that it grants.
    pub shard: Shard,
    /// The era, from 1.
    pub era: u32,
}

/// The longest role that a store records, in bytes. While a role is being changed, there must be room for two.
pub const ROLE_BYTES_MAX: usize = (leafd_core::store::ROLE_BYTES_MAX - CHANGE_BYTES) / 2;

/// Room for the words around the two roles of a change.
const CHANGE_BYTES: usize = 64;

// === impl Routing ===

impl Routing {
    /// All tags in the only store.
    pub(super) fn unrouted(stores: Vec<StoreSpec>) -> Routing {
        let everything = [Pattern::Prefix(String::new())];
        let by_pattern = PatternIndex::of([&everything[..]].into_iter());
        let (homes, described) = (vec![RouteTarget::One(0)], String::new());
        Routing { stores, homes, by_pattern, described }
    }

    /// Compiles rules that were already checked against these stores.
    ///
    /// # Errors
    /// The length of the longest role when that is more than [`ROLE_BYTES_MAX`].
    pub(super) fn compile(stores: Vec<StoreSpec>, rules: Vec<Rule>) -> Result<Routing, usize> {
        let described = describe(&stores, &rules);
        let by_pattern = PatternIndex::of(rules.iter().map(|rule| &*rule.patterns));
        let homes = rules.into_iter().map(|rule| rule.home).collect();
        let routing = Routing { stores, homes, by_pattern, described };
        let longest = (0..routing.stores.len()).map(|store| routing.role(store).len()).max();
        match longest {
            Some(bytes) if bytes > ROLE_BYTES_MAX => Err(bytes),
            _ => Ok(routing),
        }
    }

    /// The stores, by name; never none.
    pub fn stores(&self) -> &[StoreSpec] {
        &self.stores
    }

    /// Whether there is one store, to which every tag belongs.
    pub fn is_sole(&self) -> bool {
        self.described.is_empty()
    }

    /// The stores of a tag, as indices into [`Routing::stores`]: one, or the 2 to 64 primaries of its list in their order.
    /// `None` if no rule matches it.
    pub fn placement(&self, tag: &Tag) -> Option<&[usize]> {
        let name = tag.as_str();
        // No earlier rule has a prefix of a tag that a later one names in full, because such rules are refused.
        Some(match self.homes.get(self.by_pattern.matching(name).next()?)? {
            RouteTarget::One(store) => slice::from_ref(store),
            RouteTarget::Hashed(members) => {
                slice::from_ref(members.get(hash::place(name, members.len()))?)
            }
            RouteTarget::Primaries(members, _) => members,
        })
    }

    /// Whether both are among the primaries of one list.
    pub fn are_primaries_together(&self, one: usize, other: usize) -> bool {
        self.homes.iter().any(|home| {
            matches!(home, RouteTarget::Primaries(members, _) if members.contains(&one) && members.contains(&other))
        })
    }

    /// The stores with the same tags as this one: itself, or all primaries of its list in order.
    pub fn together(&self, store: usize) -> Vec<usize> {
        let list = self.homes.iter().find_map(|home| match home {
            RouteTarget::Primaries(members, _) if members.contains(&store) => {
                Some(members.to_vec())
            }
            _ => None,
        });
        list.unwrap_or_else(|| vec![store])
    }

    /// Whether a store is one of several primaries.
    pub fn is_primary(&self, store: usize) -> bool {
        self.are_primaries_together(store, store)
    }

    /// The names of these stores, for messages.
    pub fn names(&self, stores: &[usize]) -> String {
        let names = stores.iter().filter_map(|store| self.stores.get(*store));
        names.map(|store| &*store.name).collect::<Vec<_>>().join(",")
    }

    /// What a store records about its role. Empty for the only store. Otherwise one line of at most
    /// [`ROLE_BYTES_MAX`] bytes. It differs whenever the store or any tag's placement differs, and is equal on all
    /// hosts with equal routes. For a primary's see [`parse_primary`].
    pub fn role(&self, store: usize) -> String {
        let Some(StoreSpec { name, .. }) = self.stores.get(store).filter(|_| !self.is_sole())
        else {
            return String::new();
        };
        let primary = self.homes.iter().find_map(|home| match home {
            RouteTarget::Primaries(members, era) => {
                let index = members.iter().position(|member| *member == store)?;
                Some(format!("primary {index} of {}, era {era}", members.len()))
            }
            RouteTarget::One(_) | RouteTarget::Hashed(_) => None,
        });
        let place = primary.unwrap_or_else(|| format!("store {name}"));
        format!("{place}, of: {}", self.described)
    }
}

/// Reads the beginning of a primary's role; `None` for every other text.
pub fn parse_primary(role: &str) -> Option<PrimaryRole> {
    let rest = role.strip_prefix("primary ")?;
    let (index, rest) = rest.split_once(" of ")?;
    let (of, rest) = rest.split_once(", era ")?;
    let (era, _) = rest.split_once(", of: ")?;
    let shard = Shard { index: number(index)?, of: number(of)? };
    let found = PrimaryRole { shard, era: number(era)? };
    let primaries_max = u32::try_from(PRIMARIES_MAX).ok()?;
    let sound = (2..=primaries_max).contains(&shard.of) && shard.index < shard.of && found.era >= 1;
    sound.then_some(found)
}

/// Accepts the canonical form only: no sign, no leading zeros.
fn number(text: &str) -> Option<u32> {
    text.parse().ok().filter(|number: &u32| number.to_string() == text)
}

/// The routing in one line, such as `pay.*->pay; *->hash(s0,s1)`.
///
/// If two patterns match one tag, the narrower one is in the earlier rule, because a rule that an earlier one covers is
/// refused. So the narrowest pattern decides, and the order of the rules doesn't matter. Therefore patterns are sorted,
/// and those with the same effect as the next wider one are omitted.
fn describe(stores: &[StoreSpec], rules: &[Rule]) -> String {
    let all: BTreeMap<&Pattern, String> = rules
        .iter()
        .flat_map(|rule| rule.patterns.iter().map(|one| (one, describe_home(stores, &rule.home))))
        .collect();
    let mut by_home: BTreeMap<&str, Vec<&Pattern>> = BTreeMap::new();
    for (pattern, home) in &all {
        let wider = all
            .iter()
            .filter(|(other, _)| *other != pattern && other.covers(pattern))
            .max_by_key(|(other, _)| other.fixed().len());
        if wider.is_none_or(|(_, wider_home)| wider_home != home) {
            by_home.entry(home.as_str()).or_default().push(*pattern);
        }
    }
    if let (1, Some((_, patterns))) = (stores.len(), by_home.first_key_value())
        && patterns.iter().any(|pattern| **pattern == Pattern::Prefix(String::new()))
    {
        return String::new();
    }
    let mut out = String::new();
    for (home, patterns) in by_home {
        let tags: Vec<String> = patterns.into_iter().map(describe_pattern).collect();
        let separator = if out.is_empty() { "" } else { "; " };
        // Writing to a string doesn't fail.
        let _ = write!(out, "{separator}{}->{home}", tags.join(","));
    }
    out
}

fn describe_home(stores: &[StoreSpec], home: &RouteTarget) -> String {
    let names: Vec<&str> =
        home.stores().iter().filter_map(|store| stores.get(*store)).map(|one| &*one.name).collect();
    let names = names.join(",");
    match home {
        RouteTarget::One(_) => names,
        RouteTarget::Hashed(_) => format!("hash({names})"),
        RouteTarget::Primaries(_, era) => format!("primaries({names}) era {era}"),
    }
}

/// A pattern as configured; in quotes if its characters could be mistaken for others.
fn describe_pattern(pattern: &Pattern) -> String {
    let fixed = pattern.fixed();
    let plain = |c: char| c.is_ascii_alphanumeric() || "._:/@-".contains(c);
    let name = if fixed.chars().all(plain) {
        fixed.to_owned()
    } else {
        format!("\"{}\"", fixed.replace('\\', "\\\\").replace('"', "\\\""))
    };
    match pattern {
        Pattern::Exact(_) => name,
        Pattern::Prefix(_) => format!("{name}*"),
    }
}
