//! What the journal records of stores: where each was found, with which history, and which of this host's starts it
//! confirmed last. So a daemon can start while its stores are away.
//!
//! A store may have the token that it confirmed last, or that of a later start, because an answer may have been lost.
//! The confirmed one is in the store's own row. The later ones are in `tokens`, for all stores together.

use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension, Row};

use super::apply::Problem;
use super::fault::Fault;
use super::rows::{Sum, get};
use super::{HISTORY_BYTES_MAX, StoreRecord};
use leafd_core::store::{StartToken, StoreId};

/// How many start tokens are kept at most. They must not fill the disk if a daemon restarts for days while a store is
/// away, or if a store is not used any more.
pub(super) const TOKENS_MAX: i64 = 1_000;

/// The tokens of this many latest starts are kept even if every recorded store has confirmed a later start. A store
/// may have taken one of them at its first check-in, and the journal may not have recorded that.
const TOKENS_SPARE: i64 = 16;

/// How many URLs are kept at most; those that were used longest ago are deleted first. Some URLs change with every
/// login.
const URLS_MAX: i64 = 1_000;

/// Longest name of a store, in bytes.
const STORE_BYTES_MAX: usize = 1_024;

/// Longest URL of a store, in bytes.
const URL_BYTES_MAX: usize = 8_192;

/// A start of this host. The first has number 1.
#[derive(Clone, Debug)]
pub(super) struct Start {
    pub number: i64,
    pub token: StartToken,
}

/// A row of `stores`.
#[derive(Clone, Debug)]
struct StoreRow {
    history: String,
    /// The last start that the store confirmed; 0 and an empty token while it has confirmed none.
    start: i64,
    token: String,
    /// The number of this host's last confirmed write in that history; 0 if none is recorded.
    written: i64,
}

// === tokens ===

pub(super) fn write_start(conn: &Connection, start: &Start) -> rusqlite::Result<()> {
    let Start { number, token } = start;
    let sum = start_sum(*number, &token.0);
    conn.execute("INSERT INTO tokens VALUES (?1, ?2, ?3)", (number, &*token.0, sum))?;
    conn.execute("DELETE FROM tokens WHERE start <= ?1", [number - TOKENS_MAX])?;
    Ok(())
}

/// The starts whose tokens are kept, oldest first.
pub(super) fn read_starts(conn: &Connection) -> Result<Vec<Start>, Fault> {
    let mut statement = conn.prepare("SELECT start, token, sum FROM tokens ORDER BY start")?;
    let mut rows = statement.query([])?;
    let mut starts = Vec::new();
    while let Some(row) = rows.next()? {
        starts.push(read_start(row)?);
    }
    Ok(starts)
}

fn read_start(row: &Row<'_>) -> Result<Start, Fault> {
    let number = get(row, 0)?;
    let token: String = get(row, 1)?;
    if get::<i64>(row, 2)? != start_sum(number, &token) {
        return Err(Fault::damaged(format!("start token {number} is not as it was written")));
    }
    Ok(Start { number, token: StartToken(token.into()) })
}

fn start_sum(number: i64, token: &str) -> i64 {
    Sum::of("tokens").int(number).text(token).get()
}

/// The start in which the daemon runs now.
fn this_start(conn: &Connection) -> Result<Start, Fault> {
    let mut statement =
        conn.prepare_cached("SELECT start, token, sum FROM tokens ORDER BY start DESC LIMIT 1")?;
    let mut rows = statement.query([])?;
    match rows.next()? {
        Some(row) => read_start(row),
        None => Err(Fault::damaged("the token of this start is missing")),
    }
}

// === stores and urls ===

