//! Starts that are refused, each with an explanation, and starts without any settings.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::process::{Command, Stdio};
use std::time::Duration;

use leafd_wire::{Layout, Status};

use crate::host::{Host, die_with_parent, eventually, leafd_binary};
use crate::raw::{Raw, ids_request};

/// The configuration can't be used: `EX_USAGE`.
const EXIT_CONFIG: i32 = 64;

/// Runs a daemon that shares some paths with another one. It must refuse to start, and name the other's pid.
#[track_caller]
fn assert_refused_beside(first: &Host, socket: &str, state_dir: &str, worker: &str, locks: &str) {
    let output = Command::new(leafd_binary())
        .env_clear()
        .arg("--socket")
        .arg(first.path(socket))
        .arg("--state-dir")
        .arg(first.path(state_dir))
        .args(["--worker", worker, "--set"])
        .arg(format!("worker_lock_dir={}", first.path(locks).display()))
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains(&first.pid().to_string()), "{said}");
}

#[test]
fn a_lock_that_cannot_be_had_is_told_once() {
    let mut host = Host::new();
    fs::create_dir(host.path("leafd.sock.lock")).unwrap();
    let refusal = host.try_start().unwrap_err();
    assert_eq!(refusal.said.matches("os error").count(), 1, "{refusal:?}");
}

#[test]
fn a_limit_of_open_files_without_room_for_a_connection_is_refused() {
    let host = Host::new();
    let mut limited = Command::new("prlimit");
    limited.env_clear().arg("--nofile=64:64").arg(leafd_binary());
    limited.arg("--socket").arg(host.path("leafd.sock"));
    let output = limited.arg("--state-dir").arg(host.path("state")).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("the open-file limit of 64 leaves no room"), "{said}");
}

#[test]
fn a_second_daemon_refuses_and_names_the_first() {
    let mut host = Host::new().worker(17);
    host.start();
    host.create("orders");
    fs::create_dir(host.path("other-locks")).unwrap();
    assert_refused_beside(&host, "leafd.sock", "other", "none", "locks");
    assert_refused_beside(&host, "other.sock", "state", "none", "locks");
    // A frozen daemon still owns its files.
    host.signal(nix::sys::signal::Signal::SIGSTOP);
    assert_refused_beside(&host, "leafd.sock", "other", "none", "locks");
    assert_refused_beside(&host, "other.sock", "state", "none", "other-locks");
    host.signal(nix::sys::signal::Signal::SIGCONT);
    assert_eq!(host.raw().draw("orders", 1), [1]);
    assert!(host.socket().exists());
}

/// The journal is locked as well.
#[test]
fn a_lock_that_was_removed_lets_no_second_daemon_in() {
    let mut first = Host::new().worker(17);
    first.start();
    first.create("orders");
    let before = first.raw().draw("orders", 10);
    fs::remove_file(first.state_dir().join("lock")).unwrap();
    let mut second = Host::new().worker(18);
    std::os::unix::fs::symlink(first.state_dir(), second.state_dir()).unwrap();
    let refused = second.try_start().expect_err("the journal is in use");
    assert!(refused.said.contains("journal.db"), "{refused:?}");
    assert!(first.raw().draw("orders", 1) > before);
    first.stop();
    second.start();
    assert!(second.raw().draw("orders", 1) > before);
}

/// Segments don't need the worker, so they are served while another daemon has it.
#[test]
fn a_static_worker_that_cannot_be_had_stops_snowflake_alone() {
    let mut first = Host::new().worker(17);
    first.start();
    let mut second = Host::new().worker(17);
    fs::remove_dir(second.path("locks")).unwrap();
    std::os::unix::fs::symlink(first.path("locks"), second.path("locks")).unwrap();
    second.start();
    second.create("orders");
    assert_eq!(second.raw().draw("orders", 1), [1]);
    let refused = second.raw().refused(&ids_request("snowflake", 1, 1, 1_000), Status::NoWorker);
    assert!(refused.contains(&format!("process {}", first.pid())), "{refused}");
    let why = second.status()["snowflake"]["worker_error"].to_string();
    assert!(why.contains("worker 17"), "{why}");
    assert!(second.log().contains("segment ids continue"), "{}", second.log());
    first.raw().draw("snowflake", 1);
    // Other users can't open the file, so they can't lock it.
    let lock = first.path("locks/leafd-worker-17.lock");
    assert_eq!(fs::metadata(lock).unwrap().permissions().mode() & 0o777, 0o600);
}

