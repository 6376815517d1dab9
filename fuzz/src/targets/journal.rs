//! Journals that a disk damaged, or somebody wrote into: refused, or nothing that may have been issued is held.
//!
//! An input says what to change: bytes of the file or of its log as disks do it, or values in its rows, with their sums
//! set right or not. Only who sets sums right can bring something else back than what was written; even then the journal
//! holds no contradiction, and nothing that was issued since.

use std::cell::RefCell;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use leafd::journal::{Identity, Journal, LayoutRecord, Outside, Recovered, TagRecord, Write};
use leafd::state_dir::StateDir;
use leafd_core::lease::Recorded;
use leafd_core::registry::{Holder, LeaseRecord, RegistryId};
use leafd_core::store::{Generation, History, StartToken, StoreId};
use leafd_core::{Tag, UnixMs, WorkerId};
use leafd_wire::{Layout, Run};
use rusqlite::Connection;
use rusqlite::types::Value;
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::input::Input;

const MARK_MS: u64 = 5_000_000;

/// Each tag's ids and the mark below which they may have been issued.
const TAGS: [(&str, Run, u64); 3] = [
    ("a", Run { first: 1, count: 100_000, stride: 1 }, 1_000),
    ("b", Run { first: 7, count: 5_000, stride: 3 }, 10),
    ("c", Run { first: i64::MAX as u64 - 100, count: 100, stride: 1 }, i64::MAX as u64 - 50),
];

/// Members of records, after their kind, with numbers and with texts.
const NUMBERS: [&str; 21] = [
    "tag.segments.0.mark",
    "tag.segments.0.first",
    "tag.segments.0.end",
    "tag.segments.0.stride",
    "tag.highest_end",
    "tag.generation",
    "meta.commits",
    "meta.stopped_cleanly",
    "meta.counted",
    "layout.mark",
    "layout.layout.time_bits",
    "layout.layout.worker_bits",
    "layout.layout.unit_ms",
    "layout.layout.epoch_ms",
    "lease.worker",
    "lease.start",
    "lease.holding.expires",
    "lease.earlier",
    "start.number",
    "store.confirmed",
    "store.urls.url",
];
const TEXTS: [&str; 12] = [
    "tag.segments",
    "tag.highest_end",
    "tag.generation",
    "meta.host",
    "layout.name",
    "lease.holding.holder.id",
    "lease.holding.holder.incarnation",
    "lease.place",
    "start.token",
    "store.store",
    "store.token",
    "store.urls",
];

const PAGE_BYTES: usize = 4_096;

thread_local! {
    static PLACE: RefCell<Option<Place>> = const { RefCell::new(None) };
}

/// A state directory with a journal, and what its files were.
struct Place {
    _dir: TempDir,
    state_dir: StateDir,
    identity: Identity,
    memory: PathBuf,
    noted: Vec<u8>,
    inode: u64,
    /// After a stop.
    closed: Vec<u8>,
    /// While the daemon ran, with its log.
    live: [Vec<u8>; 2],
    runtime: Runtime,
}

pub(crate) fn run(input: &[u8]) {
    PLACE.with_borrow_mut(|kept| {
        let place = match kept.take() {
            Some(place) => place,
            None => Place::new(),
        };
        place.one(Input::new(input));
        // One that was set aside has made room for another file.
        if fs::metadata(place.file()).is_ok_and(|found| found.ino() == place.inode) {
            *kept = Some(place);
        }
    });
}

fn store() -> StoreId {
    StoreId("postgres:1".into())
}

fn tag(name: &str) -> Tag {
    Tag::parse(name.as_bytes()).expect("it is a tag")
}

fn layout() -> LayoutRecord {
    LayoutRecord { name: tag("snowflake"), layout: Layout::LEAF, mark: UnixMs(MARK_MS) }
}

fn segment(name: &str, run: Run, mark: u64) -> Write {
    Write::Segment { store: store(), tag: tag(name), generation: Generation(1), run, mark }
}

fn worker() -> Recorded {
    let holder =
        Holder { id: "h".into(), name: "host-a".into(), incarnation: StartToken("1".into()) };
    Recorded {
        place: "store".into(),
        registry: RegistryId { id: store(), history: History("1".into()) },
        worker: WorkerId(17),
        start: UnixMs(1_000),
        holding: LeaseRecord { holder: Some(holder), expires: UnixMs(MARK_MS) },
        earlier: None,
    }
}

