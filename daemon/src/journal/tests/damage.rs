//! Damages journals at random places from a printed seed. Each time the journal must be refused, be found to lack commits
//! and set aside, or contain everything that was acknowledged.

use std::fs;

use super::super::tags::{Segment, TagState};
use super::*;

/// The content of an undamaged journal.
const TAGS: u64 = 40;
const BOUND: u64 = 5_000_000;

/// The last byte of the number of free pages in SQLite's header.
const FREE_PAGES: usize = 39;

async fn write_some(journal: &Journal) {
    for i in 0..TAGS {
        let name = format!("tag {i}");
        journal.commit(vec![segment(&name, 1..100_001, 1)]).await.unwrap();
        journal.commit(vec![mark(&name, 100_001, 1000 + i)]).await.unwrap();
    }
    journal.commit(vec![Write::LayoutMark(layout("snowflake", BOUND))]).await.unwrap();
    let history = "timeline 1".into();
    let met = Write::CheckedIn { url: "url".into(), store: store(), history };
    journal.commit(vec![met]).await.unwrap();
}

/// Opens a damaged journal. Returns false if it was refused or set aside; otherwise checks that everything is there.
async fn survives(dir: &Path, seed: u64) -> bool {
    let (journal, now) = match try_open(dir) {
        Ok(opened) => opened,
        Err(refused) => {
            assert!(!refused.cause.is_empty());
            return false;
        }
    };
    if let Some(kept) = now.set_aside {
        journal.close().await;
        fs::rename(kept, dir.join("journal.db")).unwrap();
        return false;
    }
    assert_eq!(now.layouts, [layout("snowflake", BOUND)], "seed {seed}");
    assert_eq!(now.at("url").map(|at| &*at.history), Some("timeline 1"), "seed {seed}");
    for i in 0..TAGS {
        let mark = 1000 + i;
        assert_eq!(unissued(&journal, &format!("tag {i}")).await, [mark..100_001], "seed {seed}");
    }
    journal.close().await;
    true
}

/// The note outside of the directory. Each start replaces it, and the stamp. The test restores both, so that damage
/// doesn't pass for a restored journal.
fn noted(dir: &Path) -> Vec<u8> {
    fs::hard_link(dir.join("stamp"), dir.with_extension("stamp")).unwrap();
    fs::read(dir.with_extension("memory")).unwrap()
}

fn note(dir: &Path, noted: &[u8]) {
    fs::write(dir.with_extension("memory"), noted).unwrap();
    fs::remove_file(dir.join("stamp")).unwrap();
    fs::hard_link(dir.with_extension("stamp"), dir.join("stamp")).unwrap();
}

/// Writes in place: a new file would count as a copy, which another test covers.
fn restore(path: &Path, bytes: &[u8]) {
    use std::io::Write;
    let mut file =
        fs::OpenOptions::new().write(true).create(true).truncate(true).open(path).unwrap();
    file.write_all(bytes).unwrap();
}

#[test]
fn flipped_bits_and_truncation_of_the_database() {
    let dir = place();
    let path = dir.path().join("journal.db");
    run(async {
        let (journal, _) = open(dir.path());
        write_some(&journal).await;
        journal.close().await;
        let sound = fs::read(&path).unwrap();
        let memory = noted(dir.path());
        let mut refused = 0;
        for seed in 0..400 {
            let mut random = fastrand::Rng::with_seed(seed);
            let mut bytes = sound.clone();
            if seed % 10 == 0 {
                bytes.truncate(random.usize(..sound.len()));
            } else {
                for _ in 0..random.usize(1..4) {
                    // Half of the damage goes into the first bytes of a page, which describe its structure.
                    let page = random.usize(..sound.len() / 4096) * 4096;
                    let reach = if random.bool() { 120 } else { 4096 };
                    let at = page + random.usize(..reach);
                    bytes[at] ^= 1 << random.u8(..8);
                }
            }
            restore(&path, &bytes);
            note(dir.path(), &memory);
            refused += u32::from(!survives(dir.path(), seed).await);
            let _ = fs::remove_file(dir.path().join("journal.db-wal"));
        }
        println!("{refused} of 400 damaged databases were refused");
        assert!(refused > 100);
    });
}

