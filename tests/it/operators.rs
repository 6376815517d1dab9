//! What operators and their scripts rely on in `leafctl`: exit statuses, suggestions and limits.

use std::process::Output;
use std::time::Duration;

use crate::host::{Host, eventually};

/// Runs `leafctl`, and returns its exit status and what it wrote to stderr.
fn leafctl(host: &Host, arguments: &[&str]) -> (Option<i32>, String) {
    let Output { status, stderr, .. } = host.leafctl(arguments);
    (status.code(), String::from_utf8(stderr).unwrap())
}

#[track_caller]
fn exits(host: &Host, arguments: &[&str], code: i32, says: &str) {
    let (status, said) = leafctl(host, arguments);
    assert!(status == Some(code) && said.contains(says), "{arguments:?}: {status:?} {said}");
}

#[test]
fn an_exhausted_tag_is_not_ready_but_the_others_are() {
    let mut host = Host::new();
    host.start();
    host.create("orders");
    exits(&host, &["tag", "create", "tiny", "--ceiling", "3", "--step", "3"], 0, "");
    host.raw().draw("orders", 1);
    exits(&host, &["status"], 0, "");
    host.raw().draw("tiny", 3);
    let _ = host.leafctl(&["next", "tiny", "--deadline-ms", "100"]);
    eventually("the tag's condition", Duration::from_secs(60), || {
        (leafctl(&host, &["ping", "--ready", "tiny"]).0 == Some(4)).then_some(())
    });
    exits(&host, &["ping", "--ready", "tiny"], 4, "tiny not ready: ");
    exits(&host, &["ping", "--ready", "orders", "--ready", "segments"], 0, "");
    exits(&host, &["ping", "--ready", "ordres"], 4, "no tag \"ordres\"");
    exits(&host, &["status"], 4, "");
    exits(&host, &["status", "--json"], 4, "");
}

#[test]
fn without_its_store_a_tag_is_not_ready() {
    let unused = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut host = Host::new()
        .set("store", &format!("postgres://leafd@{unused}/ids"))
        .set("store_connect_timeout", "200ms");
    host.start();
    exits(&host, &["ping"], 0, "");
    for what in ["segments", "orders"] {
        exits(&host, &["ping", "--ready", what], 4, "refused");
    }
    exits(&host, &["status"], 4, "");
}

#[test]
fn a_second_creation_fails_unless_it_may_exist() {
    let mut host = Host::new();
    host.start();
    exits(&host, &["tag", "create", "orders"], 0, "");
    exits(&host, &["tag", "create", "orders"], 1, "TAG_EXISTS");
    exits(&host, &["tag", "create", "orders", "--if-not-exists"], 0, "");
    exits(&host, &["tag", "create", "orders", "--if-not-exists", "--strict"], 1, "kind");
    host.raw().draw("orders", 1);
    exits(&host, &["tag", "create", "orders"], 1, "TAG_EXISTS");
    exits(&host, &["tag", "create", "users", "--if-not-exists"], 0, "");
}

#[test]
fn mistyped_names_and_numbers_are_caught() {
    let mut host = Host::new();
    host.start();
    host.create("orders");
    let meant = "did you mean \"orders\"?";
    exits(&host, &["next", "ordres"], 1, meant);
    exits(&host, &["tag", "show", "order"], 1, meant);
    let (_, said) = leafctl(&host, &["next", "oxygen"]);
    assert!(!said.contains("did you mean"), "{said}");
    exits(&host, &["next", "orders", "-n", "100000001"], 2, "100000000");
}