impl Place {
    fn new() -> Place {
        let dir = tempfile::tempdir().expect("a folder can be made");
        fs::create_dir(dir.path().join("etc")).expect("it is new");
        fs::write(dir.path().join("etc/machine-id"), "0123456789abcdef").expect("it is new");
        let mut place = Place {
            state_dir: StateDir::open(&dir.path().join("state")).expect("it is new"),
            identity: Identity::in_root(dir.path(), None),
            memory: dir.path().join("memory"),
            noted: Vec::new(),
            inode: 0,
            closed: Vec::new(),
            live: Default::default(),
            runtime: tokio::runtime::Builder::new_current_thread().build().expect("a runtime"),
            _dir: dir,
        };
        let (journal, _) = place.open().expect("it is new");
        let mut writes = vec![
            Write::LayoutMark(layout()),
            Write::Worker(worker()),
            Write::CheckedIn { url: "url".into(), store: store(), history: "1".into() },
        ];
        writes.extend(TAGS.map(|(name, run, mark)| segment(name, run, mark)));
        for write in writes {
            place.runtime.block_on(journal.commit(vec![write])).expect("it is committed");
        }
        place.live = [place.file(), place.log()].map(|file| fs::read(file).expect("it is there"));
        place.runtime.block_on(journal.close());
        place.closed = fs::read(place.file()).expect("it is there");
        place.noted = fs::read(&place.memory).expect("it is there");
        fs::hard_link(place.stamp(), place.kept_stamp()).expect("it is there");
        place.inode = fs::metadata(place.file()).expect("it is there").ino();
        place
    }

    fn file(&self) -> PathBuf {
        self.state_dir.path().join("journal.db")
    }

    fn log(&self) -> PathBuf {
        self.state_dir.path().join("journal.db-wal")
    }

    fn stamp(&self) -> PathBuf {
        self.state_dir.path().join("stamp")
    }

    /// The stamp of the journal, under a second name: each start makes another one.
    fn kept_stamp(&self) -> PathBuf {
        self.memory.with_extension("stamp")
    }

    fn open(&self) -> Result<(Journal, Recovered), String> {
        let outside = Outside { memory: Some(&self.memory), may_begin_anew: &|_| Ok(()) };
        Journal::open(&self.state_dir, &self.identity, outside).map_err(|refused| {
            assert!(!refused.cause.is_empty());
            refused.cause
        })
    }

    fn one(&self, mut input: Input<'_>) {
        let forged = match input.u8() % 4 {
            0 => {
                let mut bytes = self.closed.clone();
                damage(&mut bytes, &mut input);
                self.put(&bytes, None);
                false
            }
            1 => {
                let [database, mut log] = self.live.clone();
                damage(&mut log, &mut input);
                self.put(&database, Some(&log));
                false
            }
            kind => {
                self.put(&self.closed, None);
                write_rows(&self.file(), &mut input, kind == 3);
                kind == 3
            }
        };
        let Ok((journal, recovered)) = self.open() else { return };
        self.runtime.block_on(async {
            let is_sound = !forged && recovered.set_aside.is_none();
            if is_sound {
                assert_eq!(recovered.layouts, [layout()]);
                assert_eq!(recovered.claim, Some(worker()));
            }
            for (name, run, mark) in TAGS {
                let Ok(found) = journal.tag(&store(), &tag(name)).await else { continue };
                let found = found.unwrap_or_default();
                consistent(&found);
                if recovered.set_aside.is_some() {
                    assert!(found.unissued.is_empty(), "{name}: {found:?}");
                }
                if is_sound {
                    assert!(found.highest_end >= run.end(), "{name}: {found:?}");
                    let held = found.unissued.iter().all(|left| {
                        left.first >= mark && left.stride == run.stride && left.end() <= run.end()
                    });
                    assert!(held, "{name}: {found:?}");
                }
                issue(&journal, name, &found).await;
            }
            journal.close().await;
        });
    }

    /// Writes in place: a new file would be a foreign one.
    fn put(&self, database: &[u8], log: Option<&[u8]>) {
        for suffix in ["journal.db-wal", "journal.db-shm"] {
            let _ = fs::remove_file(self.state_dir.path().join(suffix));
        }
        fs::write(self.file(), database).expect("it can be written");
        if let Some(log) = log {
            fs::write(self.log(), log).expect("it can be written");
        }
        fs::write(&self.memory, &self.noted).expect("it can be written");
        fs::remove_file(self.stamp()).expect("it is there");
        fs::hard_link(self.kept_stamp(), self.stamp()).expect("it was removed");
    }
}

/// What a disk does to a file.
fn damage(bytes: &mut Vec<u8>, input: &mut Input<'_>) {
    for _ in 0..=input.u8() % 3 {
        if bytes.is_empty() {
            return;
        }
        let at = input.below(bytes.len());
        match input.u8() % 5 {
            0 => bytes[at] ^= 1 << (input.u8() % 8),
            1 => bytes[at] = input.u8(),
            // Sectors that were never written.
            2 => {
                let end = bytes.len().min(at + 512 * (1 + usize::from(input.u8() % 8)));
                bytes[at / 512 * 512..end].fill(0);
            }
            3 => bytes.truncate(at),
            // A page in the place of another one.
            _ => {
                let pages = bytes.len() / PAGE_BYTES;
                if pages > 0 {
                    let (from, to) = (input.below(pages), input.below(pages));
                    let from = from * PAGE_BYTES..(from + 1) * PAGE_BYTES;
                    bytes.copy_within(from, to * PAGE_BYTES);
                }
            }
        }
    }
}

