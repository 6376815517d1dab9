//! `leafd doctor` on one host, and `leafctl doctor`: their findings about the state directory, the embedded store and
//! the daemon.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use crate::host::Host;

/// Mounts a small, full file system in memory as the state directory, for the program alone.
const MOUNT_FULL: &str = r#"mount -t tmpfs -o size=8m,mode=700 tmpfs "$0" &&
    { head -c 9m /dev/zero >"$0/filled" || :; } 2>/dev/null && exec "$@""#;

/// Makes the state directory read-only, for the program alone.
const MOUNT_READ_ONLY: &str =
    r#"mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && exec "$@""#;

fn report(output: &Output) -> (Option<i32>, Vec<Value>) {
    let report: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {output:?}"));
    (output.status.code(), report["findings"].as_array().unwrap().clone())
}

fn doctor(host: &Host) -> (Option<i32>, Vec<Value>) {
    report(&host.command(Some("doctor")).arg("--json").output().unwrap())
}

/// Checks that a finding has this verdict, and contains this text and this remedy.
#[track_caller]
fn says(found: &(Option<i32>, Vec<Value>), verdict: &str, subject: &str, text: &str, remedy: &str) {
    let (code, findings) = found;
    let part = |one: &Value, member: &str, part: &str| one[member].as_str().unwrap().contains(part);
    let is_meant = |one: &&Value| {
        one["verdict"] == verdict
            && one["subject"] == subject
            && part(one, "text", text)
            && part(one, "remedy", remedy)
    };
    assert!(findings.iter().any(|one| is_meant(&one)), "{subject}: {text} in {findings:#?}");
    let failed = findings.iter().any(|one| one["verdict"] == "failed");
    assert_eq!(*code, Some(i32::from(failed)), "{findings:#?}");
}

#[track_caller]
fn is_well(found: &(Option<i32>, Vec<Value>)) {
    assert_eq!(found.0, Some(0), "{:#?}", found.1);
}

/// The names, sizes and times of everything in a folder.
fn contents(folder: &Path) -> Vec<String> {
    let listed =
        Command::new("find").arg(folder).args(["-printf", "%p %s %T@ %i\n"]).output().unwrap();
    String::from_utf8(listed.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn a_host_is_looked_at_before_during_and_after_its_daemon() {
    let mut host = Host::new();
    let before = doctor(&host);
    is_well(&before);
    says(&before, "ok", "state directory", "doesn't exist yet", "");
    assert!(!host.state_dir().exists());
    let away = report(&host.leafctl(&["doctor", "--json"]));
    says(&away, "failed", "socket", "No such file", "start leafd");

    host.start();
    host.create("orders");
    host.raw().draw("orders", 1);
    let beside = doctor(&host);
    is_well(&beside);
    for subject in ["socket", "release", "ids", "ceilings", "free space", "file system"] {
        assert!(beside.1.iter().any(|one| one["subject"] == subject), "{subject}: {:#?}", beside.1);
    }
    let seen = report(&host.leafctl(&["doctor", "--json"]));
    is_well(&seen);
    says(&seen, "ok", "release", &format!("process {}", host.pid()), "");
    let text = String::from_utf8(host.leafctl(&["doctor"]).stdout).unwrap();
    assert!(
        text.starts_with("ok       socket") && text.contains("0 failed, 0 with a warning"),
        "{text}"
    );
    fs::set_permissions(host.socket(), fs::Permissions::from_mode(0o600)).unwrap();
    says(&doctor(&host), "warning", "socket", "has mode 600", "restart leafd");

    host.kill();
    let left = contents(&host.state_dir());
    let after = doctor(&host);
    is_well(&after);
    says(&after, "ok", "journal", "belongs to this host", "");
    says(&after, "ok", "store", "belongs to this host", "");
    says(&after, "ok", "daemon", "no process listens", "");
    assert_eq!(contents(&host.state_dir()), left, "the doctor has written there");
    says(&report(&host.leafctl(&["doctor", "--json"])), "failed", "daemon", "", "start leafd");
}

#[test]
fn a_copied_state_directory_is_told() {
    let mut host = Host::new();
    host.start();
    host.create("orders");
    host.stop();
    let copied = Command::new("cp").arg("-a").args([host.state_dir(), host.path("copy")]).status();
    assert!(copied.unwrap().success());
    fs::rename(host.state_dir(), host.path("original")).unwrap();
    fs::rename(host.path("copy"), host.state_dir()).unwrap();
    let found = doctor(&host);
    says(&found, "warning", "journal", "a copy: it belongs", "its own state directory");
    says(&found, "failed", "store", "the file was copied or restored", "adopt");
    fs::write(host.state_dir().join("journal.db"), "something else").unwrap();
    says(&doctor(&host), "failed", "journal", "is not a journal", "the latest journal");
}

#[test]
fn a_state_directory_that_cant_be_used_is_told() {
    let host = Host::new();
    let state_dir = host.state_dir().to_str().unwrap().to_owned();
    fs::create_dir(&state_dir).unwrap();
    let within = |host: Host, script: &str| {
        host.runner(&["unshare", "--mount", "sh", "-c", script, &state_dir])
    };
    let host = within(host, MOUNT_FULL);
    let found = doctor(&host);
    says(&found, "failed", "free space", "only 0 MiB are free", "free some space");
    says(&found, "warning", "file system", "tmpfs", "mount a disk");
    let host = within(host, MOUNT_READ_ONLY);
    says(
        &doctor(&host),
        "failed",
        "state directory",
        "can't write to",
        "mount its file system read-write",
    );
}

#[test]
fn a_configuration_that_cant_be_used_ends_it() {
    let host = Host::new().set("autonmy", "5m");
    let output = host.command(Some("doctor")).output().unwrap();
    assert_eq!(output.status.code(), Some(64));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("did you mean autonomy?"), "{said}");
}
