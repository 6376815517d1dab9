//! Daemons on both sides of a change of routes: those that have the new routes too early, and those that keep the
//! former ones.

use std::time::Duration;

use leafd_tests::host::{Host, eventually};
use leafd_tests::load::Drawn;
use leafd_tests::raw::ids_request;
use leafd_wire::{Status, opcode};
use serde_json::json;

use crate::routes::{Databases, WITHIN, done};

const ROUTES: &str = "[{ tags = ['orders', 'pay.*'], store = 'a' }, { tags = ['*'], store = 'b' }]";

/// How many ids of a tag the daemon with the former routes holds.
fn held(host: &Host, tag: &str) -> u64 {
    let status = host.status();
    let mut tags = status["segments"]["tags"].as_array().unwrap().iter();
    tags.find(|one| one["tag"] == tag).map_or(0, |one| one["held"].as_u64().unwrap())
}

#[test]
fn daemons_with_the_new_routes_wait_for_them_and_those_with_the_former_ones_hear_of_their_tags() {
    let databases = Databases::new();
    let mut former = Host::on_store(&databases.url("a")).set("removed_tag_check", "1s");
    former.start();
    let mut drawn = Drawn::default();
    for tag in ["orders", "pay.in", "pay.out", "pay.eu"] {
        former.admin(opcode::TAG_CREATE, &json!({ "tag": tag, "step": 5_000 }));
        drawn.add_ids(tag, &former.raw().draw(tag, 10));
    }

    // Before the change, the early daemon refuses immediately, even a tag that it has never used.
    let fleet = databases.fleet(&["a", "b"], ROUTES);
    let mut early = fleet.host();
    early.start();
    assert!(early.log().contains(" WARN ") && early.log().contains("not ready for every tag"));
    for tag in ["orders", "pay.in", "pay.new"] {
        let text = early.raw().refused(&ids_request(tag, 1, 1, 30_000), Status::StoreRefused);
        assert!(text.contains("routes apply"), "{text}");
    }
    done(&fleet.apply(&["--yes"]).output().unwrap());
    // After the change, it continues without a restart.
    for tag in ["orders", "pay.in"] {
        let ids = eventually("ids after the change", WITHIN, || {
            let mut raw = early.raw();
            raw.send(&ids_request(tag, 10, 1, 2_000));
            let reply = raw.reply();
            assert!(!reply.text().contains("being looked up"), "{}", reply.text());
            (reply.status() == Status::Ok).then(|| reply.ids())
        });
        drawn.add_ids(tag, &ids);
    }

    // The former daemon issues its held ids, and learns of changes of its tags.
    eventually("it is refused", WITHIN, || {
        (former.status()["segments"]["stores"][0]["ready"] == false).then_some(())
    });
    drawn.add_ids("orders", &former.raw().draw("orders", 10));
    assert!(held(&former, "pay.in") > 1_000 && held(&former, "pay.out") > 1_000);
    done(&early.leafctl(&["tag", "delete", "pay.in", "--yes-delete", "pay.in"]));
    done(&early.leafctl(&["tag", "set", "pay.out", "--ceiling", "20"]));
    eventually("it knows of the deletion", Duration::from_secs(10), || {
        (held(&former, "pay.in") == 0 && held(&former, "pay.out") <= 10).then_some(())
    });
    let mut raw = former.raw();
    raw.send(&ids_request("pay.in", 1, 1, 1_000));
    let status = raw.reply().status();
    assert!([Status::TagUnknown, Status::StoreRefused].contains(&status), "{status}");
    drawn.add_ids("pay.out", &former.raw().draw("pay.out", 10));
    assert_eq!(drawn.ids["pay.out"].last(), Some(&20));
    former.raw().refused(&ids_request("pay.out", 1, 1, 1_000), Status::StoreRefused);

    // The same applies if it starts meanwhile: it asks about the held ids in its journal before it issues them.
    former.stop();
    done(&early.leafctl(&["tag", "delete", "pay.eu", "--yes-delete", "pay.eu"]));
    done(&early.leafctl(&["tag", "set", "orders", "--ceiling", "25"]));
    former.change("removed_tag_check", "30s");
    former.start();
    let mut raw = former.raw();
    for tag in ["pay.eu", "orders"] {
        loop {
            raw.send(&ids_request(tag, 1, 1, 1_000));
            let reply = raw.reply();
            if reply.status() != Status::Ok {
                let refusals = [Status::TagUnknown, Status::StoreRefused];
                assert!(refusals.contains(&reply.status()), "{tag}: {}", reply.text());
                break;
            }
            assert!(tag == "orders" && reply.ids()[0] <= 25, "{tag}: {:?}", reply.ids());
            drawn.add_ids(tag, &reply.ids());
        }
    }
    assert_eq!(drawn.duplicates(), 0);
}
