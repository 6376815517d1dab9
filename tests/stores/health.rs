//! What a daemon reports about its health while its store refuses claims, is unavailable, or has no worker for it: in
//! the status, by `leafctl ping --ready`, and in the log, once and not every second.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use leafd_tests::host::{Host, eventually};
use leafd_tests::raw::{Raw, ids_request};
use leafd_tests::servers::{Postgres, Server};
use leafd_wire::Status;
use serde_json::Value;

use crate::scene::{RESUMES_WITHIN, create};

/// The exit status of `leafctl ping` if something that must be ready is not.
const EXIT_NOT_READY: i32 = 4;

/// How long the log may take to contain what the status reports.
const TOLD_WITHIN: Duration = Duration::from_secs(60);

on_each_server!(
    faults_of_the_store,
    a_fresh_daemon_without_the_right_to_claim_is_not_ready,
    a_full_pool_of_workers,
);

fn faults_of_the_store<S: Server>() {
    let mut server = S::new();
    let mut host = Host::on_store(&server.url()).set("failover_settle", "1s").set("max_step", "30");
    host.start();
    create(&host, "orders", 10);
    let mut seen = HashSet::new();
    draw_some(&host, &mut seen);
    assert_well(&host);

    // The server answers, but refuses every claim.
    let refused = ["claims_failing", "store_refused"];
    may_update(&server, false);
    let before = host.log().len();
    in_trouble(&host, &mut seen, &refused, "privileges");
    may_update(&server, true);
    well_again(&host, &mut seen, &refused, before);

    server.sql("ALTER TABLE leaf_alloc RENAME TO leaf_gone");
    let before = host.log().len();
    in_trouble(&host, &mut seen, &refused, "schema apply");
    server.sql("ALTER TABLE leaf_gone RENAME TO leaf_alloc");
    well_again(&host, &mut seen, &refused, before);

    // Another program's trigger fails because something that it needs is missing. Claims change the row that it is on.
    for (lost, of_mysql) in [("INSERT INTO audit VALUES (1)", ""), ("lost()", "CALL ")] {
        let of_postgres = if of_mysql.is_empty() { "" } else { "PERFORM " };
        add_trigger(&server, &format!("{of_mysql}{lost}"), &format!("{of_postgres}{lost}"));
        refused_over_trigger(&server, &host, &mut seen, &refused, "trigger");
    }
    // Only in MySQL and MariaDB does a trigger run as a named user.
    for table in ["leaf_alloc", "leafd_tag"].into_iter().filter(|_| S::SCHEME == "mysql") {
        server.sql(&format!(
            "CREATE DEFINER = auditor@localhost TRIGGER audited BEFORE UPDATE ON {table} FOR EACH ROW SET @audited = 1"
        ));
        refused_over_trigger(
            &server,
            &host,
            &mut seen,
            &refused,
            "definer ('auditor'@'localhost')",
        );
    }

    let before = host.log().len();
    server.kill();
    in_trouble(&host, &mut seen, &["store_away"], "database is running");
    server.start();
    well_again(&host, &mut seen, &["store_away"], before);
    host.stop();

    // The store's history is now unknown, so the store gets a new one.
    server.sql("UPDATE leafd_meta SET value = 'lately' WHERE name = 'history'");
    let before = host.log().len();
    host.start();
    let first = host.raw().draw_until("orders", RESUMES_WITHIN);
    assert!(seen.insert(first), "id {first} came twice");
    eventually("it is told", TOLD_WITHIN, || {
        host.log()[before..].contains("its history has changed").then_some(())
    });
    host.stop();
}