#[test]
fn rows_that_others_contradict() {
    let dir = place();
    let path = dir.path().join("journal.db");
    run(async {
        let (journal, _) = open(dir.path());
        write_some(&journal).await;
        journal.close().await;
    });
    let sound = fs::read(&path).unwrap();
    let memory = noted(dir.path());
    let refused_after = |change: &dyn Fn(&rusqlite::Connection), fault: &str| {
        restore(&path, &sound);
        note(dir.path(), &memory);
        let _ = fs::remove_file(dir.path().join("journal.db-wal"));
        let conn = rusqlite::Connection::open(&path).unwrap();
        change(&conn);
        conn.close().unwrap();
        let refused = try_open(dir.path()).expect_err(fault);
        assert!(refused.cause.contains(fault), "{fault}: {}", refused.cause);
    };
    for (change, fault) in [
        (
            "UPDATE records SET kind = 'tag of other' WHERE key = 'tag 1'",
            "tag of other \"tag 1\" is not as it was",
        ),
        ("UPDATE records SET key = 'x' WHERE key = 'tag 3'", "\"x\" is not as it was"),
        (
            "UPDATE records SET value = replace(value, '1004', '1003') WHERE key = 'tag 4'",
            "\"tag 4\" is not as it was",
        ),
        ("DELETE FROM records WHERE kind = 'layout'", "1 layouts and stores are recorded, but"),
    ] {
        let change = |conn: &rusqlite::Connection| {
            assert_ne!(conn.execute(change, []).unwrap(), 0, "{change}");
        };
        refused_after(&change, fault);
    }
    let claimed = Segment { first: 1, end: 100_001, stride: 1, mark: 1005 };
    let with = |other: Segment| TagState {
        generation: 1,
        highest_end: 100_001,
        segments: vec![claimed, other],
    };
    for (odd, what) in [
        (Segment { first: 50, end: 100_001, stride: 1, mark: 60 }, "overlapping"),
        (Segment { first: 100_001, end: 100_101, stride: 1, mark: 100_001 }, "never claimed"),
    ] {
        let write = |conn: &rusqlite::Connection| {
            with(odd).write(conn, &store(), &tag("tag 5")).unwrap();
        };
        refused_after(&write, "\"tag 5\" is not as it was");
        println!("{what}: refused");
    }
    // The structure of the file is checked too, not only its rows.
    let miscount = |_: &rusqlite::Connection| {
        let mut bytes = sound.clone();
        bytes[FREE_PAGES] = 1;
        restore(&path, &bytes);
    };
    refused_after(&miscount, "Freelist: size is 0 but should be 1");
}

#[test]
fn flipped_bits_in_the_middle_of_the_log() {
    let live = place();
    run(async {
        let (journal, _) = open(live.path());
        write_some(&journal).await;
        let (database, log) = ["journal.db", "journal.db-wal"]
            .map(|name| fs::read(live.path().join(name)).unwrap())
            .into();
        journal.close().await;
        let memory = noted(live.path());
        let closed = fs::read(live.path().join("journal.db")).unwrap();
        let frames_before_the_last_commits = log.len() - 6 * (4096 + 24);
        let mut refused = 0;
        for seed in 0..100 {
            let mut random = fastrand::Rng::with_seed(seed);
            let mut bytes = log.clone();
            bytes[random.usize(..frames_before_the_last_commits)] ^= 1 << random.u8(..8);
            restore(&live.path().join("journal.db"), &database);
            restore(&live.path().join("journal.db-wal"), &bytes);
            note(live.path(), &memory);
            refused += u32::from(!survives(live.path(), seed).await);
        }
        println!("{refused} of 100 damaged logs were not believed");
        assert!(refused > 80);
        restore(&live.path().join("journal.db"), &closed);
        let _ = fs::remove_file(live.path().join("journal.db-wal"));
        note(live.path(), &memory);
        assert!(survives(live.path(), 0).await);
    });
}
