//! Snowflake workers of several hosts on one store: claimed, lost and kept, while clocks step and processes are
//! stopped.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use leafd_tests::host::{Host, eventually};
use leafd_tests::load::{Draw, Drawn, Load};
use leafd_tests::raw::ids_request;
use leafd_tests::relay::Relay;
use leafd_tests::servers::{DATABASE, Server};
use leafd_tests::wall_clock::{WallClock, ahead_ms};
use leafd_wire::{Layout, Status, opcode};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::scene::report;

on_each_server!(
    a_restart_has_its_worker_at_once_with_and_without_the_store,
    a_host_that_slept_past_its_lease_issues_nothing_below_its_heir,
    a_store_that_is_paused_for_longer_than_the_lease,
    a_clock_that_is_wrong_claims_nothing_and_burns_nothing,
    the_clock_of_the_registry_steps,
    a_worker_that_another_host_releases_is_free_once_its_lease_ends,
    permanent_workers_outlive_any_outage_and_an_identity_is_one_daemon_s,
    hosts_that_mean_different_things_are_refused,
    another_database_gives_no_worker_until_it_is_adopted,
    two_hosts_with_one_static_number_are_warned,
    a_fleet_moves_to_a_layout_with_more_workers,
);

const TAG: &str = "snowflake";

/// Within which a lease of some seconds is renewed or ends, also on a busy machine.
const RENEWED_WITHIN: Duration = Duration::from_secs(60);

/// How long the log may take to contain what the status reports, on a busy machine.
const LOGGED_WITHIN: Duration = Duration::from_secs(90);

/// A host with a lease of this length. It doesn't wait for fail-overs, because the server has none.
fn host<S: Server>(server: &S, lease: &str) -> Host {
    Host::on_store(&server.url())
        .set("lease", lease)
        .set("failover_settle", "0s")
        .set("store_connect_timeout", "1s")
        .set("store_statement_timeout", "1s")
}

fn worker_of(id: u64) -> u64 {
    Layout::LEAF.decompose(id).unwrap().worker
}

fn worker_error(host: &Host) -> String {
    host.status()["snowflake"]["worker_error"].as_str().unwrap_or_default().to_owned()
}

fn draws(hosts: &[Host]) -> Vec<Draw> {
    hosts.iter().map(|host| Draw::steady(&host.socket(), TAG)).collect()
}

/// The worker numbers that are held.
fn held(host: &Host) -> Vec<u64> {
    let list = host.admin(opcode::WORKER_LIST, &json!({}));
    let rows = list["workers"].as_array().unwrap().iter();
    rows.filter(|row| !row["holder"].is_null()).filter_map(|row| row["worker"].as_u64()).collect()
}

fn a_restart_has_its_worker_at_once_with_and_without_the_store<S: Server>() {
    let mut server = S::new();
    let mut host = host(&server, "10m");
    host.start();
    let mut ids = host.raw().draw(TAG, 10);
    let worker = worker_of(ids[0]);
    let mut drawn = Drawn::default();
    for (fault, clean, away) in [
        ("stopped and started", true, false),
        ("killed and started", false, false),
        ("stopped, started without the store", true, true),
        ("killed, started without the store", false, true),
    ] {
        host.renews_its_lease();
        if clean {
            host.stop()
        } else {
            host.kill()
        }
        if away {
            server.kill();
        }
        let (id, took) = host.first_id(TAG);
        assert_eq!(worker_of(id), worker, "{fault}");
        assert!(id > *ids.last().unwrap(), "{fault}");
        ids.push(id);
        report::<S>(&format!("worker: {fault}, exec to first id"), 1, &drawn, Some(took));
        if away {
            assert!(took < Duration::from_secs(5), "{took:?}");
            server.start();
            eventually("a renewal", Duration::from_secs(20), || {
                host.status()["snowflake"]["lease"]["renewed_ms_ago"].as_u64()
            });
        }
    }
    drawn.add_ids(TAG, &ids);
    drawn.assert_sound();
}