/// Everything except claims works, and no id has been requested yet.
fn a_fresh_daemon_without_the_right_to_claim_is_not_ready<S: Server>() {
    let server = S::new();
    let mut host = Host::on_store(&server.url());
    host.start();
    create(&host, "orders", 1_000);
    let mut seen = HashSet::new();
    draw_some(&host, &mut seen);
    host.stop();
    may_update(&server, false);
    for table in ["leafd_meta", "leafd_tag", "leafd_host", "leafd_worker", "leafd_layout"] {
        server.sql(&format!("GRANT UPDATE ON {table} TO {}", user::<S>()));
    }

    let mut fresh = Host::on_store(&server.url());
    for _ in 0..2 {
        fresh.start();
        assert!(!fresh.raw().info().segments_ready);
        let ping = fresh.leafctl(&["ping", "--ready", "segments"]);
        assert_eq!(ping.status.code(), Some(EXIT_NOT_READY), "{ping:?}");
        let status = fresh.status();
        assert_eq!(status["segments"]["ready"], false, "{status}");
        let condition = eventually("the reason shows", RESUMES_WITHIN, || {
            let found = conditions(&fresh.status());
            found.into_iter().find(|condition| condition["code"] == "claims_failing")
        });
        assert!(condition["remedy"].as_str().unwrap().contains("privileges"), "{condition}");
        assert!(fresh.log().contains("not ready for every tag"), "{}", fresh.log());
        fresh.stop();
    }
    fresh.start();
    // A host that holds ids issues them.
    host.start();
    assert!(host.raw().info().segments_ready, "{}", host.status());
    draw_some(&host, &mut seen);

    may_update(&server, true);
    eventually("it is ready before anybody asks", RESUMES_WITHIN, || {
        fresh.raw().info().segments_ready.then_some(())
    });
    assert_eq!(fresh.status()["segments"]["claims"], 0);
    draw_some(&fresh, &mut seen);
    assert_well(&fresh);
}

/// Claims are refused because of the trigger until it is dropped. The log contains these words of the server.
fn refused_over_trigger<S: Server>(
    server: &S,
    host: &Host,
    seen: &mut HashSet<u64>,
    codes: &[&str],
    words: &str,
) {
    let before = host.log().len();
    in_trouble(host, seen, codes, "trigger");
    drop_trigger(server);
    well_again(host, seen, codes, before);
    let log = &host.log()[before..];
    assert!(log.contains("trigger") && log.contains(words), "{log}");
}

/// Grants or revokes the right to claim. Open sessions are ended, because MariaDB and MySQL check privileges when a
/// session begins.
fn may_update<S: Server>(server: &S, may: bool) {
    let on = if S::SCHEME == "mysql" { "`ids%`.*" } else { "leaf_alloc" };
    let whom = user::<S>();
    let statement = if may {
        format!("GRANT UPDATE ON {on} TO {whom}")
    } else {
        format!("REVOKE UPDATE ON {on} FROM {whom}")
    };
    server.sql(&statement);
    S::end_sessions(&mut server.connection().unwrap());
}

/// The daemons' user, in SQL.
fn user<S: Server>() -> &'static str {
    if S::SCHEME == "mysql" { "leafd@'%'" } else { "leafd" }
}

/// Adds a trigger to Leaf's table that executes this at each claim.
fn add_trigger<S: Server>(server: &S, of_mysql: &str, of_postgres: &str) {
    let on = "CREATE TRIGGER audited BEFORE UPDATE ON leaf_alloc FOR EACH ROW";
    if S::SCHEME == "mysql" {
        server.sql(&format!("{on} {of_mysql}"));
        return;
    }
    server.sql(&format!(
        "CREATE FUNCTION audited() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN {of_postgres}; RETURN NEW; END'"
    ));
    server.sql(&format!("{on} EXECUTE FUNCTION audited()"));
}

fn drop_trigger<S: Server>(server: &S) {
    if S::SCHEME == "mysql" {
        server.sql("DROP TRIGGER audited");
    } else {
        server.sql("DROP FUNCTION audited CASCADE");
    }
}

fn draw_some(host: &Host, seen: &mut HashSet<u64>) {
    for id in host.raw().draw("orders", 5) {
        assert!(seen.insert(id), "id {id} came twice");
    }
}

