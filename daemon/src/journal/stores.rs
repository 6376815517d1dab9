//! The journal's records of stores: where each was found, with which history, and which of this host's starts it
//! confirmed last. This lets a daemon start while its stores are unavailable.
//!
//! A store may have the token that it confirmed last, or that of a later start, because an answer may have been lost.
//! The confirmed one is in the store's own record. The later ones are in the records of starts, for all stores together.

use std::sync::Arc;

use rusqlite::Connection;

use super::apply::Problem;
use super::fault::Fault;
use super::records::{self, NamedRecord as _, Start};
use super::{HISTORY_BYTES_MAX, StoreRecord};
use leafd_core::store::StoreId;

/// The maximum number of start tokens to keep. They must not fill the disk if a daemon keeps restarting for days while
/// a store is unavailable, or if a store is no longer used.
pub(super) const TOKENS_MAX: i64 = 1_000;

/// The tokens of this many latest starts are kept even if every recorded store has confirmed a later start. A store
/// may have taken one of them at its first check-in, and the journal may not have recorded that.
const TOKENS_SPARE: i64 = 16;

/// The maximum number of URLs to keep for a store. The least recently used ones are deleted first. Some URLs change
/// with every login.
const URLS_MAX: usize = 100;

/// Longest name of a store, in bytes.
const STORE_BYTES_MAX: usize = 1_024;

/// Longest URL of a store, in bytes.
const URL_BYTES_MAX: usize = 8_192;

pub(super) fn write_start(conn: &Connection, start: &Start) -> rusqlite::Result<()> {
    records::write(conn, start)?;
    forget_starts_to(conn, start.number - TOKENS_MAX)
}

fn forget_starts_to(conn: &Connection, number: i64) -> rusqlite::Result<()> {
    conn.prepare_cached("DELETE FROM records WHERE kind = ?1 AND key <= ?2")?
        .execute((Start::KIND, Start::key_of(number)))?;
    Ok(())
}

/// The last start or stop, if any is recorded.
pub(super) fn last_start(conn: &Connection) -> Result<Option<Start>, Fault> {
    Ok(records::read_all::<Start>(conn)?.pop())
}

/// Checks that every record is as it was written, and that stores and starts agree.
pub(super) fn verify(conn: &Connection) -> Result<(), Fault> {
    let last = last_start(conn)?.map_or(0, |start| start.number);
    let stores: Vec<StoreRecord> = records::read_all(conn)?;
    if stores.iter().any(|record| record.confirmed > last) {
        return Err(Fault::damaged("a store confirmed a start that is not recorded"));
    }
    Ok(())
}

/// Records that a store has recorded this start's token. From now on, the URL refers to no other store.
pub(super) fn check_in(
    conn: &Connection,
    url: &Arc<str>,
    store: &StoreId,
    history: &Arc<str>,
) -> Result<(), Problem> {
    bounded("a store's URL", url, URL_BYTES_MAX)?;
    bounded("a store's name", &store.0, STORE_BYTES_MAX)?;
    bounded("a store's history", history, HISTORY_BYTES_MAX)?;
    let now =
        last_start(conn)?.ok_or_else(|| Fault::damaged("the token of this start is missing"))?;
    // The history that was recorded first stays. A change of history is recorded once this host has settled in it.
    let (mut found, mut others): (Vec<StoreRecord>, Vec<StoreRecord>) =
        records::read_all::<StoreRecord>(conn)?
            .into_iter()
            .partition(|record| record.store == *store);
    let mut record = found.pop().unwrap_or_else(|| {
        let (store, history) = (store.clone(), Arc::clone(history));
        let (written, later_era, urls, confirmed, token) = Default::default();
        StoreRecord { store, history, written, later_era, urls, confirmed, token }
    });
    for other in &mut others {
        if other.urls.remove(url).is_some() {
            records::write(conn, other)?;
        }
    }
    let is_full = record.urls.len() >= URLS_MAX && !record.urls.contains_key(url);
    let oldest = record.urls.iter().min_by_key(|(_, start)| **start);
    if let Some((oldest, _)) = oldest.filter(|_| is_full) {
        record.urls.remove(&Arc::clone(oldest));
    }
    record.urls.insert(Arc::clone(url), now.number);
    (record.confirmed, record.token) = (now.number, Some(now.token));
    records::write(conn, &record)?;
    let confirmed_by_all = others.iter().map(|other| other.confirmed).min().unwrap_or(now.number);
    Ok(forget_starts_to(conn, confirmed_by_all.min(now.number - TOKENS_SPARE))?)
}

/// Changes the record of a store that this host has checked in with.
pub(super) fn change(
    conn: &Connection,
    store: &StoreId,
    change: impl FnOnce(&mut StoreRecord),
) -> Result<(), Problem> {
    let Some(mut record) = records::read::<StoreRecord>(conn, &store.0)? else {
        return Err(Problem::Refused(format!("the host never checked in with store {store}")));
    };
    change(&mut record);
    Ok(records::write(conn, &record)?)
}

/// Records that this host has settled in a store's new history.
pub(super) fn enter_history(
    conn: &Connection,
    store: &StoreId,
    history: &Arc<str>,
) -> Result<(), Problem> {
    bounded("a store's history", history, HISTORY_BYTES_MAX)?;
    change(conn, store, |record| {
        if record.history != *history {
            (record.history, record.written) = (Arc::clone(history), 0);
        }
    })
}

/// Copies where each store was found and with which history, also to a new host's journal. No store has confirmed a
/// start of the new host.
pub(super) fn begin_anew(from: &Connection, to: &Connection) -> Result<(), Fault> {
    for mut record in records::read_all::<StoreRecord>(from)? {
        (record.confirmed, record.token, record.written) = (0, None, 0);
        // The new host counts its starts from 1.
        record.urls.values_mut().for_each(|start| *start = 0);
        records::write(to, &record)?;
    }
    Ok(())
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
