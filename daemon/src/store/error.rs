//! Why a store call failed: what was tried, what happened, what to do.

use super::Identity;
use crate::id::Tag;

/// Why a store call failed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
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
    /// All numbers up to the ceiling are claimed.
    #[error(
        "tag {tag:?} is used up: every number to its ceiling {ceiling} is claimed; raise it with: leafctl tag set {tag:?} --ceiling N"
    )]
    Exhausted {
        /// The tag.
        tag: Tag,
        /// Its largest allowed number.
        ceiling: u64,
    },
    /// The store that answers is not the one that the caller trusts, or its history or role is another one by
    /// now. Nothing was done.
    #[error(
        "the store {store} is not, or no longer, what it was: it was {expected}, and now it is {found}; nothing was done"
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
