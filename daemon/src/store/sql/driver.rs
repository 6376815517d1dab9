//! What a backend supplies: a connection that runs statements within a deadline, its dialect's statements, and
//! what its errors mean.

use std::fmt::Debug;
use std::time::{Duration, Instant};

use super::tables::{Layout, check_tables};
use super::{history, leases};
use leafd_core::registry::RegistryError;
use leafd_core::store::StoreError;

/// A connection to the one server that takes writes, or an open file.
pub trait Driver: Debug + Send + Sized {
    /// What it takes to connect.
    type Target: Location;

    /// The dialect.
    const SQL: Statements;

    /// The dialect of the tables of workers.
    const WORKERS: &'static leases::Statements;

    /// The dialect of what is remembered of claims and workers.
    const HISTORY: &'static history::Statements;

    /// The tables, Leaf's first, and the types that are as good as ours for each column.
    const TABLES: &'static [Layout];

    /// Whether one host alone uses the store: then nobody has to hear of commits that it lost, and a copy of it is told
    /// from the original by other means.
    const EMBEDDED: bool = false;

    /// Connects to the first server that takes writes.
    fn connect(target: &Self::Target) -> Result<Self, StoreError>;

    /// The server that it is connected to, as the store's address names it.
    fn endpoint(&self) -> &str {
        ""
    }

    /// Refuses tables that can't be claimed from safely; tells whether there are leafd's own.
    fn check_tables(&mut self, target: &Self::Target) -> Result<bool, Failure> {
        check_tables(self, target)
    }

    /// Whether the connection may be used for a further call.
    fn is_usable(&self) -> bool {
        true
    }

    /// Where the connection leads, and what leafd's tables say if they are there. Fails when the server no longer takes
    /// writes.
    fn standing(&mut self, side: bool) -> Result<Standing, Failure>;

    /// Statements fail from now on when they aren't done by then.
    fn set_deadline(&mut self, deadline: Instant);

