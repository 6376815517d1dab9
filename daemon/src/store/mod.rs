//! The central store: where a host claims ranges of a tag's numbers.
//!
//! [`Store`] is what a backend implements, blocking; `thread` runs one on a thread of its own for
//! the asynchronous side. Leaf's table and its half-open ranges are the contract, so that a Java Leaf
//! and leafd can share one table: `max_id` is the first number not yet claimed, and a claim of `n`
//! takes `[max_id, max_id + n)` and leaves `max_id + n`.
//!
//! - `identity`: who a store says it is.
//! - `error`: why a call fails.
//! - `claim`: what a claim takes and which tags can be made; pure, the same for every backend.
//! - [`sqlite`]: the embedded store.
//! - [`network`]: what the stores behind a network share.
//! - [`postgres`], [`mysql`]: these.
//! - `workers`: the store as a registry of snowflake workers.
//! - [`thread`]: a store on a thread of its own.

mod claim;
mod error;
mod identity;
pub mod mysql;
pub mod network;
pub mod postgres;
pub mod sqlite;
pub mod thread;
mod workers;

use std::ops::Range;
use std::time::Duration;

use crate::id::Tag;
use crate::registry::{Mode, Registry};

pub use claim::{ClaimPlan, judge_start, plan_claim};
pub use error::StoreError;
pub use identity::{History, HostId, Identity, ROLE_BYTES_MAX, Role, StartToken, StoreId};
pub use thread::{StoreHandle, StoreThread};

/// A store of tags. Calls block; each returns within the backend's own time bound.
///
/// Every call opens or reopens the connection when there is none, so that a store that comes back is
/// used again without a call of its own. Which store a new connection leads to is for the caller to judge: calls
/// that grant or judge numbers carry the [`Identity`] that it trusts, and fail with [`StoreError::Changed`] under
/// any other.
pub trait Store: Send {
    /// Which store answers, asked of the server each time.
    ///
    /// # Errors
    /// [`StoreError`], as for every call. [`StoreError::Unavailable`] also when the server no longer takes writes.
    fn identity(&mut self) -> Result<Identity, StoreError>;

    /// Records what this store is among several, where no role is recorded yet; the same role again is fine.
    /// The role of `under` is not looked at.
    ///
    /// Claims under another role that are under way are waited for.
    ///
    /// # Errors
    /// [`StoreError::Changed`] under another store or history; [`StoreError::Refused`] when another role is
    /// recorded (it names both), when it is no role, and when there is only Leaf's table; others as for every call.
    fn take_role(&mut self, under: &Identity, role: &Role) -> Result<(), StoreError>;

    /// Replaces the role of `under` by another one, for the operator.
    ///
    /// When this returns, no claim under the former role is under way or can still be made: the ends that
    /// [`Store::look_up`] then tells stay until somebody claims under the new one.
    ///
    /// # Errors
    /// [`StoreError::Changed`] when the store is not what `under` says, its role included; [`StoreError::Refused`] when
    /// it is no role, and when there is only Leaf's table; others as for every call.
    fn replace_role(&mut self, under: &Identity, role: &Role) -> Result<(), StoreError>;

    /// How long ago, on the store's own clock, somebody first noticed the history that `under` names: this call enters
    /// it if nobody has, and answers zero. For ever ago in a store whose tables were made under it, before any claim.
    /// `None` where only Leaf's table is, which has no place for it.
    ///
    /// # Errors
    /// [`StoreError::Changed`]; others as for every call.
    fn note_history(&mut self, under: &Identity) -> Result<Option<Duration>, StoreError>;

    /// Tells everybody that the store has lost commits without showing another history: from now on it shows one.
    /// False where that can't be told, because there is only Leaf's table, and where there is nobody to tell.
    ///
    /// # Errors
    /// [`StoreError::Changed`], also when somebody else has told it meanwhile; others as for every call.
    fn declare_loss(&mut self, under: &Identity) -> Result<bool, StoreError>;

    /// Claims numbers of a tag in one transaction that is durable when this returns.
    ///
    /// See [`plan_claim`] for what is claimed. A claim never takes what the store knows to be claimed
    /// already, also when the row was set back by hand. When in doubt whether a commit happened, the
    /// call fails and the range is given up.
    ///
    /// # Errors
    /// [`StoreError::Changed`];
    /// [`StoreError::UnknownTag`] unless there is a row of this tag, equal byte for byte;
    /// [`StoreError::Exhausted`] when nothing is left below the ceiling; others as for every call.
    fn claim(&mut self, under: &Identity, tag: &Tag, wish: ClaimWish) -> Result<Claim, StoreError>;