/// Changes rows, and sets the sums right or not. What SQLite doesn't accept stays as it is.
fn write_rows(file: &Path, input: &mut Input<'_>, with_sums: bool) {
    let connection = Connection::open(file).expect("it is a database");
    for _ in 0..=input.u8() % 4 {
        let (column, value) = match input.u8() % 3 {
            0 => (*input.one_of(&TEXTS), Value::Text(input.text())),
            _ => (*input.one_of(&NUMBERS), Value::Integer(input.number())),
        };
        let Some((kind, member)) = column.split_once('.') else { continue };
        let one = i64::from(input.u8() % 3);
        let _ = match kind {
            "tag" => write_member(&connection, &format!("tag of {}", store()), one, member, value),
            kind => write_member(&connection, kind, 0, member, value),
        };
    }
    if with_sums {
        set_sums(&connection).expect("sums can be set");
    }
}

/// Changes a member of a kind's record with this number.
fn write_member(
    connection: &Connection,
    kind: &str,
    number: i64,
    path: &str,
    value: Value,
) -> rusqlite::Result<()> {
    let sql = "SELECT key, value FROM records WHERE kind = ?1 ORDER BY key LIMIT 1 OFFSET ?2";
    let (key, text): (String, String) =
        connection.query_row(sql, (kind, number), |row| Ok((row.get(0)?, row.get(1)?)))?;
    let mut record: serde_json::Value = serde_json::from_str(&text).expect("it is JSON");
    if let Some(member) = record.pointer_mut(&format!("/{}", path.replace('.', "/"))) {
        *member = match value {
            Value::Integer(number) => number.into(),
            Value::Text(text) => text.into(),
            _ => serde_json::Value::Null,
        };
    }
    let sql = "UPDATE records SET value = ?1 WHERE kind = ?2 AND key = ?3";
    connection.execute(sql, (record.to_string(), kind, key)).map(drop)
}

fn set_sums(connection: &Connection) -> rusqlite::Result<()> {
    let mut statement = connection.prepare("SELECT kind, key, value FROM records")?;
    let rows = statement.query_map([], |row| Ok([row.get(0)?, row.get(1)?, row.get(2)?]))?;
    let rows: Vec<[String; 3]> = rows.collect::<Result<_, _>>()?;
    for row in rows {
        let sum = bytes_sum(0xcbf2_9ce4_8422_2325, b"records");
        let sum = row.iter().fold(sum, |sum, text| bytes_sum(sum, text.as_bytes()));
        let [kind, key, _] = row;
        let sql = "UPDATE records SET sum = ?1 WHERE kind = ?2 AND key = ?3";
        connection.execute(sql, (sum.cast_signed(), kind, key))?;
    }
    Ok(())
}

/// The journal's sum, FNV-1a, over a text with its length first.
fn bytes_sum(sum: u64, bytes: &[u8]) -> u64 {
    digits_sum(digits_sum(sum, &(bytes.len() as u64).to_le_bytes()), bytes)
}

fn digits_sum(sum: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(sum, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

/// What is held is in order, positive and claimed.
fn consistent(found: &TagRecord) {
    let mut above = 0;
    for left in &found.unissued {
        assert!(left.first > above && left.count > 0 && left.stride > 0, "{found:?}");
        above = left.last().expect("it has ids");
        assert!(above < found.highest_end, "{found:?}");
    }
}

/// Issues half of what is held: after a crash it must be gone. And claims more.
async fn issue(journal: &Journal, name: &str, found: &TagRecord) {
    let (store, tag) = (store(), tag(name));
    let Some(left) = found.unissued.first().copied() else { return };
    let issued = left.first + u64::from(left.count / 2) * u64::from(left.stride);
    let mark =
        Write::Mark { store: store.clone(), tag: tag.clone(), end: left.end(), mark: issued };
    if journal.commit(vec![mark]).await.is_err() {
        return;
    }
    let again = journal.tag(&store, &tag).await.expect("it was read before").unwrap_or_default();
    consistent(&again);
    assert!(again.unissued.iter().all(|run| run.first >= issued), "{again:?} after {issued}");
    let next = Run { first: found.highest_end, count: 10, stride: 1 };
    if next.last().is_some_and(|last| last < i64::MAX as u64)
        && journal.commit(vec![segment(name, next, next.first)]).await.is_ok()
    {
        let after = journal.tag(&store, &tag).await.expect("it was read").unwrap_or_default();
        consistent(&after);
        assert_eq!(after.highest_end, next.end());
    }
}
