//! Routes that are changed through one Galera node while daemons claim through the others, which don't know the first
//! node's locks.

use std::process::Command;
use std::time::Duration;

use leafd_tests::host::{Host, die_with_parent, leafd_binary};
use leafd_tests::load::{Draw, Drawn, Load};
use leafd_tests::servers::galera::Galera;
use leafd_tests::servers::{MariaDb, PASSWORD, Server as _, USER, apply_schema};
use leafd_wire::opcode;
use serde_json::json;

/// Changes, and the tags that are drawn meanwhile.
const CHANGES: usize = 5;
const TAGS: [&str; 3] = ["orders", "users", "events"];

/// How long daemons with the former routes are watched.
const WATCHED: Duration = Duration::from_secs(3);

/// The rows' ends, as seen by a node that has just changed the routes, so that all earlier claims are included.
fn ends(cluster: &Galera, node: usize) -> Vec<Vec<String>> {
    cluster.nodes[node].sql("SELECT biz_tag, max_id FROM ids.leaf_alloc ORDER BY biz_tag")
}

/// Different routes each time, which assign these tags to the same store.
fn routes(number: usize) -> String {
    format!("[{{ tags = ['r{number}'], store = 'b' }}, {{ tags = ['*'], store = 'a' }}]")
}

#[test]
fn no_claim_of_former_routes_slips_past_a_change_at_another_node() {
    let cluster = Galera::new();
    cluster.nodes[0].sql(&format!("CREATE DATABASE other; GRANT ALL ON other.* TO {USER}@'%'"));
    let other = MariaDb::url_of(&[cluster.nodes[0].process.port], "other");
    apply_schema(&other);
    let stores = |first: usize| [("a", cluster.url_from(first)), ("b", other.clone())];
    // Claims are so small that the daemons claim all the time.
    let new = |first| {
        let host = Host::on_stores(&stores(first), &routes(0));
        host.set("max_step", "50").set("autonomy", "1s").set("worker", "none")
    };
    let mut hosts = [new(0), new(1)];
    let mut drawn = Drawn::default();
    let mut made = false;
    for number in 1..=CHANGES {
        hosts.iter_mut().for_each(Host::start);
        if !std::mem::replace(&mut made, true) {
            for tag in TAGS {
                hosts[0].admin(opcode::TAG_CREATE, &json!({ "tag": tag, "step": 10 }));
            }
        }
        let draws = hosts
            .iter()
            .flat_map(|host| TAGS.map(|tag| Draw { ids: 5, ..Draw::steady(&host.socket(), tag) }));
        let load = Load::start(draws.collect());
        load.under_way();
        let stores = stores(2).map(|(name, url)| format!("{name} = {url:?}")).join(", ");
        let mut apply = Command::new(leafd_binary());
        apply.args(["routes", "apply", "--yes", "--set", &format!("stores={{ {stores} }}")]);
        apply.args(["--set", &format!("routes={}", routes(number))]);
        apply.env_clear().env("HOME", "/nonexistent");
        apply.envs(["A", "B"].map(|name| (format!("LEAFD_STORE_PASSWORD_{name}"), PASSWORD)));
        let output = die_with_parent(&mut apply).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let when_changed = ends(&cluster, 2);
        std::thread::sleep(WATCHED);
        for node in 0..3 {
            assert_eq!(ends(&cluster, node), when_changed, "claimed under former routes");
        }
        drawn.add(load.stop());
        for host in &mut hosts {
            host.stop();
            host.change("routes", &routes(number));
        }
    }
    hosts.iter_mut().for_each(Host::start);
    for host in &hosts {
        for tag in TAGS {
            drawn.add_ids(tag, &host.raw().draw(tag, 100));
        }
    }
    println!("{} ids over {CHANGES} changes of routes", drawn.count());
    drawn.backwards.clear();
    drawn.assert_sound();
}
