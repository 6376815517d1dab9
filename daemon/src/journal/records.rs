//! Records: the host, its starts, the stores, the layouts, the worker's lease and the tags. Each is JSON in one row, under
//! a kind and a key, with a checksum, because SQLite notices a damaged page only if its structure is broken, and an
//! undetected wrong mark means duplicate ids.

use rusqlite::types::FromSql;
use rusqlite::{Connection, OptionalExtension, Row};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use leafd_wire::Layout;

use super::fault::Fault;
use super::{LayoutRecord, StoreRecord, tags};
use leafd_core::lease::Recorded;
use leafd_core::store::{HostId, StartToken};

/// A running FNV-1a hash. Each step is reversible, so the hash detects every change of a single byte.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sum(u64);

/// A record's value.
pub(super) trait JsonRecord: Serialize + DeserializeOwned {
    /// Whether every value is in its range.
    fn is_valid(&self) -> bool;
}

/// A record of a named kind.
pub(super) trait NamedRecord: JsonRecord {
    /// The name of the kind.
    const KIND: &'static str;

    /// The record's key within its kind.
    fn key(&self) -> String;
}

/// The record of the host and of the journal as a whole. There is exactly one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Meta {
    pub host: HostId,
    pub fingerprint: String,
    /// The number of commits, so that a journal that has lost one is detected.
    pub commits: i64,
    /// The number of layouts and stores, so that the loss of one is detected.
    pub counted: i64,
    pub stopped_cleanly: bool,
}

/// A start of this host. The first has number 1.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Start {
    pub number: i64,
    pub token: StartToken,
}

/// The fields of a [`Layout`].
#[derive(Serialize, Deserialize)]
#[serde(remote = "Layout")]
pub(super) struct LayoutFields {
    time_bits: u8,
    worker_bits: u8,
    sequence_bits: u8,
    unit_ms: u32,
    epoch_ms: u64,
}

/// No host commits that often. A larger count would soon overflow.
const COMMITS_MAX: i64 = i64::MAX / 2;

/// Numbers above this are not recorded: ids and instants are smaller.
pub(super) const NUMBER_MAX: u64 = i64::MAX as u64;

/// Longest text in the record of a lease, in bytes.
const LEASE_TEXT_BYTES_MAX: usize = 8_192;

/// Writes a record, replacing the one with the same key.
pub(super) fn write<R: NamedRecord>(conn: &Connection, record: &R) -> rusqlite::Result<()> {
    write_of(conn, R::KIND, &record.key(), record)
}

/// The same for any kind and key.
pub(super) fn write_of(
    conn: &Connection,
    kind: &str,
    key: &str,
    record: &impl JsonRecord,
) -> rusqlite::Result<()> {
    let value = serde_json::to_string(record)
        .map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))?;
    conn.prepare_cached("INSERT OR REPLACE INTO records VALUES (?1, ?2, ?3, ?4)")?.execute((
        kind,
        key,
        &value,
        sum(kind, key, &value),
    ))?;
    Ok(())
}

/// The record of a key, if there is one.
pub(super) fn read<R: NamedRecord>(conn: &Connection, key: &str) -> Result<Option<R>, Fault> {
    read_of(conn, R::KIND, key)
}