/// A rule replaces the claim's statement, and a trigger makes it change no row.
#[test]
fn a_rule_or_trigger_that_keeps_a_claim_from_its_row_is_named() {
    const TRIGGER: &str =
        "CREATE FUNCTION skip() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
        CREATE TRIGGER skips BEFORE UPDATE ON leaf_alloc FOR EACH ROW EXECUTE FUNCTION skip()";
    const RULE: &str = "CREATE RULE nothing AS ON UPDATE TO leaf_alloc DO INSTEAD NOTHING";
    let server = Postgres::new();
    let mut host = Host::on_store(&server.url()).set("max_step", "30");
    host.start();
    create(&host, "orders", 10);
    let mut seen = HashSet::new();
    let mut raw = host.raw();
    for (made, dropped, words) in [
        (RULE, "DROP RULE nothing ON leaf_alloc", "UPDATE RETURNING on relation"),
        (TRIGGER, "DROP TRIGGER skips ON leaf_alloc", "a rule or trigger prevents it"),
    ] {
        draw_some(&host, &mut seen);
        server.sql(made);
        draw_dry(&mut raw, &mut seen);
        let before = server.max_id("orders");
        eventually("the cause is reported", RESUMES_WITHIN, || {
            raw.send(&ids_request("orders", 1, 1, 3_000));
            let reply = raw.reply();
            assert_ne!(reply.status(), Status::Ok, "nothing can be claimed");
            reply.text().contains(words).then_some(())
        });
        assert_eq!(server.max_id("orders"), before);
        server.sql(dropped);
        assert!(seen.insert(raw.draw_until("orders", RESUMES_WITHIN)), "an id came twice");
    }
}

fn conditions(status: &Value) -> Vec<Value> {
    status["health"]["conditions"].as_array().unwrap().clone()
}

/// Draws all held ids. Returns the status of the refusal.
fn draw_dry(raw: &mut Raw, seen: &mut HashSet<u64>) -> Status {
    loop {
        raw.send(&ids_request("orders", 1, 1, 200));
        let reply = raw.reply();
        if reply.status() != Status::Ok {
            return reply.status();
        }
        for id in reply.ids() {
            assert!(seen.insert(id), "id {id} came twice");
        }
    }
}

