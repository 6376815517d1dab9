//! The snowflake worker of a host whose store is its own file: claimed with the first id, kept, and released.

use std::process::Command;
use std::time::Duration;

use leafd_wire::{Layout, Status, opcode};
use serde_json::json;

use crate::host::{Host, eventually, leafd_binary};
use crate::raw::ids_request;

fn worker_of(id: u64) -> u64 {
    Layout::LEAF.decompose(id).unwrap().worker
}

#[test]
fn a_worker_is_claimed_at_the_first_snowflake_id_and_kept_over_a_stop_and_a_crash() {
    let mut host = Host::new();
    host.start();
    host.create("orders");
    let mut raw = host.raw();
    assert_eq!(raw.draw("orders", 1), [1]);
    // It has checked that a worker is available, but taken none.
    eventually("ready", Duration::from_secs(10), || raw.info().snowflake_ready.then_some(()));
    assert!(host.status()["snowflake"]["worker"].is_null());
    let list = host.admin(opcode::WORKER_LIST, &json!({}));
    assert_eq!((&list["workers"], &list["pool"]), (&json!([]), &json!([0, 1024])));
    let mut ids = raw.draw("snowflake", 10);
    let worker = worker_of(ids[0]);
    assert_eq!(host.status()["snowflake"]["worker"], worker);
    for clean in [true, false] {
        host.renews_its_lease();
        if clean {
            host.stop()
        } else {
            host.kill()
        }
        let (id, took) = host.first_id("snowflake");
        println!("| SQLite | restart, clean: {clean} | {} ms to the first id |", took.as_millis());
        assert_eq!(worker_of(id), worker);
        assert!(id > *ids.last().unwrap());
        ids.push(id);
    }
    let list = host.admin(opcode::WORKER_LIST, &json!({}));
    assert_eq!(list["workers"][0]["worker"], worker);
    assert_eq!(list["workers"][0]["stopped"], false);
}

#[test]
fn a_worker_that_is_given_back_is_free_and_the_next_id_claims_one_anew() {
    let mut host = Host::new().set("worker_range", "7..9");
    host.start();
    let mut raw = host.raw();
    let mut ids = raw.draw("snowflake", 10);
    for _ in 0..20 {
        let answer = host.admin(opcode::WORKER_RELEASE, &json!({}));
        assert_eq!(
            (answer["own"].clone(), answer["worker"].as_u64()),
            (json!(true), Some(worker_of(ids[0])))
        );
        ids.extend(raw.draw("snowflake", 10));
        assert!((7..9).contains(&worker_of(*ids.last().unwrap())));
        assert!(ids.is_sorted(), "over a change of worker ids go up: {ids:?}");
        ids.drain(..ids.len() - 10);
    }
    let text = raw_text(&host, json!({ "worker": 3 }));
    assert!(text.contains("no host holds worker 3"), "{text}");
}

#[test]
fn a_worker_is_given_back_above_the_ids_of_a_layout_that_was_dropped() {
    const OTHER: &str = r#"{other = {time_bits = 41, worker_bits = 10, sequence_bits = 12, epoch = "2025-01-01T00:00:00Z"}}"#;
    let mut host = Host::new().set("layouts", OTHER);
    host.start();
    let mut raw = host.raw();
    let (_, layout) = raw.info().layouts.into_iter().find(|(name, _)| name == "other").unwrap();
    let last = layout.decompose(raw.draw("other", 10)[9]).unwrap();
    host.kill();
    host.unset("layouts");
    host.start();
    let answer = host.admin(opcode::WORKER_RELEASE, &json!({}));
    assert_eq!(answer["worker"], last.worker);
    let until_ms = eventually("given back", Duration::from_secs(10), || {
        let list = host.admin(opcode::WORKER_LIST, &json!({}));
        let row = &list["workers"][0];
        row["holder"].is_null().then(|| row["until_ms"].as_u64().unwrap())
    });
    let used_ms = layout.tick_start_ms(last.tick);
    assert!(until_ms > used_ms, "given back from {until_ms}, and {used_ms} was used");
}

#[test]
fn a_worker_that_was_taken_from_a_host_is_replaced_by_another() {
    let mut host = Host::new().set("worker_range", "0..2").set("lease", "30s");
    host.start();
    let mut raw = host.raw();
    let first = raw.draw("snowflake", 10);
    let worker = worker_of(first[0]);
    host.store_sql(&format!("UPDATE leafd_worker SET holder = NULL, name = NULL, incarnation = NULL WHERE worker = {worker}"));
    eventually("another worker", Duration::from_secs(10), || {
        (worker_of(raw.draw("snowflake", 1)[0]) != worker).then_some(())
    });
    assert!(raw.draw("snowflake", 1)[0] > first[9]);
}

#[test]
fn a_worker_from_the_configuration_s_map_is_that_of_the_host() {
    let mut host =
        Host::new().set("worker", "static").set("identity", "b").set("workers", "{a = 4, b = 5}");
    host.start();
    assert_eq!(worker_of(host.raw().draw("snowflake", 1)[0]), 5);
    let text = raw_text(&host, json!({}));
    assert!(text.contains("no worker from a registry"), "{text}");
    let refused = host.raw().refused(&ids_request("snowflake", 0, 1, 0), Status::CountInvalid);
    assert!(refused.contains("1 to"), "{refused}");
}

fn raw_text(host: &Host, body: serde_json::Value) -> String {
    let mut raw = host.raw();
    raw.request(opcode::WORKER_RELEASE, 1, body.to_string().as_bytes());
    raw.reply().refused(Status::ValueRefused)
}

/// Leaf shows an id's time in its host's time zone; `leafctl decode` shows both.
#[test]
fn an_id_is_decoded_in_utc_and_in_the_host_s_zone() {
    let decode = |zone: &str, json: bool| {
        let leafctl = leafd_binary().with_file_name("leafctl");
        let mut command = Command::new(leafctl);
        // No daemon answers there, but Leaf's own layout is known without one.
        command.env_clear().env("LEAFD_SOCKET", "/nonexistent/leafd.sock").env("TZ", zone);
        command.args(["decode", "1169931837129097216"]).args(json.then_some("--json"));
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    // China once had summer time, but not on that date; New York did; a zone may be spelt out.
    for (zone, local) in [
        ("Asia/Shanghai", "2019-09-06 19:14:20.911 +08:00"),
        ("America/New_York", "2019-09-06 07:14:20.911 -04:00"),
        ("IST-5:30", "2019-09-06 16:44:20.911 +05:30"),
        ("UTC", "2019-09-06 11:14:20.911 +00:00"),
    ] {
        let text = decode(zone, false);
        assert!(text.contains("time      2019-09-06T11:14:20.911Z (1567768460911)"), "{text}");
        assert!(text.contains(&format!("local     {local}\n")), "{zone}: {text}");
        let json: serde_json::Value = serde_json::from_str(&decode(zone, true)).unwrap();
        assert_eq!(json["local"], local);
    }
}
