//! Files that are not a journal of this version are refused with a clear error, and not changed.

use std::fs;

use rusqlite::Connection;

use super::super::StoreRecord;
use super::super::records::{self, Meta, NUMBER_MAX, NamedRecord, Start};
use super::lease::claim;
use super::*;
use leafd_core::lease::Recorded;

/// Checks that opening is refused with this reason, and changes nothing.
fn refuses(dir: &Path, why: &str) {
    let path = dir.join("journal.db");
    let before = fs::read(&path).unwrap();
    let refused = try_open(dir).unwrap_err().to_string();
    assert!(refused.contains(why), "{refused}");
    assert!(refused.contains(path.to_str().unwrap()), "{refused}");
    assert!(fs::read(&path).unwrap() == before, "the file was changed");
}

#[test]
fn something_else_under_its_name_is_left_alone() {
    let dir = place();
    let path = dir.path().join("journal.db");
    for text in ["", "short", &"not a database ".repeat(500)] {
        fs::write(&path, text).unwrap();
        refuses(dir.path(), "not a journal");
    }
    fs::remove_file(&path).unwrap();
    let conn = Connection::open(&path).unwrap();
    conn.execute_batch("CREATE TABLE recipes (name TEXT)").unwrap();
    conn.close().unwrap();
    refuses(dir.path(), "but not leafd's");
    fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink("/dev/null", &path).unwrap();
    assert!(try_open(dir.path()).unwrap_err().to_string().contains("not a regular file"));
}

#[test]
fn another_format_is_refused_in_words() {
    for (version, why) in [(4, "from before the first release"), (6, "run the newer leafd")] {
        let dir = place();
        run(async { open(dir.path()).0.close().await });
        let conn = Connection::open(dir.path().join("journal.db")).unwrap();
        conn.pragma_update(None, "user_version", version).unwrap();
        conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
        conn.close().unwrap();
        refuses(dir.path(), why);
    }
}

#[test]
fn rows_that_leafd_did_not_write_are_refused() {
    let cases = [
        "UPDATE records SET value = replace(value, 'mark\":10', 'mark\":9') WHERE key = 'a'",
        "UPDATE records SET value = replace(value, '1001', '1002') WHERE key = 'a'",
        "UPDATE records SET value = replace(value, 'generation\":1', 'generation\":2') WHERE key = 'a'",
        "UPDATE records SET key = 'b' WHERE key = 'a'",
        "UPDATE records SET kind = 'tag of another' WHERE key = 'a'",
        "INSERT INTO records SELECT kind, 'b', value, sum FROM records WHERE key = 'a'",
        "UPDATE records SET value = replace(value, ':5000', ':4999') WHERE kind = 'layout'",
        "DELETE FROM records WHERE kind = 'layout'",
        "UPDATE records SET value = replace(value, 'token\":\"', 'token\":\"0') WHERE kind = 'start'",
        "DELETE FROM records WHERE kind = 'start'",
        "UPDATE records SET value = replace(value, ':\"history', ':\"another') WHERE kind = 'store'",
        "UPDATE records SET value = replace(value, 'confirmed\":1', 'confirmed\":0') WHERE kind = 'store'",
        "UPDATE records SET value = replace(value, 'written\":0', 'written\":1') WHERE kind = 'store'",
        "UPDATE records SET value = replace(value, '\"url\"', '\"another\"') WHERE kind = 'store'",
        "UPDATE records SET key = 'b' WHERE kind = 'store'",
        "UPDATE records SET kind = 'start' WHERE kind = 'store'",
        "UPDATE records SET value = 'nonsense' WHERE kind = 'store'",
        "DELETE FROM records WHERE kind = 'store'",
        "INSERT INTO records SELECT kind, 'b', value, sum FROM records WHERE kind = 'store'",
        "UPDATE records SET value = replace(value, 'commits\":', 'commits\":1') WHERE kind = 'meta'",
        "UPDATE records SET value = replace(value, 'counted\":2', 'counted\":1') WHERE kind = 'meta'; DELETE FROM records WHERE kind = 'store'",
        "DELETE FROM records WHERE kind = 'meta'",
        "CREATE TABLE more (x)",
    ];
    for case in cases {
        let dir = place();
        run(async {
            let (journal, _) = open(dir.path());
            let history = "history".into();
            let batch = vec![
                Write::CheckedIn { url: "url".into(), store: store(), history },
                segment("a", 1..1001, 10),
                Write::LayoutMark(layout("snowflake", 5_000)),
            ];
            journal.commit(batch).await.unwrap();
            journal.close().await;
        });
        let conn = Connection::open(dir.path().join("journal.db")).unwrap();
        conn.execute_batch(case).unwrap();
        conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
        conn.close().unwrap();
        refuses(dir.path(), "damaged");
    }
}

