//! Files that are not a journal of this version are refused with a clear error, and not changed.

use std::fs;

use rusqlite::Connection;

use super::super::records::{self, Meta};
use super::*;

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

/// A count of commits that can't increase is refused even if its checksum is right.
#[test]
fn a_count_of_commits_that_has_no_next_one_is_refused() {
    let dir = place();
    run(async { open(dir.path()).0.close().await });
    let conn = Connection::open(dir.path().join("journal.db")).unwrap();
    let meta = Meta { commits: i64::MAX, ..Meta::read(&conn).unwrap() };
    records::write(&conn, &meta).unwrap();
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
