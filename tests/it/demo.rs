//! `leafd demo`: it shows real ids, and removes its folder whatever signal ends it.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use leafd_tests::host::{die_with_parent, leafd_binary};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// A demo that keeps running, in the test's own folder.
struct Demo {
    child: Child,
    temporary: tempfile::TempDir,
}

fn command(temporary: &Path) -> Command {
    let mut command = Command::new(leafd_binary());
    // A real daemon would refuse this setting, which must not affect the demo.
    command.arg("demo").env("TMPDIR", temporary).env("LEAFD_STORE", "nonsense");
    command
}

impl Demo {
    fn start() -> Demo {
        let temporary = tempfile::tempdir().unwrap();
        let mut command = command(temporary.path());
        let mut child = die_with_parent(command.stdout(Stdio::piped())).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        let last = lines.find(|line| line.starts_with("Ctrl-C stops the daemon"));
        assert!(last.is_some(), "it ended instead of waiting");
        Demo { child, temporary }
    }

    fn folders(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.temporary.path()).unwrap();
        entries.map(|entry| entry.unwrap().path()).collect()
    }
}

#[test]
fn it_shows_ids_of_both_kinds_and_leaves_nothing() {
    let temporary = tempfile::tempdir().unwrap();
    let output = command(temporary.path()).arg("--exit").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("\n  1 2 3 4 5\n"), "{text}");
    let snowflake = text.lines().skip_while(|line| !line.starts_with("Snowflake ids")).nth(1);
    let ids: Vec<u64> =
        snowflake.unwrap().split_whitespace().map(|id| id.parse().unwrap()).collect();
    assert!(ids.len() == 3 && ids.is_sorted_by(|one, next| one < next), "{text}");
    assert_eq!(std::fs::read_dir(temporary.path()).unwrap().count(), 0);
}

#[test]
fn signals_end_it_in_order() {
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        let mut demo = Demo::start();
        assert_eq!(demo.folders().len(), 1);
        kill(Pid::from_raw(demo.child.id() as i32), signal).unwrap();
        let status = demo.child.wait().unwrap();
        assert!(status.success(), "{signal}: {status}");
        assert_eq!(demo.folders().len(), 0, "{signal}");
    }
}
