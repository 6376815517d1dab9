//! Starts and stops: what a clean stop leaves behind, and what happens to waiting clients.

use std::time::{Duration, Instant};

use leafd_client::opcode;
use leafd_wire::Status;
use nix::sys::signal::Signal;
use serde_json::json;

use crate::host::{Host, eventually};
use crate::raw::ids_request;

/// A strict tag has no reserve, so an outage stops it immediately. The host continues with its other tags.
#[test]
fn a_strict_tag_without_ids_leaves_the_host_ready() {
    let mut host = Host::new();
    host.start();
    host.create("orders");
    host.admin(opcode::TAG_CREATE, &json!({ "tag": "versions", "strict": true }));
    let mut raw = host.raw();
    raw.draw("orders", 5);
    raw.draw("versions", 1);
    let store = rusqlite::Connection::open(host.state_dir().join("store.db")).unwrap();
    store.execute_batch("BEGIN IMMEDIATE").unwrap();
    let mut waiting = host.raw();
    waiting.send(&ids_request("versions", 1, 1, 60_000));
    eventually("the store is away", Duration::from_secs(60), || {
        host.status()["segments"]["stores"][0]["error"].is_string().then_some(())
    });
    let status = host.status();
    assert!(status["segments"]["tags"].as_array().unwrap().iter().any(|tag| tag["waiting"] == 1));
    assert!(raw.info().segments_ready, "{status}");
    raw.draw("orders", 1);
    store.execute_batch("ROLLBACK").unwrap();
    assert_eq!(waiting.reply().status(), Status::Ok);
}

#[test]
fn a_clean_stop_leaves_no_gap() {
    let mut host = Host::new().worker(17);
    host.start();
    host.create("orders");
    host.create("idle");
    // Claims are so large that marks stay within them for many starts.
    host.admin(opcode::TAG_CREATE, &json!({ "tag": "large", "step": 10_000_000 }));
    let mut last = 0;
    let mut last_snowflake = 0;
    for (round, count) in [1, 63, 64, 65, 1_000, 999, 50_000, 1].into_iter().enumerate() {
        let ids = host.raw().draw("orders", count);
        assert_eq!(ids[0], last + 1, "round {round}: no gap");
        assert!(ids.windows(2).all(|pair| pair[1] == pair[0] + 1), "round {round}");
        last = *ids.last().unwrap();
        assert_eq!(host.raw().draw("large", 1), [round as u64 + 1]);
        let snowflakes = host.raw().draw("snowflake", 3);
        assert!(snowflakes[0] > last_snowflake, "round {round}: ids go up over a restart");
        last_snowflake = snowflakes[2];
        host.stop();
        host.start();
    }
    // Starts without draws skip nothing either.
    for _ in 0..3 {
        host.stop();
        host.start();
    }
    assert_eq!(host.raw().draw("orders", 1), [last + 1]);
    assert_eq!(host.raw().draw("idle", 1), [1]);
}

#[test]
fn sigint_stops_as_cleanly() {
    let mut host = Host::new();
    host.start();
    host.create("orders");
    assert_eq!(host.raw().draw("orders", 5), [1, 2, 3, 4, 5]);
    host.signal(Signal::SIGINT);
    assert!(host.ended().success());
    assert!(!host.socket().exists(), "the socket goes with its daemon");
    host.start();
    assert_eq!(host.raw().draw("orders", 1), [6]);
}

#[test]
fn those_who_wait_are_told_that_the_daemon_stops() {
    let mut host = Host::new().set("stop_within", "2s");
    host.start();
    let lock = rusqlite::Connection::open(host.state_dir().join("store.db")).unwrap();
    lock.execute_batch("BEGIN IMMEDIATE").unwrap();
    let mut waiting: Vec<_> = (0..5).map(|_| host.raw()).collect();
    for raw in &mut waiting {
        raw.send(&ids_request("orders", 1, 1, 60_000));
    }
    let mut idle = host.raw();
    idle.info();
    // The requests have arrived once this one, which was sent after them, is answered.
    host.raw().info();
    let asked = Instant::now();
    host.signal(Signal::SIGTERM);
    for raw in &mut waiting {
        raw.reply().refused(Status::ShuttingDown);
        raw.assert_closed();
    }
    idle.assert_closed();
    assert!(host.ended().success());
    assert!(asked.elapsed() < Duration::from_secs(4), "{:?}", asked.elapsed());
}