/// Three workers and four hosts: one host is stopped past its lease, and another one gets its worker meanwhile.
fn a_host_that_slept_past_its_lease_issues_nothing_below_its_heir<S: Server>() {
    let server = S::new();
    let few = |_| host(&server, "3s").set("worker_range", "0..3").set("restart_grace", "0s");
    let mut hosts: Vec<Host> = (0..3).map(few).collect();
    hosts.iter_mut().for_each(Host::start);
    let load = Load::start(draws(&hosts));
    load.under_way();
    let mut heir = few(3);
    heir.start();
    let mut raw = heir.raw();
    let refused = eventually("the registry's answer", Duration::from_secs(20), || {
        let said = raw.refused(&ids_request(TAG, 1, 1, 300), Status::NoWorker);
        said.contains("all 3 workers").then_some(said)
    });
    assert!(refused.contains("lease of 3 s"), "{refused}");
    hosts[0].signal(Signal::SIGSTOP);
    let taken = heir.raw().draw_until(TAG, Duration::from_secs(20));
    let heirs = Load::start(draws(std::slice::from_ref(&heir)));
    heirs.under_way();
    hosts[0].signal(Signal::SIGCONT);
    std::thread::sleep(Duration::from_secs(1));
    let sleeper = eventually("the sleeper knows", Duration::from_secs(10), || {
        Some(worker_error(&hosts[0])).filter(|error| error.contains("all 3 workers"))
    });
    assert!(sleeper.contains("are taken"), "{sleeper}");
    let mut drawn = heirs.stop();
    drawn.add_ids(TAG, &[taken]);
    heir.stop();
    load.each_draws(Duration::from_secs(20));
    let issued = load.issued();
    drawn.add(load.stop());
    report::<S>("worker: stopped past its lease (SIGSTOP), its worker taken", issued, &drawn, None);
    drawn.assert_sound();
    let others = |text: &String| !text.starts_with("NO_WORKER") && !text.starts_with("DEADLINE");
    assert!(
        !drawn
            .errors
            .keys()
            .any(|text| others(text) && !text.contains("timed out") && !text.contains("within")),
        "{:?}",
        drawn.errors
    );
}

fn a_store_that_is_paused_for_longer_than_the_lease<S: Server>() {
    let server = S::new();
    let mut hosts: Vec<Host> = (0..3).map(|_| host(&server, "4s")).collect();
    hosts.iter_mut().for_each(Host::start);
    let load = Load::start(draws(&hosts));
    load.under_way();
    assert_eq!(held(&hosts[0]).len(), 3);
    server.freeze();
    std::thread::sleep(Duration::from_secs(2));
    load.each_draws(Duration::from_secs(1));
    let ended = eventually("claims that run out", Duration::from_secs(20), || {
        Some(worker_error(&hosts[1])).filter(|_| hosts[1].raw().info().snowflake_ready.eq(&false))
    });
    assert!(ended.contains("unavailable"), "{ended}");
    let before = load.issued();
    server.thaw();
    let begun = std::time::Instant::now();
    load.each_draws(Duration::from_secs(15));
    let recovered = begun.elapsed();
    let drawn = load.stop();
    report::<S>("worker: store paused past the lease", before, &drawn, Some(recovered));
    drawn.assert_sound();
    assert_eq!(held(&hosts[0]).len(), 3, "each goes on as who it was");
}

