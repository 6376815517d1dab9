//! What a backend supplies: a connection that runs statements within a deadline, the statements in its dialect, and
//! the meaning of its errors.

use std::fmt::Debug;
use std::time::{Duration, Instant};

use super::tables::{Layout, check_tables};
use super::{history, leases, rights};
use leafd_core::registry::RegistryError;
use leafd_core::store::StoreError;

/// A connection to the one server that takes writes, or an open file.
pub trait Driver: Debug + Send + Sized {
    /// What is needed to connect.
    type Target: Location;

    /// The statements in its dialect.
    const SQL: Statements;

    /// The statements for the tables of workers.
    const WORKERS: &'static leases::Statements;

    /// The statements for the records of past claims and workers.
    const HISTORY: &'static history::Statements;

    /// The tables, Leaf's first, and for each column the types that leafd accepts.
    const TABLES: &'static [Layout];

    /// Whether only one host uses the store. Then no other host has to learn of commits that the store lost, and other
    /// means distinguish a copy from the original.
    const EMBEDDED: bool = false;

    /// Connects to the first server that takes writes.
    fn connect(target: &Self::Target) -> Result<Self, StoreError>;

    /// The server of this connection, as the store's URL names it.
    fn endpoint(&self) -> &str {
        ""
    }

    /// Refuses tables from which claims would not be safe. Returns whether leafd's own tables are there.
    fn check_tables(&mut self, target: &Self::Target) -> Result<bool, Failure> {
        check_tables(self, target)
    }

    /// Whether a further call may use the connection.
    fn is_usable(&self) -> bool {
        true
    }

    /// Where the connection leads, and the store's name and role if leafd's tables are there (`side`). Fails when the
    /// server no longer takes writes.
    fn standing(&mut self, side: bool) -> Result<Standing, Failure>;

    /// From now on statements fail when they aren't done by `deadline`.
    fn set_deadline(&mut self, deadline: Instant);