#[test]
fn a_store_that_hangs_leaves_a_stop_the_time_for_exact_marks() {
    let mut host = Host::new().set("stop_within", "3s");
    host.start();
    host.create("orders");
    host.create("others");
    let mut raw = host.raw();
    let mut ids = raw.draw("orders", 3);
    let snowflake = raw.draw("snowflake", 1)[0];
    let lock = rusqlite::Connection::open(host.state_dir().join("store.db")).unwrap();
    lock.execute_batch("BEGIN IMMEDIATE").unwrap();
    // A claim is pending, and the worker must be kept for the next start.
    raw.send(&ids_request("others", 1, 1, 60_000));
    host.raw().info();
    // Waits until the claim has been sent, which can't be observed from outside.
    std::thread::sleep(Duration::from_millis(500));
    host.stop();
    let log = host.log();
    for said in ["store has not answered", "registry has not answered", "stopped cleanly"] {
        assert!(log.contains(said), "{said}: {log}");
    }
    drop(lock);
    host.start();
    ids.extend(host.raw().draw("orders", 3));
    assert_eq!(ids, [1, 2, 3, 4, 5, 6]);
    assert!(host.raw().draw("snowflake", 1)[0] > snowflake);
}

#[test]
fn a_stop_does_not_wait_for_those_who_never_read() {
    let mut host = Host::new().set("stop_within", "1s");
    host.start();
    host.create("orders");
    let mut stuck = host.raw();
    assert_eq!(stuck.draw("orders", 1), [1]);
    let requests: Vec<u8> = (0..2_000).flat_map(|id| ids_request("orders", 1, id, 0)).collect();
    let mut writer = stuck.stream.try_clone().unwrap();
    let writing = std::thread::spawn(move || {
        // Writes until the daemon has ended.
        while std::io::Write::write_all(&mut writer, &requests).is_ok() {}
    });
    std::thread::sleep(Duration::from_millis(300));
    let asked = Instant::now();
    host.stop();
    assert!(asked.elapsed() < Duration::from_secs(3), "{:?}", asked.elapsed());
    drop(writing.join());
    let mut last = 1;
    while let Ok(reply) = stuck.try_reply() {
        if reply.status() == Status::Ok {
            last = reply.ids()[0];
        }
    }
    assert!(host.log().contains("stopped cleanly"), "{}", host.log());
    host.start();
    assert!(host.raw().draw("orders", 1)[0] > last);
}

#[test]
fn a_frozen_daemon_goes_on_where_it_was() {
    let mut host = Host::new().worker(17);
    host.start();
    host.create("orders");
    let mut raw = host.raw();
    let before = raw.draw("snowflake", 10);
    assert_eq!(raw.draw("orders", 1), [1]);
    host.signal(Signal::SIGSTOP);
    raw.ask("orders", 1, 77);
    std::thread::sleep(Duration::from_millis(1_500));
    host.signal(Signal::SIGCONT);
    assert_eq!(raw.reply().ids(), [2]);
    let after = raw.draw("snowflake", 10);
    assert!(after[0] > before[9]);
}

#[test]
fn without_a_worker_snowflake_says_what_to_do_and_segments_serve() {
    let mut host = Host::new().set("worker", "none");
    host.start();
    host.create("orders");
    let mut raw = host.raw();
    let text = raw.refused(&ids_request("snowflake", 1, 1, 1_000), Status::NoWorker);
    assert!(text.contains("--worker static:N"), "{text}");
    assert_eq!(raw.draw("orders", 1), [1]);
    let info = raw.info();
    assert_eq!((info.segments_ready, info.snowflake_ready), (true, false));
    let status = host.status();
    assert!(status["snowflake"]["worker"].is_null());
}

