//! The files of a running journal fail or vanish: it stops acknowledging, and continues when the files can be trusted
//! again.
//!
//! A test that needs a file system of its own runs itself again in a mount namespace.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use super::super::witness::Stamp;
use super::*;

/// Set in the process that has the mounts.
const INSIDE: &str = "LEAFD_TEST_MOUNT";

/// Runs `work` only in a child process that has a small tmpfs mounted.
pub(super) fn with_mount(test: &str, work: impl FnOnce(&Path)) {
    if let Some(mount) = std::env::var_os(INSIDE) {
        return work(&PathBuf::from(mount));
    }
    let place = place();
    let flags = if nix::unistd::geteuid().is_root() { "-m" } else { "-rm" };
    let script = "mount -t tmpfs -o size=1m none \"$0\" && exec \"$@\"";
    let output = Command::new("unshare")
        .args([flags, "sh", "-c", script])
        .arg(place.path())
        .arg(std::env::current_exe().unwrap())
        .args([&format!("journal::tests::{test}"), "--exact", "--nocapture"])
        .env(INSIDE, place.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("1 passed"), "{said}\n{complained}");
}

/// The file of an open journal. Without it, the journal fails at its next commit.
struct JournalFile {
    dir: Place,
    path: PathBuf,
    away: PathBuf,
}

impl JournalFile {
    fn move_away(&self) {
        fs::rename(&self.path, &self.away).unwrap();
    }

    fn put_back(&self) {
        fs::rename(&self.away, &self.path).unwrap();
    }
}

/// Opens a journal that holds ids of the tag `a`.
async fn open_with_ids() -> (JournalFile, Journal) {
    let dir = place();
    let (path, away) = (dir.path().join("journal.db"), dir.path().join("away"));
    let (journal, _) = open(dir.path());
    journal.commit(vec![segment("a", 1..1001, 10)]).await.unwrap();
    (JournalFile { dir, path, away }, journal)
}

