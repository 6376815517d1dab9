//! Copies: ids are never issued from a journal that is not this host's, and its file is kept.

use std::fs;
use std::process::Command;

use super::super::{JournalSummary, is_same, is_same_host, look};
use super::*;

/// Writes a journal with held ids, and closes it.
async fn write_some(dir: &Path) -> Recovered {
    let (journal, first) = open(dir);
    let batch = vec![segment("a", 1..1001, 10), Write::LayoutMark(layout("snowflake", 5_000))];
    journal.commit(batch).await.unwrap();
    journal.close().await;
    first
}

/// Checks that the journal is a new one: it has no held ids, but all limits.
async fn is_fresh(journal: &Journal, now: &Recovered, was: &Recovered) {
    assert!(now.begun && now.tokens_known(&store()).is_empty() && !now.stopped_cleanly);
    assert!(!now.unvouched, "it is new, and no held ids can be missing");
    assert_ne!(now.host, was.host);
    assert_eq!(now.layouts, [layout("snowflake", 5_000)]);
    let a = tag_of(journal, "a").await.unwrap();
    assert_eq!((a.highest_end, ranges(a.unissued)), (1001, vec![]));
    let kept = now.set_aside.as_ref().unwrap();
    assert!(kept.to_string_lossy().contains("journal.db.foreign-2"), "{kept:?}");
    assert!(fs::metadata(kept).unwrap().len() > 0);
}

#[test]
fn a_copied_directory_is_set_aside() {
    let place = place();
    let (original, copy) = (place.path().join("original"), place.path().join("copy"));
    run(async {
        let was = write_some(&original).await;
        let status = Command::new("cp").arg("-a").args([&original, &copy]).status().unwrap();
        assert!(status.success());
        let (journal, now) = open(&copy);
        is_fresh(&journal, &now, &was).await;
        journal.commit(vec![segment("a", 2001..2101, 2001)]).await.unwrap();
        journal.close().await;

        // From now on the copy has its own journal, and the original still has its journal.
        let (journal, again) = open(&copy);
        assert_eq!((again.host, again.set_aside), (now.host, None));
        assert_eq!(unissued(&journal, "a").await, [2001..2101]);
        journal.close().await;
        let (journal, now) = open(&original);
        assert_eq!(now.host, was.host);
        assert_eq!(unissued(&journal, "a").await, [10..1001]);
        journal.close().await;
    });
}

#[test]
fn a_copy_taken_while_in_use_is_set_aside_with_its_log() {
    let place = place();
    let (original, copy) = (place.path().join("original"), place.path().join("copy"));
    run(async {
        let (journal, was) = open(&original);
        let batch = vec![segment("a", 1..1001, 10), Write::LayoutMark(layout("snowflake", 5_000))];
        journal.commit(batch).await.unwrap();
        assert!(fs::metadata(original.join("journal.db-wal")).unwrap().len() > 0);
        let status = Command::new("cp").arg("-a").args([&original, &copy]).status().unwrap();
        assert!(status.success());
        let (second, now) = open(&copy);
        is_fresh(&second, &now, &was).await;
        second.close().await;
        journal.close().await;
    });
}

#[test]
fn another_machine_id_or_configured_identity_is_another_host() {
    let place = place();
    let dir = place.path().join("state");
    run(async {
        let was = write_some(&dir).await;
        fs::remove_file(dir.with_extension("memory")).unwrap();
        let (journal, now) = try_open_as(&dir, "another machine", None).unwrap();
        is_fresh(&journal, &now, &was).await;
        journal.close().await;
        let (journal, named) = try_open_as(&dir, "another machine", Some("web-1")).unwrap();
        is_fresh(&journal, &named, &now).await;
        journal.close().await;
        let (journal, again) = try_open_as(&dir, "another machine", Some("web-1")).unwrap();
        assert_eq!((again.host, again.begun), (named.host, false));
        journal.close().await;
    });
}

/// A disk that was cloned below its file system has the same inodes, births and machine id.
#[test]
fn hardware_with_another_id_is_another_host_and_one_that_cannot_be_read_is_not() {
    let place = place();
    let dir = place.path().join("state");
    let hardware = dir.with_extension("root").join("sys/class/dmi/id");
    run(async {
        let id_of = |uuid: Option<&str>| match uuid {
            Some(uuid) => {
                fs::create_dir_all(&hardware).unwrap();
                fs::write(hardware.join("product_uuid"), uuid).unwrap();
            }
            None => fs::remove_file(hardware.join("product_uuid")).unwrap(),
        };
        id_of(Some("4c4c4544-0051-3610-8052-b4c04f4d3532"));
        let was = write_some(&dir).await;
        for readable in [None, Some("4c4c4544-0051-3610-8052-b4c04f4d3532\n")] {
            id_of(readable);
            let (journal, now) = open(&dir);
            assert_eq!((&now.host, now.begun), (&was.host, false), "{readable:?}");
            assert_eq!(unissued(&journal, "a").await, [10..1001]);
            journal.close().await;
        }
        id_of(Some("11111111-0051-3610-8052-b4c04f4d3532"));
        let (journal, now) = open(&dir);
        is_fresh(&journal, &now, &was).await;
        journal.close().await;
    });
}

