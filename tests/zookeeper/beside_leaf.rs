//! A Leaf and two daemons on Leaf's nodes: each has its own worker across all restarts, and no id is issued twice.

use std::time::Duration;

use leafd_tests::host::{Host, eventually};
use leafd_tests::leaf::SnowflakeLeaf;
use leafd_tests::load::{Draw, Load};
use leafd_tests::servers::zookeeper::ZooKeeper;

use crate::scene::SERVICE;

const TAG: &str = "snowflake";

/// Longer than a Leaf takes between two writes of its time.
const A_WHILE: Duration = Duration::from_secs(4);

#[test]
fn a_leaf_keeps_its_worker_beside_daemons() {
    let server = ZooKeeper::new();
    let place = crate::scene::Place::on(&server.address());
    let leaf = |address| SnowflakeLeaf::start(&place.address, SERVICE, address);
    let host = |identity| {
        Host::new()
            .set("worker", "zookeeper")
            .set("zookeeper", &place.address)
            .set("worker_mode", "permanent")
            .set("leaf_name", SERVICE)
            .set("identity", identity)
    };
    let first = leaf("10.0.0.1:8080");
    let mut hosts = [host("10.0.0.2:8080"), host("10.0.0.3:8080")];
    hosts.iter_mut().for_each(Host::start);
    let load = Load::start(hosts.iter().map(|host| Draw::steady(&host.socket(), TAG)).collect());
    load.under_way();
    let second = leaf("10.0.0.4:8080");
    std::thread::sleep(A_WHILE);
    hosts[0].kill();
    let worker = first.worker;
    let mut of_leafs = first.stop();
    let first = leaf("10.0.0.1:8080");
    assert_eq!(first.worker, worker, "it finds its node again");
    hosts[0].start();
    load.each_draws(A_WHILE * 5);
    eventually("the Leaf issues", A_WHILE, || (first.issued() > 100).then_some(()));
    std::thread::sleep(A_WHILE);
    let mut drawn = load.stop();
    for leaf in [first, second] {
        of_leafs.extend(leaf.stop());
    }
    println!("{} ids of daemons, {} of Leafs'", drawn.count(), of_leafs.len());
    let of_a_kill = |text: &&String| {
        ["no connection", "disconnected"].iter().any(|part| text.starts_with(part))
            || text.contains("no answer")
    };
    let others: Vec<&String> = drawn.errors.keys().filter(|text| !of_a_kill(text)).collect();
    assert!(others.is_empty(), "{others:?}");
    drawn.add_ids(TAG, &of_leafs);
    drawn.assert_sound();
}
