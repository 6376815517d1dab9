//! Why a store call failed: what was tried, what happened, what to do.

use super::{Identity, Reason, UNFINISHED, Why};
use crate::Tag;
use crate::series::{counts_tenants, is_tag_of_series};
use leafd_wire::text::shell_word;

/// Why a store call failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The store can't be reached, or did not answer in time. Whether it changed anything is unknown.
    #[error("the store {store} can't be used: {cause}")]
    Unavailable {
        /// The store's name, without secrets.
        store: String,
        cause: Reason,
    },
    /// Too many calls are waiting for the store. Nothing was sent.
    #[error("the store {store} has {waiting_max} calls waiting; try again in a moment")]
    Overloaded { store: String, waiting_max: usize },
    /// There is no such tag.
    #[error("the store has no tag {tag:?}; create it with: leafctl tag create {}", shell_word(.tag.as_str()))]
    UnknownTag { tag: Tag },
    /// The tag exists already.
    #[error(
        "the store already has a tag {tag:?}: show it with leafctl tag show {}, change it with leafctl tag set, or choose \
         another name", shell_word(.tag.as_str())
    )]
    TagExists {
        /// The tag that was to be created.
        tag: Tag,
    },
    /// Another host holds the strict tag. Nothing was claimed.
    #[error(
        "another host holds tag {tag:?} and releases it within {ms} ms; this host then continues"
    )]
    Held {
        tag: Tag,
        /// Where the tag's next claim begins. While it doesn't change, the host has not claimed again.
        end: u64,
        /// How long the host may hold the tag, in milliseconds.
        ms: u64,
    },
    /// Too few ids are left up to the ceiling. Nothing was claimed.
    #[error("{}", exhausted(tag, *ceiling, *left))]
    Exhausted {
        tag: Tag,
        /// Its largest allowed number.
        ceiling: u64,
        /// How many ids are left; fewer than were needed.
        left: u64,
    },
    /// The store that answers is not the one that the caller trusts, or its history or role has changed. Nothing was
    /// done.
    #[error(
        "the store {store} has changed: it was {expected}, and now it is {found}; nothing was done"
    )]
    Changed {
        /// The store's name, without secrets.
        store: String,
        /// What the caller trusts.
        expected: Identity,
        /// What answers.
        found: Identity,
    },
    /// The store's data can't be used safely, or the request asks for something that is not allowed.
    #[error("{0}")]
    Refused(Reason),
}

impl StoreError {
    /// A refusal without a class.
    pub fn refused(words: impl Into<Reason>) -> StoreError {
        StoreError::Refused(words.into())
    }

    /// A refusal of this class.
    pub fn refused_for(why: Why, words: impl Into<String>) -> StoreError {
        StoreError::Refused(Reason::new(why, words))
    }

    /// The class of its reason.
    pub fn why(&self) -> Why {
        match self {
            StoreError::Unavailable { cause, .. } => cause.why,
            StoreError::Refused(reason) => reason.why,
            _ => Why::Other,
        }
    }
}

fn exhausted(tag: &Tag, ceiling: u64, left: u64) -> String {
    if ceiling == UNFINISHED {
        return format!(
            "tag {tag:?} issues no ids yet, because its creation was interrupted and some of the independent primaries lack it. \
             Create it again: leafctl tag create {}",
            shell_word(tag.as_str())
        );
    }
    let remedy = ceiling_remedy(tag.as_str());
    match left {
        0 => format!(
            "tag {tag:?} is exhausted: every id up to its ceiling {ceiling} is claimed; {remedy}"
        ),
        1 => format!(
            "tag {tag:?} has only 1 id left up to its ceiling {ceiling}: request it alone, or {remedy}"
        ),
        _ => format!(
            "tag {tag:?} has only {left} ids left up to its ceiling {ceiling}: request fewer at once, or {remedy}"
        ),
    }
}

/// What to do about a tag that has few ids left up to its ceiling.
pub fn ceiling_remedy(tag: &str) -> String {
    if is_tag_of_series(tag) && !counts_tenants(tag) {
        return "wait for the next period, if the series has periods, or create a series with more digits, because this \
                one refuses larger numbers"
            .to_owned();
    }
    format!("raise the ceiling with: leafctl tag set {} --ceiling N", shell_word(tag))
}
