//! The central store: where a host claims ranges of a tag's numbers.
//!
//! A backend implements [`Store`], whose calls block. A [`StoreHandle`] runs a store on a thread of its own for the
//! asynchronous side. Leaf's table and its half-open ranges are the contract, so that a Java Leaf and leafd can share
//! one table: `max_id` is the first number not yet claimed, and a claim of `n` takes `[max_id, max_id + n)` and leaves
//! `max_id + n`.
//!
//! [`leafd_core::store`] has the types of the calls, and decides what a claim takes.
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
    CheckIn, Claim, ClaimRecord, ClaimWish, ClaimedBy, Generation, History, HostId, Identity,
    NewTag, Role, StartToken, StaticUser, StoreError, TagChange, TagRow, TagTerms,
};
use leafd_core::{Tag, WorkerId};

use crate::registry::Registry;

pub use handle::StoreHandle;

/// A store of tags. Calls block; each returns within the backend's own time bound.
///
/// Every call opens the connection if there is none, so a store that comes back is used again without further ado. A
/// new connection may lead to another store; the caller judges that. So calls that grant or judge numbers carry the
/// [`Identity`] that the caller trusts, and fail with [`StoreError::Changed`] under any other.
pub trait Store: Send {
    /// Tells which store answers. The server is asked each time.
    ///
    /// # Errors
    /// [`StoreError`], as for every call. [`StoreError::Unavailable`] also when the server no longer takes writes.
    fn identity(&mut self) -> Result<Identity, StoreError>;

    /// Records this store's role among several stores, if no role is recorded yet. It is no error to record the same
    /// role again. The role in `under` is ignored.
    ///
    /// Waits for claims under another role that are under way.
    ///
    /// # Errors
    /// [`StoreError::Changed`] under another store or history; [`StoreError::Refused`] when another role is recorded
    /// (the text names both), when `role` is invalid, and when there is only Leaf's table; others as for every call.
    fn take_role(&mut self, under: &Identity, role: &Role) -> Result<(), StoreError>;

    /// Replaces the role in `under` by another one, when the operator asks for it.
    ///
    /// When this returns, no claim under the former role is under way or can still be made. So the ends that
    /// [`Store::look_up`] then returns stay the same until a host claims under the new role.
    ///
    /// # Errors
    /// [`StoreError::Changed`] when the store is not what `under` says, its role included; [`StoreError::Refused`]
    /// when `role` is invalid, and when there is only Leaf's table; others as for every call.
    fn replace_role(&mut self, under: &Identity, role: &Role) -> Result<(), StoreError>;

    /// Whether claims were made in the store's present life. From then on no host is in time to report what it has
    /// seen. Also enters this host there, so that its next writes prove that this one is kept. `None` for an embedded
    /// store, which has no history, and if there is only Leaf's table, which has no place for one.
    ///
    /// # Errors
    /// [`StoreError::Changed`]; others as for every call.
    fn is_settled(&mut self, under: &Identity) -> Result<Option<bool>, StoreError>;

    /// Begins a new life of the store, because it has lost commits, or may have: from now on the store shows another
    /// history to all hosts. `known` is the history that this host trusts. Returns false if that can't be recorded,
    /// because there is only Leaf's table, and if the store is embedded, because no other host uses it.
    ///
    /// # Errors
    /// [`StoreError::Changed`], also when another host has begun a new life meanwhile; others as for every call.
    fn renew(&mut self, under: &Identity, known: Option<&History>) -> Result<bool, StoreError>;

    /// This host trusts this history, in which its last write had this number or a later one. Where several servers
    /// answer, a former one is not used.
    fn trust(&mut self, known: &History, written: u64);

    /// The number of this host's last confirmed write in a history; 0 if there is none.
    fn written(&self, history: &History) -> u64;

    /// Claims numbers of a tag in one transaction that is durable when this returns.
    ///
    /// [`leafd_core::store::plan_claim`] decides what is claimed. A claim never takes ids that the store records as
    /// claimed, even if somebody set the row back by hand. When it is unknown whether the commit happened, the call
    /// fails and nobody gets the range.
    ///
    /// # Errors
    /// [`StoreError::Changed`];
    /// [`StoreError::UnknownTag`] unless there is a row of this tag, equal byte for byte;
    /// [`StoreError::Exhausted`] when nothing is left below the ceiling; others as for every call.
    fn claim(&mut self, under: &Identity, tag: &Tag, wish: ClaimWish) -> Result<Claim, StoreError> {
        self.claim_as(None, under, tag, wish)
    }

    /// Like [`Store::claim`]; also records in the same transaction who claims, if `by` is given and there are leafd's
    /// own tables.
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

    /// Up to `limit` recorded claims of a tag whose end is above `id`, ordered by their ends. They include the claims
    /// of a deleted tag of the same name.
    ///
    /// # Errors
    /// [`StoreError::Refused`] if there is only Leaf's table; others as for every call.
    fn claims_after(
        &mut self,
        tag: &Tag,
        id: u64,
        limit: u32,
    ) -> Result<Vec<ClaimRecord>, StoreError>;

    /// Deletes up to `limit` recorded claims of any tag that are older than `age` on the store's clock, the oldest
    /// first. Returns how many it deleted.
    ///
    /// # Errors
    /// As for every call.
    fn forget_claims(&mut self, age: Duration, limit: u32) -> Result<u64, StoreError>;

    /// One tag's row.
    ///
    /// # Errors
    /// [`StoreError::UnknownTag`], and others as for every call.
    fn show(&mut self, tag: &Tag) -> Result<TagRow, StoreError>;

