//! Routes that are changed while a tag's creation is unfinished: refused before anything is changed, with what to do.

use std::fs;

use leafd_tests::host::Host;
use leafd_tests::load::Drawn;
use leafd_wire::{Status, opcode};
use serde_json::json;

use crate::routes::{Databases, Fleet, STEP, done, refused};

/// As a creation leaves a primary that was interrupted before it released the tag there.
const INTERRUPT: &str = "UPDATE leafd_tag SET ceiling = 0 WHERE tag = 'events'";

fn create(host: &Host) {
    host.admin(opcode::TAG_CREATE, &json!({ "tag": "events", "step": STEP }));
}

#[test]
fn a_primary_with_an_unfinished_tag_is_retired_once_that_is_finished() {
    let databases = Databases::new();
    let primaries = |names: &[&'static str], era: u32| -> Fleet {
        databases.fleet(names, &format!("[{{ tags = ['*'], primaries = {names:?}, era = {era} }}]"))
    };
    let (former, next) = (primaries(&["a", "b", "c"], 1), primaries(&["a", "b"], 2));
    done(&former.apply(&["--yes"]).output().unwrap());
    let mut host = former.host();
    host.start();
    create(&host);
    let mut drawn = Drawn::default();
    drawn.add_ids("events", &host.raw().draw("events", 300));
    databases.sql("c", INTERRUPT);

    let file = host.path("former.toml");
    let text = format!("stores = {}\nroutes = {}\n", former.stores_toml(), former.routes);
    fs::write(&file, text).unwrap();
    let words = ["--yes", "--former", file.to_str().unwrap()];
    let places = || ["a", "b", "c"].map(|name| databases.place(name));
    let before = places();
    for words in [&words[..], &words[1..]] {
        let said = refused(&next.apply(words).output().unwrap());
        for part in [
            "nothing was changed: 1 tags",
            "events in c: its creation was interrupted",
            "leafctl tag create TAG",
        ] {
            assert!(said.contains(part), "no {part} in {said}");
        }
        assert_eq!(places(), before);
    }

    // What the message names.
    create(&host);
    done(&next.apply(&words).output().unwrap());
    assert_eq!(databases.place("c"), "retired");
    host.stop();
    next.configure(&mut host);
    host.start();
    drawn.add_ids("events", &host.raw().draw("events", 300));
    let again = json!({ "tag": "events" }).to_string();
    let refusal = host.client().admin(opcode::TAG_CREATE, &again).expect_err("it is there");
    assert_eq!(refusal.status(), Some(Status::TagExists));
    drawn.backwards.clear();
    drawn.assert_sound();
}
