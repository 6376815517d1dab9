//! An ensemble of three ZooKeeper servers that gives hosts their workers, leased or permanent.

use std::time::Duration;

use leafd_tests::host::Host;
use leafd_tests::servers::zookeeper::ZooKeeper;
use zookeeper_client::{Acls, Client, CreateMode};

use crate::course::{Course, Promised, REGISTRY};

/// How soon ids are promised to return once the ensemble serves, if a lease has expired.
const BACK_WITHIN: Duration = Duration::from_secs(5);

/// A lease that doesn't outlast the outage, and a longer outage.
const SHORT_LEASE: Duration = Duration::from_secs(8);
const LONGER: Duration = Duration::from_secs(14);

/// How long a fault lasts from which the ensemble recovers on its own.
const LASTS: Duration = Duration::from_secs(4);

/// How many times a server is killed or stopped, one after the other.
const FAULTS: usize = 28;

/// The Leaf service whose nodes give permanent workers.
const SERVICE: &str = "acme";

#[test]
fn workers_for_a_time() {
    through_everything("ZooKeeper, leased workers", |host, _| host);
}

#[test]
fn workers_for_good() {
    through_everything("ZooKeeper, permanent workers", |host, number| {
        host.set("worker_mode", "permanent")
            .set("leaf_name", SERVICE)
            .set("identity", &format!("10.0.0.{number}:8080"))
    });
}

#[test]
fn workers_for_a_shorter_time_than_the_outage() {
    let title = format!("ZooKeeper, workers leased for {SHORT_LEASE:?}");
    let (mut course, mut servers) =
        begin(&title, |host, _| host.set("lease", &format!("{SHORT_LEASE:?}")));
    lose_the_quorum(&mut course, &mut servers, Promised::Nothing);
    course.finish().judge(BACK_WITHIN);
}

/// The number of log lines of the ZooKeeper client. A daemon that logged every attempt would flood the log during an
/// outage.
fn lines_of_client(host: &Host) -> usize {
    host.log().lines().filter(|line| line.contains("zookeeper_client")).count()
}

/// Three hosts on an ensemble.
fn begin(title: &str, set: impl Fn(Host, usize) -> Host) -> (Course, [ZooKeeper; 3]) {
    let servers = ZooKeeper::three();
    make(&servers[0], "/ids");
    let all = servers.each_ref().map(ZooKeeper::address).join(",");
    let new = |number| {
        let host = Host::new().set("worker", "zookeeper").set("zookeeper", &format!("{all}/ids"));
        set(host, number)
    };
    let mut hosts: Vec<Host> = (1..=3).map(new).collect();
    hosts.iter_mut().for_each(Host::start);
    let probes = servers.iter().map(ZooKeeper::probe).collect();
    (Course::begin(title, REGISTRY, hosts, probes), servers)
}

fn through_everything(title: &str, set: impl Fn(Host, usize) -> Host) {
    let (mut course, mut servers) = begin(title, set);
    course.step("no fault", Promised::Ids, |_| std::thread::sleep(LASTS));
    course.step("leader killed", Promised::Ids, |_| {
        let leader = servers.iter_mut().find(|server| server.leads()).expect("one leads");
        leader.process.kill();
        std::thread::sleep(LASTS);
        leader.start();
    });
    course.step("rolling restart", Promised::Ids, |_| {
        for server in &mut servers {
            server.process.stop();
            server.start();
            std::thread::sleep(LASTS / 4);
        }
    });
    course.step(&format!("{FAULTS} faults of one server at a time"), Promised::Ids, |_| {
        for fault in 0..FAULTS {
            let server = &mut servers[fault % 3];
            if fault % 2 == 0 {
                server.process.kill();
                server.start();
            } else {
                server.process.freeze();
                std::thread::sleep(LASTS / 4);
                server.process.thaw();
            }
        }
    });
    lose_the_quorum(&mut course, &mut servers, Promised::Ids);
    course.finish().judge(BACK_WITHIN);
}

fn lose_the_quorum(course: &mut Course, servers: &mut [ZooKeeper; 3], promised: Promised) {
    let before: Vec<usize> = course.hosts.iter().map(lines_of_client).collect();
    course.step(&format!("no quorum for {LONGER:?}"), promised, |_| {
        let [first, second, _] = servers;
        first.process.kill();
        second.process.kill();
        std::thread::sleep(LONGER);
        std::thread::scope(|scope| {
            scope.spawn(|| first.start());
            second.start();
        });
    });
    for (host, before) in course.hosts.iter().zip(before) {
        let lines = lines_of_client(host) - before;
        assert!(lines <= 2, "ZooKeeper's client logged {lines} lines in an outage of {LONGER:?}");
    }
}

fn make(server: &ZooKeeper, path: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let client = Client::connect(&server.address()).await.unwrap();
        let open = CreateMode::Persistent.with_acls(Acls::anyone_all());
        client.create(path, b"", &open).await.unwrap();
    });
}
