//! Rows of a store that anybody wrote, with values of any type, in Leaf's table and in leafd's own. The embedded store has
//! no types for its columns, and its rows are read by the same code as every engine's.

use std::cell::RefCell;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use leafd::config::parse_primary;
use leafd::journal;
use leafd::store::{Store, sqlite};
use leafd_core::mask::{KeyNumber, Masking};
use leafd_core::registry::{Mode, Snapshot};
use leafd_core::store::{
    ClaimWish, HostId, Identity, NewTag, Role, Shard, StartToken, StoreError, TagChange,
};
use leafd_core::{BootMs, Now, Tag, UnixMs, WorkerId};
use rusqlite::Connection;
use rusqlite::types::Value;
use tempfile::TempDir;

use super::zookeeper::{POOL, lease};
use crate::input::Input;

/// Every column that is read, with its table.
const COLUMNS: [(&str, &str); 38] = [
    ("leaf_alloc", "biz_tag"),
    ("leaf_alloc", "max_id"),
    ("leaf_alloc", "step"),
    ("leaf_alloc", "description"),
    ("leaf_alloc", "update_time"),
    ("leafd_tag", "tag"),
    ("leafd_tag", "generation"),
    ("leafd_tag", "ceiling"),
    ("leafd_tag", "strict"),
    ("leafd_tag", "masked"),
    ("leafd_tag", "highest_end"),
    ("leafd_tag", "role_version"),
    ("leafd_meta", "value"),
    ("leafd_host", "start_token"),
    ("leafd_worker", "worker"),
    ("leafd_worker", "holder"),
    ("leafd_worker", "name"),
    ("leafd_worker", "incarnation"),
    ("leafd_worker", "bound"),
    ("leafd_worker", "seen"),
    ("leafd_worker", "written"),
    ("leafd_claim", "end_id"),
    ("leafd_claim", "first_id"),
    ("leafd_claim", "stride"),
    ("leafd_claim", "claimed_ms"),
    ("leafd_claim", "host"),
    ("leafd_worker_taken", "since"),
    ("leafd_worker_taken", "taken"),
    ("leafd_worker_taken", "holder"),
    ("leafd_layout", "definition"),
    ("leaf_workerid_alloc", "ip_port"),
    ("leaf_workerid_alloc", "max_timestamp"),
    ("leafd_meta", "name"),
    ("leafd_host", "started"),
    ("leafd_claim", "generation"),
    ("leafd_claim", "name"),
    ("leafd_worker_taken", "worker"),
    ("leafd_worker_taken", "name"),
];

/// Texts that mean something somewhere.
const WORDS: [&str; 10] = [
    "",
    "0 ",
    r#"{"role":"primary 0 of 2, era 1, of: a b","right":1}"#,
    r#"{"role":"routed *->a","right":0}"#,
    r#"{"role":"primary 1 of 2, era 7, of: a b","right":-1}"#,
    "40 1 0123456789abcdef",
    "?",
    "9223372036854775807",
    "1e3",
    "stopped-x",
];

const TAGS: [&str; 3] = ["a", "b", "c"];

thread_local! {
    static PLACE: RefCell<Option<Place>> = const { RefCell::new(None) };
}

/// A file with a store, and what was in it.
struct Place {
    _dir: TempDir,
    file: PathBuf,
    sound: Vec<u8>,
}

pub(crate) fn run(input: &[u8]) {
    let mut input = Input::new(input);
    texts(&mut input);
    PLACE.with_borrow_mut(|place| place.get_or_insert_with(Place::new).one(input));
}

/// Texts that stores keep of themselves.
fn texts(input: &mut Input<'_>) {
    let text = input.text();
    if let Some(masking) = Masking::parse(&text) {
        assert_eq!(masking.to_string(), text);
    }
    if let Some(role) = parse_primary(&text) {
        assert!(role.shard.index < role.shard.of && role.era >= 1);
    }
}

fn tag(name: &str) -> Tag {
    Tag::parse(name.as_bytes()).expect("it is a tag")
}