    /// Up to `limit` rows after `after`, in the order of the table's key, so that the cost of a page depends on its
    /// length alone. In tables that leafd made this is the order of the names' bytes; in other tables it is the order
    /// of the key's collation. Rows are left out with a warning in the log if their tag is no [`Tag`], or if a number
    /// column holds something else.
    ///
    /// # Errors
    /// As for every call.
    fn list(&mut self, after: Option<&Tag>, limit: u32) -> Result<Vec<TagRow>, StoreError>;

    /// Up to `limit` names after `after`, in the order of their bytes, each with the end of what the store remembers
    /// as claimed under it (0 for nothing). They include names that have no row any more, or never had one here. They
    /// do not include rows that leafd has never claimed from or changed. Names that are no [`Tag`] are left out with a
    /// warning in the log. Empty if there is only Leaf's table, which remembers nothing.
    ///
    /// # Errors
    /// As for every call.
    fn ends(&mut self, after: Option<&Tag>, limit: u32) -> Result<Vec<(Tag, u64)>, StoreError>;

    /// The end of what the store remembers as claimed under a name that has no row, 0 for nothing. A tag that is
    /// created under this name must begin at this end or above.
    ///
    /// # Errors
    /// As for every call.
    fn claimed_end(&mut self, tag: &Tag) -> Result<u64, StoreError>;

    /// Creates a tag, with a generation above 0 that no earlier tag of the name had.
    ///
    /// # Errors
    /// [`StoreError::Changed`]; [`StoreError::TagExists`]; [`StoreError::Refused`] when values are out of range, or
    /// when `start` is below the end of what was claimed under this name before (the text names the number to use);
    /// others as for every call.
    fn create(&mut self, under: &Identity, new: &NewTag) -> Result<TagRow, StoreError>;

    /// Changes a tag's settings. A daemon learns of the change with its next claim. A ceiling below what is already
    /// claimed stops further claims, but takes no ids back.
    ///
    /// # Errors
    /// [`StoreError::UnknownTag`]; [`StoreError::Refused`] when a value is out of range; others as for
    /// every call.
    fn set(&mut self, tag: &Tag, change: &TagChange) -> Result<TagRow, StoreError>;

    /// Deletes a tag if it still has this generation, and returns its row as it was. The store still remembers under
    /// the tag's name the end of what was claimed.
    ///
    /// # Errors
    /// [`StoreError::UnknownTag`]; [`StoreError::Refused`] when the tag was created again meanwhile, or when there is
    /// only Leaf's table; others as for every call.
    fn delete(&mut self, tag: &Tag, generation: Generation) -> Result<TagRow, StoreError>;

    /// The terms of each tag, in the order asked; `None` for a tag that doesn't exist. Takes one query for every few
    /// hundred tags.
    ///
    /// # Errors
    /// [`StoreError::Changed`], and others as for every call.
    fn look_up(
        &mut self,
        under: &Identity,
        tags: &[Tag],
    ) -> Result<Vec<Option<TagTerms>>, StoreError>;

    /// Lifts each tag's first unclaimed number to at least the given end: ids that a daemon has seen claimed must not
    /// be claimed again. It never lowers a number, and may put one above the ceiling. Returns for each tag, in the
    /// order given, whether its row changed; false if the row was there already, or if there is no such tag. The end
    /// counts even then: if a tag of this name comes later, from a backup or created, its ids begin at this end or
    /// above.
    ///
    /// `masking`: the caller has mask keys. Then a name without a row may have belonged to a masked tag, even if the
    /// store remembers no mask. So nobody can create a tag of this name until an operator says how its ids were
    /// masked.
    ///
    /// A transaction lifts a few hundred tags, so when this fails, some tags may be lifted already. It is safe to
    /// repeat the call.
    ///
    /// # Errors
    /// [`StoreError::Changed`], and others as for every call.
    fn raise(
        &mut self,
        under: &Identity,
        ends: &[(Tag, u64)],
        masking: bool,
    ) -> Result<Vec<bool>, StoreError>;

    /// Records that this host starts: replaces its start token by `next` if the store's token is in `known`, by
    /// compare-and-set. A host that the store doesn't know is entered. If the store lacks a write that [`Store::trust`]
    /// told of, it has lost commits, and begins a new life. Without `known` the host is new, and has no such write.
    /// When the first answer was lost and the call is repeated, it finds `next` in the store and returns
    /// [`CheckIn::Current`].
    ///
    /// # Errors
    /// [`StoreError::Changed`]; others as for every call. After those it is unknown whether the token was replaced.
    fn check_in(
        &mut self,
        under: &Identity,
        host: &HostId,
        known: &[StartToken],
        next: &StartToken,
    ) -> Result<CheckIn, StoreError>;

    /// Records that the daemon of this start, on a host of this name, now uses a static worker number. Returns the
    /// other daemons that have recorded the same lately. Does nothing and returns nothing if there is only Leaf's
    /// table, which has no place for it.
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

    /// The count of transactions that conflicted with writes of others and were tried again.
    fn conflicts(&self) -> Arc<AtomicU64>;

    /// Records the check value of the mask key of this number, if none is recorded yet, and returns the recorded one.
    /// A host whose key has another check value has another key than the host that came first.
    ///
    /// # Errors
    /// [`StoreError::Changed`]; [`StoreError::Refused`] if there is only Leaf's table; others as for every call.
    fn note_mask_key(
        &mut self,
        under: &Identity,
        key: KeyNumber,
        check_value: u64,
    ) -> Result<u64, StoreError>;

    /// The store as a registry of workers, over its own connection. The registry's calls are refused if there is only
    /// Leaf's table, and if the tables for workers are missing. Claims don't need those tables.
    fn workers(&mut self, mode: Mode) -> Box<dyn Registry + '_>;
}
