//! Operators' mistakes: too few workers, one identity twice, layouts and ranges that differ. Each is refused with an
//! explanation, and harms no other host.

use std::time::{Duration, Instant};

use leafd_tests::servers::{Postgres, Server};

use crate::fleet::{Fleet, RESUMES_WITHIN, held, id_of, only, refusal, worker_of};
use crate::registry::{Backend, Registry};

on_each_registry!(all_workers_taken, one_identity_twice, layouts_that_differ);

fn all_workers_taken<B: Backend>() {
    let settings = [("worker_range", "4..6"), ("restart_grace", "0s")];
    let mut fleet = Fleet::<B>::new(Registry::shared(), 5, "5s", &settings);
    let errors = fleet.under_load("5 hosts on 2 workers; a holder is killed", 2, |fleet, load| {
        // A host that never draws holds no worker.
        assert_eq!(held(&fleet.hosts[4]).len(), 2);
        let told = refusal(&fleet.hosts[2], RESUMES_WITHIN);
        for part in [
            "all 2 workers of the pool 4..6 are taken: 2 by live hosts",
            "(crashes per second x lease of 5 s)",
            "longest silent:",
            "(worker 4, ",
            "(worker 5, ",
        ] {
            assert!(told.contains(part), "{part:?} in {told}");
        }
        // A killed host's worker becomes free when its lease has expired, not before.
        let last = id_of(&fleet.hosts[0]);
        let begun = Instant::now();
        fleet.hosts[0].kill();
        let id = id_of(&fleet.hosts[2]);
        let took = begun.elapsed();
        assert!(worker_of(id) == worker_of(last) && id > last);
        assert!(took > Duration::from_secs(2), "{took:?} of a lease of 5 s");
        fleet.add(&[last, id]);
        // After a clean stop, it is free immediately.
        fleet.hosts[2].stop();
        let begun = Instant::now();
        let next = id_of(&fleet.hosts[3]);
        let after_stop = begun.elapsed();
        assert!(worker_of(next) == worker_of(id) && next > id);
        assert!(after_stop < took + Duration::from_secs(3), "{after_stop:?}");
        fleet.add(&[next]);
        fleet.hosts[3].stop();
        fleet.hosts[0].start();
        Some(crate::fleet::recovery(load))
    });
    only(&errors, &["NO_WORKER", "DEADLINE", "no connection", "disconnected"]);
    fleet.finish();
}

/// With leases and a configured identity, the second daemon refuses while the first one is alive.
fn one_identity_twice<B: Backend>() {
    let mut fleet = Fleet::<B>::new(Registry::shared(), 3, "30s", &[("identity", "h0")]);
    fleet.hosts.truncate(1);
    let mut ids = Vec::new();
    for (fault, clean) in [
        ("one identity twice; the first is stopped", true),
        ("one identity twice; the first is killed", false),
    ] {
        let mut second = fleet.registry.host("30s").set("identity", "h0");
        let errors = fleet.under_load(fault, 1, |fleet, _| {
            second.start();
            let told = refusal(&second, RESUMES_WITHIN);
            assert!(told.contains("another live daemon has the identity \"h0\""), "{told}");
            assert!(told.contains("give each daemon its own identity"), "{told}");
            if clean {
                fleet.hosts[0].stop();
            } else {
                fleet.hosts[0].kill();
            }
            let begun = Instant::now();
            ids.push(id_of(&second));
            Some(begun.elapsed())
        });
        only(&errors, &["no connection", "disconnected", "DEADLINE"]);
        fleet.hosts[0] = second;
    }
    fleet.drawn.add_ids("snowflake", &ids);
    fleet.finish();
}

fn layouts_that_differ<B: Backend>() {
    let layout = |bits: u8| {
        format!(
            r#"{{mini = {{time_bits = 41, worker_bits = {bits}, sequence_bits = 10, epoch = "2025-01-01T00:00:00Z"}}}}"#
        )
    };
    let mut fleet = Fleet::<B>::new(Registry::shared(), 3, "1m", &[("layouts", &layout(5))]);
    let errors = fleet.under_load("a host whose layout differs", 3, |fleet, load| {
        let mut other = fleet.registry.host("1m").set("layouts", &layout(6));
        other.start();
        let told = refusal(&other, RESUMES_WITHIN);
        assert!(told.contains("\"mini\"") && told.contains("worker_bits=5"), "{told}");
        assert!(told.contains("worker_bits=6"), "{told}");
        assert_eq!(held(&fleet.hosts[0]).len(), 3, "it holds none");
        load.each_draws(Duration::from_secs(2));
        None
    });
    only(&errors, &[]);
    fleet.finish();
}

/// A host knows two registries that would both lease it the same numbers.
#[test]
fn ranges_that_overlap() {
    let server = Postgres::empty(&[]);
    let mut urls = Vec::new();
    for place in ["ids_east", "ids_west"] {
        server.create_database(place);
        let url = Postgres::url_of(&[server.port()], place);
        leafd_tests::servers::apply_schema(&url);
        urls.push(url);
    }
    let host = |worker: &str, range: &str| {
        let stores = format!(r#"{{east = "{}", west = "{}"}}"#, urls[0], urls[1]);
        let routes = r#"[{tags = ["*"], hash = ["east", "west"]}]"#;
        let host = leafd_tests::host::Host::on_store("");
        let mut host = host
            .variable("LEAFD_STORE_PASSWORD_EAST", leafd_tests::servers::PASSWORD)
            .variable("LEAFD_STORE_PASSWORD_WEST", leafd_tests::servers::PASSWORD);
        host.unset("store");
        host.unset_variable("LEAFD_STORE_PASSWORD");
        host.set("stores", &stores)
            .set("routes", routes)
            .set("worker", worker)
            .set("worker_range", range)
            .set("lease", "1m")
    };
    let mut east = host("store:east", "0..4");
    let mut west = host("store:west", "2..6");
    let mut right = host("store:west", "4..8");
    east.start();
    // Starts hosts until one has a number that both registries may lease.
    let mut ids = Vec::new();
    let mut more = Vec::new();
    while !ids.iter().any(|id| worker_of(*id) >= 2) {
        let mut another = host("store:east", "0..4");
        another.start();
        ids.push(id_of(&another));
        more.push(another);
    }
    west.start();
    let told = refusal(&west, RESUMES_WITHIN);
    assert!(told.contains("the store east can lease worker"), "{told}");
    assert!(told.contains("worker_range is 2..6"), "{told}");
    right.start();
    let id = id_of(&right);
    assert!((4..8).contains(&worker_of(id)));
    ids.push(id);
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), more.len() + 1);
}
