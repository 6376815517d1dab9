//! Who may do what, by the credentials that the kernel reports for a connection's peer.

use leafd_wire::{Status, opcode};
use serde_json::Value;

use crate::host::Host;
use crate::raw::{Raw, connect_as, ids_request};

/// A user without any rights at the daemon.
pub const STRANGER: u32 = 65_534;

#[track_caller]
pub fn raw_as(host: &Host, uid: u32, gid: u32, groups: &[u32]) -> Raw {
    let stream = connect_as(&host.socket(), uid, gid, groups);
    Raw::over(stream.unwrap_or_else(|error| {
        panic!("cannot connect as {uid}: {error}; the tests of access have to run as root")
    }))
}

fn open_to_all() -> Host {
    Host::new().worker(17).set("socket_mode", "0666")
}

#[track_caller]
fn may_administer(raw: &mut Raw, expect: bool) {
    let requests: [(u8, &[u8]); 8] = [
        (opcode::TAG_CREATE, br#"{"tag":"orders"}"#),
        (opcode::TAG_LIST, b"{}"),
        (opcode::TAG_SHOW, br#"{"tag":"orders"}"#),
        (opcode::TAG_SET, br#"{"tag":"orders","step":5}"#),
        (opcode::WHOSE, br#"{"tag":"orders","id":5}"#),
        (opcode::GAPS, br#"{"tag":"orders","first":1,"last":5}"#),
        (
            opcode::SERIES_CREATE,
            br#"{"series":"bills","format":"B{n:4}","timezone":"UTC","overflow":"grow","dense":false,"tenants_max":1}"#,
        ),
        (opcode::SERIES_LIST, b"{}"),
    ];
    for (opcode, body) in requests {
        raw.request(opcode, 1, body);
        let reply = raw.reply();
        match expect {
            true => assert_ne!(reply.status(), Status::Denied, "{opcode}: {}", reply.text()),
            false => {
                let text = reply.refused(Status::Denied);
                assert!(text.contains("admin_uids") && text.contains("admin_gids"), "{text}");
            }
        }
    }
}

#[test]
fn strangers_draw_but_do_not_administer() {
    let mut host = open_to_all();
    host.start();
    host.create("orders");
    let mut stranger = raw_as(&host, STRANGER, STRANGER, &[]);
    assert_eq!(stranger.draw("orders", 2), [1, 2]);
    assert_eq!(stranger.draw("snowflake", 2).len(), 2);
    may_administer(&mut stranger, false);
    // The kind of refusal must not reveal which tags exist.
    stranger.request(opcode::TAG_SHOW, 1, br#"{"tag":"nosuch"}"#);
    stranger.reply().refused(Status::Denied);
    stranger.request(opcode::TAG_SHOW, 1, b"not JSON");
    stranger.reply().refused(Status::Denied);
    assert_eq!(host.raw().draw("orders", 1), [3]);
}

#[test]
fn administrators_are_named_by_user_or_by_any_group() {
    let mut host = open_to_all().set("admin_uids", "[4001]").set("admin_gids", "[4002]");
    host.start();
    may_administer(&mut raw_as(&host, 4_001, 9, &[]), true);
    may_administer(&mut raw_as(&host, 9, 4_002, &[]), true);
    may_administer(&mut raw_as(&host, 9, 9, &[5, 4_002, 7]), true);
    let many: Vec<u32> = (10_000..10_100).chain([4_002]).collect();
    may_administer(&mut raw_as(&host, 9, 9, &many), true);
    // For a peer with more groups than leafd reads, only the primary group counts.
    let most: Vec<u32> = (10_000..11_023).chain([4_002]).collect();
    let more: Vec<u32> = (10_000..11_024).chain([4_002]).collect();
    may_administer(&mut raw_as(&host, 9, 9, &most), true);
    may_administer(&mut raw_as(&host, 9, 9, &more), false);
    may_administer(&mut raw_as(&host, 9, 4_002, &more), true);
    may_administer(&mut raw_as(&host, 4_002, 4_001, &[4_001]), false);
    may_administer(&mut host.raw(), true);
}

#[test]
fn the_daemons_own_user_administers() {
    let mut host = open_to_all().user(4_010);
    host.start();
    may_administer(&mut raw_as(&host, 4_010, 9, &[]), true);
    may_administer(&mut host.raw(), true);
    may_administer(&mut raw_as(&host, 4_011, 4_010, &[]), false);
}

#[test]
fn rules_say_who_draws_which_tags() {
    let rules = r#"[{tags = ["pay.*", "ledger"], uids = [4001]}, {tags = ["ledger", "snowflake"], gids = [4002]}]"#;
    let mut host = open_to_all().set("access", rules);
    host.start();
    for tag in ["orders", "pay.in", "pay.", "ledger"] {
        host.create(tag);
    }
    let free = ["orders", "nosuch"];
    let cases: [(u32, &[u32], &[&str]); 3] = [
        (4_001, &[], &["pay.in", "pay.", "ledger"]),
        (9, &[4_002], &["ledger", "snowflake"]),
        (9, &[], &[]),
    ];
    for (uid, groups, allowed) in cases {
        let mut raw = raw_as(&host, uid, 9, groups);
        for tag in ["orders", "pay.in", "pay.", "ledger", "snowflake", "pay.nosuch", "nosuch"] {
            raw.send(&ids_request(tag, 1, 1, 2_000));
            let reply = raw.reply();
            let by_prefix = uid == 4_001 && tag.starts_with("pay.");
            if allowed.contains(&tag) || free.contains(&tag) || by_prefix {
                assert_ne!(reply.status(), Status::Denied, "{uid} {groups:?} {tag}");
            } else {
                let text = reply.refused(Status::Denied);
                assert!(text.contains(tag) && text.contains(&uid.to_string()), "{text}");
            }
        }
    }
    for tag in ["orders", "pay.in", "ledger", "snowflake"] {
        host.raw().draw(tag, 1);
    }
}

#[test]
fn the_socket_keeps_out_whom_its_mode_keeps_out() {
    let mut host = Host::new().set("socket_group", "4002");
    host.start();
    host.create("orders");
    let refused = connect_as(&host.socket(), STRANGER, STRANGER, &[]).map(drop);
    assert_eq!(refused.unwrap_err().kind(), std::io::ErrorKind::PermissionDenied);
    assert_eq!(raw_as(&host, STRANGER, STRANGER, &[4_002]).draw("orders", 1), [1]);
}

#[test]
fn status_tells_strangers_only_whether_ids_can_be_had() {
    let mut host = open_to_all();
    host.start();
    host.create("orders");
    host.raw().draw("orders", 1);
    let status = |mut raw: Raw| -> Value {
        raw.request(opcode::STATUS, 1, b"");
        serde_json::from_slice(&raw.reply().body).unwrap()
    };
    let members =
        |value: &Value| -> Vec<String> { value.as_object().unwrap().keys().cloned().collect() };
    let seen = status(raw_as(&host, STRANGER, STRANGER, &[]));
    let documented = ["health", "pid", "protocol", "release", "segments", "snowflake", "uptime_ms"];
    let mut names = members(&seen);
    names.sort();
    assert_eq!(names, documented);
    for (part, known) in [("segments", &["ready"][..]), ("snowflake", &["ready", "worker"])] {
        let mut names = members(&seen[part]);
        names.sort();
        assert_eq!(names, known, "{part}");
    }
    assert_eq!(seen["segments"]["ready"], true);
    let mut names = members(&seen["health"]);
    names.sort();
    assert_eq!(names, ["conditions", "conditions_left_out", "line", "state"]);
    assert_eq!(seen["health"]["line"], "OK: segment and snowflake ids available");
    assert_eq!(seen["health"]["state"], "ok");
    assert_eq!(seen["snowflake"]["worker"], 17);
    let full = status(host.raw());
    assert_eq!(full["segments"]["tags"][0]["tag"], "orders");
    for name in documented {
        assert!(!full[name].is_null(), "{name}");
    }
}