/// All stores, each with the URLs that last led to it.
pub(super) fn read(conn: &Connection) -> Result<Vec<StoreRecord>, Fault> {
    let mut statement = conn
        .prepare("SELECT history, start, token, written, sum, store FROM stores ORDER BY store")?;
    let mut rows = statement.query([])?;
    let mut records = Vec::new();
    while let Some(row) = rows.next()? {
        let store: String = get(row, 5)?;
        let StoreRow { history, start, token, written } = StoreRow::from(row, &store)?;
        let token = (start > 0).then(|| StartToken(token.into()));
        let history = history.into();
        let store = StoreId(store.into());
        let written = written.cast_unsigned();
        let urls = Vec::new();
        records.push(StoreRecord { store, history, written, urls, confirmed: start, token });
    }
    let mut statement = conn.prepare("SELECT url, store, start, sum FROM urls ORDER BY url")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let (url, store): (String, String) = (get(row, 0)?, get(row, 1)?);
        let bad = |what: &str| Fault::damaged(format!("the record of the URL {url} {what}"));
        if get::<i64>(row, 3)? != url_sum(&url, &store, get(row, 2)?) {
            return Err(bad("is not as it was written"));
        }
        match records.iter_mut().find(|record| *record.store.0 == *store) {
            Some(record) => record.urls.push(Arc::from(url)),
            None => return Err(bad("names a store that is not recorded")),
        }
    }
    Ok(records)
}

/// Checks that every row is as it was written, and that stores and starts agree. `count` is how many stores there must
/// be: the loss of a row would be the loss of a history.
pub(super) fn verify(conn: &Connection, count: i64) -> Result<(), Fault> {
    let starts = read_starts(conn)?;
    let last = starts.last().map_or(0, |start| start.number);
    let stores = read(conn)?;
    if i64::try_from(stores.len()) != Ok(count) {
        return Err(Fault::damaged(format!(
            "{} stores are recorded, and there were {count}",
            stores.len()
        )));
    }
    if stores.iter().any(|record| record.confirmed > last) {
        return Err(Fault::damaged("a store confirmed a start that is not recorded"));
    }
    Ok(())
}

pub(super) fn count(conn: &Connection) -> rusqlite::Result<i64> {
    conn.prepare_cached("SELECT count(*) FROM stores")?.query_row([], |row| row.get(0))
}

/// Records that a store took this start's token.
pub(super) fn check_in(
    conn: &Connection,
    url: &str,
    store: &StoreId,
    history: &str,
) -> Result<(), Problem> {
    bounded("a store's URL", url, URL_BYTES_MAX)?;
    bounded("a store's name", &store.0, STORE_BYTES_MAX)?;
    bounded("a store's history", history, HISTORY_BYTES_MAX)?;
    let now = this_start(conn)?;
    // The history that was recorded first stays; a change of history is recorded once it has been dealt with.
    let (history, written) = match StoreRow::read(conn, store)? {
        Some(known) => (known.history, known.written),
        None => (history.to_owned(), 0),
    };
    StoreRow { history, start: now.number, token: now.token.0.as_ref().to_owned(), written }
        .write(conn, &store.0)?;
    write_url(conn, url, &store.0, now.number)?;
    conn.prepare_cached(
        "DELETE FROM urls WHERE url IN \
         (SELECT url FROM urls ORDER BY start DESC, url LIMIT -1 OFFSET ?1)",
    )?
    .execute([URLS_MAX])?;
    conn.prepare_cached(
        "DELETE FROM tokens WHERE start <= ?1 AND start <= (SELECT min(start) FROM stores)",
    )?
    .execute([now.number - TOKENS_SPARE])?;
    Ok(())
}

/// Records that a change of a store's history was dealt with.
pub(super) fn enter_history(
    conn: &Connection,
    store: &StoreId,
    history: &str,
) -> Result<(), Problem> {
    bounded("a store's history", history, HISTORY_BYTES_MAX)?;
    match StoreRow::read(conn, store)? {
        Some(known) if known.history == history => Ok(()),
        Some(known) => {
            let row = StoreRow { history: history.to_owned(), written: 0, ..known };
            Ok(row.write(conn, &store.0)?)
        }
        None => Err(Problem::Refused(format!(
            "the history of store {store} can't change: the host never checked in there"
        ))),
    }
}

