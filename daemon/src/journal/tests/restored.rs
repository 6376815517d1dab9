//! Journals that were restored in place: by each means, after each kind of end, and with and without each kind of
//! evidence.
//!
//! To simulate a reboot, the tests remove the file in memory. A rollback of a file system also restores inodes. To
//! simulate that, they keep the stamp's inode under a second name; the journal's own inode never changes.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use super::super::witness::Stamp;
use super::faults::with_mount;
use super::*;

/// How the earlier files came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Means {
    /// `cp -a` over the files that are there.
    Copy,
    /// `rsync --inplace`.
    Inplace,
    /// `rsync`, which makes new files.
    Rsync,
    /// `tar`, which makes new files.
    Tar,
    /// A copy that is renamed over the former file.
    Move,
    /// The file system is rolled back: contents, inodes and times of birth.
    Rollback,
}

/// Which files came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Journal,
    Directory,
}

/// In which state the daemon left the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Left {
    Stopped,
    /// While it ran: it still runs, or it crashed.
    Running,
}

/// What happens to the held ids of the restored journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Used,
    /// They are skipped, and the journal stays.
    Skipped,
    /// They are skipped, and the journal is set aside.
    SetAside,
}

#[derive(Clone, Copy, Debug)]
struct Cell {
    what: What,
    means: Means,
    /// When the copy was taken.
    copied: Left,
    /// How the daemon ended that ran after the copy was taken.
    ended: Left,
    reboot: bool,
}

fn cells() -> Vec<Cell> {
    let mut cells = Vec::new();
    let all = [Means::Copy, Means::Inplace, Means::Rsync, Means::Tar, Means::Move, Means::Rollback];
    for (what, means) in
        all.iter().flat_map(|means| [(What::Journal, *means), (What::Directory, *means)])
    {
        // A file system comes back as a whole.
        if (what, means) == (What::Journal, Means::Rollback) {
            continue;
        }
        for copied in [Left::Stopped, Left::Running] {
            for ended in [Left::Stopped, Left::Running] {
                for reboot in [false, true] {
                    cells.push(Cell { what, means, copied, ended, reboot });
                }
            }
        }
    }
    cells
}

/// The expected outcomes.
fn expected(cell: Cell) -> Outcome {
    match cell.means {
        // The file has another inode.
        Means::Rsync | Means::Tar | Means::Move => Outcome::SetAside,
        // The memory knows of later commits.
        _ if !cell.reboot => Outcome::SetAside,
        // Both are of the same start, without a stop in between: nothing shows whether the journal is the last one.
        Means::Copy | Means::Inplace
            if (cell.copied, cell.ended) == (Left::Running, Left::Running) =>
        {
            Outcome::Skipped
        }
        // The stamp is of a later start or stop.
        Means::Copy | Means::Inplace => Outcome::SetAside,
        Means::Rollback if cell.copied == Left::Running => Outcome::Skipped,
        // Everything is as it was at that stop. Only a store on another machine could know more.
        Means::Rollback => Outcome::Used,
    }
}

fn tool(words: &[&str], paths: &[PathBuf]) {
    let output = Command::new(words[0]).args(&words[1..]).args(paths).output().unwrap();
    assert!(output.status.success(), "{words:?} {paths:?}: {output:?}");
}

async fn leave(journal: Journal, left: Left, mark_at: u64) {
    if left == Left::Stopped {
        let exact = vec![segment("a", 1..1_001, mark_at), Write::StoppedCleanly];
        journal.commit(exact).await.unwrap();
    }
    journal.close().await;
}

fn outcome_of(opened: &Recovered, left: &[Range<u64>]) -> Outcome {
    match (opened.set_aside.is_some(), left.is_empty()) {
        (true, true) => Outcome::SetAside,
        (false, true) => Outcome::Skipped,
        (_, false) => Outcome::Used,
    }
}

