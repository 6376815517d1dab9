//! A state directory that is restored in place under the real daemon, with its embedded store: no id is issued twice,
//! and files that can't be trusted are refused.

use std::path::PathBuf;
use std::process::Command;

use crate::faults::store_elsewhere;
use crate::host::Host;

/// What was restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Journal,
    Store,
    Both,
    Directory,
}

/// A case of the test.
#[derive(Clone, Copy, Debug)]
struct Case {
    what: What,
    /// The command of the tool that overwrites the existing files.
    tool: &'static [&'static str],
    /// Whether the backup was taken while the daemon was running.
    hot: bool,
    /// Whether the daemon was killed.
    killed: bool,
    /// Whether the machine was rebooted, so that files in memory are lost.
    reboot: bool,
}

const COPY: &[&str] = &["cp", "-a"];
const INPLACE: &[&str] = &["rsync", "-a", "-I", "--inplace"];
const PLAIN_COPY: &[&str] = &["cp", "-r"];

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (index, what) in
        [What::Journal, What::Store, What::Both, What::Directory].into_iter().enumerate()
    {
        for bits in 0..8 {
            let (hot, killed, reboot) = (bits & 1 != 0, bits & 2 != 0, bits & 4 != 0);
            // Each tool is combined with each part and each way to end.
            let tool = [COPY, INPLACE, PLAIN_COPY][(index + bits) % 3];
            cases.push(Case { what, tool, hot, killed, reboot });
        }
    }
    cases
}

impl Case {
    /// The backup is from the life that crashed, all of it was restored, and nothing is in memory. Then nothing on the
    /// host distinguishes it from what the crash left. This is a known limit.
    fn nothing_tells(self) -> bool {
        matches!(self.what, What::Both | What::Directory) && self.hot && self.killed && self.reboot
    }

    /// The store is as old as the journal, or may be, because no start or stop lies between the backup and the end.
    fn refused(self) -> bool {
        let may_be = self.what == What::Journal && self.hot && self.killed && !self.reboot;
        matches!(self.what, What::Both | What::Directory) || may_be
    }

    fn files(self, host: &Host) -> Vec<PathBuf> {
        let backup = host.path("backup");
        let wanted = |name: &str| match self.what {
            What::Journal => name.starts_with("journal.db"),
            What::Store => name.starts_with("store.db"),
            What::Both => name.starts_with("journal.db") || name.starts_with("store.db"),
            What::Directory => true,
        };
        let names = std::fs::read_dir(&backup).unwrap().map(|entry| entry.unwrap().file_name());
        names.filter(|name| wanted(name.to_str().unwrap())).map(|name| backup.join(name)).collect()
    }
}

fn tool(words: &[&str], paths: &[PathBuf]) {
    let done = Command::new(words[0]).args(&words[1..]).args(paths).status().unwrap();
    assert!(done.success(), "{words:?} {paths:?}");
}

/// Draws, restores, and starts again.
fn restored(case: Case) -> (Host, Vec<u64>, Result<(), String>) {
    let mut host = Host::new();
    host.start();
    host.create("orders");
    let mut drawn = host.raw().draw("orders", 5);
    if !case.hot {
        host.stop();
    }
    tool(&["cp", "-a"], &[host.state_dir(), host.path("backup")]);
    if !case.hot {
        host.start();
    }
    for _ in 0..50 {
        // These draws also exceed what was claimed when the backup was made.
        drawn.extend(host.raw().draw("orders", 50));
    }
    if case.killed {
        host.kill()
    } else {
        host.stop()
    }
    // Logs of the later life are removed, as a restore of a database file requires.
    for name in ["journal.db-wal", "store.db-wal", "store.db-shm"] {
        let belongs = case.files(&host).iter().any(|file| {
            file.file_name().is_some_and(|file| name.starts_with(file.to_str().unwrap()))
        });
        if belongs {
            let _ = std::fs::remove_file(host.state_dir().join(name));
        }
    }
    tool(case.tool, &[case.files(&host), vec![host.state_dir()]].concat());
    if case.reboot {
        std::fs::remove_file(host.path("leafd.sock.last-commit")).unwrap();
    }
    let started = host.try_start().map_err(|refusal| refusal.said);
    (host, drawn, started)
}