fn a_clock_that_is_wrong_claims_nothing_and_burns_nothing<S: Server>() {
    let server = S::new();
    let (mut host, clock) = WallClock::of(host(&server, "1m"));
    // The clock is years ahead at the first start.
    clock.step(20 * 365 * 86_400);
    host.start();
    let text = host.raw().refused(&ids_request(TAG, 1, 1, 1_500), Status::NoWorker);
    assert!(text.contains("ahead of the worker registry's"), "{text}");
    clock.step(0);
    let mut ids = vec![host.raw().draw_until(TAG, Duration::from_secs(10))];
    let worker = worker_of(ids[0]);
    let draw = |host: &Host, ids: &mut Vec<u64>| {
        ids.push(host.raw().draw_until(TAG, Duration::from_secs(10)));
        assert!(ids.is_sorted() && worker_of(*ids.last().unwrap()) == worker);
    };
    // The clock steps forward while the daemon runs: ids continue at the right time.
    for seconds in [3_600, 20 * 365 * 86_400] {
        clock.step(seconds);
        for _ in 0..5 {
            std::thread::sleep(Duration::from_millis(500));
            draw(&host, &mut ids);
            let ahead = ahead_ms(*ids.last().unwrap());
            assert!(ahead.abs() < 2_000, "{ahead} ms ahead");
        }
        let lease = host.status()["snowflake"]["lease"].clone();
        assert!(lease["clock_error"].as_str().unwrap().contains("ahead of"), "{lease}");
        assert!(lease["clock_held_back_ms"].as_u64() > Some(3_000_000), "{lease}");
        clock.step(0);
        eventually("a clock that is right", Duration::from_secs(10), || agrees(&host));
        draw(&host, &mut ids);
    }
    // The clock steps back while the daemon runs.
    clock.step(-3_600);
    let text = eventually("a refusal", Duration::from_secs(10), || {
        let mut raw = host.raw();
        raw.send(&ids_request(TAG, 1, 1, 500));
        let reply = raw.reply();
        (reply.status() == Status::NoWorker).then(|| reply.text())
    });
    assert!(text.contains("behind the worker registry's"), "{text}");
    clock.step(0);
    eventually("a clock that is right", Duration::from_secs(10), || agrees(&host));
    draw(&host, &mut ids);
    // The clock is years ahead at a restart with a journal.
    host.kill();
    clock.step(20 * 365 * 86_400);
    host.start();
    host.raw().refused(&ids_request(TAG, 1, 1, 1_500), Status::NoWorker);
    clock.step(0);
    draw(&host, &mut ids);
    let ahead = ahead_ms(*ids.last().unwrap());
    assert!(ahead < 10_000, "{ahead} ms ahead");
    let mut drawn = Drawn::default();
    drawn.add_ids(TAG, &ids);
    drawn.assert_sound();
}

/// When the lease of a host ends, as the host's clock shows it.
fn lease_ends_ms(host: &Host) -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64;
    now + host.status()["snowflake"]["lease"]["left_ms"].as_u64().unwrap()
}

/// Waits until an id comes whose time lies beyond this.
#[track_caller]
fn draw_beyond(host: &Host, ms: u64) {
    let mut raw = host.raw();
    eventually("an id beyond the lease", RENEWED_WITHIN, || {
        let id = raw.draw_until(TAG, RENEWED_WITHIN);
        (Layout::LEAF.tick_start_ms(Layout::LEAF.decompose(id).unwrap().tick) > ms).then_some(())
    });
}

/// An hour ahead: leases are renewed, and nobody gets one who has none. An hour back: the registry refuses renewals, so
/// ids come until the lease ends, and again once the clock is right.
fn the_clock_of_the_registry_steps<S: Server>() {
    let mut server = S::new();
    server.stop();
    let clock = WallClock::of_server(server.process_mut());
    server.start();
    let mut hosts: Vec<Host> = (0..2).map(|_| host(&server, "5s")).collect();
    hosts.iter_mut().for_each(Host::start);
    let load = Load::start(draws(&hosts));
    load.under_way();
    let workers = held(&hosts[0]);
    let ends: Vec<u64> = hosts.iter().map(lease_ends_ms).collect();
    clock.step(3_600);
    hosts.iter().zip(ends).for_each(|(host, ends)| draw_beyond(host, ends));
    let mut newcomer = host(&server, "5s");
    newcomer.start();
    let refused = newcomer.raw().refused(&ids_request(TAG, 1, 1, 2_000), Status::NoWorker);
    assert!(refused.contains("behind the worker registry's"), "{refused}");
    newcomer.stop();
    clock.step(0);
    let ends: Vec<u64> = hosts.iter().map(lease_ends_ms).collect();
    hosts.iter().zip(ends).for_each(|(host, ends)| draw_beyond(host, ends));
    let errors = load.stop();
    assert!(errors.errors.is_empty(), "{:?}", errors.errors);

    let load = Load::start(draws(&hosts));
    load.under_way();
    let before = load.issued();
    clock.step(-3_600);
    for host in &hosts {
        eventually("the end of the lease, with its cause", RENEWED_WITHIN, || {
            let is_told = worker_error(host).contains("ahead of the worker registry's");
            (is_told && !host.raw().info().snowflake_ready).then_some(())
        });
    }
    clock.step(0);
    load.each_draws(RENEWED_WITHIN);
    let issued = load.issued() - before;
    let mut drawn = load.stop();
    drawn.add(errors);
    report::<S>("worker: registry's clock an hour ahead and back", issued, &drawn, None);
    drawn.assert_sound();
    assert_eq!(held(&hosts[0]), workers, "each goes on as who it was");
}

