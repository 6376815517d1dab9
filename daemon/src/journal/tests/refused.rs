//! Files that are no journal of this version are refused with a clear error, and not changed.

use std::fs;

use rusqlite::Connection;

use super::super::rows::Meta;
use super::*;
use leafd_core::store::HostId;

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
    for (version, why) in [(1, "from before the first release"), (4, "run the newer leafd")] {
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
        "UPDATE segments SET mark = mark - 1",
        "UPDATE segments SET mark = -1",
        "UPDATE segments SET first = 5000",
        "UPDATE tags SET highest_end = highest_end - 1",
        "UPDATE tags SET tag = 'b'",
        "DELETE FROM tags",
        "UPDATE layouts SET mark_ms = mark_ms - 1",
        "DELETE FROM layouts",
        "UPDATE tokens SET token = ''",
        "DELETE FROM tokens",
        "UPDATE stores SET history = 'another'",
        "UPDATE stores SET start = 0, token = ''",
        "UPDATE stores SET written = written + 1",
        "UPDATE stores SET store = 'b'",
        "DELETE FROM stores",
        "INSERT INTO stores SELECT 'b', history, start, token, written, sum FROM stores",
        "DELETE FROM urls; DELETE FROM stores",
        "UPDATE urls SET url = 'another'",
        "UPDATE urls SET store = 'b'",
        "UPDATE urls SET start = start + 1",
        "UPDATE meta SET stores = 0; DELETE FROM urls; DELETE FROM stores",
        "UPDATE meta SET commits = 0",
        "DELETE FROM meta",
        "CREATE TABLE more (x)",
        "INSERT INTO segments SELECT store, tag, \"end\" + 1, first, stride, mark, sum FROM segments",
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

/// A count of commits that can't increase is refused even if its checksum is right.
#[test]
fn a_count_of_commits_that_has_no_next_one_is_refused() {
    let dir = place();
    run(async { open(dir.path()).0.close().await });
    let conn = Connection::open(dir.path().join("journal.db")).unwrap();
    let (host, fingerprint, layouts, stores): (String, String, i64, i64) = conn
        .query_row("SELECT host, fingerprint, layouts, stores FROM meta", [], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
        })
        .unwrap();
    let meta = Meta {
        host: HostId(host.into()),
        fingerprint,
        commits: i64::MAX,
        layouts,
        stores,
        stopped_cleanly: false,
    };
    meta.write(&conn).unwrap();
    conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    conn.close().unwrap();
    refuses(dir.path(), "damaged");
}

#[test]
fn another_program_that_holds_the_file_is_named_as_the_cause() {
    let dir = place();
    run(async { open(dir.path()).0.close().await });
    let conn = Connection::open(dir.path().join("journal.db")).unwrap();
    conn.execute_batch("BEGIN IMMEDIATE").unwrap();
    refuses(dir.path(), "another program");
}