    /// One tag's row.
    ///
    /// # Errors
    /// [`StoreError::UnknownTag`], and others as for every call.
    fn show(&mut self, tag: &Tag) -> Result<TagRow, StoreError>;

    /// Up to `limit` rows in the store's own order, those after `after`: the order of the table's key, so that a page
    /// costs as much as it is long. It is the order of the names' bytes in the tables that leafd makes, and that
    /// of the key's collation in others; it is the same for every page. Rows whose tag is
    /// no [`Tag`], or that hold other things than numbers, are left out with a warning in the log.
    ///
    /// # Errors
    /// As for every call.
    fn list(&mut self, after: Option<&Tag>, limit: u32) -> Result<Vec<TagRow>, StoreError>;

    /// Up to `limit` names and the end of what is remembered to have been claimed under each, 0 for nothing, those after
    /// `after` in the order of their bytes. Also the names that have no row any more, or never had one here, and not those
    /// of rows that leafd has never claimed from or changed. Names that are no [`Tag`] are left out with a warning in the
    /// log. Nothing where only Leaf's table is: it remembers nothing.
    ///
    /// # Errors
    /// As for every call.
    fn ends(&mut self, after: Option<&Tag>, limit: u32) -> Result<Vec<(Tag, u64)>, StoreError>;

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

    /// Deletes a tag that still has this generation; tells its row as it was. The end of what was claimed stays
    /// remembered under its name.
    ///
    /// # Errors
    /// [`StoreError::UnknownTag`]; [`StoreError::Refused`] when the tag was made anew meanwhile, or when there is only
    /// Leaf's table; others as for every call.
    fn delete(&mut self, tag: &Tag, generation: Generation) -> Result<TagRow, StoreError>;

    /// What there is of each tag, in the order asked, `None` for one that is not there: one query for
    /// all (or one for every few hundred).
    ///
    /// # Errors
    /// [`StoreError::Changed`], and others as for every call.
    fn look_up(
        &mut self,
        under: &Identity,
        tags: &[Tag],
    ) -> Result<Vec<Option<TagTerms>>, StoreError>;

    /// Lifts each tag's first unclaimed number to at least this end: what a daemon has seen claimed must not
    /// be claimed again. It never lowers one, and may put it above the ceiling. Tells for each, in the order
    /// given, whether its row moved: not if it was there already, and not if there is no such tag. If one of the name is
    /// there later, from a backup or created, its numbers begin at this end or above all the same.
    ///
    /// Many are lifted in transactions of a few hundred, so that some may be lifted when this fails; to
    /// repeat it does no harm.
    ///
    /// # Errors
    /// [`StoreError::Changed`], and others as for every call.
    fn raise(&mut self, under: &Identity, ends: &[(Tag, u64)]) -> Result<Vec<bool>, StoreError>;

    /// Notes that this host starts: replaces its start token by `next` if the one that the store has is in
    /// `known`, by compare-and-set. A host unknown to the store is entered. A repeated call (its first
    /// answer was lost) finds `next` in the store and answers [`CheckIn::Current`].
    ///
    /// # Errors
    /// [`StoreError::Changed`]; others as for every call, and whether the token was replaced is then unknown.
    fn check_in(
        &mut self,
        under: &Identity,
        host: &HostId,
        known: &[StartToken],
        next: &StartToken,
    ) -> Result<CheckIn, StoreError>;

    /// The store as a registry of workers, over its own connection. Its calls are refused where only Leaf's table is,
    /// and where the tables for workers are missing, which does claims no harm.
    fn workers(&mut self, mode: Mode) -> Box<dyn Registry + '_>;
}

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
    /// Whether the tag is strict: its numbers are to be used at once and in order, and none kept.
    pub strict: bool,
}

/// What a tag offers to whoever uses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TagTerms {
    /// Its generation.
    pub generation: Generation,
    /// Where the next claim would start if the ceiling allows; from 1.
    pub end: u64,
    /// Its step; at least 1.
    pub step: u64,
    /// The largest number that may be issued; 0 where the row has none that makes sense.
    pub ceiling: u64,
    /// Whether it is strict.
    pub strict: bool,
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
    /// Whether it is strict.
    pub strict: bool,
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
    /// Whether its numbers are to increase strictly across all hosts. It can't be changed later.
    pub strict: bool,
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

/// Largest number that a tag can start at, which is the largest that is ever issued.
pub const START_MAX: u64 = CEILING_MAX - 1;

/// Longest description, Leaf's `varchar(256)`.
pub const DESCRIPTION_CHARACTERS_MAX: usize = 256;
