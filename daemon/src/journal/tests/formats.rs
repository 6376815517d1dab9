//! Journals of earlier releases: this version reads each of them.

use std::fs;

use rusqlite::Connection;

use super::super::records::{self, Meta, Start};
use super::super::witness::Stamp;
use super::lease::claim;
use super::*;
use leafd_core::store::StartToken;

/// A journal of each format since the first release, after a clean stop. When the format changes, add the new one.
const FORMATS: [&[u8]; 1] = [include_bytes!("formats/5.db")];

/// Names a folder to write a journal of the current format to.
const WRITE_TO: &str = "LEAFD_TEST_WRITE_FORMATS";

/// Everything that a journal can contain.
fn contents() -> Vec<Write> {
    let strided = Run { first: 7, count: 100, stride: 3 };
    vec![
        segment("a", 1..1_001, 10),
        Write::Segment {
            store: store(),
            tag: tag("b"),
            generation: Generation(2),
            run: strided,
            mark: 10,
        },
        Write::LayoutMark(layout("snowflake", 5_000)),
        Write::Worker(claim(10, "incarnation")),
        Write::CheckedIn { url: "url".into(), store: store(), history: "history".into() },
        Write::StoppedCleanly,
    ]
}

/// Writes a journal of the current format.
async fn write_present(to: &Path) {
    let place = place();
    let (journal, _) = open(place.path());
    journal.commit(contents()).await.unwrap();
    journal.close().await;
    fs::copy(place.path().join("journal.db"), to).unwrap();
}

/// Puts a journal into a state directory as if it had been written there.
fn put(dir: &Path, bytes: &[u8]) {
    let path = dir.join("journal.db");
    fs::write(&path, bytes).unwrap();
    fs::write(dir.join("stamp"), "").unwrap();
    let stamp = Stamp::of(&open_state_dir(dir)).unwrap().unwrap();
    let conn = Connection::open(&path).unwrap();
    let mut meta = Meta::read(&conn).unwrap();
    meta.fingerprint = identity(dir, MACHINE_ID, None).fingerprint(&path).unwrap();
    records::write(&conn, &meta).unwrap();
    let mut start: Start = records::read_all(&conn).unwrap().pop().unwrap();
    let begin = stamp.token_begin();
    start.token = StartToken(format!("{begin}{}", &start.token.0[begin.len()..]).into());
    records::write(&conn, &start).unwrap();
    conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    conn.close().unwrap();
}

#[test]
fn a_journal_of_each_release_is_read() {
    if let Some(folder) = std::env::var_os(WRITE_TO) {
        return run(write_present(&Path::new(&folder).join("journal.db")));
    }
    for bytes in FORMATS {
        let place = place();
        put(place.path(), bytes);
        run(async {
            let (journal, was) = open(place.path());
            assert_eq!((was.begun, &was.set_aside, was.unvouched), (false, &None, false));
            assert!(was.stopped_cleanly);
            assert_eq!(was.layouts, [layout("snowflake", 5_000)]);
            assert_eq!(was.claim, Some(claim(10, "incarnation")));
            assert_eq!(was.at("url").unwrap().store, store());
            assert_eq!(unissued(&journal, "a").await, [10..1_001]);
            let b = tag_of(&journal, "b").await.unwrap();
            assert_eq!(b.unissued, [Run { first: 10, count: 99, stride: 3 }]);
            assert_eq!((b.generation, b.highest_end), (Generation(2), 305));
            // It can also be written to.
            journal.commit(vec![mark("a", 1_001, 20)]).await.unwrap();
            journal.close().await;
        });
    }
}