/// If the state directory is lost, the note in the lock file still shows how far ids went.
#[test]
fn a_static_worker_s_lock_tells_a_new_journal_how_far_ids_went() {
    let mut host = Host::new().worker(17);
    host.start();
    let last = host.raw().draw("snowflake", 10)[9];
    host.kill();
    let lock = host.path("locks/leafd-worker-17.lock");
    let text = fs::read_to_string(&lock).unwrap();
    let noted: u64 = text.lines().nth(1).expect("a note").trim().parse().unwrap();
    let used_ms = Layout::LEAF.tick_start_ms(Layout::LEAF.decompose(last).unwrap().tick);
    assert!(noted > used_ms, "{noted} and {used_ms}");
    // Ids were a minute ahead of the clock, as after a step back.
    let ahead = noted + 3_000;
    fs::write(&lock, text.replace(&noted.to_string(), &ahead.to_string())).unwrap();
    fs::remove_dir_all(host.state_dir()).unwrap();
    host.start();
    let first = eventually("an id", Duration::from_secs(10), || {
        let mut raw = host.raw();
        raw.send(&ids_request("snowflake", 1, 1, 1_000));
        let reply = raw.reply();
        (reply.status() == Status::Ok).then(|| reply.ids()[0])
    });
    let first_ms = Layout::LEAF.tick_start_ms(Layout::LEAF.decompose(first).unwrap().tick);
    assert!(first_ms >= ahead, "{first_ms} and {ahead}");
}

#[test]
fn a_store_that_is_locked_at_the_start_counts_as_away() {
    let mut host = Host::new();
    host.start();
    host.create("orders");
    host.create("others");
    let mut ids = host.raw().draw("orders", 10);
    host.stop();
    let other = rusqlite::Connection::open(host.state_dir().join("store.db")).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    host.start();
    let mut raw = host.raw();
    assert!(!raw.info().segments_ready);
    let error = host.status()["segments"]["stores"][0]["error"].to_string();
    assert!(error.contains("locked") || error.contains("not answered"), "{error}");
    // These are the ids left in the journal.
    ids.extend(raw.draw("orders", 10));
    assert_eq!(ids, (1..=20).collect::<Vec<u64>>());
    other.execute_batch("ROLLBACK").unwrap();
    eventually("ready", Duration::from_secs(15), || raw.info().segments_ready.then_some(()));
    assert_eq!(raw.draw("others", 1), [1]);
}

#[test]
fn a_stale_socket_is_replaced_and_nothing_else_is() {
    let mut host = Host::new();
    drop(UnixListener::bind(host.socket()).unwrap());
    host.start();
    host.kill();
    assert!(host.socket().exists(), "a kill leaves it");
    host.start();
    host.stop();
    fs::write(host.socket(), "precious").unwrap();
    let refusal = host.try_start().unwrap_err();
    assert_eq!(refusal.code, Some(1));
    assert!(refusal.said.contains("not a socket"), "{refusal:?}");
    assert_eq!(fs::read(host.socket()).unwrap(), b"precious");
    fs::remove_file(host.socket()).unwrap();
    std::os::unix::fs::symlink(host.path("elsewhere"), host.socket()).unwrap();
    let refusal = host.try_start().unwrap_err();
    assert!(refusal.said.contains("not a socket"), "{refusal:?}");
    fs::remove_file(host.socket()).unwrap();
    let _other = UnixListener::bind(host.socket()).unwrap();
    let refusal = host.try_start().unwrap_err();
    assert!(refusal.said.contains(&std::process::id().to_string()), "{refusal:?}");
}

#[test]
fn a_bad_configuration_is_refused_with_what_is_allowed() {
    let host = Host::new();
    let file = host.path("leafd.toml");
    for (toml, words) in [
        ("autonomi = \"10m\"", ["leafd.toml, line 1", "autonomi", "autonomy"]),
        ("\nautonomy = 10", ["leafd.toml, line 2", "autonomy", "10"]),
        ("autonomy = \"2d\"", ["leafd.toml", "2d", "24h"]),
        ("worker = \"static:1024\"", ["leafd.toml", "static:1024", "1023"]),
        ("max_step = 0", ["leafd.toml", "max_step", "1"]),
        ("store = \"oracle:x\"", ["leafd.toml", "store", "sqlite:PATH"]),
        ("[access", ["leafd.toml", "not TOML", ""]),
    ] {
        fs::write(&file, toml).unwrap();
        for command in [&["check-config"][..], &[]] {
            let output = Command::new(leafd_binary())
                .env_clear()
                .env("HOME", host.path("home"))
                .args(command)
                .arg("--config")
                .arg(&file)
                .output()
                .unwrap();
            let said = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(EXIT_CONFIG), "{toml}: {said}");
            assert!(words.iter().all(|word| said.contains(word)), "{toml}: {said}");
        }
    }
    let mut host = host.set("worker", "static:x");
    assert_eq!(host.try_start().unwrap_err().code, Some(EXIT_CONFIG));
}

