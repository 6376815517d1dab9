//! Which store each tag lives in: the sole `store`, or several named `stores` with `routes` to them.
//!
//! A tag must never move silently, so each store records its place among the others ([`Routing::role`]) and refuses
//! daemons that would have it elsewhere.

use std::fmt::Write as _;
use std::sync::Arc;

use super::access::{Pattern, parse_patterns};
use super::password::{self, StorePassword};
use super::sources::Surroundings;
use super::store_url::{self, StoreUrl};
use super::types;
use super::value::{Bad, Node};
use crate::id::Tag;

/// The stores, and which tag lives in which of them. Clones share it.
#[derive(Clone, Debug)]
pub struct Routing {
    /// The stores, in the order in which they were named; at least one.
    pub stores: Arc<[StoreSpec]>,
    /// Tried in order; none when there is but one store for everything.
    rules: Arc<[Rule]>,
}

/// A store.
#[derive(Clone, Debug)]
pub struct StoreSpec {
    /// Its name among several; empty for the sole `store`.
    pub name: Arc<str>,
    /// Where it is.
    pub url: StoreUrl,
    /// What it is shown at login.
    pub password: StorePassword,
}

/// Where a tag lives: indexes into [`Routing::stores`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TagHome<'a> {
    /// In one store.
    One(usize),
    /// In independent primaries: of N, the one at index i holds a counter k for the ids k*N + i.
    Primaries {
        /// The stores, in the order that gives each its index.
        members: &'a [usize],
        /// Which agreement on their number and order this is, from 1.
        era: u32,
    },
}

/// A store's place among independent primaries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Primary {
    /// Its index, below `of`.
    pub index: u32,
    /// How many there are, from 2.
    pub of: u32,
    /// Which agreement on their number and order this is, from 1.
    pub era: u32,
}

#[derive(Debug)]
struct Rule {
    patterns: Vec<Pattern>,
    target: Target,
}

#[derive(Debug)]
enum Target {
    One(usize),
    Hash(Vec<usize>),
    Primaries(Vec<usize>, u32),
}

const RULE_KEYS: &str = "tags, and one of store, hash and primaries; with primaries also era";
const STORE_KEYS: &str = "url, password_file";
const NAME_BYTES_MAX: usize = 32;
const PRIMARIES_MAX: usize = 64;
/// Longest description of a store's place that stores record.
const ROLE_BYTES_MAX: usize = crate::store::ROLE_BYTES_MAX;

/// FNV-1a's offset and prime, 64 bits wide.
const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0000_0100_0000_01b3;

impl Routing {
    /// One store for every tag.
    pub(super) fn sole(url: StoreUrl, password: StorePassword) -> Routing {
        let name = Arc::from("");
        Routing { stores: [StoreSpec { name, url, password }].into(), rules: [].into() }
    }

