//! The embedded store as a backend, and what is its own: files that are not what they should be.

use std::fs;
use std::path::{Path, PathBuf};

use leafd::journal::Identity;
use leafd::store::{Store, sqlite};
use leafd_core::store::{ClaimWish, ClaimedBy, Generation, HostId, StoreError, TagChange};
use rusqlite::Connection;
use tempfile::TempDir;

use crate::{
    Backend, claim, create, generations, new_tag, raise, refused_in_words, tag, try_claim,
};

/// A store in a folder that goes with it.
pub struct Throwaway {
    _dir: TempDir,
    path: PathBuf,
}

/// The host with this machine id.
fn host(machine: &str) -> Identity {
    let root = tempfile::tempdir().unwrap();
    fs::create_dir(root.path().join("etc")).unwrap();
    fs::write(root.path().join("etc/machine-id"), machine).unwrap();
    Identity::in_root(root.path(), None)
}

impl Throwaway {
    pub fn new() -> Throwaway {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("store.db");
        Throwaway { _dir: dir, path }
    }

    fn beside(&self, name: &str) -> PathBuf {
        self.path.with_file_name(name)
    }
}

impl Backend for Throwaway {
    fn connect(&mut self) -> Box<Store> {
        Box::new(open(&self.path))
    }

    fn execute(&mut self, sql: &str) {
        drop(open(&self.path));
        by_hand(&self.path, sql);
    }
}

fn open(path: &Path) -> leafd::store::Store {
    sqlite::open(path, &host("0")).unwrap()
}

fn by_hand(path: &Path, sql: &str) {
    Connection::open(path).unwrap().execute_batch(sql).unwrap();
}