    /// Runs a statement. Returns how many rows it changed.
    fn execute(&mut self, sql: &str, params: &[Param<'_>]) -> Result<u64, Failure>;

    /// Runs a query. Returns every column as text.
    fn query(
        &mut self,
        sql: &str,
        params: &[Param<'_>],
    ) -> Result<Vec<Vec<Option<String>>>, Failure>;

    /// Runs the statement `lock`, which locks rows, and then the query `sql`, both with the same parameters. Returns
    /// what the query finds.
    fn query_locked(
        &mut self,
        lock: &str,
        sql: &str,
        params: &[Param<'_>],
    ) -> Result<Vec<Vec<Option<String>>>, Failure> {
        self.query(lock, params)?;
        self.query(sql, params)
    }

    /// Runs all these statements, even if one of them changes nothing. Returns how many rows the first two changed.
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

    /// How the dialect writes the parameter with this number. The first is 1.
    fn placeholder(number: usize) -> String;
}

/// Where a store is, and the limits of its use.
pub trait Location: Clone + Debug + Send {
    /// The name that errors use for the store, without secrets.
    fn store(&self) -> String;

    /// The user that leafd logs in as.
    fn user(&self) -> &str;

    /// How long a call may take once there is a connection.
    fn statement_timeout(&self) -> Duration;

    /// Whether to use the store although leafd's tables are not visible there.
    fn leaf_only(&self) -> bool;

    /// Has this server be tried last from now on, because a call failed there.
    fn has_failed(&mut self, _endpoint: &str) {}

    /// A location for each server but this one, in the order in which they are tried.
    fn others(&self, _endpoint: &str) -> Vec<Self> {
        Vec::new()
    }

    /// An error for a store that can't be used at present.
    fn unavailable(&self, cause: impl Into<String>) -> StoreError {
        StoreError::Unavailable { store: self.store(), cause: cause.into() }
    }

    /// An error after which it is useless to try again.
    fn refused(&self, words: impl std::fmt::Display) -> StoreError {
        StoreError::Refused(format!("the store {} {words}", self.store()))
    }
}

/// What distinguishes a set of tables from every other one, and from itself after it was restored or made anew.
#[derive(Clone, Debug)]
pub struct Place {
    /// The kind of store: its name begins with this.
    pub kind: &'static str,
    /// The server and the database. They stay the same while a connection lasts.
    pub server: String,
    /// Marks of the tables: of Leaf's, and of the one that remembers what was claimed. Somebody may make the tables
    /// anew, or set them back, while a connection is open.
    pub table: String,
    /// A number that the server itself changes at each fail-over, if it has one. It stays the same while a connection
    /// lasts, because the server must restart, or become writable, to change it.
    pub timeline: String,
}

/// Where a connection leads, and what leafd's tables say of the store.
#[derive(Clone, Debug)]
pub struct Standing {
    pub place: Place,
    /// The name that the store got when its tables were made.
    pub name: Option<String>,
    pub role: Option<String>,
}

/// A statement and its parameters.
pub type Call<'a> = (&'a str, &'a [Param<'a>]);

/// A parameter of a statement.
#[derive(Clone, Copy, Debug)]
pub enum Param<'a> {
    Text(&'a str),
    OptionalText(Option<&'a str>),
    Integer(i64),
    OptionalInteger(Option<i64>),
}

/// Why a statement, or a call made of several, failed.
#[derive(Debug)]
pub enum Failure {
    /// leafd's own answer; the connection is fine.
    Said(StoreError),
    /// leafd's own answer as a registry; the connection is fine.
    Registry(RegistryError),
    /// The connection is gone.
    Lost(String),
    /// No answer in time. The server may still do what it was asked.
    TimedOut(String),
    /// The server takes no writes, or no longer does.
    ReadOnly(String),
    /// A row with this unique key exists already.
    Duplicate(String),
    /// The server may be able to do it at another time.
    Busy(String),
    /// The server can't do this as it is set up; the text says why. Asking again gives the same.
    Unsupported(String),
    /// Another connection wrote the same row at the same moment. Nothing was done, and the transaction can be tried
    /// again at once.
    Conflict(String),
    /// The character set of `leaf_alloc` can't hold the name: no row has it.
    NoSuchName(String),
    /// Rights are missing.
    Denied(String),
    /// Tables or columns are missing.
    Missing(String),
    /// The server refuses it for another reason.
    Rejected(String),
}

/// The statements in one dialect. Their parameters are in the order that each one's comment gives.
#[derive(Debug)]
pub struct Statements {
    pub begin: &'static str,
    /// Ends before a list of tags in parentheses. Finds the store's name, its role and the marks of its tables, and
    /// then the eleven columns that `rows` reads: a row for each tag, or one row without a tag if none exists.
    pub find: &'static str,
    /// Like `find`, from Leaf's table alone.
    pub find_plain: &'static str,
    /// Ends before a list of tags in parentheses. Keeps others from changing the rows that `find` then finds. This is
    /// a statement of its own, because a query that waits for a lock sees the tables that it joins as they were before
    /// the wait.
    pub lock: &'static str,
    /// Follows the list of `lock`. It locks in the key's order, so that two daemons never wait for each other.
    pub locking: &'static str,
    /// Keeps others from changing the role, or the record of when the history was noticed. Empty, as is `lock`, in a
    /// dialect in which only one transaction can write at a time.
    pub lock_role: &'static str,
    /// Selects the eleven columns; ends before the conditions.
    pub list: &'static str,
    /// Like `list`, from Leaf's table alone.
    pub list_plain: &'static str,
    /// (tag, old `max_id`, new `max_id`): changes one row, if it is still as it was found.
    pub set_max_id: &'static str,
    /// Follows a list of columns that change, if the table doesn't update the time of the change by itself.
    pub touch: &'static str,
    /// (tag, step)
    pub set_step: &'static str,
    /// (tag, description)
    pub set_description: &'static str,
    /// (tag, start, step, description)
    pub insert_row: &'static str,
    /// (tag): the end of what was ever claimed under a name, and how its ids were masked.
    pub claimed_end: &'static str,
    /// (name, limit): names after this one in the order of their bytes, each with the end that the store remembers.
    pub ends: &'static str,
    /// (tag, end, version of the right to claim, version that the row has): what a claim writes to leafd's row of the
    /// tag. It changes one row, unless the right to claim was taken away.
    pub record_claim: &'static str,
    /// (tag, end, version of the right to claim): the same if leafd has no row of the tag.
    pub enter_claim: &'static str,
    /// (value, pattern that the old value must match): writes the row that every change of the right to claim writes,
    /// see `Session`.
    pub take_right: &'static str,
    /// (value): the same, whatever the old value was.
    pub set_right: &'static str,
    /// (version, former version): changes the version of the rights in leafd's rows of the tags.
    pub move_rights: &'static str,
    /// Ends before a list of (tag, end, masked), each in parentheses.
    pub remember_ends: &'static str,
    /// Follows that list. In a row that exists it leaves the mask as it is.
    pub remembering: &'static str,
    /// (tag, generation, ceiling, strict, masked)
    pub enter_tag: &'static str,
    /// (tag): makes a row for the name, if it has none.
    pub enter_name: &'static str,
    /// (tag)
    pub delete_row: &'static str,
    /// (tag, generation of the next tag of the name, end)
    pub leave_tombstone: &'static str,
    /// (tag, ceiling)
    pub set_ceiling: &'static str,
    /// (host): its start token; locks its row.
    pub host_token: &'static str,
    /// (host, token)
    pub enter_host: &'static str,
    /// Table, column and type of every column in the tables that leafd knows.
    pub columns: &'static str,
    /// A row of words for each reason why claims from Leaf's table would not be safe.
    pub defects: &'static str,
    /// (role)
    pub set_role: &'static str,
    /// (text): sets `noticed` in `leafd_meta`.
    pub note: &'static str,
    /// The server's clock, in milliseconds of Unix time.
    pub now_ms: &'static str,
    /// (name, value): makes a row of `leafd_meta`, if there is none of this name.
    pub enter_meta: &'static str,
    /// (name, value): changes a row of `leafd_meta` that exists.
    pub set_meta: &'static str,
    /// Name and value of every row in `leafd_meta`.
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
    /// A statement met a table that isn't there.
    pub fn of_missing_table(words: String) -> Failure {
        // Those that leafd's statements name: its own, Leaf's and the server's.
        if ["leafd_", "leaf_", "pg_", "information_schema"].iter().any(|own| words.contains(own)) {
            return Failure::Missing(words);
        }
        Failure::Rejected(format!(
            "{words}; leafd uses no table of this name, so a trigger or rule on one of its tables does"
        ))
    }

    /// Whether the connection must not be used again.
    pub(super) fn ends_connection(&self) -> bool {
        matches!(
            self,
            Failure::Lost(_)
                | Failure::TimedOut(_)
                | Failure::ReadOnly(_)
                | Failure::Missing(_)
                // An embedded store's file was replaced by another one, perhaps only for a while. When somebody puts
                // the right file back, this connection's write-ahead log of the wrong file must not lie beside it.
                | Failure::Said(StoreError::Changed { .. })
        )
    }

    /// The error for the caller of the store.
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
                "denies it to user {:?}: {words}. {}",
                target.user(),
                rights::in_words()
            )),
            Failure::Missing(words) => target.refused(format_args!(
                "lacks a table or column: {words}; create what is missing with: leafd schema apply"
            )),
        }
    }
}
