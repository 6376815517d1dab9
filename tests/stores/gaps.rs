//! `leafctl gaps` with two hosts on one store: the fate of each number, after a crash, a clean stop, claims of others,
//! a lowered ceiling and a deleted tag.

use std::time::Duration;

use leafd_client::Error;
use leafd_tests::host::{Host, eventually};
use leafd_tests::servers::Server;
use leafd_wire::{Status, opcode};
use serde_json::{Value, json};

use crate::scene::{create, take_as_a_leaf};

on_each_server!(each_number_is_accounted_for, what_is_dropped_is_told);

/// How long a daemon may take for background work, on a busy machine.
const WITHIN: Duration = Duration::from_secs(60);

/// All parts of a range, which must be contiguous.
#[track_caller]
fn parts(host: &Host, first: u64, last: u64) -> Vec<Value> {
    let (mut parts, mut from) = (Vec::new(), first);
    loop {
        let body = json!({ "tag": "orders", "first": from, "last": last });
        let answer = host.admin(opcode::GAPS, &body);
        parts.extend(answer["parts"].as_array().unwrap().clone());
        match answer["next"].as_u64() {
            Some(next) => from = next,
            None => break,
        }
    }
    let mut next = first;
    for part in &parts {
        assert_eq!(part["first"], next, "{parts:#?}");
        next = part["last"].as_u64().unwrap() + 1;
    }
    assert_eq!(next, last + 1, "{parts:#?}");
    parts
}

/// The part that contains a number.
#[track_caller]
fn part(host: &Host, number: u64) -> Value {
    parts(host, number, number)[0].clone()
}

#[track_caller]
fn why(host: &Host, number: u64) -> String {
    part(host, number)["why"].as_str().unwrap().to_owned()
}

fn max_id<S: Server>(server: &S) -> u64 {
    server.sql("SELECT max_id FROM leaf_alloc WHERE biz_tag = 'orders'")[0][0].parse().unwrap()
}

fn each_number_is_accounted_for<S: Server>() {
    let server = S::new();
    let on_server = |name: &str| Host::on_store(&server.url()).set("identity", name);
    let (mut a, mut b) = (on_server("web-1"), on_server("web-2"));
    a.start();
    b.start();
    create(&a, "orders", 1_000);
    let of_a = a.raw().draw("orders", 10);
    let of_b = b.raw().draw("orders", 10);
    let leafs = take_as_a_leaf(|sql| server.sql(sql), "orders", 50);

    a.kill();
    a.start();
    let after_crash = a.raw().draw("orders", 1)[0];
    b.stop();
    b.start();
    let after_stop = b.raw().draw("orders", 1)[0];
    assert_eq!(after_stop, of_b[9] + 1, "a clean stop skips nothing");

    // A host's information about its own claims.
    let until_crash = |part: &Value| part["why"] == "issued_until_crash";
    let skipped = parts(&a, 1, after_crash).into_iter().find(until_crash).unwrap();
    assert_eq!(skipped["name"], "web-1", "{skipped}");
    assert!(skipped["at_ms"].as_u64() > skipped["claimed_ms"].as_u64(), "{skipped}");
    assert_eq!(why(&a, after_crash), "issued");
    assert_eq!(why(&a, after_crash + 1), "held");
    assert_eq!((why(&b, of_b[0]), why(&b, after_stop)), ("issued".to_owned(), "issued".to_owned()));
    assert_eq!(
        (why(&b, after_stop + 1), &part(&b, of_b[3])["own"]),
        ("held".to_owned(), &json!(true))
    );
    // A host's information about claims of others.
    let others = part(&b, of_a[0]);
    assert_eq!((&others["name"], &others["own"]), (&json!("web-1"), &json!(false)), "{others}");
    assert_eq!(part(&a, of_b[0])["name"], "web-2");
    for host in [&a, &b] {
        assert_eq!(why(host, leafs + 20), "by_none_of_leafds_hosts");
        assert_eq!(why(host, max_id(&server) + 5), "not_claimed");
        parts(host, 1, max_id(&server) + 1_000);
    }
    // The crash is still known after another restart.
    a.stop();
    a.start();
    assert_eq!(why(&a, skipped["last"].as_u64().unwrap()), "issued_until_crash");

    // A claim whose answer was lost, followed by the next claim.
    let id = a.status()["host"].as_str().unwrap().to_owned();
    let lost = take_as_a_leaf(|sql| server.sql(sql), "orders", 100);
    server.sql(&format!(
        "INSERT INTO leafd_claim (tag, end_id, claimed_ms, first_id, stride, generation, host, name)
         VALUES ('orders', {}, 5000, {lost}, 1, 7, '{id}', 'web-1')",
        lost + 100
    ));
    assert_eq!(why(&a, lost + 3), "lost");

    let output = a.leafctl(&["gaps", "orders", &format!("1..{}", max_id(&server) + 9)]);
    let words = String::from_utf8_lossy(&output.stdout);
    for expected in [
        "skipped by the crash before",
        "held, not issued yet",
        "not claimed by a leafd host",
        "not claimed yet",
    ] {
        assert!(words.contains(expected), "{expected}: {words}");
    }
    for (range, status) in [((5, 4), Status::ValueRefused), ((1, u64::MAX), Status::ValueRefused)] {
        let body = json!({ "tag": "orders", "first": range.0, "last": range.1 });
        let error = a.client().admin(opcode::GAPS, &body.to_string()).unwrap_err();
        assert!(matches!(error, Error::Service { status: is, .. } if is == status), "{error:?}");
    }
}

fn what_is_dropped_is_told<S: Server>() {
    let server = S::new();
    let on_server = |name: &str| {
        let mut host = Host::on_store(&server.url()).set("identity", name);
        host.change("removed_tag_check", "1s");
        host.start();
        host
    };
    let (a, b) = (on_server("web-1"), on_server("web-2"));
    create(&a, "orders", 1_000);
    a.raw().draw("orders", 3);
    let of_b = b.raw().draw("orders", 3)[2];
    // The other host notices this within some time.
    a.admin(opcode::TAG_SET, &json!({ "tag": "orders", "ceiling": of_b + 100 }));
    let dropped = eventually("the ids above the ceiling are dropped", WITHIN, || {
        Some(part(&b, of_b + 101)).filter(|part| part["why"] == "dropped")
    });
    assert_eq!(dropped["cause"], "ceiling", "{dropped}");
    assert_eq!((why(&b, of_b), why(&b, of_b + 100)), ("issued".to_owned(), "held".to_owned()));

    let generation = a.admin(opcode::TAG_SHOW, &json!({ "tag": "orders" }))["generation"].clone();
    a.admin(opcode::TAG_DELETE, &json!({ "tag": "orders", "generation": generation }));
    let dropped = eventually("the deleted tag's ids are dropped", WITHIN, || {
        Some(part(&b, of_b + 50)).filter(|part| part["why"] == "dropped")
    });
    assert_eq!((&dropped["cause"], &dropped["earlier_tag"]), (&json!("removed"), &json!(true)));
    // The record is written soon.
    eventually("the reasons are in the file", WITHIN, || {
        let text = std::fs::read_to_string(b.state_dir().join("gaps")).ok()?;
        text.contains(r#""tag":"orders","cause":"removed""#).then_some(())
    });
    a.admin(opcode::TAG_CREATE, &json!({ "tag": "ledger", "strict": true }));
    for tag in ["ledger", "snowflake", "nosuch"] {
        let body = json!({ "tag": tag, "first": 1, "last": 9 }).to_string();
        assert!(a.client().admin(opcode::GAPS, &body).is_err(), "{tag}");
    }
}
