//! The central store: where a host claims ranges of a tag's numbers.
//!
//! [`Store`] is what a backend implements, blocking; `thread` runs one on a thread of its own for
//! the asynchronous side. Leaf's table and its half-open ranges are the contract, so that a Java Leaf
//! and leafd can share one table: `max_id` is the first number not yet claimed, and a claim of `n`
//! takes `[max_id, max_id + n)` and leaves `max_id + n`.
//!
//! - `claim`: what a claim takes and which tags can be made; pure, the same for every backend.
//! - [`sqlite`]: the embedded store.
//! - [`network`]: what the stores behind a network share.
//! - [`postgres`], [`mysql`]: these.
//! - [`thread`]: a store on a thread of its own.

mod claim;
pub mod mysql;
pub mod network;
pub mod postgres;
pub mod sqlite;
pub mod thread;

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use crate::id::Tag;

pub use claim::{ClaimPlan, judge_start, plan_claim};
pub use thread::{StoreHandle, StoreThread};

/// A store of tags. Calls block; each returns within the backend's own time bound.
///
/// Every call opens or reopens the connection when there is none, so that a store that comes back is
/// used again without a call of its own.
pub trait Store: Send {
    /// Which store answers. It tells a database from its replacement or its restored copy.
    ///
    /// # Errors
    /// [`StoreError`], as for every call.
    fn identity(&mut self) -> Result<StoreId, StoreError>;

    /// Claims numbers of a tag in one transaction that is durable when this returns.
    ///
    /// See [`plan_claim`] for what is claimed. A claim never takes what the store knows to be claimed
    /// already, also when the row was set back by hand. When in doubt whether a commit happened, the
    /// call fails and the range is given up.
    ///
    /// # Errors
    /// [`StoreError::UnknownTag`] unless there is a row of this tag, equal byte for byte;
    /// [`StoreError::Exhausted`] when nothing is left below the ceiling; others as for every call.
    fn claim(&mut self, tag: &Tag, wish: ClaimWish) -> Result<Claim, StoreError>;

    /// One tag's row.
    ///
    /// # Errors
    /// [`StoreError::UnknownTag`], and others as for every call.
    fn show(&mut self, tag: &Tag) -> Result<TagRow, StoreError>;

    /// Up to `limit` rows in ascending byte order of their tags, those after `after`. Rows whose tag is
    /// no [`Tag`], or that hold other things than numbers, are left out with a warning in the log.
    ///
    /// # Errors
    /// As for every call.
    fn list(&mut self, after: Option<&Tag>, limit: u32) -> Result<Vec<TagRow>, StoreError>;

    /// Creates a tag, with a generation above 0 that no earlier tag of the name had.
    ///
    /// # Errors
    /// [`StoreError::TagExists`]; [`StoreError::Refused`] when the values are out of range or `start` is
    /// below the end of what was claimed under this name before (it names the number to use); others as
    /// for every call.
    fn create(&mut self, new: &NewTag) -> Result<TagRow, StoreError>;

    /// Changes a tag's settings. Changes reach daemons with their next claim. A ceiling below what is
    /// claimed already stops further claims and takes nothing back.
    ///
    /// # Errors
    /// [`StoreError::UnknownTag`]; [`StoreError::Refused`] when a value is out of range; others as for
    /// every call.
    fn set(&mut self, tag: &Tag, change: &TagChange) -> Result<TagRow, StoreError>;

    /// The generation of each tag, in the order asked, `None` for one that is not there: one query for
    /// all (or one for every few hundred).
    ///
    /// # Errors
    /// As for every call.
    fn generations(&mut self, tags: &[Tag]) -> Result<Vec<Option<Generation>>, StoreError>;

    /// Lifts a tag's first unclaimed number to at least `end`: what a daemon has seen claimed must not
    /// be claimed again. It never lowers it, and may put it above the ceiling.
    ///
    /// # Errors
    /// [`StoreError::UnknownTag`], and others as for every call.
    fn raise(&mut self, tag: &Tag, end: u64) -> Result<(), StoreError>;

