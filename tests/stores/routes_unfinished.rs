//! Routes are changed while a tag's creation is unfinished: the change is refused before anything is written, and the
//! message says what to do.

use std::fs;

use leafd_tests::host::Host;
use leafd_tests::load::Drawn;
use leafd_wire::{Status, opcode};
use serde_json::json;

use crate::routes::{Databases, Fleet, STEP, done, refused};

const TAGS: [&str; 2] = ["events", "users"];

/// The state of a primary if the creation was interrupted before the tags were released there.
const INTERRUPT: &str = "UPDATE leafd_tag SET ceiling = 0 WHERE tag IN ('events', 'users')";

/// The state of a primary that the creation has not reached.
const UNKNOWN: [&str; 2] =
    ["DELETE FROM leaf_alloc WHERE biz_tag = 'users'", "DELETE FROM leafd_tag WHERE tag = 'users'"];

fn create(host: &Host, tag: &str) {
    host.admin(opcode::TAG_CREATE, &json!({ "tag": tag, "step": STEP }));
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
    TAGS.iter().for_each(|tag| create(&host, tag));
    let mut drawn = Drawn::default();
    drawn.add_ids("events", &host.raw().draw("events", 300));
    databases.sql("c", INTERRUPT);
    for (name, sql) in ["a", "b"].iter().flat_map(|name| UNKNOWN.map(|sql| (name, sql))) {
        databases.sql(name, sql);
    }

    let file = host.path("former.toml");
    let text = format!("stores = {}\nroutes = {}\n", former.stores_toml(), former.routes);
    fs::write(&file, text).unwrap();
    let words = ["--yes", "--former", file.to_str().unwrap()];
    let places = || ["a", "b", "c"].map(|name| databases.place(name));
    let before = places();
    for words in [&words[..], &words[1..]] {
        let said = refused(&next.apply(words).output().unwrap());
        for part in [
            "the new routes don't allow these 2 tags",
            "events in c: its creation was interrupted",
            "users in c: its creation was interrupted",
            "leafctl tag create TAG",
        ] {
            assert!(said.contains(part), "no {part} in {said}");
        }
        assert_eq!(places(), before);
    }

    // The message names this remedy.
    TAGS.iter().for_each(|tag| create(&host, tag));
    done(&next.apply(&words).output().unwrap());
    assert_eq!(databases.place("c"), "retired");
    host.stop();
    next.configure(&mut host);
    host.start();
    for tag in TAGS {
        drawn.add_ids(tag, &host.raw().draw(tag, 300));
        let again = json!({ "tag": tag }).to_string();
        let refusal = host.client().admin(opcode::TAG_CREATE, &again).expect_err("it is there");
        assert_eq!(refusal.status(), Some(Status::TagExists));
    }
    drawn.backwards.clear();
    drawn.assert_sound();
}
