//! Why a store call failed: what was tried, what happened, what to do.

use super::{Identity, UNFINISHED};
use crate::Tag;

/// Why a store call failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The store can't be reached, or not within the time bound. Whether a change was made is unknown.
    #[error("the store {store} can't be used: {cause}")]
    Unavailable {
        /// Which store, without secrets.
        store: String,
        /// What happened.
        cause: String,
    },
    /// Too many calls are waiting for the store. Nothing was sent.
    #[error("the store {store} has {waiting_max} calls waiting; try again in a moment")]
    Overloaded {
        /// Which store.
        store: String,
        /// The limit that is reached.
        waiting_max: usize,
    },
    /// There is no such tag.
    #[error("the store has no tag {tag:?}; create it with: leafctl tag create {tag:?}")]
    UnknownTag {
        /// The tag asked for.
        tag: Tag,
    },
    /// There is such a tag already.
    #[error("the store already has a tag {tag:?}")]
    TagExists {
        /// The tag to be created.
        tag: Tag,
    },
    /// Too few ids are left up to the ceiling. Nothing was claimed.
    #[error("{}", exhausted(tag, *ceiling, *left))]
    Exhausted {
        /// The tag.
        tag: Tag,
        /// Its largest allowed number.
        ceiling: u64,
        /// How many ids are left; fewer than were needed.
        left: u64,
    },
    /// The store that answers is not the one that the caller trusts, or its history or role is another one by
    /// now. Nothing was done.
    #[error(
        "the store {store} has changed: it was {expected}, and now it is {found}; nothing was done"
    )]
    Changed {
        /// Which store, without secrets.
        store: String,
        /// What the caller trusts.
        expected: Identity,
        /// What answers.
        found: Identity,
    },
    /// The store holds, or was asked for, something that can't be used safely.
    #[error("{0}")]
    Refused(String),
}

fn exhausted(tag: &Tag, ceiling: u64, left: u64) -> String {
    if ceiling == UNFINISHED {
        return format!(
            "tag {tag:?} gives no ids yet: it is not in all of the independent primaries, as its creation was interrupted. Finish \
             it by creating it again: leafctl tag create {tag:?}"
        );
    }
    let raise = format!("leafctl tag set {tag:?} --ceiling N");
    match left {
        0 => format!(
            "tag {tag:?} is used up: every id up to its ceiling {ceiling} is claimed; raise it with: {raise}"
        ),
        _ => format!(
            "tag {tag:?} has only {left} ids left up to its ceiling {ceiling}: request fewer at once, or raise it \
             with: {raise}"
        ),
    }
}
