//! Masked tags: ids without order that hide how many there are, from a daemon that has the key.

use std::collections::HashSet;

use leafd_client::{Client, Error, opcode};
use leafd_wire::Status;
use serde_json::json;

use crate::host::{Host, eventually};
use crate::public_ids::{WITHIN, host_with_keys};

const KEYS: &str = "1 000102030405060708090a0b0c0d0e0f\n";

fn masked_host() -> Host {
    let (mut host, _) = host_with_keys(KEYS);
    host.start();
    host.admin(opcode::TAG_CREATE, &json!({ "tag": "tickets", "masked": 53 }));
    host
}

/// The numbers behind these ids, sorted.
fn numbers(client: &Client, ids: &[u64]) -> Vec<u64> {
    let mut numbers = client.public_ids("tickets").bits(53).key(1).unmask(ids).unwrap();
    numbers.sort_unstable();
    numbers
}

#[test]
fn ids_are_unique_and_hide_their_order_in_every_way_to_draw() {
    let mut host = masked_host();
    let client = host.client();
    let mut ids: Vec<u64> = (0..50).map(|_| client.next("tickets").unwrap()).collect();
    ids.extend(client.next_batch("tickets", 700).unwrap());
    ids.extend((0..50).map(|_| host.raw().draw("tickets", 1)[0]));
    let direct = Client::builder().socket(host.socket()).direct(true).build().unwrap();
    ids.extend((0..50).map(|_| direct.next("tickets").unwrap()));
    assert!(ids.iter().all(|id| (1..1 << 53).contains(id)));
    assert_eq!(ids.iter().collect::<HashSet<_>>().len(), ids.len(), "an id came twice");
    // The numbers are dense, except for those that the first request may have skipped.
    let numbers = numbers(&client, &ids);
    assert!(*numbers.last().unwrap() < 1_000, "{numbers:?}");
    let ascents = ids.windows(2).filter(|pair| pair[0] < pair[1]).count();
    assert!((300..550).contains(&ascents), "{ascents} ascents of {}", ids.len());
    let row = host.admin(opcode::TAG_SHOW, &json!({ "tag": "tickets" }));
    assert_eq!((&row["masked"], &row["mask_key"]), (&json!(53), &json!(1)));
    assert_eq!(row["ceiling"], json!((1_u64 << 53) - 1));
    host.stop();
}

#[test]
fn nothing_comes_twice_over_stops_and_kills() {
    let mut host = masked_host();
    let mut ids = Vec::new();
    for round in 0..4 {
        let client = host.client();
        ids.extend(client.next_batch("tickets", 100).unwrap());
        ids.extend((0..20).map(|_| client.next("tickets").unwrap()));
        if round % 2 == 0 {
            host.stop()
        } else {
            host.kill()
        }
        host.start();
    }
    assert_eq!(ids.iter().collect::<HashSet<_>>().len(), ids.len(), "an id came twice");
    numbers(&host.client(), &ids);
}

#[test]
fn without_the_key_nothing_is_issued() {
    let (mut host, file) = host_with_keys(KEYS);
    host.start();
    host.admin(opcode::TAG_CREATE, &json!({ "tag": "tickets", "masked": 53 }));
    let before = host.client().next("tickets").unwrap();
    host.stop();
    host.unset("mask_key_file");
    host.start();
    let refused = |host: &Host, part: &str| match host.client().next("tickets") {
        Err(Error::Service { status: Status::MaskKey, message, .. }) => {
            assert!(message.contains(part), "{message}");
        }
        other => panic!("{other:?}"),
    };
    refused(&host, "mask key 1");
    let claims = host.status()["segments"]["claims"].as_u64().unwrap();
    for _ in 0..5 {
        refused(&host, "mask key 1");
    }
    assert_eq!(host.status()["segments"]["claims"].as_u64().unwrap(), claims, "each one claims");
    // Other tags continue.
    host.create("orders");
    assert_eq!(host.client().next("orders").unwrap(), 1);
    host.stop();
    crate::public_ids::write_keys(&file, "1 ffffffffffffffffffffffffffffffff\n");
    host.change("mask_key_file", file.to_str().unwrap());
    host.start();
    refused(&host, "not the key");
    crate::public_ids::write_keys(&file, KEYS);
    host.signal(nix::sys::signal::Signal::SIGHUP);
    let client = host.client();
    let after = eventually("the key is there", WITHIN, || client.next("tickets").ok());
    assert_ne!(after, before);
}

#[test]
fn what_can_t_be_is_refused_in_words() {
    let host = masked_host();
    let raw = &mut host.raw();
    let mut refused = |opcode: u8, body: serde_json::Value, part: &str| {
        raw.request(opcode, 1, body.to_string().as_bytes());
        let words = raw.reply().refused(Status::ValueRefused);
        assert!(words.contains(part), "{words}");
    };
    refused(opcode::TAG_CREATE, json!({ "tag": "a", "masked": 53, "strict": true }), "strict");
    refused(opcode::TAG_CREATE, json!({ "tag": "a", "masked": 19 }), "20 to 63");
    refused(
        opcode::TAG_CREATE,
        json!({ "tag": "a", "masked": 53, "ceiling": 1_u64 << 53 }),
        "ceiling",
    );
    refused(opcode::TAG_SET, json!({ "tag": "tickets", "ceiling": 1_u64 << 53 }), "53 bits");
    // Even before the tag is known to be masked, a request for more ids than fit into a reply is answered.
    for _ in 0..2 {
        raw.ask("tickets", 20_000, 2);
        let words = raw.reply().refused(Status::CountInvalid);
        assert!(words.contains("10000"), "{words}");
    }
    assert_eq!(raw.draw("tickets", 10_000).len(), 10_000);

    let mut without = Host::new();
    without.start();
    without.raw().request(opcode::TAG_CREATE, 1, br#"{"tag":"a","masked":53}"#);
    let mut raw = without.raw();
    raw.request(opcode::TAG_CREATE, 1, br#"{"tag":"a","masked":53}"#);
    raw.reply().refused(Status::MaskKey);
}

#[test]
fn leafctl_creates_lists_and_draws_them() {
    let host = masked_host();
    let said = |args: &[&str]| {
        let output = host.leafctl(args);
        assert!(output.status.success(), "{args:?}: {output:?}");
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    let (shown, warned) = said(&["tag", "create", "codes", "--masked", "40"]);
    assert!(
        shown.contains("masked         40") && warned.contains("one guess in 1099511"),
        "{shown}{warned}"
    );
    let (listed, _) = said(&["tag", "list"]);
    assert_eq!(listed.lines().filter(|line| line.contains(" masked")).count(), 2, "{listed}");
    let (ids, _) = said(&["next", "codes", "-n", "25000"]);
    let ids: HashSet<u64> = ids.lines().map(|id| id.parse().unwrap()).collect();
    assert_eq!(ids.len(), 25_000);
}