    /// Where a tag lives; `None` when no rule names it.
    #[must_use]
    pub fn home(&self, tag: &Tag) -> Option<TagHome<'_>> {
        if self.rules.is_empty() {
            return Some(TagHome::One(0));
        }
        let matching = |rule: &&Rule| rule.patterns.iter().any(|one| one.matches(tag.as_str()));
        Some(match &self.rules.iter().find(matching)?.target {
            Target::One(store) => TagHome::One(*store),
            Target::Hash(stores) => TagHome::One(stores[slot(tag, stores.len())]),
            Target::Primaries(members, era) => TagHome::Primaries { members, era: *era },
        })
    }

    /// What a store records about its place among the others, one line of printable ASCII; empty for a sole store.
    #[must_use]
    pub fn role(&self, store: usize) -> String {
        if self.rules.is_empty() {
            return String::new();
        }
        let mut role = String::new();
        for rule in &*self.rules {
            if let Target::Primaries(members, era) = &rule.target
                && let Some(index) = members.iter().position(|member| *member == store)
            {
                let _ = write!(role, "primary {index} of {}, era {era}, ", members.len());
            }
        }
        let _ = write!(role, "store {} in:", self.stores[store].name);
        for rule in &*self.rules {
            let tags: Vec<String> = rule.patterns.iter().map(Pattern::to_string).collect();
            let _ = write!(role, " {} -> {};", tags.join(" "), self.target_text(&rule.target));
        }
        role
    }

    fn target_text(&self, target: &Target) -> String {
        let names = |stores: &[usize]| {
            let names: Vec<&str> = stores.iter().map(|store| &*self.stores[*store].name).collect();
            names.join(" ")
        };
        match target {
            Target::One(store) => names(&[*store]),
            Target::Hash(stores) => format!("hash({})", names(stores)),
            Target::Primaries(stores, era) => format!("primaries({}) era {era}", names(stores)),
        }
    }

    /// Puts stores and rules together.
    pub(super) fn of(stores: Vec<StoreSpec>, node: &Node) -> Result<Routing, Bad> {
        let mut rules: Vec<Rule> = Vec::new();
        for (index, item) in node.list()?.iter().enumerate() {
            let here = |bad: Bad| bad.within(format!("[{index}]"));
            let rule = parse_rule(item, &stores).map_err(here)?;
            for pattern in &rule.patterns {
                let covered = rules.iter().flat_map(|rule| &rule.patterns).any(|one| one.covers(pattern));
                if covered {
                    let why = format!(
                        "rules that can match: an earlier one takes all of {pattern}, so put the narrower rule first"
                    );
                    return Err(here(item.bad_for(why)));
                }
            }
            rules.push(rule);
        }
        if rules.is_empty() {
            return match stores.len() {
                1 => Ok(Routing { stores: stores.into(), rules: [].into() }),
                _ => Err(node.bad_for("at least one rule, when there are several stores")),
            };
        }
        check_use(&stores, &rules, node)?;
        let routing = Routing { stores: stores.into(), rules: rules.into() };
        let longest = (0..routing.stores.len()).map(|store| routing.role(store).len()).max();
        if longest > Some(ROLE_BYTES_MAX) {
            return Err(node.bad_for(format!(
                "rules that fit into {ROLE_BYTES_MAX} characters, because every store records them; use fewer patterns \
                 with a * instead of many tags"
            )));
        }
        Ok(routing)
    }
}

impl Primary {
    /// The place that a store's role names, if it is one among primaries.
    #[must_use]
    pub fn in_role(role: &str) -> Option<Primary> {
        let (index, rest) = role.strip_prefix("primary ")?.split_once(" of ")?;
        let (of, rest) = rest.split_once(", era ")?;
        let (era, _) = rest.split_once(',')?;
        let primary =
            Primary { index: index.parse().ok()?, of: of.parse().ok()?, era: era.parse().ok()? };
        (primary.index < primary.of).then_some(primary)
    }
}