#[test]
fn a_log_without_its_journal_is_not_replayed_into_a_new_one() {
    let dir = place();
    run(async {
        let (journal, _) = open(dir.path());
        journal.commit(vec![segment("a", 1..1001, 10)]).await.unwrap();
        let log = dir.path().join("journal.db-wal");
        let bytes = fs::read(&log).unwrap();
        journal.close().await;
        fs::remove_file(dir.path().join("journal.db")).unwrap();
        fs::write(&log, bytes).unwrap();
        let (journal, now) = open(dir.path());
        assert!(now.begun && now.set_aside.is_none());
        assert_eq!(tag_of(&journal, "a").await, None);
        journal.close().await;
    });
}

#[test]
fn a_closed_journal_is_inspected_and_not_changed() {
    let place = place();
    // SQLite gets the path as a URI.
    let dir = place.path().join("state?mode=memory#%41");
    run(async {
        let identity = identity(&place.path().join("state"), MACHINE_ID, None);
        let summary = || look(&dir, &identity).unwrap();
        assert_eq!(summary(), None);
        let outside = outside(None);
        let (journal, was) = Journal::open(&open_state_dir(&dir), &identity, outside).unwrap();
        journal.close().await;
        let host = was.host.0.as_ref().to_owned();
        let original = JournalSummary { host, is_foreign: false };
        assert_eq!(summary().as_ref(), Some(&original));
        let path = dir.join("journal.db");
        let bytes = fs::read(&path).unwrap();
        fs::rename(&path, dir.join("original")).unwrap();
        fs::write(&path, &bytes).unwrap();
        assert_eq!(summary(), Some(JournalSummary { is_foreign: true, ..original }));
        assert!(fs::read(&path).unwrap() == bytes && !dir.join("journal.db-wal").exists());
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        let refused = look(&dir, &identity).unwrap_err().to_string();
        assert!(refused.contains("reading it failed: Is a directory"), "{refused}");
    });
}

#[test]
fn fingerprints_show_whether_the_file_and_the_host_are_the_same() {
    let print = |machine: &str, inode: u32, hardware: &str| {
        format!("machine {machine}, identity \"\", inode {inode}, born today, hardware{hardware}")
    };
    let ours = print("m", 1, " uuid=1 tag=2");
    for (other, is_same_file, is_our_host) in [
        (ours.clone(), true, true),
        (print("m", 1, " tag=2 uuid=1 other=3"), true, true),
        (print("m", 1, ""), true, true),
        (print("m", 1, " uuid=2 tag=2"), false, false),
        (print("m", 2, " uuid=1"), false, true),
        (print("m", 2, " tag=1"), false, false),
        (print("n", 1, " uuid=1 tag=2"), false, false),
    ] {
        assert_eq!(is_same(&ours, &other), is_same_file, "{other}");
        assert_eq!(is_same_host(&ours, &other), is_our_host, "{other}");
    }
}

/// systemd writes one of these words before the first boot, and leafd's unit passes the other for an id that root alone
/// could read.
#[test]
fn a_placeholder_is_no_machine_id() {
    let place = place();
    for (id, is_known) in
        [("", false), (" \n", false), ("uninitialized\n", false), ("unknown", false), ("u", true)]
    {
        let found = identity(place.path(), id, None).fingerprint(place.path()).unwrap();
        assert_eq!(!found.contains("machine unknown,"), is_known, "{id:?}: {found}");
        assert!(found.contains(", born 20"), "{found}");
    }
}

/// Two files may be born in the same instant: their inodes distinguish them.
#[test]
fn files_born_together_have_fingerprints_of_their_own() {
    let place = place();
    let identity = identity(place.path(), MACHINE_ID, None);
    let born = |path: &Path| fs::metadata(path).unwrap().created().unwrap();
    for attempt in 0..10_000 {
        let paths = ["a", "b"].map(|name| place.path().join(format!("{name}{attempt}")));
        paths.iter().for_each(|path| fs::write(path, "").unwrap());
        if born(&paths[0]) == born(&paths[1]) {
            let prints = paths.each_ref().map(|path| identity.fingerprint(path).unwrap());
            assert_ne!(prints[0], prints[1]);
            return;
        }
    }
    panic!("the kernel's clock has no two files born in one instant");
}