/// Opening is refused with these words.
#[track_caller]
fn check_refused(path: &Path, parts: &[&str]) {
    match sqlite::open(path, &host("0")) {
        Err(StoreError::Refused(words)) => {
            let path = path.display().to_string();
            for part in parts.iter().chain([&&*path]) {
                assert!(words.contains(part), "{words:?} lacks {part:?}");
            }
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn files_of_another_kind_are_refused() {
    let place = Throwaway::new();
    fs::write(&place.path, "this is a letter, not a database; it goes on for a while\n".repeat(50))
        .unwrap();
    check_refused(&place.path, &["is not a SQLite database"]);
    let other = place.beside("utf16.db");
    by_hand(&other, "PRAGMA encoding = 'UTF-16'; CREATE TABLE t (a)");
    check_refused(&other, &["UTF-16"]);
    for (path, part) in [("/nonexistent/store.db", "directory must exist"), ("/tmp", "/tmp")] {
        match sqlite::open(Path::new(path), &host("0")) {
            Err(StoreError::Unavailable { store, cause }) => {
                assert!(format!("{store} {cause}").contains(part), "{store} {cause}");
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn tables_that_look_different_are_refused_and_left_alone() {
    let cases = [
        (
            "CREATE TABLE leaf_alloc (biz_tag text PRIMARY KEY, max_id int)",
            "leaf_alloc lacks the column step",
        ),
        (
            "CREATE TABLE leaf_alloc (biz_tag text, max_id int, step int, description text, update_time text)",
            "not unique",
        ),
        ("CREATE VIEW leaf_alloc AS SELECT 1", "a view named leaf_alloc"),
        ("CREATE TABLE leafd_tag (x)", "leafd_tag lacks the column tag"),
        // As it was before there were masked tags.
        (
            "CREATE TABLE leafd_tag (tag text PRIMARY KEY, generation int, ceiling int, strict int, highest_end int,
             role_version int)",
            "lacks the column masked",
        ),
        (
            "CREATE TABLE leafd_meta (name, value); INSERT INTO leafd_meta VALUES ('format', 3)",
            "different version of leafd (format 3",
        ),
    ];
    for (number, (sql, part)) in cases.into_iter().enumerate() {
        let place = Throwaway::new();
        let path = place.beside(&format!("{number}.db"));
        by_hand(&path, sql);
        check_refused(&path, &[part]);
        let objects: i64 = Connection::open(&path)
            .unwrap()
            .query_row("SELECT count(*) FROM sqlite_schema WHERE type = 'trigger'", [], |row| {
                row.get(0)
            })
            .unwrap();
        assert_eq!(objects, 0);
    }
}

#[test]
fn a_table_made_by_others_is_taken_over() {
    let mut place = Throwaway::new();
    by_hand(
        &place.path,
        "CREATE TABLE leaf_alloc (biz_tag varchar(128) COLLATE NOCASE PRIMARY KEY, max_id bigint, step int,
         description varchar(256), update_time timestamp, owner text);
         CREATE INDEX leafd_reports ON leaf_alloc (owner);
         INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('Orders', 50, 10), (NULL, 1, 1)",
    );
    let mut store = place.connect();
    assert_eq!(claim(&mut store, "Orders", 1).run.range(), 50..60);
    let wish = ClaimWish::new(1, 1);
    let other = try_claim(&mut store, &tag("orders"), wish);
    assert!(matches!(other, Err(StoreError::UnknownTag { .. })), "{other:?}");
    assert_eq!(store.list(None, 10).unwrap().len(), 1);
}

#[test]
fn a_damaged_file_is_refused() {
    let mut place = Throwaway::new();
    let mut store = place.connect();
    for number in 0..400 {
        create(&mut store, &new_tag(&format!("tag number {number}"), 1, 10)).unwrap();
    }
    drop(store);
    let mut bytes = fs::read(&place.path).unwrap();
    let page = 4096;
    for at in (page..bytes.len()).step_by(page) {
        bytes[at..at + 64].fill(0xa5);
    }
    fs::write(&place.path, bytes).unwrap();
    match sqlite::open(&place.path, &host("0")) {
        Err(StoreError::Refused(words)) => assert!(words.contains("is damaged"), "{words}"),
        Ok(mut store) => {
            let error = store.list(None, 1000).unwrap_err().to_string();
            assert!(error.contains("is damaged"), "{error}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn values_of_other_types_are_refused_and_left_out() {
    let mut place = Throwaway::new();
    place.execute(
        "INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES
         ('text', 'many', 1), ('real', 1.5, 1), ('bytes', x'00', 1), ('step', 1, 'x'),
         (x'616263', 1, 1), ('huge', 99999999999999999999, 1), ('fine', 1, 1),
         ('tab' || char(9), 1, 1), (CAST(x'ff' AS text), 1, 1)",
    );
    let mut store = place.connect();
    let wish = ClaimWish::new(1, 1);
    for name in ["text", "real", "bytes", "step", "huge"] {
        match try_claim(&mut store, &tag(name), wish) {
            Err(StoreError::Refused(words)) => assert!(words.contains(name), "{words}"),
            other => panic!("{name}: {other:?}"),
        }
        assert_eq!(generations(&mut store, &[tag(name)]), [Some(Generation(0))]);
    }
    let listed = store.list(None, 1).unwrap();
    assert_eq!(listed[0].tag.as_str(), "fine");
    place.execute(
        "INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('side', 1, 1), ('strict', 1, 1);
         INSERT INTO leafd_tag (tag, ceiling) VALUES ('side', -1);
         INSERT INTO leafd_tag (tag, strict) VALUES ('strict', 'x')",
    );
    for name in ["side", "strict"] {
        let odd = try_claim(&mut store, &tag(name), wish);
        assert!(matches!(odd, Err(StoreError::Refused(_))), "{name}: {odd:?}");
    }
}

#[test]
fn rows_replaced_by_hand_are_noticed() {
    let mut place = Throwaway::new();
    place.execute("INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('t', 1, 100)");
    let mut store = place.connect();
    assert_eq!(claim(&mut store, "t", 1).run.range(), 1..101);
    place.execute("INSERT OR REPLACE INTO leaf_alloc (biz_tag, max_id, step) VALUES ('t', 1, 10)");
    refused_in_words(&mut store, "t", &["--start 101"]);
    place.execute("DELETE FROM leaf_alloc");
    place.execute("DROP TABLE leaf_alloc");
    assert!(try_claim(&mut store, &tag("t"), ClaimWish::new(1, 1)).is_err());
    drop(store);
    assert_eq!(place.connect().list(None, 10).unwrap(), []);
}

#[test]
fn update_time_follows_changes() {
    let mut place = Throwaway::new();
    let mut store = place.connect();
    create(&mut store, &new_tag("t", 1, 10)).unwrap();
    let old = "2001-02-03T04:05:06Z";
    let mut is_kept_current = |change: &mut dyn FnMut(&mut Store)| {
        place.execute("UPDATE leaf_alloc SET update_time = '2001-02-03 04:05:06'");
        assert_eq!(store.show(&tag("t")).unwrap().updated.as_deref(), Some(old));
        change(&mut store);
        assert_ne!(store.show(&tag("t")).unwrap().updated.as_deref(), Some(old));
    };
    is_kept_current(&mut |store| assert!(raise(&mut *store, "t", 5)));
    is_kept_current(&mut |store| assert!(!claim(&mut *store, "t", 1).run.range().is_empty()));
    let change = TagChange { step: Some(20), ..TagChange::default() };
    is_kept_current(&mut |store| drop(store.set(&tag("t"), &change).unwrap()));
}

#[test]
fn a_store_that_does_not_say_whose_it_is_is_refused_until_adopted() {
    let mut place = Throwaway::new();
    create(&mut place.connect(), &new_tag("t", 1, 10)).unwrap();
    by_hand(&place.path, "DELETE FROM leafd_meta WHERE name = 'fingerprint'");
    check_refused(&place.path, &["another host", "leafd adopt-store"]);
    sqlite::adopt(&place.path, &host("0"), false).unwrap();
    assert_eq!(claim(&mut open(&place.path), "t", 1).run.range(), 1..11);
}

#[test]
fn a_copy_is_refused_until_adopted() {
    let mut place = Throwaway::new();
    let mut store = place.connect();
    create(&mut store, &new_tag("t", 1, 10)).unwrap();
    let original = store.identity().unwrap().id;
    drop(store);
    let copy = place.beside("copy.db");
    fs::copy(&place.path, &copy).unwrap();
    check_refused(&copy, &["was copied", "leafd adopt-store"]);
    let moved = sqlite::open(&place.path, &host("1")).unwrap_err().to_string();
    assert!(moved.contains("another host") && moved.contains("leafd adopt-store"), "{moved}");

    let adopted = sqlite::adopt(&copy, &host("0"), false).unwrap();
    assert_ne!(adopted, original);
    assert_eq!(sqlite::adopt(&copy, &host("0"), false).unwrap(), adopted);
    let mut store = open(&copy);
    assert_eq!(store.identity().unwrap().id, adopted);
    assert_eq!(claim(&mut store, "t", 1).run.range(), 1..11);
    assert_eq!(open(&place.path).identity().unwrap().id, original);
    assert_eq!(sqlite::adopt(&place.path, &host("0"), false).unwrap(), original);
    assert!(sqlite::adopt(&place.beside("missing.db"), &host("0"), false).is_err());
    assert!(!place.beside("missing.db").exists());
}

#[test]
fn a_file_that_goes_while_in_use_stops_claims() {
    let mut place = Throwaway::new();
    let mut store = place.connect();
    create(&mut store, &new_tag("t", 1, 10)).unwrap();
    // What is still in the write-ahead log doesn't move along.
    place.execute("PRAGMA wal_checkpoint(TRUNCATE)");
    let away = place.beside("away.db");
    let wish = ClaimWish::new(1, 1);
    let under = store.identity().unwrap();
    fs::rename(&place.path, &away).unwrap();
    let gone = store.claim(None, &under, &tag("t"), wish, None);
    assert!(matches!(gone, Err(StoreError::Unavailable { .. })), "{gone:?}");
    assert!(!place.path.exists());
    let other = open(&place.path);
    let replaced = store.claim(None, &under, &tag("t"), wish, None);
    assert!(matches!(replaced, Err(StoreError::Changed { .. })), "{replaced:?}");
    drop(other);
    fs::rename(&away, &place.path).unwrap();
    assert_eq!(claim(&mut store, "t", 1).run.range(), 1..11);
}

#[test]
fn a_locked_file_is_waited_for_within_bounds() {
    let mut place = Throwaway::new();
    let mut store = place.connect();
    create(&mut store, &new_tag("t", 1, 10)).unwrap();
    let other = Connection::open(&place.path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let wish = ClaimWish::new(1, 1);
    let begun = std::time::Instant::now();
    let error = try_claim(&mut store, &tag("t"), wish).unwrap_err().to_string();
    assert!(begun.elapsed() < std::time::Duration::from_secs(4), "{:?}", begun.elapsed());
    assert!(error.contains("locked"), "{error}");
    // Opening one doesn't fail then: its calls do.
    let error = place.connect().identity().unwrap_err().to_string();
    assert!(error.contains("locked"), "{error}");
    other.execute_batch("ROLLBACK").unwrap();
    assert_eq!(claim(&mut store, "t", 1).run.range(), 1..11);
}

#[test]
fn new_files_are_private_and_have_a_log() {
    use std::os::unix::fs::PermissionsExt;
    let mut place = Throwaway::new();
    let store = place.connect();
    let mode = fs::metadata(&place.path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let reader = Connection::open(&place.path).unwrap();
    let journal: String = reader.query_row("PRAGMA journal_mode", [], |row| row.get(0)).unwrap();
    assert_eq!(journal, "wal");
    drop(store);
}

#[test]
fn a_new_file_carries_its_identity_without_its_log() {
    let mut place = Throwaway::new();
    let store = place.connect();
    let copy = place.beside("copy.db");
    fs::copy(&place.path, &copy).unwrap();
    drop(store);
    check_refused(&copy, &["was copied"]);
}

#[test]
fn many_open_a_new_file_at_once() {
    let place = Throwaway::new();
    let threads: Vec<_> = (0..6)
        .map(|_| {
            let path = place.path.clone();
            std::thread::spawn(move || open(&path).identity().unwrap())
        })
        .collect();
    let names: Vec<_> = threads.into_iter().map(|one| one.join().unwrap()).collect();
    assert!(names.windows(2).all(|pair| pair[0] == pair[1]), "{names:?}");
}

/// Or a number might be issued that nobody can be asked about. Servers lose the table or a right; here the disk may be full.
#[test]
fn a_claim_that_can_t_be_remembered_is_not_made() {
    let mut place = Throwaway::new();
    let mut store = place.connect();
    create(&mut store, &new_tag("t", 1, 10)).unwrap();
    let by = ClaimedBy { host: HostId("a".into()), name: "web-1".into(), holds_from: None };
    let (under, wish) = (store.identity().unwrap(), ClaimWish::new(1, 1000));
    let mut claim = || store.claim(Some(&by), &under, &tag("t"), wish, None);
    let first = claim().unwrap().run;
    by_hand(
        &place.path,
        "CREATE TRIGGER full BEFORE INSERT ON leafd_claim BEGIN SELECT RAISE(ABORT, 'no room'); END",
    );
    let refused = claim();
    assert!(
        refused.as_ref().is_err_and(|error| error.to_string().contains("no room")),
        "{refused:?}"
    );
    by_hand(&place.path, "DROP TRIGGER full");
    let next = claim().unwrap().run;
    assert_eq!(next.first, first.end(), "the refused claim took nothing");
    let remembered = store.claims_after(&tag("t"), 0, 9).unwrap();
    assert_eq!(remembered.iter().map(|one| one.run).collect::<Vec<_>>(), [first, next]);
}

/// As rules and triggers of a database can do, and on other engines whoever writes at the same moment.
#[test]
fn a_claim_that_changes_no_row_is_none() {
    for table in ["leaf_alloc", "leafd_tag"] {
        let mut place = Throwaway::new();
        let mut store = place.connect();
        create(&mut store, &new_tag("t", 1, 10)).unwrap();
        assert_eq!(claim(&mut store, "t", 10).run.first, 1);
        place.execute(&format!(
            "CREATE TRIGGER in_the_way BEFORE UPDATE ON {table} BEGIN SELECT RAISE(IGNORE); END"
        ));
        let outcome = try_claim(&mut store, &tag("t"), ClaimWish::new(10, 1_000));
        let words = format!("{:?}", outcome.expect_err("nothing was recorded"));
        assert!(words.contains("a row was not changed"), "{words}");
        place.execute("DROP TRIGGER in_the_way");
        assert_eq!(claim(&mut store, "t", 10).run.first, 11);
    }
}
