//! Parses the rules that assign tags to stores, and refuses rules that contradict the list of stores or each other.

use super::pattern::{self, Pattern};
use super::stores::{NO_SQLITE, StoreSpec};
use super::value::{ConfigNode, InvalidValue, Value};

/// A rule. Its stores are indices into the list of stores.
#[derive(Debug)]
pub(super) struct Rule {
    pub(super) patterns: Vec<Pattern>,
    pub(super) home: RouteTarget,
}

/// Where the tags of a rule belong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RouteTarget {
    /// In this store.
    One(usize),
    /// Each in one of these, by its hash.
    Hashed(Vec<usize>),
    /// In all of these; each owns the numbers whose remainder is its index.
    Primaries(Vec<usize>, u32),
}

/// The maximum number of patterns in all rules together. A store can record fewer.
const PATTERNS_MAX: usize = 1_000;

/// The maximum number of primaries of a tag.
pub const PRIMARIES_MAX: usize = 64;

const RULE_KEYS: &str = "tags, store, hash, primaries, era";

const RULE_SHAPE: &str = "tags with one of store, hash and primaries; era with primaries";

/// Parses `routes` for these stores.
pub(super) fn parse(node: &ConfigNode, stores: &[StoreSpec]) -> Result<Vec<Rule>, InvalidValue> {
    if node.list()?.is_empty() {
        return Err(node.bad_for("at least one rule"));
    }
    let mut rules: Vec<Rule> = Vec::new();
    let mut patterns_count = 0;
    node.items(|item| {
        let rule = parse_rule(item, stores)?;
        patterns_count += rule.patterns.len();
        if patterns_count > PATTERNS_MAX {
            let found = counted(item, "this rule");
            return Err(found
                .bad_because(format!("all rules together may have at most {PATTERNS_MAX} tags")));
        }
        check_reached(item, &rule, &rules)?;
        check_shared(item, &rule, &rules, stores)?;
        rules.push(rule);
        Ok(())
    })?;
    let unused = (0..stores.len())
        .find(|store| !rules.iter().any(|rule| rule.home.stores().contains(store)));
    if let Some(store) = unused.and_then(|store| stores.get(store)) {
        let reason = format!("every store must be used, and no rule uses {:?}", store.name);
        return Err(counted(node, "these rules").bad_because(reason));
    }
    Ok(rules)
}

/// The same place, with a short description instead of a long value.
pub(super) fn counted(node: &ConfigNode, words: &str) -> ConfigNode {
    ConfigNode { value: Value::Other("list", words.to_owned()), line: node.line }
}

fn parse_rule(node: &ConfigNode, stores: &[StoreSpec]) -> Result<Rule, InvalidValue> {
    let shape = || node.bad_for(format!("a table of {RULE_SHAPE}"));
    node.table().map_err(|_| shape())?;
    node.only_keys(RULE_KEYS)?;
    let list = |most| move |value: &ConfigNode| list_of(value, stores, most);
    let era = node.field("era", |value| value.integer(1, u64::from(u32::MAX)))?;
    let era = era.and_then(|era| u32::try_from(era).ok());
    let primaries = match (node.field("primaries", list(PRIMARIES_MAX))?, era) {
        (Some(members), Some(era)) => Some(RouteTarget::Primaries(members, era)),
        (Some(_), None) => {
            return Err(node.bad_because(
                "primaries require an era: 1 at first, and one more whenever the list changes",
            ));
        }
        (None, Some(_)) => return Err(node.bad_because("an era requires primaries")),
        (None, None) => None,
    };
    let one = node.field("store", |value| store_of(value, stores))?.map(RouteTarget::One);
    let hashed = node.field("hash", list(stores.len().max(2)))?.map(RouteTarget::Hashed);
    let patterns = node.field("tags", pattern::parse_list)?;
    let homes: Vec<RouteTarget> = [one, hashed, primaries].into_iter().flatten().collect();
    match (patterns, <[RouteTarget; 1]>::try_from(homes)) {
        (_, Err(homes)) if homes.len() > 1 => {
            Err(node.bad_because("a rule has only one of store, hash and primaries"))
        }
        (Some(patterns), Ok([home])) => Ok(Rule { patterns, home }),
        _ => Err(shape()),
    }
}

