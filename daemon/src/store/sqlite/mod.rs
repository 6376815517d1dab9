//! The embedded store: a SQLite database for one host.
//!
//! Leaf's table `leaf_alloc` in its SQLite twin holds the tags; whoever inserts a row there by hand has
//! made a tag. Side tables hold what Leaf has no column for: ceilings, generations, the end of what was
//! ever claimed under a name, the starts of hosts and the store's own identity. Triggers keep the side
//! tables right when rows are deleted or renamed by hand; only `INSERT OR REPLACE` passes them by, and then
//! the tag keeps its generation while claims still go on above what was claimed.
//!
//! - `schema`: the tables, made and checked.
//! - `file`: opening, and telling one's own file from a copy.
//! - `rows`: rows as they are, odd ones included.
//! - `workers`: the tables of workers.

mod file;
mod rows;
mod schema;
mod workers;

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{OptionalExtension, Transaction, TransactionBehavior, params};

use self::file::{Create, OpenFile};
use self::rows::{Found, find, require};
use super::{
    CheckIn, Claim, ClaimWish, Generation, History, HostId, Identity, NewTag, Role, StartToken,
    Store, StoreError, TagChange, TagRow, TagTerms, claim::draw_generation, judge_start,
    plan_claim,
};
use crate::id::Tag;
use crate::registry::{Mode, Registry};
use crate::store::workers::Workers;

pub use self::file::{adopt, host_fingerprint};
pub use self::schema::print_schema;

/// Most tags that are raised in one transaction.
const RAISED_AT_ONCE_MAX: usize = 500;

/// An embedded store that is, or can again be, open.
#[derive(Debug)]
pub struct SqliteStore {
    path: PathBuf,
    fingerprint: String,
    /// `None` after a failure: the next call opens the file anew.
    open: Option<OpenFile>,
}

/// Opens the store at `path`, or makes it when there is no file. One that another process holds locked is opened by a later
/// call, as it would be if it were locked later.
///
/// `fingerprint` tells this host from others, see [`host_fingerprint`]; the file's own marks are added
/// to it here, each time that the file is opened.
///
/// # Errors
/// [`StoreError::Unavailable`] when the file can't be opened, read or written.
/// [`StoreError::Refused`] when it is no SQLite database, is damaged, was written by a newer leafd, has
/// another `leaf_alloc`, or belongs to another host (see [`adopt`]).
pub fn open(path: &Path, fingerprint: &str) -> Result<SqliteStore, StoreError> {
    let open = file::open_own_unless_locked(path, fingerprint)?;
    Ok(SqliteStore { path: path.to_owned(), fingerprint: fingerprint.to_owned(), open })
}

/// Why a statement's caller gives up: for a reason of its own, or the database's.
#[derive(Debug)]
pub(super) enum Failure {
    Said(StoreError),
    Sql(rusqlite::Error),
}

impl SqliteStore {
    /// Runs `work` in one transaction and commits it. Any failure rolls back.
    fn transact<T>(
        &mut self,
        behavior: TransactionBehavior,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, Failure>,
    ) -> Result<T, StoreError> {
        let open = self.ready()?;
        let result =
            open.connection.transaction_with_behavior(behavior).map_err(Failure::from).and_then(
                |transaction| {
                    let value = work(&transaction)?;
                    transaction.commit()?;
                    Ok(value)
                },
            );
        result.map_err(|failure| match failure {
            Failure::Said(error) => {
                // Whoever puts the right file back must not find our log of the wrong one beside it.
                if matches!(error, StoreError::Changed { .. }) {
                    self.open = None;
                }
                error
            }
            Failure::Sql(cause) => {
                if !file::is_busy(&cause) {
                    self.open = None;
                }
                file::describe(&self.path, &cause)
            }
        })
    }

    /// What errors call the store.
    fn name(&self) -> String {
        self.path.display().to_string()
    }

    /// Records a role if `judge` says so of what the store is, told what errors call it.
    fn record_role(
        &mut self,
        role: &Role,
        judge: impl FnOnce(Identity, &str) -> Result<bool, StoreError>,
    ) -> Result<(), StoreError> {
        role.check()?;
        let store = self.name();
        self.write(|transaction| {
            if judge(identity(transaction)?, &store)? {
                transaction.prepare_cached(schema::SET_ROLE)?.execute([&*role.0])?;
            }
            Ok(())
        })
    }

    fn write<T>(
        &mut self,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, Failure>,
    ) -> Result<T, StoreError> {
        self.transact(TransactionBehavior::Immediate, work)
    }

    fn read<T>(
        &mut self,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, Failure>,
    ) -> Result<T, StoreError> {
        self.transact(TransactionBehavior::Deferred, work)
    }

