//! Permanent numbers, beside Java Leafs: on Leaf's nodes in ZooKeeper, and in its fork's table elsewhere.

use std::time::Duration;

use crate::fleet::{Fleet, id_of, only, served, worker_of};
use crate::registry::{Backend, Registry};

on_each_registry!(permanent_workers_beside_java_leafs);

fn permanent_workers_beside_java_leafs<B: Backend>() {
    let mut fleet = Fleet::<B>::new(Registry::shared(), 0, "1m", &[]);
    let mut taken = Vec::new();
    for number in 0..3 {
        let identity = format!("10.0.0.{number}:8080");
        let mut host = fleet.registry.permanent_host(&identity);
        host.start();
        taken.push(worker_of(id_of(&host)));
        fleet.hosts.push(host);
        taken.push(fleet.registry.enter_leaf(&format!("10.0.1.{number}:8080")));
    }
    let mut different = taken.clone();
    different.sort_unstable();
    different.dedup();
    assert_eq!(different.len(), 6, "each its own: {taken:?}");

    let fault = "permanent: killed, started without the registry, Java Leafs beside";
    let errors = fleet.under_load(fault, 2, |fleet, load| {
        let before = id_of(&fleet.hosts[2]);
        fleet.registry.relay.refuse();
        served(load, Duration::from_secs(6));
        fleet.hosts[2].kill();
        let (id, took) = fleet.hosts[2].first_id("snowflake");
        assert!(worker_of(id) == taken[4] && id > before);
        fleet.add(&[before, id]);
        fleet.hosts[2].stop();
        let (id, _) = fleet.hosts[2].first_id("snowflake");
        assert_eq!(worker_of(id), taken[4]);
        fleet.add(&[id]);
        served(load, Duration::from_secs(1));
        fleet.registry.relay.pass();
        Some(took)
    });
    only(&errors, &[]);
    // Hosts that start now get other numbers again.
    taken.push(fleet.registry.enter_leaf("10.0.1.9:8080"));
    let mut host = fleet.registry.permanent_host("10.0.0.9:8080");
    host.start();
    let id = id_of(&host);
    assert!(!taken.contains(&worker_of(id)), "{} of {taken:?}", worker_of(id));
    fleet.add(&[id]);
    fleet.finish();
}