/// Records the number of this host's last confirmed write in a store's recorded history.
pub(super) fn enter_written(
    conn: &Connection,
    store: &StoreId,
    written: u64,
) -> Result<(), Problem> {
    match StoreRow::read(conn, store)? {
        Some(known) => {
            Ok(StoreRow { written: written.cast_signed(), ..known }.write(conn, &store.0)?)
        }
        None => Err(Problem::Refused(format!("the host never checked in with store {store}"))),
    }
}

/// Records that no store has confirmed a start: this host goes on as a new one.
pub(super) fn forget_starts(conn: &Connection) -> Result<(), Problem> {
    for StoreRecord { store, history, .. } in read(conn)? {
        StoreRow {
            history: history.as_ref().to_owned(),
            start: 0,
            token: String::new(),
            written: 0,
        }
        .write(conn, &store.0)?;
    }
    Ok(())
}

/// Copies to a new host's journal where each store was found and with which history. No store can know a start of the
/// new host.
pub(super) fn carry_over(from: &Connection, to: &Connection) -> Result<(), Fault> {
    for StoreRecord { store, history, urls, .. } in read(from)? {
        StoreRow {
            history: history.as_ref().to_owned(),
            start: 0,
            token: String::new(),
            written: 0,
        }
        .write(to, &store.0)?;
        for url in urls {
            write_url(to, &url, &store.0, 0)?;
        }
    }
    Ok(())
}

fn write_url(conn: &Connection, url: &str, store: &str, start: i64) -> rusqlite::Result<()> {
    conn.prepare_cached("INSERT OR REPLACE INTO urls VALUES (?1, ?2, ?3, ?4)")?.execute((
        url,
        store,
        start,
        url_sum(url, store, start),
    ))?;
    Ok(())
}

fn url_sum(url: &str, store: &str, start: i64) -> i64 {
    Sum::of("urls").text(url).text(store).int(start).get()
}

fn bounded(what: &str, text: &str, bytes_max: usize) -> Result<(), Problem> {
    if text.len() <= bytes_max {
        return Ok(());
    }
    Err(Problem::Refused(format!(
        "{what} has {} bytes; at most {bytes_max} can be recorded",
        text.len()
    )))
}

// === impl StoreRow ===

impl StoreRow {
    fn sum(&self, store: &str) -> i64 {
        let sum = Sum::of("stores").text(store).text(&self.history).int(self.start);
        sum.text(&self.token).int(self.written).get()
    }

    fn write(&self, conn: &Connection, store: &str) -> rusqlite::Result<()> {
        conn.prepare_cached("INSERT OR REPLACE INTO stores VALUES (?1, ?2, ?3, ?4, ?5, ?6)")?
            .execute((
                store,
                &self.history,
                self.start,
                &self.token,
                self.written,
                self.sum(store),
            ))?;
        Ok(())
    }

    fn read(conn: &Connection, store: &StoreId) -> Result<Option<StoreRow>, Fault> {
        let row = conn
            .prepare_cached(
                "SELECT history, start, token, written, sum FROM stores WHERE store = ?1",
            )?
            .query_row([&*store.0], |row| Ok(StoreRow::from(row, &store.0)))
            .optional()?;
        row.transpose()
    }

    /// Reads the columns history, start, token, written and sum.
    fn from(row: &Row<'_>, store: &str) -> Result<StoreRow, Fault> {
        let found = StoreRow {
            history: get(row, 0)?,
            start: get(row, 1)?,
            token: get(row, 2)?,
            written: get(row, 3)?,
        };
        if get::<i64>(row, 4)? == found.sum(store) && found.start >= 0 && found.written >= 0 {
            return Ok(found);
        }
        Err(Fault::damaged(format!("the record of the store {store} is not as it was written")))
    }
}
