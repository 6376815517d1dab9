//! Daemons whose workers come from ZooKeeper, under load.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use leafd_tests::host::{Host, eventually};
use leafd_tests::load::{Draw, Drawn, Load};
use leafd_tests::raw::ids_request;
use leafd_tests::servers::zookeeper::ZooKeeper;
use leafd_wire::{Layout, Status, opcode};
use serde_json::json;

use crate::scene::{FOREVER, Raw, SERVICE};

const TAG: &str = "snowflake";

fn host(server: &ZooKeeper) -> Host {
    Host::new()
        .set("worker", "zookeeper")
        .set("zookeeper", &server.address())
        .set("failover_settle", "0s")
        .set("store_connect_timeout", "1s")
        .set("store_statement_timeout", "1s")
}

fn worker_of(id: u64) -> u64 {
    Layout::LEAF.decompose(id).unwrap().worker
}

fn report(fault: &str, issued: u64, drawn: &Drawn, recovered: Duration) {
    let (errors, twice) = (&drawn.errors, drawn.duplicates());
    println!("| ZooKeeper | worker: {fault} | {issued} | {errors:?} | {twice} | {recovered:.2?} |");
}

/// The nodes record only current holders.
#[test]
fn who_issued_an_id_is_told_as_far_as_the_nodes_remember() {
    let server = ZooKeeper::new();
    let mut host = host(&server);
    let (id, _) = host.first_id(TAG);
    let answer = host.admin(opcode::WHOSE, &json!({ "tag": TAG, "id": id }));
    assert_eq!(
        (&answer["verdict"], &answer["own"], &answer["worker"]),
        (&json!("no_history"), &json!(true), &json!(worker_of(id)))
    );
    assert_eq!(answer["processes"][0]["pid"], std::process::id(), "{answer}");
    let said = |id: u64| {
        let output = host.leafctl(&["whose", &id.to_string()]);
        String::from_utf8(output.stdout).unwrap()
    };
    let words = said(id);
    assert!(
        words.contains("this host) holds now") && words.contains("record former holders"),
        "{words}"
    );
    // This worker has no holder.
    let words = said(id ^ (1 << 21));
    assert!(words.contains("which no host holds now; ZooKeeper doesn't record former"), "{words}");
}

#[test]
fn daemons_lease_workers_and_go_on_without_the_server_for_as_long_as_their_claims() {
    let mut server = ZooKeeper::new();
    let mut hosts: Vec<Host> = (0..3).map(|_| host(&server).set("lease", "6s")).collect();
    hosts.iter_mut().for_each(Host::start);
    let load = Load::start(hosts.iter().map(|host| Draw::steady(&host.socket(), TAG)).collect());
    load.under_way();
    let list = hosts[0].admin(opcode::WORKER_LIST, &json!({}));
    assert_eq!(list["workers"].as_array().unwrap().len(), 3, "{list}");
    let worker = hosts[0].status()["snowflake"]["worker"].as_u64().unwrap();
    server.process.kill();
    hosts[0].kill();
    let (id, took) = hosts[0].first_id(TAG);
    assert_eq!(worker_of(id), worker, "from its journal");
    load.each_draws(Duration::from_secs(3));
    eventually("claims that run out", Duration::from_secs(20), || {
        (!hosts[1].raw().info().snowflake_ready).then_some(())
    });
    let issued = load.issued();
    server.start();
    let begun = Instant::now();
    load.each_draws(Duration::from_secs(30));
    let recovered = begun.elapsed();
    let mut drawn = load.stop();
    drawn.add_ids(TAG, &[id]);
    report("killed daemon restarted without the server, exec to first id", 1, &drawn, took);
    report("server away for longer than the lease", issued, &drawn, recovered);
    drawn.assert_sound();
}

#[test]
fn a_permanent_worker_is_on_leaf_s_nodes_and_outlives_the_server() {
    let mut server = ZooKeeper::new();
    let mut host = host(&server)
        .set("worker_mode", "permanent")
        .set("leaf_name", SERVICE)
        .set("identity", "10.0.0.1:8080");
    host.start();
    let mut ids = host.raw().draw(TAG, 10);
    let worker = worker_of(ids[0]);
    {
        let raw = Raw::connect(&server.address());
        let node = format!("{FOREVER}/10.0.0.1:8080-{worker:010}");
        assert!(raw.exists(&node), "{node}");
    }
    server.process.kill();
    ids.extend(host.raw().draw(TAG, 10));
    host.kill();
    let (id, took) = host.first_id(TAG);
    ids.push(id);
    assert!(ids.is_sorted() && worker_of(id) == worker);
    host.stop();
    server.start();
    let (id, _) = host.first_id(TAG);
    ids.push(id);
    let mut drawn = Drawn::default();
    drawn.add_ids(TAG, &ids);
    assert!(ids.is_sorted() && worker_of(id) == worker);
    drawn.assert_sound();
    report("permanent: killed daemon restarted without the server", 1, &drawn, took);
}