impl Place {
    fn new() -> Place {
        let dir = tempfile::tempdir().expect("a folder can be made");
        let file = dir.path().join("store.db");
        let mut store = sqlite::open(&file, &journal::Identity::of_host(None)).expect("it is new");
        let under = store.identity().expect("it is new");
        for (number, name) in TAGS.into_iter().enumerate() {
            let new = NewTag {
                tag: tag(name),
                start: 1,
                step: 100,
                ceiling: i64::MAX as u64,
                strict: number == 1,
                masked: None,
                description: Some("kept".to_owned()),
            };
            store.create(&under, &new).expect("it is new");
            store
                .claim(None, &under, &tag(name), ClaimWish::new(10, 100), None)
                .expect("it has numbers");
        }
        let start = StartToken("0".repeat(32).into());
        store.check_in(&under, &HostId("1".repeat(32).into()), &[], &start).expect("it is new");
        drop(store);
        let connection = Connection::open(&file).expect("it is a database");
        connection
            .execute_batch(
                "INSERT INTO leafd_worker VALUES (0, 'h', 'host-a', 'x', 1700000000000, 5, 5);
                 INSERT INTO leafd_worker VALUES (1, 'own', 'host-b', 'stopped-x', 1800000000000, 5, 5);
                 INSERT INTO leafd_worker_taken VALUES (0, 1, 2, 'h', 'host-a', 'x');
                 INSERT INTO leafd_layout VALUES ('snowflake', 'x');
                 INSERT INTO leafd_claim VALUES ('a', 11, 5, 1, 1, 1, 'h', 'host-a', NULL);
                 INSERT INTO leaf_workerid_alloc (id, ip, port, ip_port, max_timestamp)
                     VALUES (2, '10.0.0.1', '80', '10.0.0.1:80', 5);
                 PRAGMA wal_checkpoint(TRUNCATE);",
            )
            .expect("rows can be written");
        drop(connection);
        let sound = fs::read(&file).expect("it is there");
        Place { _dir: dir, file, sound }
    }

    fn one(&self, mut input: Input<'_>) {
        for suffix in ["store.db-wal", "store.db-shm"] {
            let _ = fs::remove_file(self.file.with_file_name(suffix));
        }
        // In place: a new file would be a copy.
        fs::write(&self.file, &self.sound).expect("it can be written");
        let now_ms = input.u64();
        let wish = ClaimWish {
            want: u64::from(input.u16()).max(1),
            least: 1 + u64::from(input.u8() % 2),
            step_max: u64::from(input.u32()).max(1),
            shard: Shard { index: 0, of: 1 + u32::from(input.u8() % 2) },
            ..ClaimWish::new(1, 1)
        };
        // Not everything each time: it would be slow.
        let (name, what) = (*input.one_of(&TAGS), input.u8());
        self.write_rows(&mut input);
        let mut store = match sqlite::open(&self.file, &journal::Identity::of_host(None)) {
            Ok(store) => store,
            Err(refused) => return assert!(!refused.to_string().is_empty()),
        };
        let Ok(under) = store.identity() else { return };
        match what % 4 {
            0 if what >= 128 => roles(&mut store, &under),
            0 => lists(&mut store, &under),
            1 => workers(&mut store, now_ms),
            _ => claims(&mut store, &under, &tag(name), wish),
        }
    }

    /// What SQLite doesn't accept stays as it is.
    fn write_rows(&self, input: &mut Input<'_>) {
        let connection = Connection::open(&self.file).expect("it is a database");
        for _ in 0..=input.u8() % 6 {
            let (table, column) = *input.one_of(&COLUMNS);
            let value = match input.u8() % 8 {
                0 => Value::Null,
                1 => Value::Text(input.text()),
                2 => Value::Blob(input.bytes(8).to_vec()),
                3 => Value::Real(f64::from_bits(input.u64())),
                4 => Value::Text((*input.one_of(&WORDS)).to_owned()),
                5 => Value::Text(input.number().to_string()),
                _ => Value::Integer(input.number()),
            };
            let sql = format!(
                "UPDATE {table} SET {column} = ?1 WHERE {column} IS (SELECT {column} FROM {table} LIMIT 1 OFFSET ?2)"
            );
            let _ = connection.execute(&sql, (value, i64::from(input.u8() % 8)));
        }
    }
}

