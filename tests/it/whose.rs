//! `leafctl whose` and `leafctl gaps` on the embedded store: masked ids and invalid queries. `tests/stores` covers
//! several hosts.

use leafd_wire::{Status, opcode};
use serde_json::{Value, json};

use crate::access::{STRANGER, raw_as};
use crate::host::Host;
use crate::public_ids::host_of_vectors;

#[track_caller]
fn said(host: &Host, words: &[&str]) -> Value {
    let output = host.leafctl(&[&["whose", "--json"], words].concat());
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn ids_are_unmasked_before_they_are_looked_up() {
    let mut host = host_of_vectors();
    host.start();
    host.admin(opcode::TAG_CREATE, &json!({ "tag": "tickets", "masked": 53 }));
    host.create("orders");
    let ids: Vec<u64> = host.client().next_batch("tickets", 3).unwrap().collect();
    for (id, number) in ids.iter().zip(1..) {
        let answer = said(&host, &[&id.to_string(), "--tag", "tickets"]);
        assert_eq!((&answer["number"], &answer["verdict"]), (&json!(number), &json!("claimed")));
        assert_eq!(answer["claims"][0]["own"], true, "{answer}");
        assert_eq!(answer["processes"][0]["pid"], std::process::id(), "{answer}");
    }
    // A number that is not an id under this tag's mask was not claimed.
    assert_eq!(said(&host, &["17", "--tag", "tickets"])["verdict"], "not_claimed");

    let id = host.client().next("orders").unwrap();
    let public = host.client().public_ids("orders").prefix("ord").mask_text(&[id]).unwrap();
    let answer = said(&host, &[&public[0], "--tag", "orders"]);
    assert_eq!((&answer["id"], &answer["verdict"]), (&json!(id), &json!("claimed")), "{answer}");
    let wrong = host.leafctl(&["whose", &public[0]]);
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("--tag"), "{wrong:?}");
}

/// The daemon records draws with a resolution of one second.
#[test]
fn no_id_is_given_before_it_exists() {
    let mut host = Host::new();
    host.start();
    for turn in 0..5 {
        let tag = format!("orders{turn}");
        host.create(&tag);
        let id = host.client().next_direct(&tag).unwrap();
        let answer = said(&host, &[&id.to_string(), "--tag", &tag]);
        let [given, claimed] =
            [&answer["processes"][0]["at_ms"], &answer["claims"][0]["claimed_ms"]];
        assert!(given.as_u64().unwrap() >= claimed.as_u64().unwrap(), "{answer}");
    }
    let id = host.client().next_direct("snowflake").unwrap();
    let answer = said(&host, &[&id.to_string(), "--tag", "snowflake"]);
    assert!(answer["processes"][0]["at_ms"].as_u64() >= answer["at_ms"].as_u64(), "{answer}");
}

#[test]
fn what_is_no_id_is_refused() {
    let mut host = Host::new().worker(17);
    host.start();
    host.create("orders");
    let mut raw = host.raw();
    for (body, status) in [
        (r#"{"tag":"orders"}"#, Status::Malformed),
        (r#"{"tag":"orders","id":-1}"#, Status::Malformed),
        (r#"{"tag":"","id":1}"#, Status::TagInvalid),
        (r#"{"tag":"nosuch","id":1}"#, Status::TagUnknown),
        (r#"{"tag":"snowflake","id":18446744073709551615}"#, Status::ValueRefused),
    ] {
        raw.request(opcode::WHOSE, 1, body.as_bytes());
        raw.reply().refused(status);
    }
    let answer = host.admin(opcode::WHOSE, &json!({ "tag": "orders", "id": u64::MAX }));
    assert_eq!(answer["verdict"], "not_claimed");
    // Nothing has been claimed yet, and nothing is remembered.
    assert_eq!(answer["remembered_since_ms"], Value::Null);
    assert_eq!(said(&host, &["2124082651684941858"])["verdict"], "no_registry");
}

/// However the ids are drawn.
#[test]
fn the_process_that_drew_an_id_is_told() {
    let mut host = Host::new().worker(17).set("socket_mode", "0666");
    host.start();
    host.create("orders");
    host.admin(opcode::TAG_CREATE, &json!({ "tag": "ledger", "strict": true }));
    let mut stranger = raw_as(&host, STRANGER, STRANGER, &[]);
    let mut other = host.raw();
    for tag in ["orders", "ledger", "snowflake"] {
        let (mine, theirs) = (other.draw(tag, 3), stranger.draw(tag, 3));
        let held = host.client().next(tag).unwrap();
        let own_uid = nix::unistd::getuid().as_raw();
        for (id, uid) in
            [(mine[0], own_uid), (mine[2], own_uid), (theirs[1], STRANGER), (held, own_uid)]
        {
            let answer = said(&host, &[&id.to_string(), "--tag", tag]);
            let [process] = &answer["processes"].as_array().unwrap()[..] else {
                panic!("{answer}")
            };
            assert_eq!(
                (&process["uid"], &process["pid"]),
                (&json!(uid), &json!(std::process::id()))
            );
        }
    }
    let id = other.draw("orders", 1)[0];
    let output = host.leafctl(&["whose", &id.to_string(), "--tag", "orders"]);
    let words = String::from_utf8_lossy(&output.stdout);
    assert!(words.contains(&format!("pid {}", std::process::id())), "{words}");
    // A restarted daemon remembers nothing.
    host.stop();
    host.start();
    let answer = said(&host, &[&id.to_string(), "--tag", "orders"]);
    assert_eq!(answer["processes"], json!([]), "{answer}");
}

#[test]
fn a_host_may_note_no_process() {
    let mut host = Host::new().set("draws_kept", "0");
    host.start();
    host.create("orders");
    let id = host.client().next("orders").unwrap();
    let answer = said(&host, &[&id.to_string(), "--tag", "orders"]);
    assert_eq!((&answer["verdict"], &answer["processes"]), (&json!("claimed"), &json!([])));
}

#[test]
fn each_number_of_an_embedded_store_is_accounted_for() {
    let mut host = Host::new();
    host.start();
    host.admin(opcode::TAG_CREATE, &json!({ "tag": "orders", "start": 101, "step": 10_000 }));
    let drawn = host.raw().draw("orders", 10);
    host.kill();
    host.start();
    let after_crash = host.raw().draw("orders", 1)[0];
    assert!(!drawn.contains(&after_crash));
    let gaps = |first: u64, last: u64| {
        let answer =
            host.admin(opcode::GAPS, &json!({ "tag": "orders", "first": first, "last": last }));
        assert_eq!(answer["next"], Value::Null, "{answer}");
        answer["parts"].as_array().unwrap().clone()
    };
    let parts = gaps(1, 1_000_000);
    let mut next = 1;
    for part in &parts {
        assert_eq!(part["first"], next, "{parts:#?}");
        next = part["last"].as_u64().unwrap() + 1;
    }
    assert_eq!(next, 1_000_001, "{parts:#?}");
    for (number, why) in [
        (100, "not_remembered"),
        (drawn[0], "issued_until_crash"),
        (after_crash, "issued"),
        (after_crash + 1, "held"),
        (1_000_000, "not_claimed"),
    ] {
        assert_eq!(gaps(number, number)[0]["why"], why, "{number}: {parts:#?}");
    }
    let output = host.leafctl(&["gaps", "orders", "1..1000000"]);
    let words = String::from_utf8_lossy(&output.stdout);
    assert_eq!(words.lines().count(), parts.len(), "{words}");
    assert!(words.contains("not claimed yet"), "{words}");
}
