//! Tags in settings: an exact name, or a prefix followed by `*`.

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