fn store_of(node: &ConfigNode, stores: &[StoreSpec]) -> Result<usize, InvalidValue> {
    let place = node.text().ok().and_then(|text| stores.iter().position(|one| *one.name == *text));
    let place = place.ok_or_else(|| {
        let names: Vec<&str> = stores.iter().map(|store| &*store.name).collect();
        node.bad_for(format!("the name of a store in stores: {}", names.join(", ")))
    })?;
    if stores.get(place).is_some_and(StoreSpec::is_embedded) {
        return Err(node.bad_because(format!("{NO_SQLITE}; it needs no routes")));
    }
    Ok(place)
}

/// A list of at least two and at most `most` different stores.
fn list_of(
    node: &ConfigNode,
    stores: &[StoreSpec],
    most: usize,
) -> Result<Vec<usize>, InvalidValue> {
    let wrong = || node.bad_for(format!("a list of 2 to {most} names of stores"));
    if !(2..=most).contains(&node.list().map_err(|_| wrong())?.len()) {
        return Err(wrong());
    }
    let mut members = Vec::new();
    node.items(|item| {
        let store = store_of(item, stores)?;
        if members.contains(&store) {
            return Err(item.bad_because("each store may be listed only once"));
        }
        members.push(store);
        Ok(store)
    })
}

/// Refuses a rule that no tag reaches, because an earlier one matches all its tags.
fn check_reached(node: &ConfigNode, rule: &Rule, earlier: &[Rule]) -> Result<(), InvalidValue> {
    for (place, pattern) in rule.patterns.iter().enumerate() {
        let covers = |other: &Rule| other.patterns.iter().any(|one| one.covers(pattern));
        if let Some(first) = earlier.iter().position(covers) {
            let tag = item_of(node, "tags", place);
            let reason = format!(
                "routes[{first}] already matches all of these tags, so put this rule before it, or remove it"
            );
            return Err(tag.bad_because(reason).within(format!(".tags[{place}]")));
        }
    }
    Ok(())
}

/// Refuses a store that is one of several primaries and is also used alone, because its rows would have two meanings.
fn check_shared(
    node: &ConfigNode,
    rule: &Rule,
    earlier: &[Rule],
    stores: &[StoreSpec],
) -> Result<(), InvalidValue> {
    for store in rule.home.stores() {
        let shared = earlier.iter().position(|other| {
            let either = other.home.is_primaries() || rule.home.is_primaries();
            either && other.home.stores().contains(store)
        });
        if let (Some(first), Some(store)) = (shared, stores.get(*store)) {
            return Err(node.bad_because(format!(
                "{:?} is also in routes[{first}], and a primary can be in only one rule (which may list many tags)",
                store.name
            )));
        }
    }
    Ok(())
}

/// An item of a rule's list, for an error.
fn item_of(rule: &ConfigNode, key: &str, place: usize) -> ConfigNode {
    let list = rule.table().ok().and_then(|entries| entries.iter().find(|(name, _)| name == key));
    let item = list.and_then(|(_, list)| list.list().ok()?.get(place));
    item.unwrap_or(rule).clone()
}

// === impl Home ===

impl RouteTarget {
    pub(super) fn stores(&self) -> &[usize] {
        match self {
            RouteTarget::One(store) => std::slice::from_ref(store),
            RouteTarget::Hashed(members) | RouteTarget::Primaries(members, _) => members,
        }
    }

    fn is_primaries(&self) -> bool {
        matches!(self, RouteTarget::Primaries(..))
    }
}