/// A Java Leaf that starts with the `ip:port` of a live leafd writes its node without checking who owns it.
#[test]
fn a_java_leaf_that_writes_the_node_of_a_live_leafd_stops_it_and_is_named() {
    let server = ZooKeeper::new();
    let raw = Raw::connect(&server.address());
    // Its number is not the first one, so that the test would notice a daemon that switched to another number.
    raw.create_all(FOREVER);
    raw.create_counted(&format!("{FOREVER}/10.0.0.9:8080-"), b"{}");
    let mut host = host(&server)
        .set("worker_mode", "permanent")
        .set("leaf_name", SERVICE)
        .set("identity", "10.0.0.1:8080");
    host.start();
    let mut ids = host.raw().draw(TAG, 10);
    let worker = worker_of(ids[0]);
    assert_eq!(worker, 1);
    let node = format!("{FOREVER}/10.0.0.1:8080-{worker:010}");
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
    let java = |ms: u128| format!(r#"{{"ip":"10.0.0.1","port":"8080","timestamp":{ms}}}"#);
    let begun = Instant::now();
    raw.set(&node, java(now()).as_bytes());
    eventually("it stops", Duration::from_secs(20), || {
        (!host.raw().info().snowflake_ready).then_some(())
    });
    println!("a foreign write was noticed after {:.2?}", begun.elapsed());
    // As long as the Leaf writes, no ids are available.
    for _ in 0..2 {
        raw.set(&node, java(now()).as_bytes());
        let words = host.raw().refused(&ids_request(TAG, 1, 1, 100), Status::NoWorker);
        assert!(words.contains("Java Leaf") || words.contains("not answered"), "{words}");
        std::thread::sleep(Duration::from_secs(3));
    }
    let words = host.raw().refused(&ids_request(TAG, 1, 1, 100), Status::NoWorker);
    assert!(words.contains("a Java Leaf has the identity \"10.0.0.1:8080\""), "{words}");
    let last = now();
    raw.set(&node, java(last).as_bytes());
    assert!(host.log().contains("a Java Leaf has the identity"), "{}", host.log());
    // Once the Leaf has ended, leafd takes over, above everything that the Leaf may have issued.
    let id = eventually("it is leafd's again", Duration::from_secs(30), || {
        host.raw().info().snowflake_ready.then(|| host.raw().draw(TAG, 1)[0])
    });
    let parts = Layout::LEAF.decompose(id).unwrap();
    assert_eq!(parts.worker, worker);
    assert!(u128::from(Layout::LEAF.tick_start_ms(parts.tick)) >= last + 10_000, "{id}");
    ids.push(id);
    assert!(ids.is_sorted(), "{ids:?}");
    let mut drawn = Drawn::default();
    drawn.add_ids(TAG, &ids);
    drawn.assert_sound();
}

#[test]
fn a_registry_that_was_replaced_is_accepted_by_a_start_without_a_worker() {
    let server = ZooKeeper::new();
    let mut host = host(&server);
    host.start();
    let mut ids = host.raw().draw(TAG, 10);
    host.kill();
    let raw = Raw::connect(&server.address());
    for worker in raw.children("/leafd/workers") {
        raw.delete(&format!("/leafd/workers/{worker}"));
    }
    for layout in raw.children("/leafd/layouts") {
        raw.delete(&format!("/leafd/layouts/{layout}"));
    }
    for node in ["workers", "registry", "clock", "layouts"] {
        raw.delete(&format!("/leafd/{node}"));
    }
    raw.delete("/leafd");
    host.start();
    let error = eventually("it is told", Duration::from_secs(10), || {
        let status = host.status();
        let conditions = status["health"]["conditions"].as_array()?;
        let remedy = conditions.iter().find_map(|one| one["remedy"].as_str());
        remedy.filter(|remedy| remedy.contains("--worker none")).map(str::to_owned)
    });
    println!("{error}");
    host.stop();
    host.change("worker", "none");
    host.start();
    host.raw().refused(&ids_request(TAG, 1, 1, 100), Status::NoWorker);
    host.stop();
    host.change("worker", "zookeeper");
    host.start();
    ids.extend(host.raw().draw(TAG, 10));
    assert!(ids.is_sorted(), "{ids:?}");
    let mut drawn = Drawn::default();
    drawn.add_ids(TAG, &ids);
    drawn.assert_sound();
}