/// The only worker's host is cut off when an operator releases the worker on another host, which wants it.
fn a_worker_that_another_host_releases_is_free_once_its_lease_ends<S: Server>() {
    let server = S::new();
    let relay = Relay::to(server.port());
    let few = |host: Host| host.set("worker_range", "0..1");
    let mut first = few(host(&server, "10s"));
    first.change("store", &S::url_of(&[relay.port()], DATABASE));
    let mut second = few(host(&server, "10s"));
    first.start();
    second.start();
    let load = Load::start(draws(std::slice::from_ref(&first)));
    load.under_way();
    relay.swallow();
    let released = second.admin(opcode::WORKER_RELEASE, &json!({ "worker": 0 }));
    assert_eq!((&released["worker"], &released["own"]), (&json!(0), &json!(false)), "{released}");
    let until_ms = released["until_ms"].as_u64().unwrap();
    load.each_draws(RENEWED_WITHIN);
    let next = second.raw().draw_until(TAG, RENEWED_WITHIN);
    let mut drawn = load.stop();
    let layout = Layout::LEAF;
    let tick_of = |id: u64| layout.decompose(id).unwrap().tick;
    let last = *drawn.ids[TAG].last().unwrap();
    assert!(layout.tick_start_ms(tick_of(last) + 1) <= until_ms, "{last} is beyond {until_ms}");
    assert!(layout.tick_start_ms(tick_of(next)) >= until_ms, "{next} is before {until_ms}");
    drawn.add_ids(TAG, &[next]);
    report::<S>("worker: released on another host", drawn.count() as u64, &drawn, None);
    drawn.assert_sound();
    // The first one hears of it, and then waits for a worker like everybody.
    relay.pass();
    let told = eventually("the first one knows", RENEWED_WITHIN, || {
        Some(worker_error(&first)).filter(|error| error.contains("taken"))
    });
    assert!(told.contains("all 1 workers"), "{told}");
}

fn permanent_workers_outlive_any_outage_and_an_identity_is_one_daemon_s<S: Server>() {
    let mut server = S::new();
    let permanent = |identity: &str| {
        host(&server, "2s").set("worker_mode", "permanent").set("identity", identity)
    };
    let mut hosts = [permanent("10.0.0.1:8080"), permanent("10.0.0.2:8080")];
    let mut again = permanent("10.0.0.1:8080");
    hosts.iter_mut().for_each(Host::start);
    let mut drawn = Drawn::default();
    let mut workers = Vec::new();
    for host in &hosts {
        let ids = host.raw().draw(TAG, 10);
        workers.push(worker_of(ids[0]));
        drawn.add_ids(TAG, &ids);
    }
    assert_ne!(workers[0], workers[1]);
    // The fleet shows each number with the host that has this identity and journal.
    for (own, host) in hosts.iter().enumerate() {
        let fleet = host.admin(opcode::FLEET, &json!({}));
        let rows = fleet["hosts"].as_array().unwrap();
        assert_eq!(rows.len(), 2, "{fleet}");
        for row in rows {
            let of = if row["own"] == true { own } else { 1 - own };
            assert_eq!(row["name"], format!("10.0.0.{}:8080", of + 1), "{fleet}");
            assert_eq!(row["lease"]["worker"], workers[of], "{fleet}");
        }
        let shown = String::from_utf8(host.leafctl(&["fleet"]).stdout).unwrap();
        assert_eq!(shown.matches("\nactive").count(), 2, "{shown}");
    }
    again.start();
    let text = again.raw().refused(&ids_request(TAG, 1, 1, 1_500), Status::NoWorker);
    assert!(text.contains("another live daemon has the identity \"10.0.0.1:8080\""), "{text}");
    server.kill();
    std::thread::sleep(Duration::from_secs(3));
    drawn.add_ids(TAG, &hosts[1].raw().draw(TAG, 10));
    hosts[0].kill();
    let (id, took) = hosts[0].first_id(TAG);
    assert_eq!(worker_of(id), workers[0]);
    drawn.add_ids(TAG, &[id]);
    let fault = "permanent worker: killed, started without the store, exec to first id";
    report::<S>(fault, 1, &drawn, Some(took));
    hosts[0].stop();
    server.start();
    // The first host has stopped for good, so the other one may use the identity.
    let id = again.raw().draw_until(TAG, Duration::from_secs(40));
    drawn.add_ids(TAG, &[id]);
    drawn.assert_sound();
}

