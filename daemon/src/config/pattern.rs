//! Tags in settings: an exact name, or a prefix followed by `*`.

use std::collections::HashMap;

use super::value::{ConfigNode, InvalidValue};
use leafd_core::Tag;

/// Which tags a rule applies to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Pattern {
    /// This tag alone.
    Exact(String),
    /// Every tag with this prefix; if it is empty, every tag.
    Prefix(String),
}

/// A list of patterns, at least one.
pub(super) fn parse_list(node: &ConfigNode) -> Result<Vec<Pattern>, InvalidValue> {
    let wrong = |node: &ConfigNode| {
        node.bad_for("a list of tags, such as [\"orders\", \"pay.*\"]; a * only at the end of one")
    };
    if node.list().map_err(|_| wrong(node))?.is_empty() {
        return Err(wrong(node));
    }
    node.items(|item| {
        let text = item.text().map_err(|_| wrong(item))?;
        let pattern = match text.strip_suffix('*') {
            Some(prefix) => Pattern::Prefix(prefix.to_owned()),
            None => Pattern::Exact(text.to_owned()),
        };
        let fixed = pattern.fixed();
        let everything = matches!(&pattern, Pattern::Prefix(fixed) if fixed.is_empty());
        if fixed.contains('*') || (!everything && Tag::parse(fixed.as_bytes()).is_err()) {
            return Err(wrong(item));
        }
        Ok(pattern)
    })
}

// === impl Pattern ===

impl Pattern {
    /// The text before the `*`, or the whole pattern.
    pub(super) fn fixed(&self) -> &str {
        let (Pattern::Exact(fixed) | Pattern::Prefix(fixed)) = self;
        fixed
    }

    /// Whether this pattern matches every tag that `other` matches.
    pub(super) fn covers(&self, other: &Pattern) -> bool {
        match self {
            Pattern::Prefix(prefix) => other.fixed().starts_with(prefix),
            Pattern::Exact(_) => self == other,
        }
    }
}

/// Which rules apply to a tag.
#[derive(Clone, Debug)]
pub(super) struct PatternIndex {
    exact: HashMap<String, Vec<usize>>,
    prefixes: Vec<(String, usize)>,
}

impl PatternIndex {
    /// An index of these rules' patterns.
    pub(super) fn of<'a>(rules: impl Iterator<Item = &'a [Pattern]>) -> PatternIndex {
        let mut index = PatternIndex { exact: HashMap::new(), prefixes: Vec::new() };
        for (rule, patterns) in rules.enumerate() {
            for pattern in patterns {
                match pattern {
                    Pattern::Exact(tag) => index.exact.entry(tag.clone()).or_default().push(rule),
                    Pattern::Prefix(prefix) => index.prefixes.push((prefix.clone(), rule)),
                }
            }
        }
        index
    }

    /// The rules that match a tag: first those that name it in full, then those with a prefix of it.
    pub(super) fn matching(&self, tag: &str) -> impl Iterator<Item = usize> {
        let exact = self.exact.get(tag).into_iter().flatten().copied();
        let by_prefix = self.prefixes.iter().filter(move |(prefix, _)| tag.starts_with(prefix));
        exact.chain(by_prefix.map(|(_, rule)| *rule))
    }
}
