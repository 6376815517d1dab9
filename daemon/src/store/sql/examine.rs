//! Inspects a database for `leafd doctor`: which server answers, its clock, the missing privileges, and the content of
//! the tables. It writes nothing, and takes no locks except those of its queries.

use std::ops::Range;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use super::privileges::{self, Purpose};
use super::schema::{TAG_TABLES, Table, WORKER_TABLES};
use super::statements;
use super::{Connector, Driver, Location, SqlError, Store};
use leafd_core::registry::{Entry, Mode, RegistryError};
use leafd_core::store::{Identity, StoreError, TagRow};
use leafd_core::{Tag, UnixMs};

/// The findings about a database.
#[derive(Debug)]
pub struct Examination {
    /// The server that was asked, as the URL names it.
    pub endpoint: String,
    /// The version that the server reports.
    pub version: String,
    /// How far the server's clock is ahead of this host's, in milliseconds.
    pub clock_ahead_ms: i64,
    /// The setting with which the server acknowledges commits that are not on disk, and its value; else empty.
    pub lax: String,
    /// The privileges that leafd needs and doesn't have.
    pub missing_privileges: Vec<MissingPrivilege>,
    /// The store's identity, or why no ids can be claimed from it.
    pub identity: Result<Identity, StoreError>,
    /// The registry's clock, and the workers that ever had a holder; `None` if they were not requested.
    pub workers: Option<Result<(UnixMs, Vec<Entry>), RegistryError>>,
    /// The store's tags, and whether there are more than were read.
    pub tags: Result<(Vec<TagRow>, bool), StoreError>,
}

/// The workers to inspect.
#[derive(Clone, Debug)]
pub struct WorkersWish {
    /// Whether they are leased or permanent.
    pub mode: Mode,
    /// The range of worker numbers.
    pub pool: Range<u64>,
    /// Whether the store is the registry of workers, so that it must have the tables for them.
    pub is_registry: bool,
}

/// A privilege that leafd needs and doesn't have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingPrivilege {
    /// The privilege, as a GRANT names it.
    pub privilege: &'static str,
    /// The table.
    pub table: &'static str,
    /// Its purpose.
    pub purpose: Purpose,
}

/// Reads at most this many tags.
const TAGS_MAX: usize = 20_000;

/// How many tags a query reads.
const PAGE: u32 = 1_000;

/// Inspects a database.
///
/// # Errors
/// [`StoreError`] when no server accepts the connection, or none answers.
pub(in crate::store) fn examine(
    connector: Box<dyn Connector>,
    workers: Option<WorkersWish>,
) -> Result<Examination, StoreError> {
    let (dialect, location) = (connector.dialect(), connector.location());
    let mut driver = connector.connect()?;
    let mut first = |sql: &str| {
        driver.set_deadline(Instant::now() + location.statement_timeout);
        let rows = driver.query(sql, &[]).map_err(|failure| failure.answer(&location))?;
        Ok::<_, StoreError>(rows.into_iter().flatten().next().flatten().unwrap_or_default())
    };
    let version = first("SELECT version()")?;
    let lax = first(dialect.lax)?;
    let asked = unix_ms();
    let clock = first(statements::NOW_MS)?;
    let here = i64::midpoint(asked, unix_ms());
    let clock_ahead_ms = clock.parse::<i64>().map_or(0, |there| there - here);
    let registry = workers.as_ref().filter(|wish| wish.is_registry).map(|wish| wish.mode);
    let missing_privileges = missing_privileges(&mut *driver, &location, registry)?;
    let endpoint = driver.endpoint().to_owned();
    drop(driver);

    let mut store = Store::new(connector);
    let identity = store.identity();
    let workers = workers.map(|wish| store.look_at_workers(wish.mode, &wish.pool));
    let tags = tags(&mut store);
    Ok(Examination {
        endpoint,
        version,
        clock_ahead_ms,
        lax,
        missing_privileges,
        identity,
        workers,
        tags,
    })
}

fn unix_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// Asks the server to explain a statement for each privilege. It then checks the privilege, but changes nothing.
fn missing_privileges(
    driver: &mut dyn Driver,
    location: &Location,
    registry: Option<Mode>,
) -> Result<Vec<MissingPrivilege>, StoreError> {
    let of_workers: &[Table] = if registry.is_some() { &WORKER_TABLES } else { &[] };
    let permanent = registry == Some(Mode::Permanent);
    let mut missing = Vec::new();
    for table in TAG_TABLES.iter().chain(of_workers) {
        let needed = privileges::on(table.name);
        for (privilege, purpose) in
            needed.filter(|(_, purpose)| permanent || *purpose != Purpose::Permanent)
        {
            driver.set_deadline(Instant::now() + location.statement_timeout);
            match driver.query(&probe(table, privilege), &[]) {
                Err(SqlError::Denied(_)) => {
                    missing.push(MissingPrivilege { privilege, table: table.name, purpose });
                }
                // The check of the tables reports a missing table.
                Ok(_) | Err(SqlError::Missing(_) | SqlError::Rejected(_)) => {}
                Err(failure) => return Err(failure.answer(location)),
            }
        }
    }
    Ok(missing)
}

fn probe(table: &Table, privilege: &str) -> String {
    // The privilege may be granted on this column alone.
    let column = match table.name {
        "leaf_alloc" => "max_id",
        _ => table.required().last().map_or("", |(name, _)| name),
    };
    let table = table.name;
    match privilege {
        "UPDATE" => format!("EXPLAIN UPDATE {table} SET {column} = {column} WHERE 1 = 0"),
        "INSERT" => format!("EXPLAIN INSERT INTO {table} SELECT * FROM {table} WHERE 1 = 0"),
        "DELETE" => format!("EXPLAIN DELETE FROM {table} WHERE 1 = 0"),
        _ => format!("EXPLAIN SELECT * FROM {table} WHERE 1 = 0"),
    }
}

fn tags(store: &mut Store) -> Result<(Vec<TagRow>, bool), StoreError> {
    let mut found: Vec<TagRow> = Vec::new();
    loop {
        let after: Option<Tag> = found.last().map(|row| row.tag.clone());
        let page = store.list(after.as_ref(), PAGE)?;
        let is_last = page.is_empty();
        found.extend(page);
        if is_last || found.len() >= TAGS_MAX {
            return Ok((found, !is_last));
        }
    }
}
