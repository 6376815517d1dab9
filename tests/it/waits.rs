//! `leafctl wait`: what starts after the daemon, and what stops it after its clients.

use std::process::{Command, Output};
use std::thread;
use std::time::{Duration, Instant};

use leafd_tests::host::{Host, die_with_parent, leafd_binary};

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
