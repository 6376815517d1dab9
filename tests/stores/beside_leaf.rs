//! Two Leafs claim from their table while leafd is introduced, draws, is killed and continues: no id is in two claims,
//! and the Leafs never notice.

use std::time::Duration;

use leafd_tests::host::Host;
use leafd_tests::leaf::{Isolation, Leaf, TABLE};
use leafd_tests::load::{Draw, Drawn, Load};
use leafd_tests::servers::{MariaDb, Server as _, apply_schema};

/// The number of threads of each Leaf.
const THREADS: usize = 2;

/// The number of claims between two changes.
const CLAIMS: u64 = 100;

/// How long all threads may take to draw a new tag, or one whose step has changed.
const DRAWS_WITHIN: Duration = Duration::from_secs(60);

fn insert(server: &MariaDb, tag: &str) {
    server.sql(&format!(
        "INSERT INTO leaf_alloc (biz_tag, max_id, step, description) VALUES ('{tag}', 1, 20, 'by hand')"
    ));
}

/// Draws a tag with two daemons' threads, and waits until all of them have ids.
#[track_caller]
fn draw(hosts: &[Host], tag: &str) -> Load {
    let load = Load::start(hosts.iter().map(|host| Draw::steady(&host.socket(), tag)).collect());
    load.under_way();
    load
}

#[test]
fn leafs_never_notice_that_leafd_moves_in() {
    let server = MariaDb::empty(&[]);
    server.sql(TABLE);
    insert(&server, "orders");
    insert(&server, "users");
    let isolations = [Isolation::RepeatableRead, Isolation::ReadCommitted];
    let leaf = |isolation| Leaf::start(server.port(), isolation, THREADS);
    let mut leafs: Vec<Leaf> = isolations.into_iter().map(leaf).collect();
    let all_claim = |leafs: &[Leaf]| leafs.iter().for_each(|leaf| leaf.claims(CLAIMS));
    all_claim(&leafs);

    apply_schema(&server.url());
    // Claims are so small that daemons claim all the time.
    let new = || Host::on_store(&server.url()).set("autonomy", "1s").set("removed_tag_check", "1s");
    let mut hosts: Vec<Host> = (0..2).map(|_| new()).collect();
    hosts.iter_mut().for_each(Host::start);
    let mut drawn = Drawn::default();
    let orders = draw(&hosts, "orders");
    let users = draw(&hosts, "users");
    all_claim(&leafs);

    // Operators do this with SQL.
    insert(&server, "events");
    let events = draw(&hosts, "events");
    leafs.iter().for_each(|leaf| leaf.knows("events", true));
    server.sql("UPDATE leaf_alloc SET step = 70 WHERE biz_tag = 'events'");
    all_claim(&leafs);
    drawn.add(users.stop());
    server.sql("DELETE FROM leaf_alloc WHERE biz_tag = 'users'");
    leafs.iter().for_each(|leaf| leaf.knows("users", false));
    // An upgrade applies the schema again.
    apply_schema(&server.url());
    all_claim(&leafs);

    hosts[0].kill();
    hosts[0].start();
    events.each_draws(DRAWS_WITHIN);
    // A Leaf that ends loses the rest of its claims.
    let mut of_leafs = leafs.remove(0).stop();
    leafs.push(leaf(isolations[0]));
    all_claim(&leafs);
    orders.each_draws(DRAWS_WITHIN);
    drawn.add(orders.stop());
    drawn.add(events.stop());
    leafs.into_iter().for_each(|leaf| of_leafs.add(leaf.stop()));

    println!("{} ids of daemons, {} of Leafs'", drawn.count(), of_leafs.count());
    assert!(of_leafs.errors.is_empty(), "Leafs': {:?}", of_leafs.errors);
    // Only the load on the killed daemon may have noticed that.
    let of_a_kill = |text: &&String| {
        ["no connection", "disconnected"].iter().any(|part| text.starts_with(part))
            || text.contains("no answer")
    };
    let others: Vec<&String> = drawn.errors.keys().filter(|text| !of_a_kill(text)).collect();
    assert!(others.is_empty(), "{others:?}");
    drawn.add(of_leafs);
    drawn.assert_sound();
}
