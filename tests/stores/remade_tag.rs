//! A tag is deleted and created again while a host that holds ids of it is stopped: these held ids are never issued.

use leafd_tests::host::Host;
use leafd_tests::load::Draw;
use leafd_tests::load::Load;
use leafd_tests::servers::Server;

use leafd_wire::opcode;
use serde_json::json;

use crate::scene::{HELD, Route, Scene, create, report};

/// A tag's step, which is the size of a host's first claim.
const STEP: u64 = 1_000;

on_each_server!(leftovers_after_a_clean_stop_are_dead, leftovers_after_a_kill_are_dead);

fn leftovers_after_a_clean_stop_are_dead<S: Server>() {
    leftovers_are_dead::<S>("tag made anew, host was stopped", Host::stop);
}

fn leftovers_after_a_kill_are_dead<S: Server>() {
    leftovers_are_dead::<S>("tag made anew, host was killed", Host::kill);
}

fn leftovers_are_dead<S: Server>(fault: &str, end: impl Fn(&mut Host)) {
    let mut scene = Scene::<S>::new(Route::Direct);
    let load = Load::start(vec![Draw::steady(&scene.hosts[1].socket(), HELD)]);
    load.under_way();
    create(&scene.hosts[0], "orders", STEP);
    let mut ids = scene.hosts[0].raw().draw("orders", 10);
    assert_eq!(*ids.last().unwrap(), 10);
    end(&mut scene.hosts[0]);
    scene.server.sql("DELETE FROM leaf_alloc WHERE biz_tag = 'orders'");
    scene.server.sql(&format!(
        "INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('orders', 1, {STEP})"
    ));
    // The tag is refused until the operator runs the command that the refusal names.
    let refused = scene.hosts[1].client().next("orders").unwrap_err().to_string();
    assert!(refused.contains("leafctl tag delete \"orders\""), "{refused}");
    let end = scene.server.sql("SELECT highest_end FROM leafd_tag WHERE tag = 'orders'");
    let start: u64 = end[0][0].parse().unwrap();
    assert!(refused.contains(&format!("--start {start}")), "{refused}");
    let show = scene.hosts[1].admin(opcode::TAG_SHOW, &json!({ "tag": "orders" }));
    let generation = show["generation"].clone();
    let delete = json!({ "tag": "orders", "generation": generation });
    scene.hosts[1].admin(opcode::TAG_DELETE, &delete);
    let create = json!({ "tag": "orders", "start": start, "step": STEP });
    scene.hosts[1].admin(opcode::TAG_CREATE, &create);
    ids.extend(scene.hosts[1].raw().draw("orders", 300));
    scene.hosts[0].start();
    let anew = scene.hosts[0].raw().draw("orders", 1_500);
    assert!(anew.iter().all(|id| *id > STEP), "left from the old tag: {:?}", &anew[..5]);
    ids.extend(anew);
    ids.extend(scene.hosts[1].raw().draw("orders", 1_500));
    let issued = load.issued();
    let mut all = load.stop();
    all.add_ids("orders", &ids);
    report::<S>(fault, issued, &all, None);
    all.assert_sound();
    assert!(all.errors.is_empty(), "{:?}", all.errors);
}