const JAVASCRIPT: &str = r#"{javascript = {time_bits = 41, worker_bits = 5, sequence_bits = 7, epoch = "2025-01-01T00:00:00Z"}}"#;

/// The daemon serves others meanwhile, whose ids may lie between.
#[test]
fn a_batch_over_many_ticks_lies_above_all_that_came_before() {
    let mut host = Host::new().worker(17);
    host.start();
    let [mut one, mut other] = [host.raw(), host.raw()];
    let mut last = 0;
    for _ in 0..5 {
        let before = *other.draw("snowflake", 10).last().unwrap();
        one.ask("snowflake", 50_000, 1);
        let beside: Vec<u64> = (0..20).flat_map(|_| other.draw("snowflake", 5)).collect();
        let batch = one.reply().ids();
        assert!(batch.is_sorted_by(|one, next| one < next) && beside.is_sorted());
        assert!(batch[0] > before.max(last), "{} after {before} and {last}", batch[0]);
        assert!(beside.iter().all(|id| batch.binary_search(id).is_err()), "an id came twice");
        last = batch[batch.len() - 1];
    }
}

#[test]
fn layouts_are_drawn_under_their_own_names() {
    let mut host = Host::new().worker(17).set("layouts", JAVASCRIPT);
    host.start();
    let mut raw = host.raw();
    let info = raw.info();
    let names: Vec<&str> = info.layouts.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["javascript", "snowflake"]);
    let (_, layout) = &info.layouts[0];
    let ids = raw.draw("javascript", 300);
    assert!(ids.is_sorted_by(|left, right| left < right));
    for id in &ids {
        assert!(*id < 1 << 53);
        assert_eq!(layout.decompose(*id).unwrap().worker, 17);
    }
    let ids = raw.draw("snowflake", 5_000);
    assert!(ids.is_sorted_by(|left, right| left < right), "over more than one tick");
    for id in ids {
        assert_eq!(leafd_wire::Layout::LEAF.decompose(id).unwrap().worker, 17);
    }
    for opcode in [opcode::TAG_CREATE, opcode::TAG_SHOW] {
        raw.request(opcode, 1, br#"{"tag":"javascript"}"#);
        let text = raw.reply().text();
        assert!(text.contains("layout"), "{text}");
    }
}

#[test]
fn a_layout_that_changed_is_refused_until_it_is_named_anew() {
    let mut host = Host::new().worker(17).set("layouts", JAVASCRIPT);
    host.start();
    host.raw().draw("javascript", 1);
    host.stop();
    host.change("layouts", &JAVASCRIPT.replace("worker_bits = 5", "worker_bits = 6"));
    let refusal = host.try_start().unwrap_err();
    assert_eq!(refusal.code, Some(1));
    assert!(refusal.said.contains("\"javascript\""), "{refusal:?}");
    host.change("layouts", &JAVASCRIPT.replace("javascript", "js"));
    host.start();
    host.raw().draw("js", 1);
    // Its ids stay issued even while it is not configured.
    host.kill();
    host.change("layouts", &JAVASCRIPT.replace("2025", "2024"));
    let refusal = host.try_start().unwrap_err();
    assert!(refusal.said.contains("\"javascript\""), "{refusal:?}");
    host.change("layouts", JAVASCRIPT);
    host.start();
    host.raw().draw("javascript", 1);
}

// === Tags that come and go ===