async fn outcome(cell: Cell) -> Outcome {
    let place = place();
    let (dir, backup) = (place.path().join("state"), place.path().join("backup"));
    let stamp_kept = place.path().join("stamp");
    let back_up = || {
        tool(&["cp", "-a"], &[dir.clone(), backup.clone()]);
        if cell.means == Means::Rollback {
            fs::hard_link(dir.join("stamp"), &stamp_kept).unwrap();
        }
    };
    let (journal, first) = open(&dir);
    journal.commit(vec![segment("a", 1..1_001, 10)]).await.unwrap();
    let journal = match cell.copied {
        Left::Running => {
            back_up();
            journal
        }
        Left::Stopped => {
            leave(journal, Left::Stopped, 10).await;
            back_up();
            open(&dir).0
        }
    };
    journal.commit(vec![mark("a", 1_001, 500)]).await.unwrap();
    leave(journal, cell.ended, 500).await;
    // The restore removes the log of the later time, as a restore of a database file must.
    let _ = fs::remove_file(dir.join("journal.db-wal"));
    restore(cell, &dir, &backup, &stamp_kept);
    if cell.reboot {
        fs::remove_file(dir.with_extension("memory")).unwrap();
    }
    let (journal, now) = open(&dir);
    let left = unissued(&journal, "a").await;
    assert_eq!(now.host == first.host, now.set_aside.is_none());
    assert_eq!(tag_of(&journal, "a").await.unwrap().highest_end, 1_001, "{cell:?}");
    let outcome = outcome_of(&now, &left);
    // In all cases the journal works again: the next clean stop is exact.
    journal.commit(vec![segment("a", 2_001..3_001, 2_001)]).await.unwrap();
    let exact = vec![segment("a", 2_001..3_001, 2_100), Write::StoppedCleanly];
    journal.commit(exact).await.unwrap();
    journal.close().await;
    let (journal, again) = open(&dir);
    assert_eq!((&again.host, &again.set_aside, again.unvouched), (&now.host, &None, false));
    assert_eq!(unissued(&journal, "a").await.last(), Some(&(2_100..3_001)));
    journal.close().await;
    outcome
}

fn restore(cell: Cell, dir: &Path, backup: &Path, stamp_kept: &Path) {
    let names = |folder: &Path| match cell.what {
        What::Journal => vec!["journal.db".to_owned(), "journal.db-wal".to_owned()]
            .into_iter()
            .filter(|name| folder.join(name).exists())
            .collect::<Vec<_>>(),
        What::Directory => fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect(),
    };
    let files: Vec<PathBuf> = names(backup).iter().map(|name| backup.join(name)).collect();
    let into = |files: &[PathBuf]| [files, &[dir.join("")]].concat();
    match cell.means {
        Means::Copy => tool(&["cp", "-a"], &into(&files)),
        Means::Inplace => tool(&["rsync", "-a", "-I", "--inplace"], &into(&files)),
        Means::Rsync => tool(&["rsync", "-a", "-I"], &into(&files)),
        Means::Tar => {
            let archive = dir.with_extension("tar");
            let (from, to) = (archive.to_str().unwrap(), backup.to_str().unwrap());
            let names: Vec<PathBuf> = names(backup).into_iter().map(PathBuf::from).collect();
            tool(&["tar", "-C", to, "-cf", from], &names);
            tool(&["tar", "-C", dir.to_str().unwrap(), "-xf", from], &[]);
        }
        Means::Move => {
            if cell.what == What::Directory {
                fs::remove_dir_all(dir).unwrap();
                fs::rename(backup, dir).unwrap();
            } else {
                for (name, file) in names(backup).iter().zip(&files) {
                    fs::rename(file, dir.join(name)).unwrap();
                }
            }
        }
        Means::Rollback => {
            tool(&["cp", "-a"], &into(&files));
            fs::rename(stamp_kept, dir.join("stamp")).unwrap();
        }
    }
}

#[test]
fn numbers_of_a_restored_journal_are_used_only_where_a_witness_stood_by_it() {
    run(async {
        let mut wrong = Vec::new();
        for cell in cells() {
            let found = outcome(cell).await;
            println!("{cell:?}: {found:?}");
            if found != expected(cell) {
                wrong.push((cell, found));
            }
        }
        assert!(wrong.is_empty(), "{wrong:#?}");
    });
}