#[test]
fn no_id_comes_twice_after_a_restore_in_place() {
    let mut wrong = Vec::new();
    for case in cases().into_iter().filter(|case| !case.nothing_tells()) {
        let (mut host, mut drawn, started) = restored(case);
        println!("{case:?}: {}", if started.is_ok() { "started" } else { "refused" });
        match started {
            Ok(()) if !case.refused() => {
                drawn.extend(host.raw().draw("orders", 2_000));
                host.stop();
                // The host has recovered: the next stop is exact again.
                host.start();
                let before = *drawn.last().unwrap();
                drawn.extend(host.raw().draw("orders", 1));
                if drawn.last() != Some(&(before + 1)) {
                    wrong.push(format!("{case:?}: {before}, then {:?}", drawn.last()));
                }
            }
            Err(said) if case.refused() && said.contains("leafd adopt-store") => {
                // Trying again changes nothing.
                let again = host.try_start().unwrap_err().said;
                assert!(again.contains("leafd adopt-store"), "{case:?}: {again}");
                let (code, said) = host.run("adopt-store");
                assert_eq!(code, Some(0), "{case:?}: {said}");
                // The operator follows the instructions.
                host.store_sql("UPDATE leaf_alloc SET max_id = 1000000");
                host.start();
                drawn.extend(host.raw().draw("orders", 10));
            }
            other => wrong.push(format!("{case:?}: {other:?}")),
        }
        let count = drawn.len();
        drawn.sort_unstable();
        drawn.dedup();
        if drawn.len() != count {
            wrong.push(format!("{case:?}: {} ids came twice", count - drawn.len()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Each socket has its own note beside it.
#[test]
fn a_life_with_another_socket_is_not_forgotten() {
    let mut host = Host::new();
    host.start();
    host.create("orders");
    host.raw().draw("orders", 5);
    host.stop();
    tool(&["cp", "-a"], &[host.state_dir(), host.path("backup")]);
    let note = host.path("leafd.sock.last-commit");
    std::fs::rename(&note, host.path("aside")).unwrap();
    host.start();
    host.raw().draw("orders", 2_500);
    host.stop();
    tool(&["cp", "-a"], &[host.path("backup").join("."), host.state_dir()]);
    std::fs::rename(host.path("aside"), note).unwrap();
    let refused = host.try_start().expect_err("the journal is an old one, and so is the store");
    assert!(refused.said.contains("leafd adopt-store"), "{refused:?}");
}

/// A clone below the file system has the inodes, birth times and machine id of the original.
#[test]
fn a_cloned_machine_is_another_host() {
    for beside in [true, false] {
        let mut host = Host::new();
        let store = if beside { "state/store.db" } else { "store.db" };
        host.change("store", &format!("sqlite:{}", host.path(store).display()));
        let credentials = host.path("credentials");
        std::fs::create_dir(&credentials).unwrap();
        let named = |uuid: &str| std::fs::write(credentials.join("product_uuid"), uuid).unwrap();
        let mut host = host.variable("CREDENTIALS_DIRECTORY", &credentials);
        named("4c4c4544-0051-3610-8052-b4c04f4d3532");
        host.start();
        host.create("orders");
        host.raw().draw("orders", 5);
        host.stop();
        host.start();
        assert_eq!(host.raw().draw("orders", 1), [6], "it is the same machine");
        host.stop();
        named("b2f0c6e8-0051-3610-8052-b4c04f4d3532");
        let refused = host.try_start().expect_err("the original may still run");
        assert!(refused.said.contains("leafd adopt-store"), "{refused:?}");
    }
}

/// A file system that records no birth times, in place of the state directory, for the command alone.
const OLD_DISK: &str = r#"mount -o loop "$0" "$1" && shift && exec "$@""#;

/// There the stamp is no evidence, so the note is. An embedded store then can't show either that it is the latest.
#[test]
fn without_birth_times_the_note_tells() {
    let mut host = store_elsewhere();
    let (image, state_dir) = (host.path("image"), host.state_dir());
    std::fs::create_dir(&state_dir).unwrap();
    let mut make = Command::new("/sbin/mke2fs");
    make.args(["-q", "-t", "ext2", "-I", "128"]).arg(&image).arg("8M");
    let made = make.output().unwrap();
    assert!(made.status.success(), "no file system in {}: {made:?}", image.display());
    let paths = [&image, &state_dir].map(|path| path.to_str().unwrap().to_owned());
    let on_disk = ["unshare", "--mount", "sh", "-c", OLD_DISK, &paths[0], &paths[1]];
    host = host.runner(&on_disk);
    host.start();
    host.create("orders");
    assert_eq!(host.raw().draw("orders", 5), [1, 2, 3, 4, 5]);
    host.stop();
    let (within, backup) = (state_dir.join("."), host.path("backup"));
    let copy = [&on_disk[..], COPY].concat();
    tool(&copy, &[within.clone(), backup.clone()]);
    host.start();
    assert_eq!(host.raw().draw("orders", 5), [6, 7, 8, 9, 10], "a clean stop leaves no gap");
    let claimed = |host: &Host| {
        let show = serde_json::json!({ "tag": "orders" });
        host.admin(leafd_wire::opcode::TAG_SHOW, &show)["max_id"].as_u64().unwrap()
    };
    let before = claimed(&host);
    host.stop();
    tool(&copy, &[backup.join("."), state_dir]);
    let refused = host.try_start().expect_err("the note knows of more commits");
    assert!(refused.said.contains("commits"), "{refused:?}");
    // After a reboot, nothing on the host vouches for the journal.
    std::fs::remove_file(host.path("leafd.sock.last-commit")).unwrap();
    host.start();
    let next = host.raw().draw("orders", 1)[0];
    assert!(next >= before, "{next} of {before}: what was held is skipped");
}

/// The log explains what a deleted store means.
#[test]
fn a_store_that_is_gone_is_said_to_be_gone() {
    let mut host = Host::new();
    host.start();
    host.create("orders");
    host.raw().draw("orders", 5);
    host.stop();
    std::fs::remove_file(host.state_dir().join("store.db")).unwrap();
    host.start();
    let log = host.log();
    assert!(log.contains("file is missing") && log.contains("create the tags again"), "{log}");
}

/// A kill without a reboot loses none of the held ids. Without the note in memory, it loses all of them.
#[test]
fn a_kill_costs_what_was_held_only_where_no_memory_outlives_it() {
    for remembered in [true, false] {
        let mut host = Host::new();
        host.start();
        host.create("orders");
        let last = *host.raw().draw("orders", 5).last().unwrap();
        let show = serde_json::json!({ "tag": "orders" });
        let claimed = host.admin(leafd_wire::opcode::TAG_SHOW, &show)["max_id"].as_u64().unwrap();
        host.kill();
        if !remembered {
            std::fs::remove_file(host.path("leafd.sock.last-commit")).unwrap();
        }
        host.start();
        let next = host.raw().draw("orders", 1)[0];
        assert!(next > last);
        assert_eq!(next < claimed, remembered, "{next} of {claimed}");
    }
}