#[test]
fn a_removed_tag_stops_and_one_made_anew_goes_on_above() {
    let mut host = Host::new().set("removed_tag_check", "1s");
    host.start();
    host.create("orders");
    host.create("other");
    let mut raw = host.raw();
    assert_eq!(raw.draw("orders", 10)[9], 10);
    raw.draw("other", 1);
    std::thread::sleep(Duration::from_millis(100));
    let claimed = host.admin(opcode::TAG_SHOW, &json!({ "tag": "orders" }))["max_id"].clone();
    let claimed = claimed.as_u64().unwrap();
    host.store_sql("DELETE FROM leaf_alloc WHERE biz_tag = 'orders'");
    let removed = Instant::now();
    loop {
        raw.ask("orders", 1, 1);
        let reply = raw.reply();
        if reply.status() == Status::TagUnknown {
            break;
        }
        assert!(
            removed.elapsed() < Duration::from_secs(4),
            "ids go on after {:?}",
            removed.elapsed()
        );
        reply.ids();
        std::thread::sleep(Duration::from_millis(20));
    }
    raw.draw("other", 1);
    // The numbers issued under this name stay used.
    let error = host.client().admin(opcode::TAG_CREATE, r#"{"tag":"orders"}"#).unwrap_err();
    assert_eq!(error.status(), Some(Status::ValueRefused));
    assert!(error.to_string().contains(&claimed.to_string()), "{error}");
    host.admin(opcode::TAG_CREATE, &json!({ "tag": "orders", "start": claimed }));
    assert_eq!(raw.draw("orders", 1), [claimed], "found at once");
    host.kill();
    host.start();
    assert!(host.raw().draw("orders", 1)[0] > claimed);
}

#[test]
fn a_tag_removed_and_made_anew_while_the_daemon_is_down_gives_none_of_its_old_numbers() {
    let mut host = Host::new();
    host.start();
    host.create("orders");
    host.raw().draw("orders", 10);
    host.stop();
    host.store_sql(
        "DELETE FROM leaf_alloc WHERE biz_tag = 'orders';
         INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('orders', 1, 10);",
    );
    host.start();
    let error = host.client().next("orders").unwrap_err().to_string();
    assert!(error.contains("leafctl tag delete \"orders\""), "{error}");
    let seen = host.admin(opcode::TAG_SHOW, &json!({ "tag": "orders" }));
    let delete = json!({ "tag": "orders", "generation": seen["generation"] });
    host.admin(opcode::TAG_DELETE, &delete);
    host.admin(opcode::TAG_CREATE, &json!({ "tag": "orders", "start": 50_000 }));
    assert_eq!(host.raw().draw_until("orders", Duration::from_secs(5)), 50_000);
}

#[test]
fn an_unknown_tag_is_found_as_soon_as_it_is_created() {
    let mut host = Host::new();
    host.start();
    let mut raw = host.raw();
    for name in ["a", "b", "c"] {
        raw.refused(&ids_request(name, 1, 1, 1_000), Status::TagUnknown);
        raw.refused(&ids_request(name, 1, 1, 1_000), Status::TagUnknown);
        host.create(name);
        assert_eq!(raw.draw(name, 1), [1]);
    }
    // Another program creates this tag within the second for which the daemon remembers that it doesn't exist.
    raw.refused(&ids_request("leaf", 1, 1, 1_000), Status::TagUnknown);
    host.store_sql("INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('leaf', 1, 10)");
    std::thread::sleep(Duration::from_millis(1_100));
    assert_eq!(raw.draw("leaf", 1), [1]);
}

#[test]
fn a_tag_ends_at_its_ceiling_and_goes_on_when_that_is_lifted() {
    let mut host = Host::new();
    host.start();
    host.admin(opcode::TAG_CREATE, &json!({ "tag": "small", "step": 10, "ceiling": 25 }));
    let mut raw = host.raw();
    for id in 1..=25 {
        assert_eq!(raw.draw("small", 1), [id]);
    }
    let text = raw.refused(&ids_request("small", 1, 1, 2_000), Status::TagExhausted);
    assert!(text.contains("25"), "{text}");
    host.admin(opcode::TAG_SET, &json!({ "tag": "small", "ceiling": 26 }));
    assert_eq!(raw.draw_until("small", Duration::from_secs(5)), 26);
    let top = i64::MAX as u64;
    host.admin(opcode::TAG_CREATE, &json!({ "tag": "last", "start": top - 3, "step": 1 }));
    for id in top - 3..top {
        assert_eq!(raw.draw("last", 1), [id]);
    }
    raw.refused(&ids_request("last", 1, 1, 2_000), Status::TagExhausted);
}