fn hosts_that_mean_different_things_are_refused<S: Server>() {
    let server = S::new();
    let layout = |bits: u8| {
        format!(
            r#"{{mini = {{time_bits = 41, worker_bits = {bits}, sequence_bits = 10, epoch = "2025-01-01T00:00:00Z"}}}}"#
        )
    };
    let mut first = host(&server, "1m").set("layouts", &layout(5));
    let mut second = host(&server, "1m").set("layouts", &layout(6));
    first.start();
    second.start();
    assert!(
        worker_of(first.raw().draw(TAG, 1)[0]) < 32,
        "the smallest worker field bounds the pool"
    );
    let text = second.raw().refused(&ids_request(TAG, 1, 1, 1_500), Status::NoWorker);
    assert!(text.contains("\"mini\"") && text.contains("worker_bits=5"), "{text}");
}

fn another_database_gives_no_worker_until_it_is_adopted<S: Server>() {
    let (server, other) = (S::new(), S::new());
    let relay = Relay::to(server.port());
    let mut host = host(&server, "4s");
    host.change("store", &S::url_of(&[relay.port()], DATABASE));
    host.start();
    let mut ids = host.raw().draw(TAG, 10);
    relay.lead_to(other.port());
    let told = eventually("the other database is seen", Duration::from_secs(10), || {
        Some(worker_error(&host)).filter(|error| error.contains("is not the database that"))
    });
    assert!(told.contains("adopt-store"), "{told}");
    eventually("the end of the claim", Duration::from_secs(10), || {
        (!host.raw().info().snowflake_ready).then_some(())
    });
    host.raw().refused(&ids_request(TAG, 1, 1, 300), Status::NoWorker);
    host.stop();
    let (code, said) = host.run("adopt-store");
    assert_eq!(code, Some(0), "{said}");
    ids.push(host.first_id(TAG).0);
    assert!(ids.is_sorted(), "{ids:?}");
    assert_eq!(held(&host).len(), 1, "in the other database");
}

fn agrees(host: &Host) -> Option<()> {
    let lease: Value = host.status()["snowflake"]["lease"].clone();
    (lease["clock_error"].is_null() && lease["clock_held_back_ms"] == 0).then_some(())
}

/// The operator has assigned one number to two hosts, and the store that they share tells both. A restart doesn't count
/// as a second host.
fn two_hosts_with_one_static_number_are_warned<S: Server>() {
    let server = S::new();
    let mut hosts = ["a", "b"]
        .map(|name| Host::on_store(&server.url()).set("worker", "static:17").set("identity", name));
    let shared = |host: &Host| {
        let status = host.status();
        let conditions = status["health"]["conditions"].as_array().cloned().unwrap();
        conditions.into_iter().find(|one| one["code"] == "worker_shared")
    };
    let noted = || server.sql("SELECT value FROM leafd_meta WHERE name = 'static_worker_17'");
    hosts[0].start();
    eventually("it is noted", Duration::from_secs(30), || (!noted().is_empty()).then_some(()));
    hosts[0].kill();
    // Another start records the number twice, and no other daemon uses it.
    let before = noted();
    hosts[0].start();
    for turn in 0..2 {
        let former = if turn == 0 { before.clone() } else { noted() };
        eventually("it is noted anew", Duration::from_secs(30), || {
            (noted() != former).then_some(())
        });
    }
    assert_eq!(shared(&hosts[0]), None);
    hosts[1].start();
    for (host, other) in [(&hosts[0], "b"), (&hosts[1], "a")] {
        let told = eventually("it is told", Duration::from_secs(90), || shared(host));
        assert_eq!([&told["severity"], &told["kind"]], ["warning", "snowflake"]);
        let message = told["message"].as_str().unwrap();
        assert!(
            message.contains("worker 17")
                && message.ends_with(&format!("{other}; both may issue the same snowflake ids")),
            "{message}"
        );
        assert!(host.raw().info().snowflake_ready);
        eventually("it is logged", LOGGED_WITHIN, || {
            host.log().contains("another host uses worker 17 too").then_some(())
        });
        // The doctor says the same, as a warning, and what to do.
        let output = host.command(Some("doctor")).arg("--json").output().unwrap();
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        let findings = report["findings"].as_array().unwrap();
        let shown = findings
            .iter()
            .find(|one| one["text"].as_str().is_some_and(|text| text.starts_with(message)));
        let shown = shown.unwrap_or_else(|| panic!("{message} is not among {findings:#?}"));
        assert_eq!([&shown["subject"], &shown["verdict"]], ["health", "warning"]);
        assert_eq!(shown["remedy"], told["remedy"]);
        assert!(shown["remedy"].as_str().is_some_and(|remedy| !remedy.is_empty()));
    }
}

