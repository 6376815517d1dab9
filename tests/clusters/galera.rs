//! Three Galera nodes, with daemons that prefer the same node and daemons that prefer different ones.

use std::time::{Duration, Instant};

use leafd_tests::host::Host;
use leafd_tests::load::{Draw, Load};
use leafd_tests::servers::galera::Galera;
use leafd_wire::opcode;
use serde_json::json;

use crate::course::{Course, Promised, SNOWFLAKE, STORE, create_tags};

/// The promised maximum time for a strict id once the cluster serves.
pub const STRICT_LATE: Duration = Duration::from_secs(3);

/// The promised time within which three new hosts have their workers, including what a busy machine needs.
const WORKERS_WITHIN: Duration = Duration::from_secs(15);
const WORKERS_ASSERTED: Duration = Duration::from_secs(60);

/// How many tags are created under load.
const NEW_TAGS: usize = 3;

/// How long outages and calm periods last.
const LASTS: Duration = Duration::from_secs(5);

#[test]
fn daemons_that_prefer_the_same_node() {
    through_everything("Galera, daemons with the same order of nodes", [0, 0, 0]);
}

#[test]
fn daemons_that_prefer_different_nodes() {
    through_everything("Galera, daemons with different first nodes", [0, 1, 2]);
}

/// All hosts begin with the smallest claims of the same rows at the same moment, and claim more from there.
#[track_caller]
fn draw_new_tags(hosts: &[Host]) {
    let mut draws = Vec::new();
    for number in 0..NEW_TAGS {
        let tag = format!("new{number}");
        hosts[0].admin(opcode::TAG_CREATE, &json!({ "tag": tag, "step": 10 }));
        draws.extend(hosts.iter().map(|host| Draw::steady(&host.socket(), &tag)));
    }
    let load = Load::start(draws);
    load.under_way();
    std::thread::sleep(LASTS);
    let drawn = load.stop();
    drawn.assert_sound();
    assert!(drawn.errors.is_empty(), "{:?}", drawn.errors);
    println!("{} ids of {NEW_TAGS} new tags", drawn.count());
}

/// Faults of one node, which also apply behind a proxy.
pub fn fault_the_node_in_use(course: &mut Course, cluster: &mut Galera) {
    course.step("node in use killed", Promised::Ids, |course| {
        let node = &mut cluster.nodes[cluster.in_use()];
        node.kill();
        course.goes_on();
        node.start();
        cluster.is_whole();
    });
    course.step("node in use stopped (SIGSTOP)", Promised::Ids, |course| {
        let node = &cluster.nodes[cluster.in_use()];
        node.freeze();
        course.goes_on();
        node.thaw();
        cluster.is_whole();
    });
    course.step("node in use rejects queries", Promised::Ids, |course| {
        let node = &cluster.nodes[cluster.in_use()];
        node.reject(true);
        course.goes_on();
        node.reject(false);
    });
}

fn through_everything(title: &str, first_nodes: [usize; 3]) {
    let mut cluster = Galera::new();
    let new = |first: usize| Host::on_store(&cluster.url_from(first));
    let mut hosts: Vec<Host> = first_nodes.into_iter().map(new).collect();
    let begun = Instant::now();
    hosts.iter_mut().for_each(Host::start);
    for host in &hosts {
        host.raw().draw_until(SNOWFLAKE, WORKERS_ASSERTED);
    }
    let took = begun.elapsed();
    println!("{title}: three new hosts had their workers after {took:.2?} of {WORKERS_WITHIN:?}");
    assert!(took < WORKERS_ASSERTED, "{took:?}");
    create_tags(&hosts[0]);
    let mut course = Course::begin(title, STORE, hosts, cluster.probes());
    course.step("no fault", Promised::Ids, |_| std::thread::sleep(LASTS));
    course.step("new tags, drawn by all at once", Promised::Ids, |course| {
        draw_new_tags(&course.hosts);
    });
    fault_the_node_in_use(&mut course, &mut cluster);
    // A proxy that asks the node's state would not notice.
    course.step("node in use no longer replicates", Promised::Ids, |course| {
        let node = &cluster.nodes[cluster.in_use()];
        node.stop_replicating(true);
        course.goes_on();
        node.stop_replicating(false);
    });
    course.step("node in use isolated", Promised::Ids, |course| {
        let node = &cluster.nodes[cluster.in_use()];
        node.isolate(true);
        course.goes_on();
        // It answers again, but is no part of the store.
        node.stop_replicating(true);
        course.goes_on();
        node.stop_replicating(false);
        node.isolate(false);
        cluster.is_whole();
    });
    course.step("node in use wiped, rebuilt by state transfer", Promised::Ids, |course| {
        let node = &mut cluster.nodes[cluster.in_use()];
        node.kill();
        node.wipe();
        course.goes_on();
        node.start();
        cluster.is_whole();
    });
    course.step("two of three killed", Promised::Ids, |_| {
        cluster.nodes[0].kill();
        cluster.nodes[1].kill();
        std::thread::sleep(LASTS);
        let [first, second, _] = &mut cluster.nodes;
        std::thread::scope(|scope| {
            scope.spawn(|| first.start());
            second.start();
        });
        cluster.is_whole();
    });
    course.finish().judge(STRICT_LATE);
}
