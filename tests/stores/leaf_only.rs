//! Daemons with Leaf's table only: the table may be altered while they use it, and they move to leafd's own tables host
//! by host.

use std::time::Duration;

use leafd_tests::host::{Host, eventually};
use leafd_tests::leaf;
use leafd_tests::load::{Draw, Load};
use leafd_tests::servers::{MariaDb, Server, USER, apply_schema};

use crate::scene::{create, report, store};

on_each_server!(who_leaves_leaf_s_table_alone_keeps_its_held_ids);

/// How long a daemon may take to claim again, on a busy machine.
const WITHIN: Duration = Duration::from_secs(60);

/// Waits until each host has noticed this many changes of the store's history, and claims again.
#[track_caller]
fn settled(hosts: &[Host], changes: u64) {
    for host in hosts {
        eventually("claims after a changed history", WITHIN, || {
            let store = store(host);
            (store["failovers"].as_u64() >= Some(changes) && store["ready"] == true).then_some(())
        });
    }
}

#[test]
fn leaf_s_table_may_be_altered_and_completed_under_daemons_that_go_on() {
    let server = MariaDb::empty(&[]);
    server.sql(leaf::TABLE);
    server.sql("INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('orders', 1, 100)");
    let host = || {
        let host = Host::on_store(&server.url()).set("leaf_only", "true").set("worker", "none");
        host.set("failover_settle", "1s").set("autonomy", "3s")
    };
    let mut hosts: Vec<Host> = (0..2).map(|_| host()).collect();
    hosts.iter_mut().for_each(Host::start);
    let draws = hosts.iter().map(|host| Draw::steady(&host.socket(), "orders"));
    let load = Load::start(draws.collect());
    load.under_way();
    // Leaf's table has no place to record claimants.
    let words = ["whose", "1", "--tag", "orders"];
    let whose = hosts[0].leafctl(&words);
    let said = String::from_utf8_lossy(&whose.stderr);
    assert_eq!(whose.status.code(), Some(1), "{whose:?}");
    assert!(
        said.contains("finding out who claimed an id") && said.contains("leafd schema apply"),
        "{said}"
    );
    // The server reports a table's creation time in whole seconds.
    std::thread::sleep(Duration::from_millis(1_100));
    server.sql("ALTER TABLE leaf_alloc ADD COLUMN owner varchar(64)");
    settled(&hosts, 1);
    load.each_draws(WITHIN);
    apply_schema(&server.url());
    settled(&hosts, 2);
    load.each_draws(WITHIN);
    for host in &mut hosts {
        host.stop();
        host.unset("leaf_only");
        host.start();
        load.each_draws(WITHIN);
    }
    let issued = load.issued();
    let mut drawn = load.stop();
    // leafd's own tables make this possible.
    create(&hosts[0], "invoices", 10);
    drawn.add_ids("invoices", &hosts[1].raw().draw("invoices", 20));
    for host in &hosts {
        assert_eq!(store(host)["ready"], true);
        assert!(!host.log().contains("adopt-store"), "{}", host.log());
    }
    report::<MariaDb>("leaf_only: table altered, then completed", issued, &drawn, None);
    drawn.assert_sound();
    let of_a_restart = |text: &String| {
        ["no connection", "disconnected", "SHUTTING_DOWN"].iter().any(|part| text.starts_with(part))
    };
    assert!(drawn.errors.keys().all(of_a_restart), "{:?}", drawn.errors);
}

/// One host is stopped while leafd's own tables are created, and another is running. The first one has lost nothing,
/// and the second one has reported its held ids.
fn who_leaves_leaf_s_table_alone_keeps_its_held_ids<S: Server>() {
    let server = S::empty(&[]);
    server.sql(
        "CREATE TABLE leaf_alloc (biz_tag varchar(128) NOT NULL PRIMARY KEY, max_id bigint NOT NULL, step int NOT NULL,
         description varchar(256), update_time timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP)",
    );
    if S::SCHEME == "postgres" {
        server.sql(&format!("ALTER TABLE leaf_alloc OWNER TO {USER}"));
    }
    server.sql("INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('orders', 1, 1000)");
    let mut hosts = [(); 2].map(|()| {
        let host = Host::on_store(&server.url()).set("leaf_only", "true").set("worker", "none");
        host.set("failover_settle", "1s")
    });
    let last = hosts.each_mut().map(|host| {
        host.start();
        *host.raw().draw("orders", 5).last().unwrap()
    });
    hosts[0].stop();
    apply_schema(&server.url());
    if S::SCHEME != "postgres" {
        settled(&hosts[1..], 1);
    }
    hosts[1].stop();
    for (host, last) in hosts.iter_mut().zip(last) {
        host.unset("leaf_only");
        host.start();
        assert_eq!(host.raw().draw("orders", 1), [last + 1], "{}", host.log());
        assert!(!host.log().contains("dropping held ids"), "{}", host.log());
    }
    assert!(!hosts[0].log().contains("has failed over"), "{}", hosts[0].log());
    let store = store(&hosts[0]);
    assert_eq!((&store["ready"], &store["failovers"]), (&true.into(), &0.into()), "{store}");
}
