//! `leafctl wait`: for programs that start after the daemon, and for scripts that stop it after its clients.

use std::process::{Command, Output};
use std::thread;
use std::time::{Duration, Instant};

use leafd_tests::host::{Host, die_with_parent, eventually, leafd_binary};

fn wait(host: &Host, words: &[&str]) -> Output {
    let mut command = Command::new(leafd_binary().with_file_name("leafctl"));
    command.arg("--socket").arg(host.socket()).arg("wait").args(words).output().unwrap()
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn answering_is_awaited_from_before_the_start() {
    let host = Host::new();
    let none = wait(&host, &["answering", "--within-ms", "100"]);
    assert_eq!(none.status.code(), Some(3), "{}", text(&none));
    thread::scope(|scope| {
        let waiting = scope.spawn(|| wait(&host, &["answering"]));
        thread::sleep(Duration::from_millis(200));
        assert!(!waiting.is_finished(), "nobody answers yet");
        let mut daemon = die_with_parent(&mut host.command(None)).spawn().unwrap();
        let waited = waiting.join().unwrap();
        daemon.kill().unwrap();
        daemon.wait().unwrap();
        assert!(waited.status.success(), "{}", text(&waited));
    });
}

#[test]
fn drawing_from_a_daemon_that_restarts_waits_as_the_library_does() {
    let mut host = Host::new();
    host.start();
    host.create("orders");
    let mut last = host.raw().draw("orders", 1)[0];
    for clean in [false, true] {
        if clean {
            host.stop();
        } else {
            host.kill();
        }
        thread::scope(|scope| {
            let socket = host.socket();
            let drawing = scope.spawn(move || {
                let mut leafctl = Command::new(leafd_binary().with_file_name("leafctl"));
                leafctl.arg("--socket").arg(socket);
                leafctl.args(["next", "orders", "--deadline-ms", "20000"]).output().unwrap()
            });
            thread::sleep(Duration::from_millis(300));
            assert!(!drawing.is_finished(), "after a clean stop: {clean}");
            host.start();
            let drawn = drawing.join().unwrap();
            let id: u64 = String::from_utf8_lossy(&drawn.stdout).trim().parse().unwrap_or(0);
            assert!(id > last, "{id} after {last}: {drawn:?}");
            last = id;
        });
    }
}

#[test]
fn a_socket_that_a_variable_names_is_said_to_be() {
    let host = Host::new();
    let leafctl = || {
        let mut command = Command::new(leafd_binary().with_file_name("leafctl"));
        text(&command.arg("ping").env("LEAFD_SOCKET", host.socket()).output().unwrap())
    };
    let said = leafctl();
    assert!(said.contains("LEAFD_SOCKET names this path"), "{said}");
    assert!(said.contains("systemctl status leafd"), "{said}");
    // The daemon names the variable too, because an exported variable also moves the daemon.
    let mut command = Command::new(leafd_binary());
    command.env_clear().env("LEAFD_SOCKET", host.socket()).arg("--state-dir").arg(host.state_dir());
    command.stdout(std::fs::File::create(host.path("said")).unwrap());
    let mut daemon = die_with_parent(&mut command).spawn().unwrap();
    assert!(wait(&host, &["answering"]).status.success());
    let said = eventually("it says where it is", Duration::from_secs(10), || {
        let said = std::fs::read_to_string(host.path("said")).unwrap();
        said.contains("socket").then_some(said)
    });
    daemon.kill().unwrap();
    daemon.wait().unwrap();
    assert!(said.contains("(environment variable LEAFD_SOCKET)"), "{said}");
}

#[test]
fn unused_is_awaited_until_the_last_client_is_gone() {
    let mut host = Host::new();
    host.start();
    let clients = [host.client(), host.client()];
    clients.iter().for_each(|client| drop(client.info().unwrap()));
    let begun = Instant::now();
    let used = wait(&host, &["unused", "--within-ms", "300"]);
    assert_eq!(used.status.code(), Some(4), "{}", text(&used));
    assert!(text(&used).contains("still open: 2"), "{}", text(&used));
    assert!(begun.elapsed() >= Duration::from_millis(300));
    let [first, last] = clients;
    drop(first);
    thread::scope(|scope| {
        let waiting = scope.spawn(|| wait(&host, &["unused"]));
        thread::sleep(Duration::from_millis(200));
        assert!(!waiting.is_finished(), "one is still connected");
        drop(last);
        let waited = waiting.join().unwrap();
        assert!(waited.status.success(), "{}", text(&waited));
    });
    host.stop();
    assert_eq!(wait(&host, &["unused"]).status.code(), Some(3), "nobody to ask");
}
