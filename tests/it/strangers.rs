//! What other users can prepare for the daemon or for an administrator: files, links, variables, containers and pages.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use leafd_tests::http::{get, get_with};
use leafd_wire::opcode;
use nix::sys::stat::Mode;
use serde_json::json;

use crate::access::{STRANGER, raw_as};
use crate::host::{Host, eventually, leafd_binary};

const ATTACKER: u32 = 4_001;

/// Runs `leafctl` in a separate PID namespace, as in a container, or in this one.
fn create_tag(host: &Host, contained: bool, tag: &str) -> (bool, String) {
    let mut command = match contained {
        true => Command::new("unshare"),
        false => Command::new("env"),
    };
    if contained {
        command.args(["--pid", "--fork", "--kill-child"]);
    }
    let leafctl = leafd_binary().with_file_name("leafctl");
    let output = command
        .arg(leafctl)
        .args(["tag", "create", tag])
        .env("LEAFD_SOCKET", host.socket())
        .output()
        .unwrap();
    (output.status.success(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn root_of_a_container_is_no_administrator_if_containers_are_not_trusted() {
    let mut host = Host::new().worker(17);
    host.start();
    assert!(create_tag(&host, true, "a").0, "they are trusted by default");
    host.stop();
    host.change("trust_containers", "false");
    host.start();
    let (done, said) = create_tag(&host, true, "b");
    assert!(!done && said.contains("admin_uids"), "{said}");
    let (done, said) = create_tag(&host, false, "b");
    assert!(done, "{said}");
}

#[test]
fn the_socket_is_never_open_to_more_users_than_its_mode_says() {
    let run = "umask 0 && exec \"$@\"";
    let mut host =
        Host::new().worker(17).runner(&["sh", "-c", run, "sh"]).set("socket_mode", "0640");
    let folder = host.socket().parent().unwrap().to_owned();
    host.begin();
    // Checks under whatever temporary name the socket has, and at any moment.
    let seen = eventually("the socket", Duration::from_secs(60), || {
        for entry in fs::read_dir(&folder).unwrap().flatten() {
            let name = entry.file_name().into_string().unwrap();
            if let Ok(found) = entry.metadata()
                && name.starts_with("leafd.sock")
                && !name.ends_with(".lock")
            {
                assert_eq!(found.mode() & 0o137, 0, "{name}: {:o}", found.mode());
            }
        }
        fs::metadata(host.socket()).ok()
    });
    assert_eq!(seen.mode() & 0o777, 0o640);
}

#[test]
fn a_fifo_in_the_place_of_a_lock_is_an_error() {
    let mut host = Host::new().worker(17);
    let lock = host.path("leafd.sock.lock");
    nix::unistd::mkfifo(&lock, Mode::S_IRWXU).unwrap();
    let refusal = host.try_start().unwrap_err();
    assert!(refusal.said.contains("not a regular file"), "{}", refusal.said);
}

#[test]
fn a_fifo_in_the_place_of_the_journal_s_log_is_an_error() {
    let mut host = Host::new().worker(17);
    host.start();
    host.stop();
    let log = host.state_dir().join("journal.db-wal");
    let _ = fs::remove_file(&log);
    nix::unistd::mkfifo(&log, Mode::S_IRWXU).unwrap();
    let refusal = host.try_start().unwrap_err();
    assert!(refusal.said.contains("the journal"), "{}", refusal.said);
}

#[test]
fn metrics_are_written_through_no_link() {
    let mut host = Host::new().worker(17);
    host.start();
    let folder = host.path("collector");
    fs::create_dir(&folder).unwrap();
    nix::unistd::chown(&folder, Some(ATTACKER.into()), Some(ATTACKER.into())).unwrap();
    let (victim, file) = (host.path("victim"), folder.join("leafd.prom"));
    fs::write(&victim, "root's").unwrap();
    symlink(&victim, folder.join("leafd.prom.new")).unwrap();
    let output = host.leafctl(&["metrics", "--output", file.to_str().unwrap()]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(fs::read_to_string(&victim).unwrap(), "root's");
    assert!(fs::symlink_metadata(&file).unwrap().is_file());
    assert!(fs::read_to_string(&file).unwrap().contains("leafd_"));
}

#[test]
fn metrics_replace_nothing_but_regular_files() {
    let mut host = Host::new().worker(17);
    host.start();
    let [fifo, link] = ["fifo", "link"].map(|name| host.path(name));
    nix::unistd::mkfifo(&fifo, Mode::S_IRWXU).unwrap();
    symlink("/dev/null", &link).unwrap();
    let refused = |file: &Path, socket: &str| {
        let words = ["--socket", socket, "metrics", "--output", file.to_str().unwrap()];
        let output = host.leafctl(&words);
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && said.contains("not a regular file"), "{said}");
    };
    for file in [&fifo, &link] {
        let before = fs::symlink_metadata(file).unwrap().ino();
        refused(file, host.socket().to_str().unwrap());
        refused(file, "/nonexistent");
        assert_eq!(fs::symlink_metadata(file).unwrap().ino(), before);
    }
}

#[test]
fn a_fifo_in_the_place_of_a_secret_is_an_error() {
    let mut host = Host::new().worker(17);
    let fifo = host.path("fifo");
    nix::unistd::mkfifo(&fifo, Mode::S_IRWXU).unwrap();
    let (fifo, state_dir) = (fifo.to_str().unwrap(), host.state_dir());
    let refused = |words: &[&str]| {
        // A program that opened the FIFO would wait forever for a writer.
        let mut command = Command::new("timeout");
        let output = command.arg("20").arg(leafd_binary()).args(words).output().unwrap();
        let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        assert!(!output.status.success() && said.contains("not a regular file"), "{said}");
    };
    let doctor = ["doctor", "--state-dir", state_dir.to_str().unwrap(), "--set"];
    refused(&[&doctor[..], &[&format!("mask_key_file={fifo}")]].concat());
    for file in [fifo, "/dev/zero"] {
        let store = ["--store", "postgres://leafd@localhost/leafd"];
        let password = format!("store_password_file={file}");
        refused(&[&doctor[..], &[&password], &store].concat());
    }
    refused(&["mask-key", "new", fifo, "--add"]);
    host = host.set("mask_key_file", fifo);
    let refusal = host.try_start().unwrap_err();
    assert!(refusal.said.contains("not a regular file"), "{}", refusal.said);
}

#[test]
fn a_setuid_program_goes_by_no_variable() {
    let mut host = Host::new().worker(17).set("socket_mode", "0666");
    host.start();
    let program = host.path("leafctl");
    // Another process copies it: a test that forks meanwhile would inherit the file open for writing, and nobody could
    // execute it until the child has started its program.
    let leafctl = leafd_binary().with_file_name("leafctl");
    let copied = Command::new("cp").args([leafctl.as_os_str(), program.as_os_str()]).status();
    assert!(copied.unwrap().success());
    nix::unistd::chown(&program, Some(4_003.into()), Some(4_003.into())).unwrap();
    let ping = |mode: u32| {
        fs::set_permissions(&program, Permissions::from_mode(mode)).unwrap();
        let mut command = Command::new(&program);
        command.env_clear().env("LEAFD_SOCKET", host.socket()).args([
            "ping",
            "--within-ms",
            "2000",
        ]);
        command.uid(ATTACKER).gid(ATTACKER).output().unwrap()
    };
    assert!(ping(0o755).status.success());
    let output = ping(0o4755);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && said.contains("/run/leafd/leafd.sock"), "{said}");
}

#[test]
fn control_characters_of_the_store_reach_no_terminal() {
    let mut host = Host::new().worker(17);
    host.start();
    host.create("orders");
    host.store_sql(
        "UPDATE leaf_alloc SET description = 'a' || char(27) || '[2J' || char(10) || 'b'",
    );
    for words in [["tag", "list"].as_slice(), &["tag", "show", "orders"]] {
        let output = host.leafctl(words);
        let said = String::from_utf8(output.stdout).unwrap();
        assert!(!said.contains('\u{1b}') && !said.contains("[2J\nb"), "{words:?}: {said:?}");
        assert!(said.contains("[2J\u{fffd}b"), "{words:?}: {said:?}");
    }
    host.store_sql(
        "CREATE TRIGGER refusing BEFORE INSERT ON leaf_alloc
         BEGIN SELECT \"no\u{1b}[2J\nway\"(); END",
    );
    let output = host.leafctl(&["tag", "create", "more"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("no\u{fffd}[2J\u{fffd}way"), "{said:?}");
}

/// A core dump would contain the database's password and the mask keys.
#[test]
fn the_daemon_writes_no_core_dump() {
    let mut host = Host::new().worker(17);
    host.start();
    let limits = fs::read_to_string(format!("/proc/{}/limits", host.pid())).unwrap();
    let core = limits.lines().find(|line| line.starts_with("Max core file size")).unwrap();
    assert_eq!(core.split_whitespace().rev().take(3).collect::<Vec<_>>(), ["bytes", "0", "0"]);
}

#[test]
fn leaf_s_pages_show_no_positions_of_masked_tags() {
    let token = "s3cret-s3cret-s3cret";
    for with_token in [false, true] {
        let mut host = Host::new().worker(17).set("leaf_http", "127.0.0.1:0");
        let (keys, file) = (host.path("keys"), host.path("token"));
        fs::write(&keys, "1 00112233445566778899aabbccddeeff\n").unwrap();
        fs::write(&file, token).unwrap();
        for secret in [&keys, &file] {
            fs::set_permissions(secret, Permissions::from_mode(0o600)).unwrap();
        }
        host.change("mask_key_file", keys.to_str().unwrap());
        if with_token {
            host.change("leaf_http_token_file", file.to_str().unwrap());
        }
        host.start();
        host.create("plain");
        host.admin(opcode::TAG_CREATE, &json!({"tag": "masked", "masked": 40}));
        for tag in ["plain", "masked"] {
            host.raw().draw_until(tag, Duration::from_secs(20));
        }
        let address = host.http("serving Leaf's paths");
        for path in ["/cache", "/db"] {
            let page = get_with(&address, path, &format!("Authorization: Bearer {token}\r\n")).body;
            assert!(page.contains("<td>plain</td>"), "{path}: {page}");
            assert_eq!(page.contains("<td>masked</td>"), with_token, "{path}: {page}");
        }
    }
}

#[test]
fn nothing_names_a_store_s_user_host_or_database_to_strangers() {
    let secrets = ["secret_user", "127.0.0.1:9", "secret_database"];
    let url = "postgres://secret_user@127.0.0.1:9/secret_database?sslmode=disable";
    let mut host = Host::new().set("http", "127.0.0.1:0").set("socket_mode", "0666");
    host.unset("worker");
    host.change("store", url);
    host.change("worker", "store");
    host.start();
    let address = host.http("serving metrics and health");
    eventually("the store's problem is known", Duration::from_secs(60), || {
        let known = host.status().to_string();
        (secrets.iter().all(|secret| known.contains(secret)) && known.contains("registry_away"))
            .then_some(())
    });
    let mut stranger = raw_as(&host, STRANGER, STRANGER, &[]);
    stranger.request(opcode::STATUS, 1, b"");
    let status = String::from_utf8(stranger.reply().body).unwrap();
    let by_http = ["/readyz", "/metrics", "/state"].map(|path| get(&address, path).body);
    for text in by_http.iter().chain([&status]) {
        assert!(text.contains("store_away") || text.contains("store away (default)"), "{text}");
        for secret in secrets {
            assert!(!text.contains(secret), "{secret}: {text}");
        }
    }
}