/// Numbers are claimed once, in range, and remembered.
fn claims(store: &mut Store, under: &Identity, tag: &Tag, wish: ClaimWish) {
    let mut end = 0;
    for round in 0..4 {
        if round == 2 {
            let change = TagChange { step: Some(7), ..TagChange::default() };
            let _ = store.set(tag, &change);
            let higher = end + 1_000;
            if store.raise(under, &[(tag.clone(), higher)], false).is_ok() && end > 0 {
                end = higher;
            }
        }
        match store.claim(None, under, tag, wish, None) {
            Ok(claim) => {
                let run = claim.run;
                let last = run.last().expect("claimed numbers are positive");
                assert!(run.first >= end.max(1), "{tag}: {run:?} below {end}");
                assert!(last <= claim.ceiling && last < i64::MAX as u64, "{tag}: {claim:?}");
                assert_eq!(wish.shard.first_from(run.first), run.first, "{tag}: {run:?}");
                assert!(claim.step >= 1);
                end = run.end();
                let terms = store.look_up(under, std::slice::from_ref(tag)).expect("it was read");
                assert!(terms[0].is_some_and(|terms| terms.end >= end), "{tag}: {terms:?}");
            }
            Err(refused) => in_words(&refused),
        }
    }
}

fn in_words(refused: &StoreError) {
    assert!(!refused.to_string().is_empty());
}

fn lists(store: &mut Store, under: &Identity) {
    let all = store.list(None, 10).map_err(|refused| in_words(&refused)).unwrap_or_default();
    for row in &all {
        assert_eq!(store.show(&row.tag).as_ref().ok(), Some(row), "what is listed is shown");
    }
    let _ = store.list(Some(&tag("a")), 10);
    for (name, end) in store.ends(None, 10).unwrap_or_default() {
        assert!(end <= i64::MAX as u64, "{name}");
        let _ = store.claimed_end(&name);
    }
    for record in store.claims_after(&tag("a"), 0, 10).unwrap_or_default() {
        assert!(record.run.last().is_some(), "{record:?}");
    }
    let _ = store.look_up(under, &TAGS.map(tag));
    let (host, next) = (HostId("1".repeat(32).into()), StartToken("2".repeat(32).into()));
    let _ = store.check_in(under, &host, &[], &next);
    let _ = store.note_static_worker(under, WorkerId(3), &next, "host-a");
    let _ = store.is_settled(under);
    let _ = store.forget_claims(Duration::from_millis(1), 10);
    let key = KeyNumber::new(7).expect("it is one");
    if let Ok(first) = store.note_mask_key(under, key, 1) {
        let again = store.note_mask_key(under, key, first.wrapping_add(1));
        assert_eq!(again.ok(), Some(first), "the host that came first says which key it is");
    }
    if let Ok(row) = store.show(&tag("c")) {
        let _ = store.delete(&tag("c"), row.generation);
        let new = NewTag {
            tag: tag("c"),
            start: 1,
            step: 1,
            ceiling: i64::MAX as u64,
            strict: false,
            masked: None,
            description: None,
        };
        let end = store.claimed_end(&tag("c"));
        if let (Ok(_), Ok(end)) = (store.create(under, &new), end) {
            assert!(end <= 1, "a name whose numbers below {end} were claimed starts at 1");
        }
    }
}

/// What a store is among several stays as it is recorded, until it is replaced; no claim goes on under a former role.
fn roles(store: &mut Store, under: &Identity) {
    let [one, other] =
        [0, 1].map(|index| Role(format!("primary {index} of 2, era 1, of: a b").into()));
    if store.take_role(under, &one).is_ok() {
        assert!(store.take_role(under, &other).is_err(), "another one is recorded");
    }
    let Ok(under) = store.identity() else { return };
    if store.replace_role(&under, &other).is_ok() {
        let wish = ClaimWish::new(1, 100);
        assert_eq!(store.identity().map(|found| found.role).ok(), Some(other.clone()));
        if under.role != other {
            let claimed = store.claim(None, &under, &tag("a"), wish, None);
            assert!(matches!(claimed, Err(StoreError::Changed { .. })), "{claimed:?}");
        }
    }
}

/// Leases by what the rows say.
fn workers(store: &mut Store, now_ms: u64) {
    let mut registry = store.workers(Mode::Leased);
    let _ = registry.former(WorkerId(0), UnixMs(now_ms));
    match registry.snapshot(POOL) {
        Ok(Snapshot { now, entries, .. }) => {
            assert!(entries.is_sorted_by(|one, next| one.worker < next.worker));
            let entries = entries.into_iter().map(|entry| (entry.worker.0, entry)).collect();
            lease(Now { unix: now, boot: BootMs(now_ms >> 20) }, now, entries);
        }
        Err(refused) => assert!(!refused.to_string().is_empty()),
    }
    drop(registry);
    let mut registry = store.workers(Mode::Permanent);
    if let Err(refused) = registry.snapshot(POOL) {
        assert!(!refused.to_string().is_empty());
    }
}