/// Commits empty batches until one succeeds.
async fn recovers(journal: &Journal) {
    let start = Instant::now();
    while let Err(e) = journal.commit(vec![]).await {
        assert!(start.elapsed() < Duration::from_secs(10), "{e}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(journal.failure().is_none());
}

/// Commits until that fails. Returns how many tags were acknowledged, counted from `from` on, and the error.
async fn commits_until_it_fails(journal: &Journal, from: u64) -> (u64, JournalError) {
    for i in from..100_000 {
        let name = format!("{i}{}", "x".repeat(100));
        if let Err(e) = journal.commit(vec![segment(&name, 1..11, 1)]).await {
            return (i, e);
        }
    }
    panic!("the disk never got full");
}

#[test]
fn a_full_disk_stops_it_and_space_lets_it_go_on() {
    with_mount("faults::a_full_disk_stops_it_and_space_lets_it_go_on", |mount| {
        run(async {
            let dir = mount.join("state");
            let (journal, _) = open(&dir);
            fs::write(mount.join("ballast"), vec![0; 300_000]).unwrap();
            let (first, error) = commits_until_it_fails(&journal, 0).await;
            println!("after {first} commits: {error}");
            assert!(error.to_string().contains("space") || error.to_string().contains("full"));
            let standing = journal.failure().unwrap();
            assert_eq!(standing.to_string(), error.to_string());
            // The disk is still full, so no attempt succeeds, neither immediately nor after a second.
            assert!(journal.commit(vec![]).await.is_err());
            tokio::time::sleep(Duration::from_millis(1_100)).await;
            let held = journal.commit(vec![segment("held", 1..11, 1)]).await;
            println!("still full: {held:?}");

            fs::remove_file(mount.join("ballast")).unwrap();
            recovers(&journal).await;
            journal.commit(vec![segment("after", 1..11, 5)]).await.unwrap();
            journal.close().await;
            let (journal, _) = open(&dir);
            for i in 0..first {
                assert_eq!(unissued(&journal, &format!("{i}{}", "x".repeat(100))).await, [1..11]);
            }
            assert_eq!(unissued(&journal, "after").await, [5..11]);
            journal.close().await;
        });
    });
}

#[test]
fn a_disk_that_is_full_at_the_start_is_said_to_be_full() {
    with_mount("faults::a_disk_that_is_full_at_the_start_is_said_to_be_full", |mount| {
        let dir = mount.join("state");
        fs::create_dir(&dir).unwrap();
        let _ = fs::write(mount.join("ballast"), vec![0; 2 << 20]);
        let refused = StateDir::open(&dir).unwrap_err().to_string();
        assert!(refused.contains("free some space"), "{refused}");
        // There is space for the lock, but not for a journal.
        let ballast = fs::OpenOptions::new().write(true).open(mount.join("ballast")).unwrap();
        ballast.set_len(ballast.metadata().unwrap().len() - 8192).unwrap();
        let refused = try_open_in(&dir, mount).unwrap_err().to_string();
        assert!(refused.contains("full: free some space"), "{refused}");
        drop(ballast);
        fs::remove_file(mount.join("ballast")).unwrap();
        let (journal, now) = open(&dir);
        assert!(now.begun);
        run(journal.close());
    });
}

/// Opens a journal without a machine id.
fn try_open_in(dir: &Path, mount: &Path) -> Result<(Journal, Recovered), JournalError> {
    let identity = Identity::in_root(mount, None);
    Journal::open(&StateDir::open(dir).unwrap(), &identity, outside(None))
}

#[test]
fn a_read_only_directory_is_refused_and_says_so() {
    with_mount("faults::a_read_only_directory_is_refused_and_says_so", |mount| {
        let dir = mount.join("state");
        run(async { open(&dir).0.close().await });
        let remount = |how: &str| {
            let done = Command::new("mount").args(["-o", how]).arg(mount).status().unwrap();
            assert!(done.success());
        };
        remount("remount,ro");
        for path in [&dir, &mount.join("new")] {
            let refused = StateDir::open(path).unwrap_err().to_string();
            assert!(refused.contains("remount its file system for writing"), "{refused}");
        }
        remount("remount,rw");
        run(async { open(&dir).0.close().await });
    });
}

#[test]
fn a_second_daemon_is_refused() {
    let dir = place();
    let (journal, _) = open(dir.path());
    let refused = StateDir::open(dir.path()).unwrap_err().to_string();
    assert!(refused.contains(&format!("process {}", std::process::id())), "{refused}");
    run(journal.close());
    run(open(dir.path()).0.close());
}

#[test]
fn a_deleted_or_replaced_file_is_not_written_to_in_vain() {
    run(async {
        let (file, journal) = open_with_ids().await;
        file.move_away();
        let error = journal.commit(vec![mark("a", 1001, 20)]).await.unwrap_err().to_string();
        assert!(error.contains("moved away or deleted"), "{error}");
        fs::copy(&file.away, &file.path).unwrap();
        tokio::time::sleep(Duration::from_millis(1_100)).await;
        let error = journal.commit(vec![mark("a", 1001, 20)]).await.unwrap_err().to_string();
        assert!(error.contains("put the original back"), "{error}");
        file.put_back();
        recovers(&journal).await;
        journal.commit(vec![mark("a", 1001, 30)]).await.unwrap();
        file.move_away();
        fs::copy(&file.away, &file.path).unwrap();
        let error = journal.commit(vec![]).await.unwrap_err().to_string();
        assert!(error.contains("replaced by another file"), "{error}");
        file.put_back();
        recovers(&journal).await;
        journal.close().await;
        let (journal, now) = open(file.dir.path());
        assert_eq!(now.set_aside, None);
        assert_eq!(unissued(&journal, "a").await, [30..1001]);
        journal.close().await;
    });
}

/// A file that can't be inspected need not be missing.
#[test]
fn a_file_in_place_of_the_directory_is_not_taken_for_a_missing_journal() {
    let place = place();
    let (dir, away) = (place.path(), place.path().with_extension("away"));
    let replace = || {
        fs::rename(dir, &away).unwrap();
        fs::write(dir, "").unwrap();
    };
    let why = "inspecting it failed: Not a directory";
    run(async {
        let (journal, _) = open(dir);
        replace();
        let error = journal.commit(vec![]).await.unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
        journal.close().await;
    });
    fs::remove_file(dir).unwrap();
    fs::rename(&away, dir).unwrap();
    let state_dir = open_state_dir(dir);
    let identity = identity(dir, MACHINE_ID, None);
    replace();
    let refused = Journal::open(&state_dir, &identity, outside(None)).unwrap_err().to_string();
    assert!(refused.contains(why), "{refused}");
    assert!(Stamp::of(&state_dir).is_err());
}

#[test]
fn what_is_written_during_a_fault_is_entered_after_it_in_its_order() {
    run(async {
        let (file, journal) = open_with_ids().await;
        file.move_away();
        let mut written = vec![journal.write(vec![mark("a", 1001, 20)])];
        journal.fault_changed().await;
        assert!(journal.failed());
        written.push(journal.write(vec![segment("b", 1..11, 5)]));
        written.push(journal.write(vec![mark("a", 1001, 19)]));
        written.push(journal.write(vec![mark("a", 1001, 30)]));
        // No query is answered before the waiting batches are recorded, and a batch that is tried once gets the fault.
        // Neither reopens the file: that is due only once a second.
        let without_reopening = async || {
            let errors = journal.errors();
            journal.tag(&store(), &tag("a")).await.unwrap_err();
            journal.commit(vec![segment("c", 1..11, 5)]).await.unwrap_err();
            journal.errors() == errors
        };
        let mut attempts = 1;
        while !without_reopening().await {
            attempts += 1;
            assert!(attempts < 10, "the file is reopened for each of them");
        }
        file.put_back();
        // The fault ends without a request.
        tokio::time::timeout(Duration::from_secs(10), journal.fault_changed()).await.unwrap();
        assert!(!journal.failed());
        for (index, written) in written.into_iter().enumerate() {
            let outcome = written.outcome().await;
            // The mark that goes back is refused because it comes after the first one.
            assert_eq!(outcome.is_err_and(|error| error.refused), index == 2, "{index}");
        }
        assert_eq!(unissued(&journal, "a").await, [30..1001]);
        assert_eq!(unissued(&journal, "b").await, [5..11]);
        assert_eq!(tag_of(&journal, "c").await, None);
        journal.close().await;
        assert!(!journal.write(vec![]).outcome().await.unwrap_err().refused);
    });
}

/// More batches wait than fit into one transaction. A new batch must not make the journal check all of them again.
#[test]
fn whatever_waits_for_a_fault_s_end_is_entered_however_much_it_is() {
    const WRITTEN: u64 = 36_000;
    run(async {
        let (file, journal) = open_with_ids().await;
        journal.commit(vec![segment("b", 1..WRITTEN + 2, 1)]).await.unwrap();
        file.move_away();
        let mut written = Vec::new();
        for number in 0..WRITTEN {
            written.push(journal.write(vec![mark("b", WRITTEN + 2, number + 2)]));
            if number % 10_000 == 5_000 {
                journal.commit(vec![]).await.unwrap_err();
            }
        }
        file.put_back();
        for written in written {
            written.outcome().await.unwrap();
        }
        assert_eq!(unissued(&journal, "b").await, [WRITTEN + 1..WRITTEN + 2]);
        journal.close().await;
    });
}

/// Queries arrive without a pause when the file is due to be reopened. So many batches wait that some time passes
/// between the check whether it is due and the query. In one journal of three it becomes due in between; the test tries
/// eight.
#[test]
fn no_question_at_the_end_of_a_fault_overtakes_what_was_written_during_it() {
    let journals: Vec<_> =
        (0..8).map(|_| std::thread::spawn(ask_over_the_end_of_a_fault)).collect();
    journals.into_iter().for_each(|journal| journal.join().unwrap());
}

fn ask_over_the_end_of_a_fault() {
    run(async {
        let (file, journal) = open_with_ids().await;
        file.move_away();
        journal.commit(vec![]).await.unwrap_err();
        let fault = Instant::now();
        let mut written: Vec<_> = (0..16_000).map(|_| journal.write(vec![])).collect();
        written.push(journal.write(vec![Write::Forget { store: store(), tag: tag("a") }]));
        file.put_back();
        let found = loop {
            let mut questions = tokio::task::JoinSet::new();
            for _ in 0..64 {
                let journal = journal.clone();
                questions.spawn(async move { journal.tag(&store(), &tag("a")).await });
            }
            let answers = questions.join_all().await;
            if let Some(found) = answers.into_iter().find_map(Result::ok) {
                break found.unwrap();
            }
            assert!(fault.elapsed() < Duration::from_secs(30), "{:?}", journal.failure());
        };
        assert_eq!(found.unissued, [], "it was told before it was forgotten");
        assert!(!journal.failed());
        for written in written {
            written.outcome().await.unwrap();
        }
        journal.close().await;
    });
}

#[test]
fn nothing_that_waits_for_a_fault_s_end_is_entered_after_a_stop() {
    run(async {
        let (file, journal) = open_with_ids().await;
        file.move_away();
        let written = journal.write(vec![mark("a", 1001, 20)]);
        journal.commit(vec![mark("a", 1001, 5), Write::StoppedCleanly]).await.unwrap_err();
        file.put_back();
        assert!(!written.outcome().await.unwrap_err().refused);
        recovers_stopped(&journal).await;
        assert_eq!(unissued(&journal, "a").await, [10..1001]);
        journal.close().await;
    });
}

/// There is no time to wait at a stop.
#[test]
fn a_stop_does_not_wait_until_the_file_is_due_to_be_reopened() {
    run(async {
        let (file, journal) = open_with_ids().await;
        file.move_away();
        journal.commit(vec![mark("a", 1001, 20)]).await.unwrap_err();
        file.put_back();
        journal.commit(vec![mark("a", 1001, 15), Write::StoppedCleanly]).await.unwrap();
        journal.close().await;
        let (journal, now) = open(file.dir.path());
        assert!(now.stopped_cleanly);
        assert_eq!(unissued(&journal, "a").await, [15..1001]);
        journal.close().await;
    });
}

/// Waits until a stopped journal works.
async fn recovers_stopped(journal: &Journal) {
    while journal.failed() {
        tokio::time::timeout(Duration::from_secs(10), journal.fault_changed()).await.unwrap();
    }
}

#[test]
fn a_deleted_log_costs_nothing_that_was_acknowledged() {
    run(async {
        let (file, journal) = open_with_ids().await;
        fs::remove_file(file.dir.path().join("journal.db-wal")).unwrap();
        let error = journal.commit(vec![mark("a", 1001, 20)]).await.unwrap_err().to_string();
        assert!(error.contains("journal.db-wal was moved away or deleted"), "{error}");
        tokio::time::sleep(Duration::from_millis(1_100)).await;
        recovers(&journal).await;
        assert_eq!(unissued(&journal, "a").await, [10..1001]);
        journal.commit(vec![mark("a", 1001, 30)]).await.unwrap();
        journal.close().await;
        let (journal, _) = open(file.dir.path());
        assert_eq!(unissued(&journal, "a").await, [30..1001]);
        journal.close().await;
    });
}

/// A failed journal is reopened. Meanwhile its former content may have been restored, with the same inode: from the
/// start before, or from before a commit.
#[test]
fn a_journal_that_has_lost_commits_is_not_gone_on_with_when_it_is_reopened() {
    for is_of_this_start in [false, true] {
        run(async {
            let (file, journal) = open_with_ids().await;
            journal.close().await;
            let mut old = fs::read(&file.path).unwrap();
            let (journal, _) = open(file.dir.path());
            if is_of_this_start {
                file.move_away();
                journal.commit(vec![mark("a", 1001, 20)]).await.unwrap_err();
                // The fault moved the log into the database, so the database is everything.
                old = fs::read(&file.away).unwrap();
                file.put_back();
                recovers(&journal).await;
            }
            file.move_away();
            journal.commit(vec![mark("a", 1001, 510)]).await.unwrap_err();
            fs::remove_file(file.dir.path().join("journal.db-wal")).unwrap();
            fs::write(&file.away, old).unwrap();
            file.put_back();
            // A stop doesn't wait until the file is due to be reopened.
            let error = journal.commit(vec![Write::StoppedCleanly]).await.unwrap_err().to_string();
            assert!(error.contains("were acknowledged"), "{error}");
            assert!(journal.failed());
            journal.close().await;
        });
    }
}

#[test]
fn another_journal_s_contents_are_not_gone_on_with_when_the_file_is_reopened() {
    let other = place();
    run(async {
        let (journal, _) = open(other.path());
        for mark_at in 10..20 {
            journal.commit(vec![segment("a", 1..1001, mark_at)]).await.unwrap();
        }
        journal.close().await;
        let (file, journal) = open_with_ids().await;
        file.move_away();
        journal.commit(vec![]).await.unwrap_err();
        fs::remove_file(file.dir.path().join("journal.db-wal")).unwrap();
        // The file keeps its inode.
        fs::write(&file.away, fs::read(other.path().join("journal.db")).unwrap()).unwrap();
        file.put_back();
        let outcome = journal.write(vec![mark("a", 1001, 30)]);
        let error = journal.commit(vec![Write::StoppedCleanly]).await.unwrap_err().to_string();
        assert!(error.contains("another file took its place"), "{error}");
        assert!(!outcome.outcome().await.unwrap_err().refused);
        journal.close().await;
    });
}

#[test]
fn its_work_and_its_faults_are_counted() {
    run(async {
        let (file, journal) = open_with_ids().await;
        for mark_at in 11..13 {
            journal.commit(vec![segment("a", 1..1001, mark_at)]).await.unwrap();
            unissued(&journal, "a").await;
        }
        assert_eq!((journal.commits(), journal.errors()), (3, 0), "queries need no commit");
        assert_eq!(journal.commit_times().counts.iter().sum::<u64>(), 3);
        let (answer, asked) = std::sync::mpsc::channel();
        let question = journal.read(move |_| {
            asked.recv().unwrap();
            Ok(())
        });
        let until = async |is_busy: bool| {
            while (journal.busy_for() > Duration::ZERO) != is_busy {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        let both = async {
            // Both share a transaction.
            let (one, other) = (journal.commit(vec![]), journal.commit(vec![]));
            let _ = tokio::join!(question, one, other, async {
                until(true).await;
                answer.send(()).unwrap();
            });
            until(false).await;
        };
        tokio::time::timeout(Duration::from_secs(10), both).await.unwrap();
        file.move_away();
        journal.commit(vec![]).await.unwrap_err();
        assert_eq!((journal.commits(), journal.errors()), (4, 1));
        journal.close().await;
    });
}

/// Somebody may delete the log during a commit. Then the commit is in no file that a restart would find.
#[test]
fn a_log_that_is_deleted_while_a_commit_writes_to_it_takes_no_acknowledged_commit() {
    let dir = place();
    let log = dir.path().join("journal.db-wal");
    let mut deleted = 0;
    for attempt in 0..400 {
        let noticed = run(async {
            let (journal, _) = open(dir.path());
            let name = format!("{attempt}");
            let written = fs::metadata(&log).unwrap().len();
            let deleting = std::thread::spawn({
                let log = log.clone();
                move || {
                    let end = Instant::now() + Duration::from_millis(200);
                    while Instant::now() < end {
                        // A part of the commit is in the file; the rest and its sync are still to come.
                        if fs::metadata(&log).is_ok_and(|log| log.len() > written) {
                            fs::remove_file(&log).unwrap();
                            return Some(Instant::now());
                        }
                    }
                    None
                }
            });
            let outcome = journal.commit(vec![segment(&name, 1..11, 5)]).await;
            let answered = Instant::now();
            let removed = deleting.join().unwrap().is_some_and(|removed| removed < answered);
            journal.close().await;
            if removed && outcome.is_ok() {
                // The log was deleted after the last check of it, just before the commit was acknowledged. Closing
                // saved the commit.
                let (journal, _) = open(dir.path());
                assert_eq!(unissued(&journal, &name).await, [5..11], "attempt {attempt}");
                journal.close().await;
            }
            removed && outcome.is_err()
        });
        deleted += u32::from(noticed);
        if deleted == 5 {
            return;
        }
    }
    panic!("a commit whose log was deleted was refused only {deleted} times");
}
