//! The store's URL leads to another database than before, or to one with another role among the stores. Its workers
//! belong to other hosts, and none is claimed, whether or not the journal has a claim.

use std::time::Duration;

use leafd_tests::host::{Host, eventually};
use leafd_tests::load::Drawn;
use leafd_tests::raw::ids_request;
use leafd_tests::relay::Relay;
use leafd_tests::servers::{DATABASE, Server, apply_schema};
use leafd_wire::{Status, opcode};
use serde_json::json;

on_each_server!(another_database_gives_nobody_a_worker, a_store_with_another_place_gives_no_worker,);

const TAG: &str = "snowflake";
const WITHIN: Duration = Duration::from_secs(60);

/// The answer to a request for a snowflake id once it is known that none is available.
#[track_caller]
fn refusal(host: &Host, part: &str) -> String {
    eventually(part, WITHIN, || {
        let mut raw = host.raw();
        raw.send(&ids_request(TAG, 1, 1, 2_000));
        let reply = raw.reply();
        assert_eq!(reply.status(), Status::NoWorker, "{}", reply.text());
        Some(reply.text()).filter(|text| text.contains(part))
    })
}

/// How many workers a database has ever granted.
fn given<S: Server>(server: &S, database: &str) -> usize {
    server.ask(database, "SELECT worker FROM leafd_worker").len()
}

/// One host has drawn only segment ids, one has released its worker, and one draws its first snowflake id too late.
fn another_database_gives_nobody_a_worker<S: Server>() {
    let (production, staging) = (S::new(), S::new());
    let relay = Relay::to(production.port());
    let host = |_| Host::on_store(&S::url_of(&[relay.port()], DATABASE));
    let mut hosts: Vec<Host> = (0..3).map(host).collect();
    hosts.iter_mut().for_each(Host::start);
    hosts[0].create("orders");
    hosts.iter().for_each(|host| drop(host.raw().draw("orders", 10)));
    let mut drawn = Drawn::default();
    drawn.add_ids(TAG, &hosts[1].raw().draw(TAG, 10));
    hosts[1].admin(opcode::WORKER_RELEASE, &json!({}));
    hosts[..2].iter_mut().for_each(Host::stop);

    relay.lead_to(staging.port());
    hosts[..2].iter_mut().for_each(Host::start);
    for host in &hosts[..2] {
        let told = refusal(host, "is not the database that this host used before");
        assert!(told.contains("adopt-store"), "{told}");
    }
    let told = refusal(&hosts[2], "is not the database that was in use");
    assert!(told.contains("adopt-store"), "{told}");
    // This host can neither list nor take the workers of others.
    let listed = hosts[2].client().admin(opcode::WORKER_LIST, "{}").unwrap_err().to_string();
    assert!(listed.contains("is not the database that"), "{listed}");
    assert_eq!(given(&staging, DATABASE), 0);
    assert!(staging.sql("SELECT name FROM leafd_layout").is_empty());

    relay.lead_to(production.port());
    for host in &hosts {
        drawn.add_ids(TAG, &[host.raw().draw_until(TAG, WITHIN)]);
    }
    drawn.assert_sound();
}

/// The stores' URLs are swapped, so the registry would be another one than that of the other hosts.
fn a_store_with_another_place_gives_no_worker<S: Server>() {
    const SECOND: &str = "ids2";
    let server = S::new();
    server.create_database(SECOND);
    let [first, second] = [DATABASE, SECOND].map(|name| S::url_of(&[server.port()], name));
    apply_schema(&second);
    let routes = r#"[{ tags = ["*"], hash = ["a", "b"] }]"#;
    let host = |a: &String, b: &String| {
        Host::on_stores(&[("a", a.clone()), ("b", b.clone())], routes).set("worker", "store:a")
    };
    let mut right = host(&first, &second);
    right.start();
    let mut drawn = Drawn::default();
    drawn.add_ids(TAG, &right.raw().draw(TAG, 10));
    let mut wrong = host(&second, &first);
    wrong.start();
    let told = refusal(&wrong, "recorded routes of the store");
    assert!(told.contains("leafd routes apply"), "{told}");
    assert_eq!((given(&server, DATABASE), given(&server, SECOND)), (1, 0));
    wrong.stop();
    drawn.assert_sound();
}
