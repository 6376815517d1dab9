//! What a backend supplies: a connection that runs statements within a deadline, its dialect's statements, and
//! what its errors mean.

use std::time::Instant;

use super::Target;
use crate::store::StoreError;
use crate::store::workers;

/// A connection to the one server that takes writes.
pub trait Driver: Send + Sized {
    /// The dialect.
    const SQL: Statements;

    /// The dialect of the tables of workers.
    const WORKERS: &'static workers::Statements;

    /// Connects to the first server that takes writes.
    fn connect(target: &Target) -> Result<Self, StoreError>;

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

    /// Runs two statements, the second also when the first changes nothing; how many rows the first changed.
    fn execute_both(&mut self, first: Call<'_>, second: Call<'_>) -> Result<u64, Failure> {
        let changed = self.execute(first.0, first.1)?;
        self.execute(second.0, second.1)?;
        Ok(changed)
    }

    /// How the `number`th of a list of parameters is written, from 1.
    fn placeholder(number: usize) -> String;
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
}

/// Why a statement, or what is made of several, fails.
#[derive(Debug)]
pub enum Failure {
    /// Our own answer; the connection is fine.
    Said(StoreError),
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
    /// Up to a list of tags in parentheses: the store's name, its role and its tables, and then the nine columns that
    /// `rows` reads. A row for each tag, and one without a tag if there is none of them.
    pub find: &'static str,
    /// Like `find`, from Leaf's table alone.
    pub find_plain: &'static str,
    /// Up to a list of tags in parentheses: keeps others from changing the rows that `find` then finds, and the role. A
    /// statement of its own, because a query that waits for a lock sees what it joins as it was before the wait.
    pub lock: &'static str,
    /// Like `lock`, from Leaf's table alone.
    pub lock_plain: &'static str,
    /// Follows the list of `lock`. In the key's order, so that two of us never wait for each other.
    pub locking: &'static str,
    /// Waits for the claims that are under way and keeps further ones from reading the role.
    pub lock_role: &'static str,
    /// The nine columns, up to the conditions.
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
    /// (tag): the end of what was ever claimed under a name.
    pub claimed_end: &'static str,
    /// (name, limit): names and the ends remembered of them, those after that name in the order of their bytes.
    pub ends: &'static str,
    /// Up to a list of (tag, end) in parentheses each.
    pub remember_ends: &'static str,
    /// Follows that list.
    pub remembering: &'static str,
    /// (tag, generation, ceiling, strict)
    pub enter_tag: &'static str,
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
    /// Name and value of all there is in `leafd_meta`.
    pub meta: &'static str,
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
            Failure::Lost(_) | Failure::TimedOut(_) | Failure::ReadOnly(_) | Failure::Missing(_)
        )
    }

    /// The answer to whoever called the store.
    pub fn answer(self, target: &Target) -> StoreError {
        match self {
            Failure::Said(error) => error,
            Failure::Lost(words)
            | Failure::TimedOut(words)
            | Failure::ReadOnly(words)
            | Failure::Busy(words) => target.unavailable(words),
            Failure::Duplicate(words) | Failure::Rejected(words) => {
                target.refused(format_args!("won't do it: {words}"))
            }
            Failure::Denied(words) => target.refused(format_args!(
                "denies it to user {:?}: {words}; claims need SELECT and UPDATE on leaf_alloc, and where leafd_meta, \
                 leafd_tag and leafd_host exist SELECT, INSERT and UPDATE on them; creating and deleting tags needs \
                 INSERT and DELETE on leaf_alloc too; snowflake workers need SELECT, INSERT and UPDATE on \
                 leafd_worker and leafd_layout, and SELECT on leaf_workerid_alloc, or INSERT and UPDATE too to be given \
                 numbers for good",
                target.url.user
            )),
            Failure::Missing(words) => target.refused(format_args!(
                "lacks a table or column: {words}; make what is missing with: leafd schema apply"
            )),
        }
    }
}