    /// The open file, opened anew if it was closed or is no longer the one at its path.
    fn ready(&mut self) -> Result<&mut OpenFile, StoreError> {
        if self.open.as_ref().is_some_and(|open| !open.is_still_at(&self.path)) {
            self.open = None;
        }
        let open = match self.open.take() {
            Some(open) => open,
            None => file::open_own(&self.path, &self.fingerprint, Create::Never)?,
        };
        Ok(self.open.insert(open))
    }
}

impl Store for SqliteStore {
    fn identity(&mut self) -> Result<Identity, StoreError> {
        self.read(identity)
    }

    fn take_role(&mut self, under: &Identity, role: &Role) -> Result<(), StoreError> {
        self.record_role(role, |found, store| found.may_take(role, under, store))
    }

    fn replace_role(&mut self, under: &Identity, role: &Role) -> Result<(), StoreError> {
        self.record_role(role, |found, store| found.check(under, store).map(|()| true))
    }

    fn note_history(&mut self, under: &Identity) -> Result<Option<Duration>, StoreError> {
        let store = self.name();
        self.read(|transaction| Ok(identity(transaction)?.check(under, &store)?))?;
        Ok(None)
    }

    /// One host uses this store: it knows already.
    fn declare_loss(&mut self, under: &Identity) -> Result<bool, StoreError> {
        self.note_history(under).map(|_| false)
    }

    fn claim(&mut self, under: &Identity, tag: &Tag, wish: ClaimWish) -> Result<Claim, StoreError> {
        let store = self.name();
        self.write(|transaction| {
            identity(transaction)?.check(under, &store)?;
            let Found { row, claimed_end } = require(transaction, tag)?;
            let plan = plan_claim(&row, claimed_end, wish)?;
            move_max_id(transaction, tag, plan.max_id)?;
            Ok(Claim {
                numbers: plan.numbers,
                step: plan.step,
                ceiling: row.ceiling,
                generation: row.generation,
                strict: row.strict,
            })
        })
    }

    fn show(&mut self, tag: &Tag) -> Result<TagRow, StoreError> {
        self.read(|transaction| Ok(require(transaction, tag)?.row))
    }

    fn list(&mut self, after: Option<&Tag>, limit: u32) -> Result<Vec<TagRow>, StoreError> {
        self.read(|transaction| rows::list(transaction, after, limit))
    }

    fn ends(&mut self, after: Option<&Tag>, limit: u32) -> Result<Vec<(Tag, u64)>, StoreError> {
        self.read(|transaction| rows::ends(transaction, after, limit))
    }

    fn create(&mut self, new: &NewTag) -> Result<TagRow, StoreError> {
        new.check()?;
        let generation = draw_generation()?;
        self.write(|transaction| {
            let tag = new.tag.as_str();
            if rows::is_there(transaction, &new.tag)? {
                return Err(StoreError::TagExists { tag: new.tag.clone() }.into());
            }
            refuse_below_tombstone(transaction, new)?;
            transaction.prepare_cached(schema::INSERT_ROW)?.execute(params![
                tag,
                new.start.cast_signed(),
                new.step.cast_signed(),
                new.description.as_deref().filter(|text| !text.is_empty()),
            ])?;
            transaction.prepare_cached(schema::ENTER_TAG)?.execute(params![
                tag,
                generation.cast_signed(),
                new.ceiling.cast_signed(),
                new.strict,
            ])?;
            Ok(require(transaction, &new.tag)?.row)
        })
    }

    fn set(&mut self, tag: &Tag, change: &TagChange) -> Result<TagRow, StoreError> {
        change.check()?;
        self.write(|transaction| {
            let name = tag.as_str();
            // Not `require`: a row with an odd step is repaired by setting the step.
            if !rows::is_there(transaction, tag)? {
                return Err(StoreError::UnknownTag { tag: tag.clone() }.into());
            }
            if let Some(step) = change.step {
                transaction
                    .prepare_cached(schema::SET_STEP)?
                    .execute(params![name, step.cast_signed()])?;
            }
            if let Some(text) = &change.description {
                let text = Some(text).filter(|text| !text.is_empty());
                transaction
                    .prepare_cached(schema::SET_DESCRIPTION)?
                    .execute(params![name, text])?;
            }
            if let Some(ceiling) = change.ceiling {
                transaction
                    .prepare_cached(schema::SET_CEILING)?
                    .execute(params![name, ceiling.cast_signed()])?;
            }
            Ok(require(transaction, tag)?.row)
        })
    }

    fn delete(&mut self, tag: &Tag, generation: Generation) -> Result<TagRow, StoreError> {
        let next = draw_generation()?;
        self.write(|transaction| {
            let Found { row, claimed_end } = require(transaction, tag)?;
            row.check_generation(generation)?;
            transaction.prepare_cached(schema::DELETE_ROW)?.execute([tag.as_str()])?;
            let end = row.max_id.max(claimed_end).max(0);
            transaction.prepare_cached(schema::LEAVE_TOMBSTONE)?.execute(params![
                tag.as_str(),
                next.cast_signed(),
                end
            ])?;
            Ok(row)
        })
    }