#[test]
fn arguments_before_a_subcommand_are_not_ignored() {
    let words = ["--state-dir", "/nonexistent", "check-config"];
    let output = Command::new(leafd_binary()).env_clear().args(words).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
}

#[test]
fn check_config_tells_every_value_and_where_it_came_from() {
    let host = Host::new();
    let file = host.path("leafd.toml");
    fs::write(&file, "autonomy = \"30m\"\nmax_step = 5000\nwaiters_max = 7").unwrap();
    let output = Command::new(leafd_binary())
        .env_clear()
        .env("HOME", host.path("home"))
        .env("LEAFD_MAX_STEP", "6000")
        .env("LEAFD_WAITERS_MAX", "8")
        .args(["check-config", "--set", "waiters_max=9", "--config"])
        .arg(&file)
        .output()
        .unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success());
    for (key, value, source) in [
        ("autonomy", "30m", "leafd.toml"),
        ("max_step", "6000", "LEAFD_MAX_STEP"),
        ("waiters_max", "9", "--set"),
        ("mark_ahead", "5s", "default"),
    ] {
        let line = said.lines().find(|line| line.starts_with(&format!("{key} =")));
        let line = line.unwrap_or_else(|| panic!("no {key} in {said}"));
        assert!(line.contains(value) && line.contains(source), "{line}");
    }
    assert!(!host.path("home").exists(), "nothing is made");
}

/// Starts `leafd` without arguments, and draws from it.
fn start_with_defaults(uid: Option<u32>) {
    let host = Host::new();
    let (home, runtime) = (host.path("home"), host.path("run"));
    for path in [&home, &runtime] {
        fs::create_dir(path).unwrap();
        nix::unistd::chown(path, uid.map(Into::into), uid.map(Into::into)).unwrap();
    }
    // A place where this user can execute it, wherever the target folder is.
    let binary = host.path("leafd");
    // Another process copies it: a process that another test starts could inherit the file while it is open for
    // writing, and then nobody could execute it.
    assert!(Command::new("cp").arg(leafd_binary()).arg(&binary).status().unwrap().success());
    fs::set_permissions(&binary, fs::Permissions::from_mode(0o755)).unwrap();
    let output = fs::File::create(host.path("output")).unwrap();
    let mut command = Command::new(&binary);
    command.env_clear().stdin(Stdio::null()).stdout(output.try_clone().unwrap()).stderr(output);
    command.current_dir("/");
    let (socket, state_dir) = match uid {
        Some(uid) => {
            use std::os::unix::process::CommandExt as _;
            command.env("HOME", &home).env("XDG_RUNTIME_DIR", &runtime).uid(uid).gid(uid);
            (runtime.join("leafd/leafd.sock"), home.join(".local/state/leafd"))
        }
        None => {
            // Root's defaults are system folders, so systemd's variables name others.
            command.env("RUNTIME_DIRECTORY", &runtime).env("STATE_DIRECTORY", &home);
            (runtime.join("leafd.sock"), home.clone())
        }
    };
    let mut child = die_with_parent(&mut command).spawn().unwrap();
    let mut raw = eventually("a start with defaults", Duration::from_secs(20), || {
        Raw::try_connect(&socket).and_then(|mut raw| raw.try_info().ok().map(|_| raw))
    });
    raw.request(leafd_wire::opcode::TAG_CREATE, 1, br#"{"tag":"orders"}"#);
    assert_eq!(raw.reply().status(), leafd_wire::Status::Ok);
    assert_eq!(raw.draw("orders", 3), [1, 2, 3]);
    assert_eq!(raw.draw("snowflake", 3).len(), 3);
    let said = eventually("what it prints", Duration::from_secs(5), || {
        Some(fs::read_to_string(host.path("output")).unwrap())
            .filter(|said| said.contains("worker  "))
    });
    let store = format!("sqlite:{}", state_dir.join("store.db").display());
    for words in [socket.to_str().unwrap(), &store, "worker  store"] {
        assert!(said.contains(words), "{words} in {said}");
    }
    let mode = fs::metadata(&state_dir).unwrap().permissions().mode();
    assert!(uid.is_none() || mode & 0o077 == 0, "{mode:o}");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn leafd_without_any_configuration_works_for_an_ordinary_user() {
    start_with_defaults(Some(65_534));
}

#[test]
fn leafd_uses_the_folders_that_systemd_names() {
    start_with_defaults(None);
}
