//! Reads the whole journal once before anything in it is used.

use rusqlite::Connection;

use super::fault::Fault;
use super::records::{self, Meta};
use super::{LayoutRecord, stores, tags};
use leafd_core::lease::Recorded;
use leafd_core::store::StoreId;

/// Checks the structure of the file, by SQLite's own check.
pub(super) fn structure(conn: &Connection) -> Result<(), Fault> {
    let verdict: String = conn.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
    if verdict == "ok" { Ok(()) } else { Err(Fault::damaged(verdict)) }
}

/// Checks every record: its checksum and its values, and that they agree with each other. Returns the stores of the
/// tags.
pub(super) fn rows(conn: &Connection) -> Result<Vec<StoreId>, Fault> {
    let meta = Meta::read(conn)?;
    let counted = records::count(conn)?;
    if counted != meta.counted {
        return Err(Fault::damaged(format!(
            "{counted} layouts and stores are recorded, but there should be {}",
            meta.counted
        )));
    }
    records::check_kinds(conn)?;
    records::read_all::<LayoutRecord>(conn)?;
    records::read_all::<Recorded>(conn)?;
    stores::verify(conn)?;
    let mut stores: Vec<StoreId> = Vec::new();
    tags::each(conn, |store, _, _| {
        if stores.last() != Some(&store) {
            stores.push(store);
        }
        Ok(())
    })?;
    Ok(stores)
}