/// The steps in docs/operate/fleet.md, with its layout.
fn a_fleet_moves_to_a_layout_with_more_workers<S: Server>() {
    const WIDE: &str = r#"wide = {time_bits = 39, worker_bits = 14, sequence_bits = 10, epoch = "2022-01-01T00:00:00Z"}"#;
    let server = S::new();
    let mut hosts = [host(&server, "10m"), host(&server, "10m")];
    hosts.iter_mut().for_each(Host::start);
    let mut drawn = Drawn::default();
    let draw = |host: &Host, tag: &str| {
        let id = host.raw().draw_until(tag, Duration::from_secs(20));
        [id].into_iter().chain(host.raw().draw(tag, 5_000)).collect::<Vec<u64>>()
    };
    let (mut highest, mut lowest) = (0, u64::MAX);
    for host in &mut hosts {
        highest = draw(host, TAG).into_iter().fold(highest, u64::max);
        host.stop();
        host.change("layouts", &format!("{{{WIDE}}}"));
        host.start();
        highest = draw(host, TAG).into_iter().fold(highest, u64::max);
        let ids = draw(host, "wide");
        lowest = ids.iter().copied().fold(lowest, u64::min);
        drawn.add_ids(TAG, &ids);
    }
    for host in &mut hosts {
        host.stop();
        host.change("layouts", &format!("{{snowflake = false, {WIDE}}}"));
        host.start();
        drawn.add_ids(TAG, &draw(host, "wide"));
        host.raw().refused(&ids_request(TAG, 1, 1, 1_000), Status::TagUnknown);
    }
    let mut beyond = host(&server, "10m").set("layouts", &format!("{{snowflake = false, {WIDE}}}"));
    beyond.change("worker_range", "1024..16384");
    beyond.start();
    drawn.add_ids(TAG, &draw(&beyond, "wide"));
    // Any free number of the pool may be leased.
    let worker = beyond.status()["snowflake"]["worker"].as_u64().expect("a worker");
    assert!((1_024..16_384).contains(&worker), "{worker}");
    assert!(highest < lowest, "{highest} of the first layout, {lowest} of the second");
    drawn.backwards.clear();
    drawn.assert_sound();
    // The hosts of the fleet, according to a host whose range covers all numbers.
    let asked = &hosts[0];
    let fleet = asked.admin(opcode::FLEET, &json!({}));
    let rows = fleet["hosts"].as_array().unwrap();
    let workers: Vec<u64> = rows.iter().filter_map(|row| row["lease"]["worker"].as_u64()).collect();
    assert!(workers.len() == 3 && workers.contains(&worker), "{fleet}");
    assert!(fleet["next"].is_null() && fleet["registry_error"].is_null(), "{fleet}");
    assert_eq!(rows.iter().filter(|row| row["own"] == true).count(), 1, "{fleet}");
    let first = asked.admin(opcode::FLEET, &json!({"limit": 2}));
    let rest = asked.admin(opcode::FLEET, &json!({"limit": 2, "after": first["next"]}));
    let count = |page: &Value| page["hosts"].as_array().unwrap().len();
    assert_eq!((count(&first), count(&rest)), (2, 1), "{first} {rest}");
    asked.create("orders");
    asked.raw().draw("orders", 1);
    let output = asked.leafctl(&["fleet"]);
    let shown = String::from_utf8(output.stdout).unwrap();
    assert_eq!(shown.matches("active").count(), 3, "{shown}");
    assert!(shown.lines().any(|line| line.ends_with("(this host)")), "{shown}");
    let fleet = asked.admin(opcode::FLEET, &json!({}));
    let mut rows = fleet["hosts"].as_array().unwrap().iter();
    let own = rows.find(|row| row["own"] == true).expect("this host");
    assert!(own["claimed_ms_ago"].is_u64() && own["name"].is_string(), "{own}");
    let server = beyond.status()["segments"]["stores"][0]["server"].clone();
    assert!(server.as_str().is_some_and(|server| server.starts_with("127.0.0.1:")), "{server}");
}