/// Where in an ordered list of stores a tag's numbers are: FNV-1a over the tag's bytes, mixed, and scaled to the
/// list's length. It must never change, or tags would move.
fn slot(tag: &Tag, stores: usize) -> usize {
    let sum = tag.as_str().bytes().fold(FNV_OFFSET, |sum, byte| (sum ^ u64::from(byte)).wrapping_mul(FNV_PRIME));
    // FNV's high bits hardly differ between short names that end differently: murmur3's finalizer spreads them.
    let mut mixed = sum;
    mixed = (mixed ^ (mixed >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    mixed = (mixed ^ (mixed >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    mixed ^= mixed >> 33;
    let scaled = (u128::from(mixed) * stores as u128) >> 64;
    usize::try_from(scaled).expect("it is below the list's length")
}

// === parsing ===

pub(super) fn parse_stores(node: &Node, around: &Surroundings) -> Result<Vec<StoreSpec>, Bad> {
    let mut stores: Vec<StoreSpec> = Vec::new();
    for (name, value) in node.table()? {
        let here = |bad: Bad| bad.within(format!(".{name}"));
        let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        // The variable of its password would be that of another setting.
        let taken = name == "file";
        if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.bytes().all(allowed) || taken {
            let allowed = "names of 1 to 32 of the characters a-z, 0-9 and -, other than file";
            return Err(here(value.bad_for(allowed)));
        }
        let (url, file) = match value.table() {
            Err(_) => (store_url::parse(value).map_err(here)?, None),
            Ok(entries) => {
                let (mut url, mut file) = (None, None);
                for (key, value) in entries {
                    let here = |bad: Bad| bad.within(format!(".{name}.{key}"));
                    match key.as_str() {
                        "url" => url = Some(store_url::parse(value).map_err(here)?),
                        "password_file" => file = Some(types::path(value).map_err(here)?),
                        _ => return Err(here(value.bad_for(format!("only the keys {STORE_KEYS}")))),
                    }
                }
                let Some(url) = url else {
                    return Err(here(value.bad_for("a URL, or a table with url and perhaps password_file")));
                };
                (url, file)
            }
        };
        if matches!(url, StoreUrl::Sqlite(_)) {
            return Err(here(value.bad_for(
                "postgres:// or mysql://; the embedded store serves one host only, and is named by the setting store",
            )));
        }
        let password = password::find_named(file, name, around);
        stores.push(StoreSpec { name: name.as_str().into(), url, password });
    }
    if stores.is_empty() {
        return Err(node.bad_for("at least one store"));
    }
    Ok(stores)
}

fn parse_rule(node: &Node, stores: &[StoreSpec]) -> Result<Rule, Bad> {
    let (mut patterns, mut target, mut era) = (None, None, None);
    for (key, value) in node.table()? {
        let here = |bad: Bad| bad.within(format!(".{key}"));
        let second = target.is_some() && ["store", "hash", "primaries"].contains(&key.as_str());
        if second {
            return Err(here(value.bad_for(format!("only {RULE_KEYS}"))));
        }
        match key.as_str() {
            "tags" => patterns = Some(parse_patterns(value).map_err(here)?),
            "store" => target = Some(Target::One(named(value, stores).map_err(here)?)),
            "hash" => target = Some(Target::Hash(list(value, stores, 1).map_err(here)?)),
            "primaries" => target = Some(Target::Primaries(list(value, stores, 2).map_err(here)?, 0)),
            "era" => era = Some(value.integer(1, u64::from(u32::MAX)).map_err(here)?),
            _ => return Err(here(value.bad_for(format!("only {RULE_KEYS}")))),
        }
    }
    let (Some(patterns), Some(target)) = (patterns, target) else {
        return Err(node.bad_for(RULE_KEYS));
    };
    let era = era.and_then(|era| u32::try_from(era).ok());
    let target = match (target, era) {
        (Target::Primaries(members, _), Some(era)) => Target::Primaries(members, era),
        (Target::Primaries(..), None) => return Err(node.bad_for("primaries with an era, from 1")),
        (_, Some(_)) => return Err(node.bad_for("an era only with primaries")),
        (target, None) => target,
    };
    Ok(Rule { patterns, target })
}

fn named(node: &Node, stores: &[StoreSpec]) -> Result<usize, Bad> {
    let name = node.text()?;
    stores.iter().position(|store| *store.name == *name).ok_or_else(|| {
        let names: Vec<&str> = stores.iter().map(|store| &*store.name).collect();
        node.bad_for(format!("the name of one of the stores: {}", names.join(", ")))
    })
}

fn list(node: &Node, stores: &[StoreSpec], least: usize) -> Result<Vec<usize>, Bad> {
    let mut found = Vec::new();
    for (index, item) in node.list()?.iter().enumerate() {
        let here = |bad: Bad| bad.within(format!("[{index}]"));
        let store = named(item, stores).map_err(here)?;
        if found.contains(&store) {
            return Err(here(item.bad_for("each store once")));
        }
        found.push(store);
    }
    if found.len() < least || found.len() > PRIMARIES_MAX {
        return Err(node.bad_for(format!("a list of {least} to {PRIMARIES_MAX} stores, such as [\"a\", \"b\"]")));
    }
    Ok(found)
}

/// Every store is used, and one that is a primary is nothing else.
fn check_use(stores: &[StoreSpec], rules: &[Rule], node: &Node) -> Result<(), Bad> {
    for (index, store) in stores.iter().enumerate() {
        let uses = |rule: &&Rule| match &rule.target {
            Target::One(one) => *one == index,
            Target::Hash(some) | Target::Primaries(some, _) => some.contains(&index),
        };
        let using: Vec<&Rule> = rules.iter().filter(uses).collect();
        let primary = using.iter().any(|rule| matches!(rule.target, Target::Primaries(..)));
        if using.is_empty() {
            return Err(node.bad_for(format!("rules that use every store; none uses {:?}", &*store.name)));
        }
        if primary && using.len() > 1 {
            return Err(node.bad_for(format!(
                "rules in which a primary is nothing else; {:?} is in several",
                &*store.name
            )));
        }
    }
    Ok(())
}