type Change = Box<dyn Fn(&Connection)>;

/// Changes the last record of a kind, and gives it the right checksum.
fn changed<R: NamedRecord>(change: impl Fn(&mut R) + 'static) -> Change {
    Box::new(move |conn| {
        let mut record = records::read_all::<R>(conn).unwrap().pop().unwrap();
        change(&mut record);
        records::write(conn, &record).unwrap();
    })
}

#[test]
fn values_out_of_range_are_refused_even_with_the_right_checksum() {
    let largest = [
        changed(|layout: &mut LayoutRecord| layout.mark.0 = NUMBER_MAX),
        changed(|store: &mut StoreRecord| store.written = NUMBER_MAX),
        changed(|lease: &mut Recorded| lease.holding.expires.0 = NUMBER_MAX),
        changed(|lease: &mut Recorded| lease.place = "p".repeat(8_192).into()),
    ];
    let unsound = [
        changed(|meta: &mut Meta| meta.commits = -1),
        // This count has no next one.
        changed(|meta: &mut Meta| meta.commits = i64::MAX),
        changed(|start: &mut Start| start.number = 0),
        changed(|start: &mut Start| start.number = -1),
        changed(|layout: &mut LayoutRecord| layout.mark.0 = NUMBER_MAX + 1),
        changed(|layout: &mut LayoutRecord| layout.layout.unit_ms = 0),
        changed(|store: &mut StoreRecord| store.written = NUMBER_MAX + 1),
        changed(|store: &mut StoreRecord| store.confirmed = -1),
        changed(|lease: &mut Recorded| lease.holding.expires.0 = NUMBER_MAX + 1),
        changed(|lease: &mut Recorded| lease.start.0 = NUMBER_MAX + 1),
        changed(|lease: &mut Recorded| lease.place = "p".repeat(8_193).into()),
        changed(|lease: &mut Recorded| lease.holding.holder = None),
        // A record in another one's place.
        Box::new(|conn| {
            let record = records::read_all::<LayoutRecord>(conn).unwrap().pop().unwrap();
            records::remove_all::<LayoutRecord>(conn).unwrap();
            records::write_of(conn, "layout", "another", &record).unwrap();
        }),
    ];
    let odd = [changed(|store: &mut StoreRecord| store.confirmed = 2)];
    let strange: [Change; 1] = [Box::new(|conn| {
        records::write_of(conn, "strange", "", &Meta::read(conn).unwrap()).unwrap();
    })];
    let cases = [
        (&largest[..], None),
        (&unsound, Some("is not as it was written")),
        (&odd, Some("a store confirmed a start that is not recorded")),
        (&strange, Some("1 records are of an unknown kind")),
    ];
    for (index, (changes, fault)) in cases.into_iter().enumerate() {
        for (change, number) in changes.iter().zip(0..) {
            println!("change {number} of list {index}");
            let dir = place();
            run(async {
                let (journal, _) = open(dir.path());
                let checked_in = |name: &str| {
                    let store = StoreId(name.into());
                    Write::CheckedIn { url: name.into(), store, history: "history".into() }
                };
                let batch = vec![
                    checked_in("a"),
                    checked_in("b"),
                    Write::LayoutMark(layout("snowflake", 5_000)),
                    Write::Worker(claim(10, "incarnation")),
                ];
                journal.commit(batch).await.unwrap();
                journal.close().await;
            });
            let conn = Connection::open(dir.path().join("journal.db")).unwrap();
            change(&conn);
            conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
            conn.close().unwrap();
            match fault {
                Some(fault) => refuses(dir.path(), fault),
                None => run(async { open(dir.path()).0.close().await }),
            }
        }
    }
}

#[test]
fn what_is_left_of_a_new_journal_must_be_removable() {
    let dir = place();
    fs::create_dir(dir.path().join("journal.db.new-wal")).unwrap();
    let refused = try_open(dir.path()).unwrap_err().to_string();
    assert!(refused.contains("creating a new journal failed: Is a directory"), "{refused}");
}

#[test]
fn another_program_that_holds_the_file_is_named_as_the_cause() {
    let dir = place();
    run(async { open(dir.path()).0.close().await });
    let conn = Connection::open(dir.path().join("journal.db")).unwrap();
    conn.execute_batch("BEGIN IMMEDIATE").unwrap();
    refuses(dir.path(), "another program");
}
