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

mod file;
mod rows;
mod schema;

use std::path::{Path, PathBuf};

use rusqlite::{OptionalExtension, Transaction, TransactionBehavior, params};

use self::file::{Create, OpenFile};
use self::rows::{Found, find, require};
use super::{
    CheckIn, Claim, ClaimWish, Generation, HostId, NewTag, StartToken, Store, StoreError, StoreId,
    TagChange, TagRow, claim::draw_generation, judge_start, plan_claim,
};
use crate::id::Tag;

pub use self::file::{adopt, host_fingerprint};
pub use self::schema::print_schema;

/// An embedded store that is, or can again be, open.
#[derive(Debug)]
pub struct SqliteStore {
    path: PathBuf,
    fingerprint: String,
    identity: StoreId,
    /// `None` after a failure: the next call opens the file anew.
    open: Option<OpenFile>,
}

/// Opens the store at `path`, or makes it when there is no file.
///
/// `fingerprint` tells this host from others, see [`host_fingerprint`]; the file's own marks are added
/// to it here, each time that the file is opened.
///
/// # Errors
/// [`StoreError::Unavailable`] when the file can't be opened, read or written in time.
/// [`StoreError::Refused`] when it is no SQLite database, is damaged, was written by a newer leafd, has
/// another `leaf_alloc`, or belongs to another host (see [`adopt`]).
pub fn open(path: &Path, fingerprint: &str) -> Result<SqliteStore, StoreError> {
    let (open, identity) = file::open_own(path, fingerprint, Create::IfMissing)?;
    Ok(SqliteStore {
        path: path.to_owned(),
        fingerprint: fingerprint.to_owned(),
        identity,
        open: Some(open),
    })
}

/// Why a statement's caller gives up: for a reason of its own, or the database's.
#[derive(Debug)]
enum Failure {
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
            Failure::Said(error) => error,
            Failure::Sql(cause) => {
                if !file::is_busy(&cause) {
                    self.open = None;
                }
                file::describe(&self.path, &cause)
            }
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

    /// The open file, opened anew if it was closed or is no longer the one at its path. A file that
    /// takes its place must be the same store: what was claimed is counted under that store's name.
    fn ready(&mut self) -> Result<&mut OpenFile, StoreError> {
        if self.open.as_ref().is_some_and(|open| !open.is_still_at(&self.path)) {
            self.open = None;
        }
        let open = match self.open.take() {
            Some(open) => open,
            None => {
                let (open, identity) =
                    file::open_own(&self.path, &self.fingerprint, Create::Never)?;
                if identity != self.identity {
                    return Err(StoreError::Refused(format!(
                        "another store has taken the place of {} while it was in use: put the first one back, or restart the daemon to use this one",
                        self.path.display()
                    )));
                }
                open
            }
        };
        Ok(self.open.insert(open))
    }
}

impl Store for SqliteStore {
    fn identity(&mut self) -> Result<StoreId, StoreError> {
        self.ready()?;
        Ok(self.identity.clone())
    }

    fn claim(&mut self, tag: &Tag, wish: ClaimWish) -> Result<Claim, StoreError> {
        self.write(|transaction| {
            let Found { row, claimed_end, .. } = require(transaction, tag)?;
            let plan = plan_claim(&row, claimed_end, wish)?;
            move_max_id(transaction, tag, plan.max_id)?;
            Ok(Claim {
                numbers: plan.numbers,
                step: plan.step,
                ceiling: row.ceiling,
                generation: row.generation,
            })
        })
    }

    fn show(&mut self, tag: &Tag) -> Result<TagRow, StoreError> {
        self.read(|transaction| Ok(require(transaction, tag)?.row))
    }

    fn list(&mut self, after: Option<&Tag>, limit: u32) -> Result<Vec<TagRow>, StoreError> {
        self.read(|transaction| rows::list(transaction, after, limit))
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

    fn generations(&mut self, tags: &[Tag]) -> Result<Vec<Option<Generation>>, StoreError> {
        // One transaction sees one state of the file; within the process a query each costs
        // microseconds, so there is nothing to gain from one large query.
        self.read(|transaction| tags.iter().map(|tag| rows::generation(transaction, tag)).collect())
    }

    fn raise(&mut self, tag: &Tag, end: u64) -> Result<(), StoreError> {
        // There are no numbers beyond: nothing more than the largest value can be asked for.
        let end = i64::try_from(end).unwrap_or(i64::MAX);
        self.write(|transaction| match find(transaction, tag)? {
            None => Err(StoreError::UnknownTag { tag: tag.clone() }.into()),
            Some(found) if found.row.max_id >= end && found.claimed_end >= end => Ok(()),
            Some(found) => move_max_id(transaction, tag, found.row.max_id.max(end)),
        })
    }

    fn check_in(
        &mut self,
        host: &HostId,
        known: &[StartToken],
        next: &StartToken,
    ) -> Result<CheckIn, StoreError> {
        self.write(|transaction| {
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
