//! A state directory whose disk does not answer: it reports no fault, and yet nothing more can be had.

use std::fs;

use leafd_wire::{Status, opcode};
use serde_json::json;

use crate::faults::{EXIT_NOT_READY, MENDED_WITHIN, start_sound, store_elsewhere};
use crate::host::eventually;
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
    eventually("a claim is on its way to the journal", MENDED_WITHIN, || {
        raw.send(&ids_request("orders", 500, 1, 100));
        let reply = raw.reply();
        (reply.status() == Status::Deadline && reply.text().contains("a claim")).then_some(())
    });
    // The store answers, so what is asked of it alone does.
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