    /// Runs a statement; how many rows it changed.
    fn execute(&mut self, sql: &str, params: &[Param<'_>]) -> Result<u64, Failure>;

    /// Runs a query; every column as text.
    fn query(
        &mut self,
        sql: &str,
        params: &[Param<'_>],
    ) -> Result<Vec<Vec<Option<String>>>, Failure>;

    /// Runs a statement for its locks and then a query, both with these parameters; what the query finds.
    fn query_locked(
        &mut self,
        lock: &str,
        sql: &str,
        params: &[Param<'_>],
    ) -> Result<Vec<Vec<Option<String>>>, Failure> {
        self.query(lock, params)?;
        self.query(sql, params)
    }

    /// Runs these statements, each also when those before it change nothing; how many rows the first two changed.
    fn execute_together(
        &mut self,
        first: Call<'_>,
        second: Call<'_>,
        third: Option<Call<'_>>,
    ) -> Result<[u64; 2], Failure> {
        let changed = [self.execute(first.0, first.1)?, self.execute(second.0, second.1)?];
        if let Some((sql, params)) = third {
            self.execute(sql, params)?;
        }
        Ok(changed)
    }

    /// How the `number`th of a list of parameters is written, from 1.
    fn placeholder(number: usize) -> String;
}

/// Where a store is, and within which bounds it is used.
pub trait Location: Clone + Debug + Send {
    /// What errors call the store, without secrets.
    fn store(&self) -> String;

    /// Who we are there.
    fn user(&self) -> &str;

    /// How long a call may take once there is a connection.
    fn statement_timeout(&self) -> Duration;

    /// Whether it is used although leafd's tables are not to be seen there.
    fn leaf_only(&self) -> bool;

    /// Has one of several servers be tried last from now on, because a call failed there.
    fn has_failed(&mut self, _endpoint: &str) {}

    /// Its servers but for one, each alone, in the order in which they are tried.
    fn others(&self, _endpoint: &str) -> Vec<Self> {
        Vec::new()
    }

    /// The store can't be used at present.
    fn unavailable(&self, cause: impl Into<String>) -> StoreError {
        StoreError::Unavailable { store: self.store(), cause: cause.into() }
    }

    /// It is of no use to ask again.
    fn refused(&self, words: impl std::fmt::Display) -> StoreError {
        StoreError::Refused(format!("the store {} {words}", self.store()))
    }
}

/// What tells a table from every other one, and one of its lives from the next.
#[derive(Clone, Debug)]
pub struct Place {
    /// The kind of store, as its name begins.
    pub kind: &'static str,
    /// The server and the database: these stay while a connection lasts.
    pub server: String,
    /// The tables there: Leaf's, and the one that remembers what was claimed. They may be made anew, or set back, under
    /// an open connection.
    pub table: String,
    /// Counts the server's fail-overs, where it does so itself. It stays while a connection lasts, because a server
    /// has to start anew, or to become writable, for it to change.
    pub timeline: String,
}

/// Where a connection leads, and what leafd's tables say of the store.
#[derive(Clone, Debug)]
pub struct Standing {
    pub place: Place,
    /// The name that the store was given when its tables were made.
    pub name: Option<String>,
    pub role: Option<String>,
}

/// A statement and its parameters.
pub type Call<'a> = (&'a str, &'a [Param<'a>]);

/// A statement's parameter.
#[derive(Clone, Copy, Debug)]
pub enum Param<'a> {
    Text(&'a str),
    OptionalText(Option<&'a str>),
    Integer(i64),
    OptionalInteger(Option<i64>),
}

/// Why a statement, or what is made of several, fails.
#[derive(Debug)]
pub enum Failure {
    /// Our own answer; the connection is fine.
    Said(StoreError),
    /// Our own answer as a registry; the connection is fine.
    Registry(RegistryError),
    /// The connection is gone.
    Lost(String),
    /// No answer in time. Whatever was asked may still be done.
    TimedOut(String),
    /// The server said that it takes no writes (any more).
    ReadOnly(String),
    /// A unique key has this row already.
    Duplicate(String),
    /// The server could do it at another time.
    Busy(String),
    /// The engine doesn't do this as it is set up, in words; asking again gives the same.
    Unsupported(String),
    /// Somebody else wrote the same at the same moment. Nothing was done, and it can be tried again at once.
    Conflict(String),
    /// The character set of `leaf_alloc` doesn't hold a name that was asked for: no row has it.
    NoSuchName(String),
    /// Rights are missing.
    Denied(String),
    /// Tables or columns are missing.
    Missing(String),
    /// The server won't do it.
    Rejected(String),
}

/// A dialect. Parameters are in the order of each statement's documentation.
#[derive(Debug)]
pub struct Statements {
    pub begin: &'static str,
    /// Up to a list of tags in parentheses: the store's name, its role and its tables, and then the eleven columns that
    /// `rows` reads. A row for each tag, and one without a tag if there is none of them.
    pub find: &'static str,
    /// Like `find`, from Leaf's table alone.
    pub find_plain: &'static str,
    /// Up to a list of tags in parentheses: keeps others from changing the rows that `find` then finds. A
    /// statement of its own, because a query that waits for a lock sees what it joins as it was before the wait.
    pub lock: &'static str,
    /// Follows the list of `lock`. In the key's order, so that two of us never wait for each other.
    pub locking: &'static str,
    /// Keeps others from changing the role, or what is noted of the history. Empty, as the lock above, where every
    /// transaction that writes is alone.
    pub lock_role: &'static str,
    /// The eleven columns, up to the conditions.
    pub list: &'static str,
    /// Like `list`, from Leaf's table alone.
    pub list_plain: &'static str,
    /// (tag, old `max_id`, new `max_id`): changes one row, if it is still as it was found.
    pub set_max_id: &'static str,
    /// Follows a list of columns that change, where the table doesn't note the time by itself.
    pub touch: &'static str,
    /// (tag, step)
    pub set_step: &'static str,
    /// (tag, description)
    pub set_description: &'static str,
    /// (tag, start, step, description)
    pub insert_row: &'static str,
    /// (tag): the end of what was ever claimed under a name, and how that was masked.
    pub claimed_end: &'static str,
    /// (name, limit): names and the ends remembered of them, those after that name in the order of their bytes.
    pub ends: &'static str,
    /// (tag, end, version of the right to claim, that which the row has): what a claim writes to leafd's row of the tag. It
    /// changes one row, if nobody took the right away.
    pub record_claim: &'static str,
    /// (tag, end, version of the right to claim): the same where there is no such row.
    pub enter_claim: &'static str,
    /// (value, pattern of what it has to be): the row that every change of the right to claim writes, see `Session`.
    pub take_right: &'static str,
    /// (value): the same, whatever it was.
    pub set_right: &'static str,
    /// (version, former version): the rights that tags have.
    pub move_rights: &'static str,
    /// Up to a list of (tag, end, masked) in parentheses each.
    pub remember_ends: &'static str,
    /// Follows that list; leaves the mask of a row that is there as it is.
    pub remembering: &'static str,
    /// (tag, generation, ceiling, strict, masked)
    pub enter_tag: &'static str,
    /// (tag): a row for the name, if it has none.
    pub enter_name: &'static str,
    /// (tag)
    pub delete_row: &'static str,
    /// (tag, generation of the next one, end)
    pub leave_tombstone: &'static str,
    /// (tag, ceiling)
    pub set_ceiling: &'static str,
    /// (host): its start token; locks its row.
    pub host_token: &'static str,
    /// (host, token)
    pub enter_host: &'static str,
    /// Table, column and type of what there is of the tables that leafd knows.
    pub columns: &'static str,
    /// A row for each way in which Leaf's table can't be claimed from safely, in words.
    pub defects: &'static str,
    /// (role)
    pub set_role: &'static str,
    /// (text): what is noted under `noticed` in `leafd_meta`.
    pub note: &'static str,
    /// The server's clock, in milliseconds of Unix time.
    pub now_ms: &'static str,
    /// (name, value): enters a row of `leafd_meta`, if there is none of the name.
    pub enter_meta: &'static str,
    /// (name, value): of one that is there.
    pub set_meta: &'static str,
    /// Name and value of all there is in `leafd_meta`.
    pub meta: &'static str,
}

impl From<RegistryError> for Failure {
    fn from(error: RegistryError) -> Failure {
        Failure::Registry(error)
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Failure {
        Failure::Said(error)
    }
}

impl Failure {
    /// Whether the connection must not be used again.
    pub(super) fn ends_connection(&self) -> bool {
        matches!(
            self,
            Failure::Lost(_)
                | Failure::TimedOut(_)
                | Failure::ReadOnly(_)
                | Failure::Missing(_)
                // Another store took the place of the one that was meant, and gives it back perhaps: whoever puts the
                // right file in its place must not find our log of the wrong one beside it.
                | Failure::Said(StoreError::Changed { .. })
        )
    }

    /// The answer to whoever called the store.
    pub fn answer(self, target: &impl Location) -> StoreError {
        match self {
            Failure::Said(error) => error,
            Failure::Registry(error) => StoreError::Refused(error.to_string()),
            Failure::Lost(words)
            | Failure::TimedOut(words)
            | Failure::ReadOnly(words)
            | Failure::Busy(words)
            | Failure::Conflict(words) => target.unavailable(words),
            Failure::NoSuchName(words) => {
                target.refused(format_args!("can't store this name in leaf_alloc.biz_tag: {words}"))
            }
            Failure::Duplicate(words) | Failure::Rejected(words) | Failure::Unsupported(words) => {
                target.refused(format_args!("refuses it: {words}"))
            }
            Failure::Denied(words) => target.refused(format_args!(
                "denies it to user {:?}: {words}. Claims need SELECT and UPDATE on leaf_alloc and, where they exist, \
                 SELECT, INSERT and UPDATE on leafd_meta, leafd_tag and leafd_host, and SELECT, INSERT and DELETE on \
                 leafd_claim. Creating and deleting tags also \
                 needs INSERT and DELETE on leaf_alloc. Snowflake workers need SELECT, INSERT and UPDATE on \
                 leafd_worker and leafd_layout, SELECT and INSERT on leafd_worker_taken, and SELECT on \
                 leaf_workerid_alloc; permanent workers also need INSERT \
                 and UPDATE on it",
                target.user()
            )),
            Failure::Missing(words) => target.refused(format_args!(
                "lacks a table or column: {words}; create what is missing with: leafd schema apply"
            )),
        }
    }
}
