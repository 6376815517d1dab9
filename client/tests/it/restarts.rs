//! Tests restarts of the daemon: no id request fails, and no administrative request is sent twice.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use leafd_client::{Error, opcode};

use crate::checks::{check_unique, client, direct, until};
use crate::server::Server;

#[test]
fn restarts_under_load_are_not_noticed() {
    let mut server = Server::start();
    let held = client(&server);
    let direct = direct(&server);
    let stop = AtomicBool::new(false);
    let turns: [AtomicU64; 4] = Default::default();
    let done = || turns.each_ref().map(|of_one| of_one.load(Ordering::Relaxed));
    let ids: Vec<Vec<u64>> = thread::scope(|scope| {
        let mut drawing = Vec::new();
        for turns in &turns[..3] {
            drawing.push(scope.spawn(|| {
                let mut ids = Vec::new();
                while !stop.load(Ordering::Relaxed) {
                    ids.push(direct.next("orders").unwrap());
                    ids.extend((0..100).map(|_| held.next("orders").unwrap()));
                    ids.push(held.next("short").unwrap());
                    turns.fetch_add(1, Ordering::Relaxed);
                }
                ids
            }));
        }
        drawing.push(scope.spawn(|| {
            let mut ids = Vec::new();
            while !stop.load(Ordering::Relaxed) {
                let mut pipeline = direct.pipeline();
                for _ in 0..50 {
                    pipeline.push("orders", 1).unwrap();
                }
                while let Some(answer) = pipeline.answer() {
                    ids.extend(answer.ids.unwrap());
                }
                turns[3].fetch_add(1, Ordering::Relaxed);
            }
            ids
        }));
        for restarts in 0..=6 {
            if restarts > 0 {
                server.stop();
                thread::sleep(Duration::from_millis(100));
                server.restart();
            }
            // Both clients reconnect each time.
            let connections = (restarts + 1) * 2;
            until(|| server.shared().connections_made.load(Ordering::SeqCst) >= connections);
            // Requests are retried only once, so the pending one must be answered, whenever its thread runs.
            let before = done();
            until(|| done().iter().zip(before).all(|(now, before)| *now >= before + 2));
        }
        stop.store(true, Ordering::Relaxed);
        drawing.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    check_unique(ids.into_iter().flatten());
}

#[test]
fn each_of_many_waiting_threads_hears_that_the_connection_broke() {
    let mut server = Server::start();
    let client = direct(&server);
    thread::scope(|scope| {
        let drawing: Vec<_> = (0..60)
            .map(|_| {
                scope.spawn(|| {
                    let long = Duration::from_secs(20);
                    let mut ids = vec![client.within(long).next("deaf").unwrap()];
                    ids.extend((0..50).map(|_| client.within(long).next("orders").unwrap()));
                    ids
                })
            })
            .collect();
        // There are as many requests as connections; the other calls wait for one.
        until(|| server.requests_for("deaf") == 32);
        server.restart();
        let ids = drawing.into_iter().flat_map(|thread| thread.join().unwrap());
        assert_eq!(check_unique(ids), 60 * 51);
    });
    // Quick answers need fewer connections than the maximum.
    let made = server.shared().connections_made.load(Ordering::SeqCst);
    assert!((33..=2 * 32).contains(&made), "{made} connections were made");
    assert_eq!(server.requests_for("deaf"), 32 + 60);
}

#[test]
fn a_daemon_that_stays_away_is_an_error_by_the_deadline() {
    let mut server = Server::start();
    let client = client(&server);
    let id = client.next_direct("orders").unwrap();
    server.stop();
    let start = std::time::Instant::now();
    let limit = Duration::from_millis(300);
    let error = client.within(limit).next_direct("orders").unwrap_err();
    crate::checks::check_within(start.elapsed(), 150, 900);
    assert!(matches!(error, Error::Connect { .. }), "{error:?}");
    server.restart();
    check_unique([id, client.next_direct("orders").unwrap()]);
}

#[test]
fn held_ids_outlast_the_daemon() {
    let mut server = Server::start();
    let client = client(&server);
    let first = client.next("orders").unwrap();
    server.stop();
    let more = (0..3).map(|_| client.next("orders").unwrap());
    assert_eq!(check_unique(more.chain([first])), 4);
}

#[test]
fn a_daemon_that_says_it_is_stopping_is_asked_again() {
    let server = Server::start();
    for (client, tag) in [(client(&server), "stopping-a"), (direct(&server), "stopping-b")] {
        client.next(tag).unwrap();
        assert_eq!(server.requests_for(tag), 4);
    }
}

#[test]
fn administrative_requests_are_never_made_twice() {
    let mut server = Server::start();
    let client = client(&server);
    let error = client.admin(opcode::TAG_SET, "{}").unwrap_err();
    assert!(matches!(error, Error::Disconnected { .. }), "{error:?}");
    assert_eq!(server.shared().admin_requests.load(Ordering::SeqCst), 1);
    // But no request is lost on a connection that closed in the meantime.
    assert_eq!(client.admin(opcode::TAG_CREATE, "{\"a\":1}").unwrap(), "{\"a\":1}");
    for _ in 0..5 {
        server.restart();
        assert_eq!(client.admin(opcode::TAG_CREATE, "{}").unwrap(), "{}");
    }
    assert_eq!(server.shared().admin_requests.load(Ordering::SeqCst), 7);
}