    fn look_up(
        &mut self,
        under: &Identity,
        tags: &[Tag],
    ) -> Result<Vec<Option<TagTerms>>, StoreError> {
        let store = self.name();
        // One transaction sees one state of the file; within the process a query each costs
        // microseconds, so there is nothing to gain from one large query.
        self.read(|transaction| {
            identity(transaction)?.check(under, &store)?;
            tags.iter().map(|tag| rows::terms(transaction, tag)).collect()
        })
    }

    fn raise(&mut self, under: &Identity, ends: &[(Tag, u64)]) -> Result<Vec<bool>, StoreError> {
        let store = self.name();
        let mut moved = Vec::with_capacity(ends.len());
        for some in ends.chunks(RAISED_AT_ONCE_MAX) {
            moved.extend(self.write(|transaction| {
                identity(transaction)?.check(under, &store)?;
                some.iter()
                    .map(|(tag, end)| lift(transaction, tag, *end))
                    .collect::<Result<Vec<_>, _>>()
            })?);
        }
        Ok(moved)
    }

    fn check_in(
        &mut self,
        under: &Identity,
        host: &HostId,
        known: &[StartToken],
        next: &StartToken,
    ) -> Result<CheckIn, StoreError> {
        let store = self.name();
        self.write(|transaction| {
            identity(transaction)?.check(under, &store)?;
            let found: Option<String> = transaction
                .prepare_cached(schema::HOST_TOKEN)?
                .query_row([&*host.0], |row| row.get(0))
                .optional()?;
            let (answer, replace) = judge_start(found.as_deref(), known, next);
            if replace {
                transaction.prepare_cached(schema::ENTER_HOST)?.execute([&*host.0, &*next.0])?;
            }
            Ok(answer)
        })
    }

    fn workers(&mut self, mode: Mode) -> Box<dyn Registry + '_> {
        Box::new(Workers { store: self, mode })
    }
}

/// Who the store says it is. Its history never changes: a file that was copied or restored is refused until it is
/// adopted, and then has another name.
fn identity(transaction: &Transaction<'_>) -> Result<Identity, Failure> {
    let (name, role): (Option<String>, Option<String>) = transaction
        .prepare_cached(schema::STANDING)?
        .query_row([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let Some(name) = name else {
        let words =
            "the store's table leafd_meta has lost its identity: restore the file from a backup";
        return Err(StoreError::Refused(words.to_owned()).into());
    };
    Ok(Identity {
        id: file::store_id(&name),
        history: History::default(),
        role: Role(role.unwrap_or_default().into()),
    })
}

/// Lifts a tag's row to an end; whether it moved. Of a tag without a row the end is remembered.
fn lift(transaction: &Transaction<'_>, tag: &Tag, end: u64) -> Result<bool, Failure> {
    // There are no numbers beyond: nothing more than the largest value can be asked for.
    let end = i64::try_from(end).unwrap_or(i64::MAX);
    let found = match find(transaction, tag) {
        Ok(Some(found)) => found,
        // Nobody can claim from an odd row. It must not keep others from being lifted.
        Ok(None) | Err(Failure::Said(_)) => {
            let mut remember = transaction.prepare_cached(schema::REMEMBER_END)?;
            remember.execute(params![tag.as_str(), end])?;
            return Ok(false);
        }
        Err(failure) => return Err(failure),
    };
    if found.row.max_id >= end && found.claimed_end >= end {
        return Ok(false);
    }
    move_max_id(transaction, tag, found.row.max_id.max(end))?;
    Ok(found.row.max_id < end)
}

/// Writes a tag's first unclaimed number to its row and to what is remembered when the row is gone.
fn move_max_id(transaction: &Transaction<'_>, tag: &Tag, max_id: i64) -> Result<(), Failure> {
    let name = tag.as_str();
    let changed = transaction.prepare_cached(schema::SET_MAX_ID)?.execute(params![name, max_id])?;
    if changed != 1 {
        return Err(StoreError::Refused(format!(
            "moving tag {name:?} changed {changed} rows of leaf_alloc where it must be 1: make biz_tag its primary key"
        ))
        .into());
    }
    transaction.prepare_cached(schema::REMEMBER_END)?.execute(params![name, max_id])?;
    Ok(())
}

fn refuse_below_tombstone(transaction: &Transaction<'_>, new: &NewTag) -> Result<(), Failure> {
    let claimed_end: Option<i64> = transaction
        .prepare_cached(schema::CLAIMED_END)?
        .query_row([new.tag.as_str()], |row| row.get(0))
        .optional()?;
    Ok(new.check_above(claimed_end.unwrap_or(0))?)
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Failure {
        Failure::Sql(error)
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Failure {
        Failure::Said(error)
    }
}