/// Each runtime directory has a note of its own. One that knows nothing of the last life doesn't vouch for an older
/// journal.
#[test]
fn a_life_with_another_runtime_directory_is_not_forgotten() {
    for (copied, expected) in
        [(Left::Stopped, Outcome::SetAside), (Left::Running, Outcome::Skipped)]
    {
        run(async {
            let place = place();
            let (dir, backup) = (place.path().join("state"), place.path().join("backup"));
            let back_up = || tool(&["cp", "-a"], &[dir.clone(), backup.clone()]);
            let other = dir.with_extension("other");
            let (journal, _) = open(&dir);
            journal.commit(vec![segment("a", 1..1_001, 10)]).await.unwrap();
            leave(journal, Left::Stopped, 10).await;
            if copied == Left::Stopped {
                back_up();
            }
            let identity = identity(&dir, MACHINE_ID, None);
            let opened = Journal::open(&open_state_dir(&dir), &identity, outside(Some(&other)));
            let journal = opened.unwrap().0;
            if copied == Left::Running {
                back_up();
            }
            journal.commit(vec![mark("a", 1_001, 500)]).await.unwrap();
            journal.close().await;
            let _ = fs::remove_file(dir.join("journal.db-wal"));
            tool(&["cp", "-a"], &[backup.join("."), dir.clone()]);
            let (journal, now) = open(&dir);
            let left = unissued(&journal, "a").await;
            assert_eq!(outcome_of(&now, &left), expected, "copied: {copied:?}");
            journal.close().await;
        });
    }
}

/// Where a user has no runtime directory, the socket's default folder is the state directory.
#[test]
fn a_note_that_is_restored_with_the_journal_vouches_for_nothing() {
    for (folder, restored, expected) in [
        ("", &[][..], Outcome::Skipped),
        ("", &["."], Outcome::Skipped),
        ("run", &["."], Outcome::Skipped),
        ("", &["journal.db", "journal.db-wal"], Outcome::SetAside),
    ] {
        run(async {
            let place = place();
            let (dir, backup) = (place.path().join("state"), place.path().join("backup"));
            drop(open_state_dir(&dir));
            fs::create_dir_all(dir.join(folder)).unwrap();
            let note = dir.join(folder).join("leafd.sock.last-commit");
            let identity = identity(&dir, MACHINE_ID, None);
            let open = || Journal::open(&open_state_dir(&dir), &identity, outside(Some(&note)));
            let (journal, _) = open().unwrap();
            journal.commit(vec![segment("a", 1..1_001, 10)]).await.unwrap();
            tool(&["cp", "-a"], &[dir.clone(), backup.clone()]);
            journal.commit(vec![mark("a", 1_001, 500)]).await.unwrap();
            journal.close().await;
            for what in restored {
                let _ = fs::remove_file(dir.join("journal.db-wal"));
                tool(&["cp", "-a"], &[backup.join(what), dir.clone()]);
            }
            let (journal, now) = open().unwrap();
            let left = unissued(&journal, "a").await;
            assert_eq!(outcome_of(&now, &left), expected, "{folder:?} {restored:?}");
            journal.commit(vec![segment("a", 2_001..3_001, 2_001)]).await.unwrap();
            let exact = vec![segment("a", 2_001..3_001, 2_100), Write::StoppedCleanly];
            journal.commit(exact).await.unwrap();
            journal.close().await;
            let (journal, now) = open().unwrap();
            let left = unissued(&journal, "a").await;
            assert_eq!(outcome_of(&now, &left), Outcome::Used, "a clean stop costs nothing");
            journal.close().await;
        });
    }
}

/// Some operations change a healthy host's files without changing their contents. They cost no ids.
#[test]
fn owners_modes_links_and_times_are_no_restore() {
    for (what, script) in [
        ("chown", "chown -R 10001:10001 . && chown -R 0:0 ."),
        ("chmod", "chmod -R g+r . && chmod -R g-r ."),
        ("a relabelling", "setfattr -n user.label -v x * && setfattr -x user.label *"),
        (
            "hard links of a backup",
            "mkdir ../links && ln * ../links/ && cat ../links/* >/dev/null && rm -r ../links",
        ),
        ("a backup that copies", "mkdir ../copies && cp -a . ../copies/ && rm -r ../copies"),
        ("touch", "touch *"),
        ("a rename there and back", "mv ../state ../elsewhere && mv ../elsewhere ../state"),
    ] {
        for reboot in [false, true] {
            run(async {
                let place = place();
                let dir = place.path().join("state");
                let (journal, first) = open(&dir);
                journal.commit(vec![segment("a", 1..1_001, 10)]).await.unwrap();
                leave(journal, Left::Stopped, 7).await;
                let done = Command::new("sh").args(["-ec", script]).current_dir(&dir).status();
                assert!(done.unwrap().success(), "{what}");
                if reboot {
                    fs::remove_file(dir.with_extension("memory")).unwrap();
                }
                let (journal, now) = open(&dir);
                assert_eq!((&now.host, &now.set_aside), (&first.host, &None), "{what}");
                assert_eq!(unissued(&journal, "a").await, [7..1_001], "{what}, reboot: {reboot}");
                journal.close().await;
            });
        }
    }
}

