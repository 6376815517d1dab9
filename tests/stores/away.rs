//! Daemons that start while the store is unavailable: restarts, with the held ids in their journal, and first starts.

use std::time::{Duration, Instant};

use leafd_tests::host::{Host, eventually};
use leafd_tests::load::{Drawn, Load};
use leafd_tests::raw::{Raw, ids_request};
use leafd_tests::relay::Relay;
use leafd_tests::servers::{DATABASE, Server};
use leafd_wire::{Status, opcode};
use serde_json::json;

use crate::scene::{DRY, HELD, RESUMES_WITHIN, Route, Scene, create, first_of, report, store};

/// The exit status of `leafctl ping` if something that must be ready is not.
const EXIT_NOT_READY: i32 = 4;

on_each_server!(
    restarted_while_the_store_is_away,
    first_started_while_the_store_is_away,
    a_server_that_answers_no_more_is_left_for_the_next,
    a_silent_server_keeps_nobody_from_the_next,
    servers_that_fell_silent_are_tried_last,
    a_server_that_answers_later_than_asked_for_is_reached,
    a_silent_server_is_waited_for_no_longer_than_a_fail_over_allows,
);

fn restarted_while_the_store_is_away<S: Server>() {
    let mut scene = Scene::<S>::new(Route::Direct);
    let load = scene.load();
    let before = load.issued();
    scene.server.kill();
    scene.hosts[0].stop();
    scene.hosts[1].kill();
    for host in &mut scene.hosts {
        host.start();
        assert!(!host.raw().info().segments_ready);
        // It continues with the ids that it holds; no other host claims them.
        assert!(host.raw().draw_until(HELD, Duration::from_secs(5)) > 0);
    }
    load.each_draws(Duration::from_secs(10));
    let issued = load.issued() - before;
    scene.server.start();
    let mut raws: Vec<Raw> = scene.hosts.iter().map(Host::raw).collect();
    let (ids, recovered) = first_of(&mut raws, DRY);
    load.each_draws(Duration::from_secs(30));
    let drawn = finish(load, &ids);
    report::<S>(
        "daemons stopped and killed, started again without the store",
        issued,
        &drawn,
        Some(recovered),
    );
    drawn.assert_sound();
    let of_a_restart = |text: &String| {
        ["no connection", "disconnected", "SHUTTING_DOWN"].iter().any(|part| text.starts_with(part))
    };
    assert!(drawn.errors.keys().all(of_a_restart), "{:?}", drawn.errors);
    assert!(recovered < RESUMES_WITHIN, "ids came again after {recovered:?}");
}

fn finish(load: Load, of_dry: &[u64]) -> Drawn {
    let mut drawn = load.stop();
    drawn.add_ids(DRY, of_dry);
    drawn
}

fn first_started_while_the_store_is_away<S: Server>() {
    let mut server = S::new();
    server.kill();
    let mut host = Host::on_store(&server.url());
    host.start();
    let mut raw = host.raw();
    assert!(!raw.info().segments_ready);
    assert_eq!(ping(&host, &[]), Some(0), "it answers");
    assert_eq!(ping(&host, &["--ready", "segments"]), Some(EXIT_NOT_READY));
    let mut denied = Drawn::default();
    raw.send(&ids_request("orders", 1, 1, 3_000));
    let reply = raw.reply();
    let text = reply.refused(Status::StoreUnavailable);
    assert!(text.contains("refused"), "{text}");
    denied.errors.insert(format!("{}: {text}", reply.status()), 1);
    let known = store(&host);
    assert_eq!(known["ready"], false, "{known}");
    assert!(known["error"].as_str().unwrap().contains("refused"), "{known}");
    server.start();
    let begun = Instant::now();
    eventually("ready", RESUMES_WITHIN, || raw.info().segments_ready.then_some(()));
    let recovered = begun.elapsed();
    assert_eq!(ping(&host, &["--ready", "segments"]), Some(0));
    assert_eq!(store(&host)["ready"], true);
    create(&host, "orders", 100);
    denied.add_ids("orders", &raw.draw("orders", 300));
    denied.assert_sound();
    report::<S>("first start without the store", 0, &denied, Some(recovered));
}

