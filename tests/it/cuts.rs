//! Ids cut off by a lowered ceiling, across a crash: the journal must record the cut, or a restart issues such ids
//! again.

use std::collections::BTreeSet;
use std::time::Duration;

use leafd_wire::{Status, opcode};
use serde_json::json;

use crate::host::Host;
use crate::raw::ids_request;

#[test]
fn what_was_cut_is_not_issued_after_a_crash() {
    let mut host = Host::new().set("removed_tag_check", "1s");
    host.start();
    host.admin(opcode::TAG_CREATE, &json!({ "tag": "orders", "step": 1_000_000 }));
    let mut raw = host.raw();
    let mut drawn = BTreeSet::new();
    let mut new = |ids: Vec<u64>| {
        for id in ids {
            assert!(drawn.last().is_none_or(|last| id > *last), "{id} after {:?}", drawn.last());
            drawn.insert(id);
        }
    };
    new(raw.draw("orders", 10));
    host.admin(opcode::TAG_SET, &json!({ "tag": "orders", "ceiling": 100 }));
    // The daemon learns within this time what it may issue.
    std::thread::sleep(Duration::from_millis(2_500));
    new(raw.draw("orders", 90));
    raw.refused(&ids_request("orders", 1, 1, 1_000), Status::TagExhausted);
    host.admin(opcode::TAG_SET, &json!({ "tag": "orders", "ceiling": 10_000_000 }));
    new(vec![raw.draw_until("orders", Duration::from_secs(5))]);
    host.kill();
    host.start();
    let mut raw = host.raw();
    for _ in 0..3 {
        new(raw.draw("orders", 100));
    }
}
