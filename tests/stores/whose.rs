//! `leafctl whose` with several hosts on one store: which host issued an id, when no leafd host did, and a worker that
//! changed hosts.

use std::time::Duration;

use leafd_client::{Error, Layout};
use leafd_tests::host::{Host, eventually};
use leafd_tests::servers::{MariaDb, Server};
use leafd_wire::layout::Parts;
use leafd_wire::{Status, opcode};
use serde_json::{Value, json};

use crate::scene::create;

on_each_server!(
    an_id_is_told_to_its_host,
    an_id_that_is_still_held_is_not_told_as_issued,
    a_worker_that_changed_hands_is_told,
    no_id_is_claimed_that_can_t_be_recorded
);

/// How long another daemon may take for background work, on a busy machine.
const WITHIN: Duration = Duration::from_secs(60);

fn named(url: &str, name: &str) -> Host {
    let mut host = Host::on_store(url).set("identity", name);
    host.start();
    host
}

#[track_caller]
fn whose(host: &Host, tag: &str, id: u64) -> Value {
    host.admin(opcode::WHOSE, &json!({ "tag": tag, "id": id }))
}

/// The output of `leafctl`.
#[track_caller]
fn said(host: &Host, words: &[&str]) -> String {
    let output = host.leafctl(&[&["whose"], words].concat());
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The only claim of an id.
#[track_caller]
fn claim(host: &Host, id: u64) -> Value {
    let answer = whose(host, "orders", id);
    assert_eq!(answer["verdict"], "claimed", "{answer}");
    answer["claims"][0].clone()
}

fn an_id_is_told_to_its_host<S: Server>() {
    let server = S::new();
    let [a, b] = ["web-1", "web-2"].map(|name| named(&server.url(), name));
    create(&a, "orders", 100);
    let first = a.client().next("orders").unwrap();
    // A Java Leaf claims ids.
    let [row] = &server.sql("SELECT max_id FROM leaf_alloc WHERE biz_tag = 'orders'")[..] else {
        panic!("one row")
    };
    let leafs: u64 = row[0].parse().unwrap();
    server.sql("UPDATE leaf_alloc SET max_id = max_id + 50 WHERE biz_tag = 'orders'");
    let of_b = b.client().next("orders").unwrap();

    let told = claim(&b, first);
    assert_eq!((&told["name"], &told["own"]), (&json!("web-1"), &json!(false)), "{told}");
    assert!(
        told["first"].as_u64() <= Some(first) && told["last"].as_u64() >= Some(first),
        "{told}"
    );
    assert_eq!(told["given_by_ms"], Value::Null, "it holds the rest of the claim: {told}");
    let told_of_b = claim(&b, of_b);
    assert_eq!((&told_of_b["name"], &told_of_b["own"]), (&json!("web-2"), &json!(true)));
    assert_eq!(whose(&b, "orders", leafs + 7)["verdict"], "by_none_of_leafds_hosts");
    assert_eq!(whose(&a, "orders", 1 << 40)["verdict"], "not_claimed");
    assert_eq!(whose(&a, "orders", 0)["verdict"], "not_remembered");

    // Once all of a claim is used, the next claim records that.
    eventually("the host claims when it holds nothing of its first claim", WITHIN, || {
        a.client().next_batch("orders", 500).unwrap().for_each(drop);
        claim(&b, first)["given_by_ms"].as_u64()
    });
    let words = said(&b, &[&first.to_string(), "--tag", "orders"]);
    assert!(
        words.contains("was claimed by web-1 (host ") && words.contains("or skipped by"),
        "{words}"
    );
    let words = said(&b, &[&(leafs + 7).to_string(), "--tag", "orders"]);
    assert!(words.contains("not claimed by a leafd host"), "{words}");

    // A host that records nothing, and a tag without records.
    let mut silent = Host::on_store(&server.url()).set("claims_kept", "0s");
    silent.start();
    let unknown = silent.client().next("orders").unwrap();
    assert_eq!(whose(&a, "orders", unknown)["verdict"], "by_none_of_leafds_hosts");
    a.admin(opcode::TAG_CREATE, &json!({ "tag": "ledger", "strict": true }));
    let strict = a.client().next("ledger").unwrap();
    assert_eq!(whose(&b, "ledger", strict)["verdict"], "strict");
    let error = b.client().admin(opcode::WHOSE, r#"{"tag":"nosuch","id":1}"#).unwrap_err();
    assert!(matches!(error, Error::Service { status: Status::TagUnknown, .. }), "{error:?}");

    // The claim is still known after the tag was deleted, and created again.
    let generation = a.admin(opcode::TAG_SHOW, &json!({ "tag": "orders" }))["generation"].clone();
    a.admin(opcode::TAG_DELETE, &json!({ "tag": "orders", "generation": generation }));
    let told = claim(&b, first);
    assert_eq!((&told["name"], &told["earlier_tag"]), (&json!("web-1"), &json!(true)), "{told}");
    a.admin(opcode::TAG_CREATE, &json!({ "tag": "orders", "start": 1_000_000_000 }));
    assert_eq!(claim(&b, first)["earlier_tag"], true);
    assert_eq!(whose(&b, "orders", 1_000_000_000)["verdict"], "not_claimed");

    // Two claims of one id, as after lost commits: both are reported.
    server.sql(&format!(
        "INSERT INTO leafd_claim (tag, end_id, claimed_ms, first_id, stride, generation, host, name)
         VALUES ('orders', {}, 1000, {first}, 1, 7, 'h', 'rogue')",
        first + 1
    ));
    let twice = whose(&b, "orders", first);
    assert_eq!(twice["verdict"], "claimed_twice", "{twice}");
    let words = said(&b, &[&first.to_string(), "--tag", "orders"]);
    assert!(words.contains("claimed 2 times") && words.contains("by rogue"), "{words}");
}

/// The host claims ahead, before its held ids are exhausted.
fn an_id_that_is_still_held_is_not_told_as_issued<S: Server>() {
    let server = S::new();
    let host = named(&server.url(), "web-1");
    create(&host, "orders", 1_000);
    let mut raw = host.raw();
    let first = raw.draw("orders", 1)[0];
    let held = eventually("a claim while ids of an earlier one are held", WITHIN, || {
        let drawn = *raw.draw("orders", 20).last().unwrap();
        let end = claim(&host, drawn)["last"].as_u64().unwrap();
        let claims_ahead = || server.max_id("orders") > end + 1;
        (drawn < end && claims_ahead()).then_some(end)
    });
    assert_eq!(claim(&host, held)["given_by_ms"], Value::Null, "{held} is held");
    assert!(
        claim(&host, first)["given_by_ms"].is_u64(),
        "{first} was drawn before it claimed again"
    );
    let words = said(&host, &[&held.to_string(), "--tag", "orders"]);
    assert!(!words.contains("or skipped by"), "{words}");
}

/// An id of Leaf's layout.
fn id_of(unix_ms: u64, worker: u64) -> u64 {
    let tick = Layout::LEAF.tick_at(unix_ms).unwrap();
    Layout::LEAF.compose(Parts { tick, worker, sequence: 3 })
}

fn a_worker_that_changed_hands_is_told<S: Server>() {
    let server = S::new();
    let on_server = |name: &str| Host::on_store(&server.url()).set("identity", name);
    let mut a = on_server("web-1").set("worker_range", "5..6");
    a.start();
    let of_a = eventually("the first host leases", WITHIN, || a.client().next("snowflake").ok());
    let parts = Layout::LEAF.decompose(of_a).unwrap();
    assert_eq!(parts.worker, 5);
    let mut b = on_server("web-2").set("worker_range", "5..6");
    a.admin(opcode::WORKER_RELEASE, &json!({}));
    a.stop();
    b.start();
    let of_b = eventually("the second host leases", WITHIN, || b.client().next("snowflake").ok());
    assert_eq!(Layout::LEAF.decompose(of_b).unwrap().worker, 5);

    let told = whose(&b, "snowflake", of_a);
    assert_eq!((&told["verdict"], &told["name"]), (&json!("held"), &json!("web-1")), "{told}");
    assert_eq!((&told["own"], &told["worker"]), (&json!(false), &json!(5)), "{told}");
    assert!(told["until_ms"].as_u64() > told["at_ms"].as_u64(), "{told}");
    let told = whose(&b, "snowflake", of_b);
    assert_eq!((&told["verdict"], &told["name"]), (&json!("held"), &json!("web-2")), "{told}");
    assert_eq!(told["own"], true);
    let words = said(&b, &[&of_a.to_string()]);
    assert!(words.contains("issued by web-1 (host ") && words.contains("had worker 5"), "{words}");

    let now = told["at_ms"].as_u64().unwrap();
    let day = 24 * 3_600_000;
    assert_eq!(whose(&b, "snowflake", id_of(now - 900 * day, 5))["verdict"], "not_held");
    assert_eq!(whose(&b, "snowflake", id_of(now + day, 5))["verdict"], "in_the_future");
    assert_eq!(whose(&b, "snowflake", id_of(now, 6))["verdict"], "never_held");
    // After an upgrade to this version of leafd, earlier holders are unknown.
    server.sql("DELETE FROM leafd_worker_taken");
    assert_eq!(whose(&b, "snowflake", of_a)["verdict"], "not_remembered");
}

#[test]
fn leafs_table_alone_tells_nothing() {
    let server = MariaDb::empty(&[]);
    server.sql(leafd_tests::leaf::TABLE);
    server.sql("INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('orders', 1, 100)");
    let mut host = Host::on_store(&server.url()).set("leaf_only", "true").set("worker", "none");
    host.start();
    let id = host.client().next("orders").unwrap();
    let output = host.leafctl(&["whose", &id.to_string(), "--tag", "orders"]);
    let words = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(words.contains("only Leaf's table") && words.contains("leafd schema apply"), "{words}");
    let output = host.leafctl(&["whose", "2124082651684941858"]);
    assert!(String::from_utf8_lossy(&output.stdout).contains("leases no worker"), "{output:?}");
}

/// Without its table, held ids are issued, nothing is claimed, and status and doctor say why.
fn no_id_is_claimed_that_can_t_be_recorded<S: Server>() {
    let server = S::new();
    let mut host = Host::on_store(&server.url()).set("identity", "web-1").set("max_step", "20");
    host.start();
    create(&host, "orders", 20);
    let mut ids = host.raw().draw("orders", 5);
    server.sql("ALTER TABLE leafd_claim RENAME TO leafd_claim_away");
    let client = host.client();
    let refused = eventually("what is held ends", WITHIN, || match client.next_direct("orders") {
        Ok(id) => {
            ids.push(id);
            None
        }
        Err(error) => Some(error.to_string()),
    });
    assert!(refused.contains("leafd_claim"), "{refused}");
    assert!(ids.len() <= 60, "three claims at most: {}", ids.len());
    let status = host.status();
    let found = &status["health"]["conditions"][0];
    assert!(found["message"].as_str().unwrap().contains("leafd_claim"), "{found}");
    assert!(found["remedy"].as_str().unwrap().contains("schema apply"), "{found}");
    let doctor = host.command(Some("doctor")).output().unwrap();
    let words = String::from_utf8_lossy(&doctor.stdout);
    assert_eq!(doctor.status.code(), Some(1), "{words}");
    assert!(words.contains("leafd_claim") && words.contains("schema apply"), "{words}");

    server.sql("ALTER TABLE leafd_claim_away RENAME TO leafd_claim");
    ids.push(eventually("claims go on", WITHIN, || client.next_direct("orders").ok()));
    for id in &ids {
        assert_eq!(claim(&host, *id)["name"], "web-1");
    }
    let drawn = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), drawn, "no id came twice");
}
