//! Tests with a daemon that has not started yet, or is temporarily missing.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use leafd_client::{Client, Error};

use crate::checks::{check_unique, check_within, client};
use crate::server::Server;

/// How long the daemon is missing: longer than [`waiting`]'s deadline and the grace period after it.
const AWAY: Duration = Duration::from_millis(600);

/// Far longer than any call here takes.
const LONG: Duration = Duration::from_secs(30);

fn waiting(server: &Server) -> Client {
    let deadline = Duration::from_millis(200);
    Client::builder().socket(server.path()).wait(LONG).deadline(deadline).build().unwrap()
}

/// Draws ids in threads of one client that start while the daemon is missing, and finish when it is back.
#[track_caller]
fn drawn_when_it_comes(server: &mut Server, client: &Client) -> Vec<u64> {
    let begun = Instant::now();
    let ids = thread::scope(|scope| {
        let held = (0..3).map(|_| scope.spawn(|| vec![client.next("orders").unwrap()]));
        let mut calls: Vec<_> = held.collect();
        calls.push(scope.spawn(|| vec![client.next_direct("orders").unwrap()]));
        calls.push(scope.spawn(|| client.next_batch("orders", 50).unwrap().collect()));
        calls.push(scope.spawn(|| client.info().map(|_| Vec::new()).unwrap()));
        thread::sleep(AWAY);
        server.restart();
        calls.into_iter().flat_map(|call| call.join().unwrap()).collect()
    });
    check_within(begun.elapsed(), 250, 10_000);
    ids
}

#[test]
fn a_client_that_is_to_wait_finds_a_daemon_that_comes_later() {
    let mut server = Server::start();
    server.stop();
    let client = waiting(&server);
    assert_eq!(check_unique(drawn_when_it_comes(&mut server, &client)), 54);
}

#[test]
fn a_wait_shorter_than_the_deadline_lasts_as_long_as_that() {
    let mut server = Server::start();
    server.stop();
    for wait in [Duration::from_millis(1), LONG] {
        let client =
            Client::builder().socket(server.path()).wait(wait).deadline(LONG).build().unwrap();
        assert_eq!(check_unique(drawn_when_it_comes(&mut server, &client)), 54);
        server.stop();
    }
    // The wait still ends, and not before its time.
    let short = Duration::from_millis(100);
    let client =
        Client::builder().socket(server.path()).wait(short).deadline(AWAY).build().unwrap();
    let begun = Instant::now();
    let error = client.next("orders").unwrap_err();
    assert!(matches!(error, Error::Connect { .. }), "{error:?}");
    check_within(begun.elapsed(), AWAY.as_millis() as u64, 5_000);
}

#[test]
fn a_call_with_a_deadline_of_its_own_waits_no_longer() {
    let mut server = Server::start();
    server.stop();
    let client = waiting(&server);
    let begun = Instant::now();
    let error = client.within(AWAY).next("orders").unwrap_err();
    assert!(matches!(error, Error::Connect { .. }), "{error:?}");
    check_within(begun.elapsed(), 0, 5_000);
}

#[test]
fn a_first_call_waits_where_a_socket_was_left() {
    let mut server = Server::start();
    server.kill();
    let client = client(&server);
    assert_eq!(check_unique(drawn_when_it_comes(&mut server, &client)), 54);
}

#[test]
fn a_first_call_waits_where_a_socket_was_removed_a_moment_ago() {
    let mut server = Server::start();
    // The lock file remains, as after a daemon has stopped.
    let lock = format!("{}.lock", server.path().display());
    fs::write(lock, "1\n").unwrap();
    server.stop();
    let client = client(&server);
    assert_eq!(check_unique(drawn_when_it_comes(&mut server, &client)), 54);
}
