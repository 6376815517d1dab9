//! The central store: where a host claims ranges of a tag's numbers.
//!
//! [`Store`] is what a backend implements, blocking; a [`StoreHandle`] runs one on a thread of its own for
//! the asynchronous side. Leaf's table and its half-open ranges are the contract, so that a Java Leaf
//! and leafd can share one table: `max_id` is the first number not yet claimed, and a claim of `n`
//! takes `[max_id, max_id + n)` and leaves `max_id + n`.
//!
//! The types of its calls, and what a claim takes, are [`leafd_core::store`]'s.
//!
//! - [`sql`]: every call, over a driver.
//! - [`sqlite`], `postgres`, `mysql`: the drivers; the last two where the program is built with them.
//! - `handle`: a store on a thread of its own.

mod handle;
#[cfg(feature = "mysql")]
pub mod mysql;
#[cfg(feature = "postgres")]
pub mod postgres;
pub mod sql;
pub mod sqlite;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use leafd_core::mask::KeyNumber;
use leafd_core::registry::Mode;
use leafd_core::store::{
    CheckIn, Claim, ClaimRecord, ClaimWish, ClaimedBy, Generation, HostId, Identity, NewTag, Role,
    StartToken, StaticUser, StoreError, TagChange, TagRow, TagTerms,
};
use leafd_core::{Tag, WorkerId};

use crate::registry::Registry;

pub use handle::StoreHandle;

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
    /// See [`leafd_core::store::plan_claim`] for what is claimed. A claim never takes what the store knows to be claimed
    /// already, also when the row was set back by hand. When in doubt whether a commit happened, the
    /// call fails and the range is given up.
    ///
    /// # Errors
    /// [`StoreError::Changed`];
    /// [`StoreError::UnknownTag`] unless there is a row of this tag, equal byte for byte;
    /// [`StoreError::Exhausted`] when nothing is left below the ceiling; others as for every call.
    fn claim(&mut self, under: &Identity, tag: &Tag, wish: ClaimWish) -> Result<Claim, StoreError> {
        self.claim_as(None, under, tag, wish)
    }

    /// The same, and records in that transaction who claims, if that is told and there is more than Leaf's table.
    ///
    /// # Errors
    /// As for [`Store::claim`].
    fn claim_as(
        &mut self,
        by: Option<&ClaimedBy>,
        under: &Identity,
        tag: &Tag,
        wish: ClaimWish,
    ) -> Result<Claim, StoreError>;

    /// Up to `limit` recorded claims of a tag that end after an id, in the order of their ends. What a tag of the name had
    /// claimed that was deleted since is among them.
    ///
    /// # Errors
    /// [`StoreError::Refused`] where only Leaf's table is; others as for every call.
    fn claims_after(
        &mut self,
        tag: &Tag,
        id: u64,
        limit: u32,
    ) -> Result<Vec<ClaimRecord>, StoreError>;

    /// Deletes up to `limit` recorded claims of any tag that are older than this on the store's clock, the oldest first;
    /// tells how many.
    ///
    /// # Errors
    /// As for every call.
    fn forget_claims(&mut self, age: Duration, limit: u32) -> Result<u64, StoreError>;

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

    /// The end of what is remembered to have been claimed under a name that has no row, 0 for nothing: a tag that is
    /// created under it must begin there or above.
    ///
    /// # Errors
    /// As for every call.
    fn claimed_end(&mut self, tag: &Tag) -> Result<u64, StoreError>;

    /// Creates a tag, with a generation above 0 that no earlier tag of the name had.
    ///
    /// # Errors
    /// [`StoreError::Changed`]; [`StoreError::TagExists`]; [`StoreError::Refused`] when the values are out of range or `start` is
    /// below the end of what was claimed under this name before (it names the number to use); others as
    /// for every call.
    fn create(&mut self, under: &Identity, new: &NewTag) -> Result<TagRow, StoreError>;

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
    /// `masking`: the caller has mask keys. Then a name without a row may have been a masked tag's, also where the store
    /// remembers no mask: no tag of the name is created until an operator says how its ids were masked.
    ///
    /// Many are lifted in transactions of a few hundred, so that some may be lifted when this fails; to
    /// repeat it does no harm.
    ///
    /// # Errors
    /// [`StoreError::Changed`], and others as for every call.
    fn raise(
        &mut self,
        under: &Identity,
        ends: &[(Tag, u64)],
        masking: bool,
    ) -> Result<Vec<bool>, StoreError>;

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

    /// Notes that the daemon of this start, on a host of this name, uses a static worker number now, and tells which others
    /// have noted that lately. Nothing where only Leaf's table is: there is no place for it.
    ///
    /// # Errors
    /// [`StoreError::Changed`]; others as for every call.
    fn note_static_worker(
        &mut self,
        under: &Identity,
        worker: WorkerId,
        start: &StartToken,
        name: &str,
    ) -> Result<Vec<StaticUser>, StoreError>;

    /// Counts the transactions that met what others wrote at the same moment, and were tried again.
    fn conflicts(&self) -> Arc<AtomicU64>;

    /// Enters by which check value hosts know the mask key of a number, if none is entered yet, and tells the one that
    /// is: a host whose key has another value has another key than the host that came first.
    ///
    /// # Errors
    /// [`StoreError::Changed`]; [`StoreError::Refused`] where only Leaf's table is; others as for every call.
    fn note_mask_key(
        &mut self,
        under: &Identity,
        key: KeyNumber,
        check_value: u64,
    ) -> Result<u64, StoreError>;

    /// The store as a registry of workers, over its own connection. Its calls are refused where only Leaf's table is,
    /// and where the tables for workers are missing, which does claims no harm.
    fn workers(&mut self, mode: Mode) -> Box<dyn Registry + '_>;
}