/// Two files become durable one after the other, and a crash may come in between.
#[test]
fn a_crash_while_the_stamp_is_made_anew_is_no_restore() {
    run(async {
        let place = place();
        let dir = place.path().join("state");
        let (journal, first) = open(&dir);
        journal.commit(vec![segment("a", 1..1_001, 10)]).await.unwrap();
        leave(journal, Left::Stopped, 7).await;
        // The journal has this stamp's token, but the stamp is not in its place yet.
        fs::rename(dir.join("stamp"), dir.join("stamp.new")).unwrap();
        fs::write(dir.join("stamp"), "the one before").unwrap();
        fs::remove_file(dir.with_extension("memory")).unwrap();
        let (journal, now) = open(&dir);
        assert_eq!((&now.host, &now.set_aside), (&first.host, &None));
        assert_eq!(unissued(&journal, "a").await, [7..1_001]);
        leave(journal, Left::Stopped, 8).await;
        // The stamp was made, and the journal doesn't have its token: not yet, or because its log was damaged.
        fs::write(dir.join("stamp.new"), "the next one").unwrap();
        fs::remove_file(dir.with_extension("memory")).unwrap();
        let (journal, now) = open(&dir);
        assert_eq!((&now.host, &now.set_aside, now.unvouched), (&first.host, &None, true));
        assert_eq!(unissued(&journal, "a").await, []);
        journal.close().await;
    });
}

#[test]
fn the_journal_s_own_stamp_outlives_crashes_until_the_next_one_is_in_its_place() {
    let place = place();
    let dir = open_state_dir(place.path());
    let first = Stamp::make(&dir, None).unwrap();
    // The stamp never got its final name, and the journal never recorded the next ones.
    for _ in 0..2 {
        let next = Stamp::make(&dir, Some(&first)).unwrap();
        let found = Stamp::of(&dir).unwrap().unwrap();
        assert!(found.is_of(&first) && found.is_of(&next) && found.is_in_place());
        assert!(found.may_have_later(&first) && !found.may_have_later(&next));
    }
}

/// There, another file may get the inode of one that was removed.
#[test]
fn a_file_system_without_times_of_birth_vouches_for_nothing() {
    with_mount("restored::a_file_system_without_times_of_birth_vouches_for_nothing", |mount| {
        let mounted = Command::new("mount").args(["-t", "ramfs", "none"]).arg(mount).status();
        assert!(mounted.unwrap().success() && fs::metadata(mount).unwrap().created().is_err());
        let dir = mount.join("state");
        run(async {
            for (reboot, expected) in [(false, Outcome::Used), (true, Outcome::Skipped)] {
                let (journal, _) = open(&dir);
                journal.commit(vec![segment("a", 1..1_001, 10)]).await.unwrap();
                leave(journal, Left::Stopped, 10).await;
                if reboot {
                    fs::remove_file(dir.with_extension("memory")).unwrap();
                }
                let (journal, now) = open(&dir);
                assert_eq!(outcome_of(&now, &unissued(&journal, "a").await), expected);
                journal.close().await;
            }
            // A stamp that tells nothing is no evidence of a journal that is missing.
            fs::remove_file(dir.join("journal.db")).unwrap();
            let refuse = |_: &SetAside| Err("there was none".to_owned());
            let outside = Outside { memory: None, may_begin_anew: &refuse };
            let identity = identity(&dir, MACHINE_ID, None);
            let (journal, now) = Journal::open(&open_state_dir(&dir), &identity, outside).unwrap();
            assert!(now.begun);
            journal.close().await;
        });
    });
}