/// Several routes to one server, as to the nodes of a cluster that is one store, and a host that prefers the first one.
/// Waiting for a login at a silent server takes longer than a request may wait.
fn host_with_ways<S: Server, const N: usize>(server: &S) -> ([Relay; N], Host) {
    let ways: [Relay; N] = std::array::from_fn(|_| Relay::to(server.port()));
    let url = S::url_of(&ways.each_ref().map(Relay::port), DATABASE);
    let host = Host::on_store(&url).set("store_connect_timeout", "30s");
    (ways, host.set("store_statement_timeout", "1s"))
}

/// Draws one id of a strict tag, in less time than a connection may take.
#[track_caller]
fn draw_strict(host: &Host) -> u64 {
    let mut raw = host.raw();
    raw.send(&ids_request("ledger", 1, 1, 12_000));
    raw.reply().ids()[0]
}

fn create_strict(host: &Host) {
    host.admin(opcode::TAG_CREATE, &json!({ "tag": "ledger", "strict": true }));
}

fn a_server_that_answers_no_more_is_left_for_the_next<S: Server>() {
    let server = S::new();
    let (ways, mut host) = host_with_ways::<S, 2>(&server);
    host.start();
    create_strict(&host);
    let first = draw_strict(&host);
    assert_eq!(
        ways[1].accepted(),
        1,
        "it was asked whether it knows a later history, and is not used"
    );
    ways[0].swallow();
    assert!(draw_strict(&host) > first);
}

fn a_silent_server_keeps_nobody_from_the_next<S: Server>() {
    let server = S::new();
    let (ways, mut host) = host_with_ways::<S, 3>(&server);
    ways[0].swallow();
    ways[1].swallow();
    host.start();
    create_strict(&host);
    assert_eq!(draw_strict(&host), 1);
}

/// This happens while a cluster agrees on its remaining members, and no node serves.
fn servers_that_fell_silent_are_tried_last<S: Server>() {
    let server = S::new();
    let (ways, mut host) = host_with_ways::<S, 3>(&server);
    host.start();
    create_strict(&host);
    let mut ids = vec![draw_strict(&host)];
    ways[0].swallow();
    ids.push(draw_strict(&host));
    let of_first = ways[0].accepted();
    ways[1].swallow();
    ids.push(draw_strict(&host));
    assert_eq!(ways[0].accepted(), of_first, "it fell silent before");
    assert_ne!(ways[2].accepted(), 0);
    assert!(ids.is_sorted_by(|one, next| one < next), "{ids:?}");
}

/// This happens when a whole fleet connects at once. A login takes several round trips, and so exceeds the configured
/// time.
fn a_server_that_answers_later_than_asked_for_is_reached<S: Server>() {
    let server = S::new();
    let relay = Relay::to(server.port());
    relay.delay(Duration::from_millis(50));
    let mut host =
        Host::on_store(&S::url_of(&[relay.port()], DATABASE)).set("store_connect_timeout", "300ms");
    host.start();
    eventually("ready", RESUMES_WITHIN, || host.raw().info().segments_ready.then_some(()));
    assert!(relay.accepted() > 1, "the first attempt took too long");
    create(&host, "orders", 100);
    assert_eq!(host.raw().draw("orders", 3).len(), 3);
}

fn a_silent_server_is_waited_for_no_longer_than_a_fail_over_allows<S: Server>() {
    let server = S::new();
    let relay = Relay::to(server.port());
    relay.swallow();
    let host = Host::on_store(&S::url_of(&[relay.port()], DATABASE));
    let mut host = host.set("store_connect_timeout", "400ms").set("failover_settle", "1s");
    host.start();
    eventually("an attempt of half the time", RESUMES_WITHIN, || {
        let error = store(&host)["error"].to_string();
        error.contains("no answer within 500ms").then_some(())
    });
}

fn ping(host: &Host, words: &[&str]) -> Option<i32> {
    host.leafctl(&[&["ping"], words].concat()).status.code()
}