    /// Notes that this host starts: replaces its start token by `next` if the one that the store has is in
    /// `known`, by compare-and-set. A host unknown to the store is entered. A repeated call (its first
    /// answer was lost) finds `next` in the store and answers [`CheckIn::Current`].
    ///
    /// # Errors
    /// As for every call; whether the token was replaced is then unknown.
    fn check_in(
        &mut self,
        host: &HostId,
        known: &[StartToken],
        next: &StartToken,
    ) -> Result<CheckIn, StoreError>;
}

/// Tells stores apart. Journal entries are keyed by it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StoreId(pub Arc<str>);

/// Tells hosts apart: 32 hexadecimal digits drawn when a state directory is made.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostId(pub Arc<str>);

/// Drawn anew at each start and kept by journal and store, so that of two copies of one journal only
/// the first to start is believed: 32 hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct StartToken(pub Arc<str>);

/// Tells a tag from one of the same name that was there before it; 0 where only Leaf's table is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Generation(pub u64);

/// How many numbers a host would like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClaimWish {
    /// At least so many (unless the ceiling is nearer); from 1.
    pub want: u64,
    /// The tag's own step counts up to this.
    pub step_max: u64,
}

/// Numbers claimed: they belong to this host alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The numbers, never empty, within 1 and 2^63.
    pub numbers: Range<u64>,
    /// The tag's step as the row now says; at least 1.
    pub step: u64,
    /// The tag's largest allowed number.
    pub ceiling: u64,
    /// The tag's generation.
    pub generation: Generation,
}

/// A tag as the store has it. What others wrote there is passed on as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TagRow {
    /// Its name.
    pub tag: Tag,
    /// The first number not yet claimed.
    pub max_id: i64,
    /// Initial and smallest claim.
    pub step: i64,
    /// The largest number that may be issued.
    pub ceiling: u64,
    /// Its generation.
    pub generation: Generation,
    /// What it is for.
    pub description: Option<String>,
    /// When the row last changed, as `YYYY-MM-DDTHH:MM:SSZ`; `None` when the store doesn't say.
    pub updated: Option<String>,
}

/// A tag to create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewTag {
    /// Its name.
    pub tag: Tag,
    /// The first number to issue; from 1.
    pub start: u64,
    /// Its step; from 1 to [`STEP_MAX`].
    pub step: u64,
    /// The largest number that may be issued; at least `start`, at most [`CEILING_MAX`].
    pub ceiling: u64,
    /// What it is for; at most [`DESCRIPTION_CHARACTERS_MAX`] characters, no control characters.
    pub description: Option<String>,
}

/// What to change of a tag; `None` leaves it as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TagChange {
    /// See [`NewTag::step`].
    pub step: Option<u64>,
    /// See [`NewTag::ceiling`].
    pub ceiling: Option<u64>,
    /// See [`NewTag::description`]; empty text removes it.
    pub description: Option<String>,
}

/// What a store makes of a host that starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckIn {
    /// The journal is the one that this host last wrote: its leftovers may be used.
    Current,
    /// The store didn't know this host: nothing speaks against the journal.
    New,
    /// The store has a start of this host that the journal doesn't know: the journal is an old copy, or
    /// another host runs a copy of it.
    Stale,
    /// The store can't note hosts, because it has only Leaf's table: nothing speaks against the journal, and
    /// nothing would.
    Unsupported,
}

/// Largest step that Leaf's `int` column holds.
pub const STEP_MAX: u64 = i32::MAX as u64;

/// Largest ceiling: the largest positive signed 64-bit number. That number itself is never issued: the
/// row has to hold the number after the last one claimed.
pub const CEILING_MAX: u64 = i64::MAX as u64;

/// Longest description, Leaf's `varchar(256)`.
pub const DESCRIPTION_CHARACTERS_MAX: usize = 256;

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
    #[error("the store has no tag {tag:?}; create it with: leafctl tag create")]
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
        "tag {tag:?} is used up: every number to its ceiling {ceiling} is claimed; raise it with: leafctl tag set --ceiling"
    )]
    Exhausted {
        /// The tag.
        tag: Tag,
        /// Its largest allowed number.
        ceiling: u64,
    },
    /// The store holds, or was asked for, something that can't be used safely.
    #[error("{0}")]
    Refused(String),
}

impl fmt::Display for StoreId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for HostId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