/// If the memory is gone too, nothing else shows which journal it is.
#[test]
fn a_journal_without_its_stamp_was_put_back() {
    run(async {
        let place = place();
        let dir = place.path().join("state");
        let (journal, first) = open(&dir);
        journal.commit(vec![segment("a", 1..1_001, 10)]).await.unwrap();
        leave(journal, Left::Stopped, 7).await;
        fs::remove_file(dir.join("stamp")).unwrap();
        fs::remove_file(dir.with_extension("memory")).unwrap();
        let (journal, now) = open(&dir);
        assert!(now.set_aside.is_some() && now.host != first.host);
        assert_eq!(unissued(&journal, "a").await, []);
        journal.close().await;
    });
}

/// Until the log is first moved into the database, the database alone is a journal that was never used.
#[test]
fn a_journal_whose_log_was_lost_is_an_old_one() {
    run(async {
        for (reboot, why) in [(false, "commits"), (true, "created but never used")] {
            let place = place();
            let dir = place.path().join("state");
            let (journal, first) = open(&dir);
            let writes = vec![segment("a", 1..1_001, 10), Write::LayoutMark(layout("l", 5))];
            journal.commit(writes).await.unwrap();
            let file = fs::read(dir.join("journal.db")).unwrap();
            journal.close().await;
            fs::write(dir.join("journal.db"), &file).unwrap();
            if reboot {
                fs::remove_file(dir.with_extension("memory")).unwrap();
            }
            let told = std::cell::RefCell::new(String::new());
            let tell = |old: &SetAside| {
                told.borrow_mut().clone_from(&old.why);
                Ok(())
            };
            let memory = dir.with_extension("memory");
            let outside = Outside { memory: Some(&memory), may_begin_anew: &tell };
            let identity = identity(&dir, MACHINE_ID, None);
            let (journal, now) = Journal::open(&open_state_dir(&dir), &identity, outside).unwrap();
            assert!(now.set_aside.is_some() && now.begun && now.host != first.host);
            assert!(told.borrow().contains(why), "{told:?}");
            assert_eq!(unissued(&journal, "a").await, []);
            journal.close().await;
        }
    });
}

/// A crash right after the journal was made, before it was used.
#[test]
fn a_crash_before_the_first_start_is_no_restore() {
    run(async {
        let place = place();
        let dir = place.path().join("state");
        let (journal, first) = open(&dir);
        let begun = fs::read(dir.join("journal.db")).unwrap();
        journal.close().await;
        fs::write(dir.join("journal.db"), &begun).unwrap();
        fs::rename(dir.join("stamp"), dir.join("stamp.new")).unwrap();
        fs::remove_file(dir.with_extension("memory")).unwrap();
        let (journal, now) = open(&dir);
        assert_eq!((&now.host, &now.set_aside), (&first.host, &None));
        journal.close().await;
    });
}

#[test]
fn a_journal_that_may_not_be_set_aside_is_left_as_it_is() {
    run(async {
        let place = place();
        let dir = place.path().join("state");
        let (journal, first) = open(&dir);
        journal.commit(vec![segment("a", 1..1_001, 10)]).await.unwrap();
        leave(journal, Left::Stopped, 10).await;
        let path = dir.join("journal.db");
        let old = fs::read(&path).unwrap();
        let (journal, second) = open(&dir);
        leave(journal.clone(), Left::Stopped, 500).await;
        let stop = journal.stopped().unwrap();
        let last = fs::read(&path).unwrap();
        fs::remove_file(dir.with_extension("memory")).unwrap();
        for (contents, machine_id, restored) in [
            (Some(&old), MACHINE_ID, true),
            (Some(&old), MACHINE_ID, true),
            (Some(&last), "another machine", false),
            (None, MACHINE_ID, true),
        ] {
            match contents {
                Some(contents) => fs::write(&path, contents).unwrap(),
                None => fs::remove_file(&path).unwrap(),
            }
            let refuse = |old: &SetAside| {
                assert_eq!((old.restored, old.is_older_than(&stop)), (restored, restored));
                assert!(!old.is_older_than(&first.token) && !old.is_older_than(&second.token));
                Err("the store may be as old".to_owned())
            };
            let outside = Outside { memory: None, may_begin_anew: &refuse };
            let identity = identity(&dir, machine_id, None);
            let refused = Journal::open(&StateDir::open(&dir).unwrap(), &identity, outside);
            assert!(refused.unwrap_err().to_string().contains("may be as old"));
        }
        assert!(!path.exists());
    });
}