fn in_trouble(host: &Host, seen: &mut HashSet<u64>, codes: &[&str], remedy: &str) {
    let mut raw = host.raw();
    draw_dry(&mut raw, seen);
    let begun = Instant::now();
    let condition = eventually("the fault shows", 2 * RESUMES_WITHIN, || {
        draw_dry(&mut raw, seen);
        let status = host.status();
        assert!(begun.elapsed() < RESUMES_WITHIN, "{codes:?} in {status:#}");
        let found = conditions(&status).into_iter().next()?;
        let is_meant = codes.contains(&found["code"].as_str().unwrap());
        (is_meant && found["severity"] == "error").then_some(found)
    });
    assert_eq!((&condition["kind"], &condition["remaining_ms"]), (&"segments".into(), &0.into()));
    assert!(condition["last_success_ms_ago"].is_u64(), "{condition}");
    let said = condition["remedy"].as_str().unwrap();
    assert!(said.contains(remedy), "{condition}");
    let status = host.status();
    assert_eq!(status["segments"]["ready"], false, "{status}");
    assert_eq!(status["health"]["state"], "error", "{status}");
    assert!(!raw.info().segments_ready);
    let ping = host.leafctl(&["ping", "--ready", "segments"]);
    assert_eq!(ping.status.code(), Some(EXIT_NOT_READY), "{ping:?}");
    let shown = String::from_utf8(host.leafctl(&["status"]).stdout).unwrap();
    assert!(shown.starts_with("DEGRADED: segment "), "{shown}");
    assert!(shown.contains(said), "{shown}");
    // The problem lasts, and ids are requested again and again.
    for _ in 0..10 {
        draw_dry(&mut raw, seen);
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// Checks that the problem is over, and that the log has reported each part of it once.
fn well_again(host: &Host, seen: &mut HashSet<u64>, codes: &[&str], from: usize) {
    let first = host.raw().draw_until("orders", RESUMES_WITHIN);
    assert!(seen.insert(first), "id {first} came twice");
    eventually("it shows", RESUMES_WITHIN, || conditions(&host.status()).is_empty().then_some(()));
    assert_well(host);
    draw_some(host, seen);
    let of_codes = || -> Vec<String> {
        let log = host.log().split_off(from);
        let told = |line: &&str| codes.iter().any(|code| line.contains(&format!("code={code:?}")));
        log.lines().filter(told).map(str::to_owned).collect()
    };
    let lines = eventually("its end is told", TOLD_WITHIN, || {
        let lines = of_codes();
        lines.iter().any(|line| line.contains("resolved after")).then_some(lines)
    });
    let errors = lines.iter().filter(|line| line.contains("ERROR")).count();
    assert!((1..=codes.len() + 1).contains(&errors), "{lines:#?}");
    assert!(lines.len() <= 4 * codes.len(), "begun, worse, over: {lines:#?}");
}

fn assert_well(host: &Host) {
    let status = host.status();
    assert_eq!(
        (&status["health"]["state"], &status["segments"]["ready"]),
        (&"ok".into(), &true.into()),
        "{status}"
    );
    assert_eq!(host.leafctl(&["ping", "--ready", "segments"]).status.code(), Some(0));
    let shown = String::from_utf8(host.leafctl(&["status"]).stdout).unwrap();
    assert!(shown.starts_with("OK: "), "{shown}");
}

/// A host that has not requested a snowflake id yet knows whether a worker is available.
fn a_full_pool_of_workers<S: Server>() {
    let mut server = S::new();
    let host = || Host::on_store(&server.url()).set("worker_range", "0..1").set("lease", "30s");
    let (mut first, mut second) = (host(), host());
    first.start();
    let mut ids: HashSet<u64> = first.raw().draw("snowflake", 10).into_iter().collect();
    second.start();
    let of_workers = |host: &Host, code: &str| {
        let found = conditions(&host.status());
        found.into_iter().find(|condition| condition["code"] == code)
    };
    let taken = eventually("the pool is seen to be full", RESUMES_WITHIN, || {
        of_workers(&second, "workers_taken")
    });
    assert_eq!((&taken["kind"], &taken["severity"]), (&"snowflake".into(), &"warning".into()));
    assert!(taken["remedy"].as_str().unwrap().contains("leafctl worker list"), "{taken}");
    assert!(!second.raw().info().snowflake_ready && second.raw().info().segments_ready);
    let ping = || second.leafctl(&["ping", "--ready", "snowflake"]);
    assert_eq!(ping().status.code(), Some(EXIT_NOT_READY));
    assert!(String::from_utf8(ping().stderr).unwrap().contains("worker"), "{:?}", ping());
    // Once the first host has released its worker, one is available.
    let released = first.leafctl(&["worker", "release"]);
    assert!(released.status.success(), "{released:?}");
    eventually("a worker could be had", TOLD_WITHIN, || {
        second.raw().info().snowflake_ready.then_some(())
    });
    assert_eq!(ping().status.code(), Some(0));
    let more = second.raw().draw("snowflake", 10);
    assert!(more.iter().all(|id| ids.insert(*id)), "none comes twice");
    // If the host starts while the database is unavailable, no worker is available.
    second.stop();
    server.kill();
    let mut third = Host::on_store(&server.url());
    third.start();
    assert!(!third.raw().info().snowflake_ready);
    eventually("why shows", RESUMES_WITHIN, || of_workers(&third, "registry_away"));
    server.start();
    eventually("it is back", TOLD_WITHIN, || third.raw().info().snowflake_ready.then_some(()));
}
