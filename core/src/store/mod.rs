//! The plain types of a store of tags, and the decisions about its rows that every backend shares.
//!
//! - `identity`: how a store identifies itself.
//! - `history`: a store's lives, and what a host compares them with.
//! - `error`: why a call fails.
//! - `claim`: what a claim takes from a row, and which tags can be created.
//! - `hold`: what a row records of the host that holds a strict tag.
//! - `record`: what a store remembers of a claim.
//! - `reason`: why a store can't be used, for people and for code.
//! - `shard`: which ids belong to a store.

mod claim;
mod error;
mod history;
mod hold;
mod identity;
mod reason;
mod record;
mod shard;
mod static_worker;

use leafd_wire::Run;

use crate::Tag;
use crate::mask::Masking;

pub use claim::{ClaimPlan, judge_start, next_start, percent_used, plan_claim, step_of};
pub use error::{StoreError, ceiling_remedy};
pub use history::{History, Kept, Note, Proof};
pub use hold::{HoldPlan, HoldWish, Holding, plan_hold};
pub use identity::{HostId, Identity, ROLE_BYTES_MAX, Role, StartToken, StoreId};
pub use reason::{Reason, Why};
pub use record::{ClaimRecord, ClaimedBy, HostRecord, NAME_BYTES_MAX};
pub use shard::Shard;
pub use static_worker::{StaticUser, note_static_user};

/// Distinguishes a tag from an earlier one of the same name; 0 if there is only Leaf's table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Generation(pub u64);

/// How many ids a host wants, and which ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClaimWish {
    /// The minimum, unless the ceiling is nearer; from 1.
    pub want: u64,
    /// If fewer are left, none are claimed; from 1.
    pub least: u64,
    /// The tag's own step is capped at this.
    pub step_max: u64,
    /// The ids that belong to the store.
    pub shard: Shard,
    /// Whether to hold a strict tag.
    pub hold: HoldWish,
}

/// Claimed ids: they belong to this host alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The ids, below 2^63.
    pub run: Run,
    /// The tag's step, as in the row now; at least 1.
    pub step: u64,
    /// The tag's largest allowed number.
    pub ceiling: u64,
    pub generation: Generation,
    /// Whether the tag is strict: its ids must be used in order, and at once unless this host holds the tag.
    pub strict: bool,
    /// Whether this host holds the strict tag.
    pub holding: Holding,
    /// How its numbers become ids, if the tag is masked.
    pub masked: Option<Masking>,
}

impl ClaimWish {
    /// A wish for ids from the only store of a tag.
    pub const fn new(want: u64, step_max: u64) -> ClaimWish {
        let hold = HoldWish { own_end: 0, over: 0, ms: 0 };
        ClaimWish { want, least: 1, step_max, shard: Shard::WHOLE, hold }
    }

    /// The same wish with so many ids more, all of which are needed; `None` if that is more than a claim may take.
    pub fn with_more(self, ids: u64) -> Option<ClaimWish> {
        let (want, least) = (self.want.checked_add(ids)?, self.least.checked_add(ids)?);
        (ids == 0 || want <= self.step_max).then_some(ClaimWish { want, least, ..self })
    }
}

/// A tag's state, as hosts need it to claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TagTerms {
    pub generation: Generation,
    /// Where the next claim starts if the ceiling allows; from 1.
    pub end: u64,
    /// Its step; at least 1.
    pub step: u64,
    /// The largest number that may be issued; 0 if the row's value is invalid.
    pub ceiling: u64,
    /// Whether it is strict.
    pub strict: bool,
}

/// A tag's row in the store. Values that other programs wrote are passed on unchanged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TagRow {
    pub tag: Tag,
    /// The first number not yet claimed.
    pub max_id: i64,
    /// Initial and smallest claim.
    pub step: i64,
    /// The largest number that may be issued.
    pub ceiling: u64,
    pub generation: Generation,
    /// Whether it is strict.
    pub strict: bool,
    /// How its numbers become ids, if the tag is masked.
    pub masked: Option<Masking>,
    /// Its purpose, for people.
    pub description: Option<String>,
    /// When the row last changed, as `YYYY-MM-DDTHH:MM:SSZ`; `None` if the store doesn't record it.
    pub updated: Option<String>,
}

/// The ceiling of a tag that some of its independent primaries don't have yet. No id of it can be claimed.
pub const UNFINISHED: u64 = 0;

/// A tag to create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewTag {
    pub tag: Tag,
    /// The first number to issue; from 1.
    pub start: u64,
    /// Its step; from 1 to [`STEP_MAX`].
    pub step: u64,
    /// The largest number that may be issued; at least `start`, at most [`CEILING_MAX`]. Or [`UNFINISHED`].
    pub ceiling: u64,
    /// Whether its numbers increase strictly across all hosts. This can't be changed later.
    pub strict: bool,
    /// How its numbers become ids, if the tag is masked. A strict tag is never masked, and the ceiling must fit the
    /// bits. This can't be changed later.
    pub masked: Option<Masking>,
    /// Its purpose, for people; at most [`DESCRIPTION_CHARACTERS_MAX`] characters, no control characters.
    pub description: Option<String>,
}

/// The changes to a tag; `None` leaves a value as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TagChange {
    /// See [`NewTag::step`].
    pub step: Option<u64>,
    /// See [`NewTag::ceiling`].
    pub ceiling: Option<u64>,
    /// See [`NewTag::description`]; an empty text removes it.
    pub description: Option<String>,
}

/// A store's answer to a host's start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckIn {
    /// The journal is this host's latest, so its leftovers may be used.
    Current,
    /// The store didn't know this host, so it does not contradict the journal.
    New,
    /// The store has recorded a start of this host that the journal doesn't know. One of the two is an old copy, or
    /// another host runs a copy of the journal.
    Stale,
    /// The store has only Leaf's table and can't record hosts, so it can never contradict the journal.
    Unsupported,
}

/// The largest step that Leaf's `int` column holds.
pub const STEP_MAX: u64 = i32::MAX as u64;

/// The largest ceiling: the largest positive signed 64-bit number. That number itself is never issued, because the row
/// must be able to hold the number after the last claimed one.
pub const CEILING_MAX: u64 = i64::MAX as u64;

/// The largest number at which a tag can start: also the largest that is ever issued.
pub const START_MAX: u64 = CEILING_MAX - 1;

/// The recorded mask of a tag whose row the store lost: it is unknown whether the tag was masked.
pub const MASK_UNKNOWN: &str = "?";

/// The longest description: Leaf's `varchar(256)`.
pub const DESCRIPTION_CHARACTERS_MAX: usize = 256;
