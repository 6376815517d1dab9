//! A disk that doesn't answer, under the state directory or the embedded store: it reports no fault, and yet no more
//! ids can be issued.

use std::fs;

use leafd_wire::{Status, opcode};
use serde_json::json;

use crate::faults::{EXIT_NOT_READY, MENDED_WITHIN, start_sound, store_elsewhere};
use crate::host::{Host, eventually};
use crate::power::{Mode, PowerLoss};
use crate::raw::ids_request;

#[test]
fn a_disk_that_does_not_answer_is_no_sound_one() {
    let mut host = store_elsewhere();
    fs::create_dir(host.state_dir()).unwrap();
    let scratch = tempfile::tempdir().unwrap();
    let power = PowerLoss::of(&host.state_dir(), scratch.path()).unwrap();
    host.watch(&power, Mode::Sync);
    start_sound(&mut host);
    power.hang_disk(true).unwrap();
    let mut raw = host.raw();
    let text = eventually("a snowflake id is waited for in vain", MENDED_WITHIN, || {
        raw.send(&ids_request("snowflake", 1, 1, 100));
        let reply = raw.reply();
        (reply.status() == Status::Deadline && reply.text().contains("journal.db"))
            .then(|| reply.text())
    });
    assert!(text.contains("has not answered"), "{text}");
    let status = host.status();
    assert_eq!(status["health"]["conditions"][0]["code"], "journal_failing");
    assert!(status["journal_error"].as_str().unwrap().contains("has not answered"));
    assert!(!raw.info().segments_ready && !raw.info().snowflake_ready);
    assert_eq!(host.leafctl(&["ping", "--ready", "segments"]).status.code(), Some(EXIT_NOT_READY));
    let text = eventually("a claim is on its way to the journal", MENDED_WITHIN, || {
        raw.send(&ids_request("orders", 500, 1, 100));
        let reply = raw.reply();
        (reply.status() == Status::Deadline && reply.text().contains("a claim"))
            .then(|| reply.text())
    });
    assert!(text.contains("has not answered"), "{text}");
    // The store answers, so requests that need only the store succeed.
    let change = json!({ "tag": "orders", "description": "of the shop" });
    host.admin(opcode::TAG_SET, &change);
    power.hang_disk(false).unwrap();
    eventually("all is well", MENDED_WITHIN, || {
        let info = raw.info();
        (info.segments_ready && info.snowflake_ready).then_some(())
    });
    raw.draw_until("snowflake", MENDED_WITHIN);
    assert!(host.status()["journal_error"].is_null());
    host.stop();
}

/// The journal's disk works, but the embedded store's disk hangs.
#[test]
fn a_store_whose_disk_does_not_answer_is_away() {
    let mut host = Host::new().worker(17);
    let folder = host.path("store");
    fs::create_dir(&folder).unwrap();
    host.change("store", &format!("sqlite:{}", folder.join("store.db").display()));
    let scratch = tempfile::tempdir().unwrap();
    let power = PowerLoss::of(&folder, scratch.path()).unwrap();
    host.watch(&power, Mode::Sync);
    start_sound(&mut host);
    power.hang_disk(true).unwrap();
    let mut raw = host.raw();
    let mut last = 1;
    let text = eventually("an id is waited for in vain", MENDED_WITHIN, || {
        loop {
            raw.send(&ids_request("orders", 1, 1, 100));
            let reply = raw.reply();
            if reply.status() != Status::Ok {
                return (reply.status() == Status::StoreUnavailable).then(|| reply.text());
            }
            assert_eq!(reply.ids(), [last + 1]);
            last += 1;
        }
    });
    assert!(text.contains("store.db can't be used: it has not answered"), "{text}");
    let status = host.status();
    let found = &status["health"]["conditions"][0];
    assert_eq!([&found["code"], &found["severity"]], ["store_away", "error"], "{status}");
    assert!(found["since_ms_ago"].as_u64().unwrap() >= 5_000, "{status}");
    assert!(found["remedy"].as_str().unwrap().contains("check the disk"), "{status}");
    let store = &status["segments"]["stores"][0];
    assert_eq!(store["ready"], false, "{status}");
    assert!(store["error"].as_str().unwrap().contains("has not answered"), "{status}");
    let metrics = String::from_utf8(host.leafctl(&["metrics"]).stdout).unwrap();
    assert!(metrics.lines().any(|line| line.starts_with("leafd_store_up") && line.ends_with(" 0")));
    assert!(!raw.info().segments_ready && raw.info().snowflake_ready);
    assert_eq!(host.leafctl(&["ping", "--ready", "segments"]).status.code(), Some(EXIT_NOT_READY));
    eventually("it is told", MENDED_WITHIN, || {
        let log = host.log();
        let told = |line: &str| line.contains("ERROR") && line.contains("code=\"store_away\"");
        log.lines().any(told).then_some(())
    });
    raw.draw("snowflake", 1);
    power.hang_disk(false).unwrap();
    eventually("all is well", MENDED_WITHIN, || raw.info().segments_ready.then_some(()));
    // The claim that hung was granted, and its ids are used.
    assert_eq!(raw.draw_until("orders", MENDED_WITHIN), last + 1);
    assert!(host.status()["health"]["conditions"].as_array().unwrap().is_empty());
    host.stop();
}