/// The same for any kind.
pub(super) fn read_of<R: JsonRecord>(
    conn: &Connection,
    kind: &str,
    key: &str,
) -> Result<Option<R>, Fault> {
    let row = conn
        .prepare_cached("SELECT value, sum FROM records WHERE kind = ?1 AND key = ?2")?
        .query_row((kind, key), |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    row.map(|(value, sum): (String, i64)| parse(kind, key, &value, sum)).transpose()
}

/// All records of a kind, in the order of their keys.
pub(super) fn read_all<R: NamedRecord>(conn: &Connection) -> Result<Vec<R>, Fault> {
    let mut statement =
        conn.prepare_cached("SELECT key, value, sum FROM records WHERE kind = ?1 ORDER BY key")?;
    let mut rows = statement.query([R::KIND])?;
    let mut records = Vec::new();
    while let Some(row) = rows.next()? {
        let (key, value): (String, String) = (get(row, 0)?, get(row, 1)?);
        let record: R = parse(R::KIND, &key, &value, get(row, 2)?)?;
        if record.key() != key {
            return Err(not_as_written(R::KIND, &key));
        }
        records.push(record);
    }
    Ok(records)
}

/// Removes all records of a kind.
pub(super) fn remove_all<R: NamedRecord>(conn: &Connection) -> rusqlite::Result<()> {
    conn.execute("DELETE FROM records WHERE kind = ?1", [R::KIND])?;
    Ok(())
}

/// The number of layouts and stores, for [`Meta::counted`].
pub(super) fn count(conn: &Connection) -> rusqlite::Result<i64> {
    conn.prepare_cached("SELECT count(*) FROM records WHERE kind IN (?1, ?2)")?
        .query_row([LayoutRecord::KIND, StoreRecord::KIND], |row| row.get(0))
}

/// Fails if a record is of an unknown kind, because a record that is never read would be lost silently.
pub(super) fn check_kinds(conn: &Connection) -> Result<(), Fault> {
    let kinds = [Meta::KIND, Start::KIND, StoreRecord::KIND, LayoutRecord::KIND, Recorded::KIND];
    let unknown: i64 = conn.query_row(
        "SELECT count(*) FROM records WHERE kind NOT IN (?1, ?2, ?3, ?4, ?5) AND NOT (kind > ?6 AND kind < ?7)",
        (kinds[0], kinds[1], kinds[2], kinds[3], kinds[4], tags::KIND, tags::KINDS_END),
        |row| row.get(0),
    )?;
    if unknown == 0 {
        return Ok(());
    }
    Err(Fault::damaged(format!("{unknown} records are of an unknown kind")))
}

fn sum(kind: &str, key: &str, value: &str) -> i64 {
    Sum::of("records").text(kind).text(key).text(value).get()
}

/// Reads a row's value, and checks it against its checksum.
pub(super) fn parse<R: JsonRecord>(
    kind: &str,
    key: &str,
    value: &str,
    found: i64,
) -> Result<R, Fault> {
    let record: Option<R> = serde_json::from_str(value).ok();
    record
        .filter(|record| found == sum(kind, key, value) && record.is_valid())
        .ok_or_else(|| not_as_written(kind, key))
}

fn not_as_written(kind: &str, key: &str) -> Fault {
    Fault::damaged(format!("the record {kind} {key:?} is not as it was written"))
}

/// The value of a column. A value of another type is reported as damage, not as a failing disk.
pub(super) fn get<T: FromSql>(row: &Row<'_>, column: usize) -> Result<T, Fault> {
    Ok(row.get(column)?)
}

// === impl Sum ===

impl Sum {
    /// Starts with the table's name, so that a row of one table isn't mistaken for a row of another.
    pub fn of(table: &str) -> Sum {
        Sum(0xcbf2_9ce4_8422_2325).bytes(table.as_bytes())
    }

    /// The length comes first, so that bytes can't move between neighbouring fields unnoticed.
    pub fn bytes(self, bytes: &[u8]) -> Sum {
        bytes.iter().fold(self.int(bytes.len() as i64), |sum, byte| sum.byte(*byte))
    }

    pub fn text(self, text: &str) -> Sum {
        self.bytes(text.as_bytes())
    }

    pub fn int(self, number: i64) -> Sum {
        number.to_le_bytes().iter().fold(self, |sum, byte| sum.byte(*byte))
    }

    fn byte(self, byte: u8) -> Sum {
        Sum((self.0 ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3))
    }

    pub fn get(self) -> i64 {
        self.0.cast_signed()
    }
}

impl Meta {
    pub fn read(conn: &Connection) -> Result<Meta, Fault> {
        read(conn, "")?.ok_or_else(|| Fault::damaged("the host's record is missing"))
    }
}

impl JsonRecord for Meta {
    fn is_valid(&self) -> bool {
        (0..=COMMITS_MAX).contains(&self.commits)
    }
}

impl NamedRecord for Meta {
    const KIND: &'static str = "meta";

    fn key(&self) -> String {
        String::new()
    }
}

impl Start {
    /// The key of a start's record. Keys are in the order of the numbers.
    pub fn key_of(number: i64) -> String {
        format!("{:020}", number.max(0))
    }
}

impl JsonRecord for Start {
    fn is_valid(&self) -> bool {
        self.number > 0
    }
}

impl NamedRecord for Start {
    const KIND: &'static str = "start";

    fn key(&self) -> String {
        Start::key_of(self.number)
    }
}

impl JsonRecord for LayoutRecord {
    fn is_valid(&self) -> bool {
        self.layout.check().is_ok() && self.mark.0 <= NUMBER_MAX
    }
}

impl NamedRecord for LayoutRecord {
    const KIND: &'static str = "layout";

    fn key(&self) -> String {
        self.name.as_str().to_owned()
    }
}

impl JsonRecord for StoreRecord {
    fn is_valid(&self) -> bool {
        self.confirmed >= 0 && self.written <= NUMBER_MAX
    }
}

impl NamedRecord for StoreRecord {
    const KIND: &'static str = "store";

    fn key(&self) -> String {
        self.store.0.as_ref().to_owned()
    }
}

impl JsonRecord for Recorded {
    fn is_valid(&self) -> bool {
        let Recorded { place, registry, worker, start, holding, earlier } = self;
        let Some(holder) = &holding.holder else { return false };
        let earlier = earlier.as_ref().map_or(0, |earlier| earlier.expires.0);
        let numbers = [worker.0, start.0, holding.expires.0, earlier];
        let texts = [
            place,
            &registry.id.0,
            &registry.history.0,
            &holder.id,
            &holder.name,
            &holder.incarnation.0,
        ];
        numbers.iter().all(|number| *number <= NUMBER_MAX)
            && texts.iter().all(|text| text.len() <= LEASE_TEXT_BYTES_MAX)
    }
}

impl NamedRecord for Recorded {
    const KIND: &'static str = "lease";

    fn key(&self) -> String {
        String::new()
    }
}
