//! Routes are changed after tags were deleted: the end of their claims is known wherever they may be created again.

use std::fs;

use leafd_tests::host::{Host, eventually};
use leafd_tests::load::Drawn;
use leafd_wire::{Status, opcode};
use serde_json::json;

use crate::routes::{Databases, STEP, WITHIN, done, refused};

/// Makes PostgreSQL refuse to change ends while a store is frozen.
const BREAK_RAISING: &str =
    "CREATE FUNCTION half_way() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    IF (SELECT value FROM leafd_meta WHERE name = 'role') LIKE '%\"role\":\"frozen%' THEN
        RAISE EXCEPTION 'half-way';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER half_way BEFORE INSERT OR UPDATE OF highest_end ON leafd_tag
    FOR EACH ROW EXECUTE FUNCTION half_way()";

/// Makes PostgreSQL refuse to retire a store.
const BREAK_RETIRING: &str = "CREATE FUNCTION stays() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    IF NEW.value LIKE '%\"role\":\"retired%' THEN RAISE EXCEPTION 'not yet'; END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER stays BEFORE UPDATE ON leafd_meta FOR EACH ROW EXECUTE FUNCTION stays()";

/// Creates a tag, uses ids from this one on, and deletes the tag.
fn use_and_delete(host: &Host, tag: &str, start: u64, drawn: &mut Drawn) {
    host.admin(opcode::TAG_CREATE, &json!({ "tag": tag, "step": STEP, "start": start }));
    drawn.add_ids(tag, &host.raw().draw(tag, 100));
    delete(host, tag);
}

fn delete(host: &Host, tag: &str) {
    done(&host.leafctl(&["tag", "delete", tag, "--yes-delete", tag]));
}

/// Checks that a deleted tag can be created again above its ids, but not within them.
#[track_caller]
fn goes_on(host: &Host, tag: &str, drawn: &mut Drawn) {
    let mut start = *drawn.ids[tag].last().unwrap();
    let create = |start: u64| {
        let body = json!({ "tag": tag, "step": STEP, "start": start }).to_string();
        host.client().admin(opcode::TAG_CREATE, &body)
    };
    eventually("the store to have its place", WITHIN, || {
        let refused = create(start).expect_err("an id that was given comes again");
        (refused.status() == Some(Status::ValueRefused)).then_some(())
    });
    while create(start).is_err() {
        start *= 2;
        assert!(start < 1 << 40, "{tag} can't be made anew");
    }
    drawn.add_ids(tag, &host.raw().draw(tag, 100));
    assert_eq!(drawn.duplicates(), 0, "{tag}");
}

/// The end of a tag's claims is known in its new home, even after the command has failed half-way.
#[test]
fn a_deleted_tag_goes_on_above_its_ids_in_its_new_home() {
    const TAGS: [&str; 3] = ["orders", "pay.in", "nowhere"];
    let databases = Databases::new();
    let mut drawn = Drawn::default();
    // A store whose tags were all deleted is not the same as one that never had any.
    let mut host = Host::on_store(&databases.url("a"));
    host.start();
    TAGS.iter().for_each(|tag| use_and_delete(&host, tag, 5_000, &mut drawn));
    host.stop();
    let primaries = databases
        .fleet(&["a", "b", "c"], "[{ tags = ['*'], primaries = ['b', 'a', 'c'], era = 1 }]");
    done(&primaries.apply(&["--yes"]).output().unwrap());
    let mut host = primaries.host();
    host.start();
    for tag in TAGS {
        goes_on(&host, tag, &mut drawn);
        delete(&host, tag);
        use_and_delete(&host, tag, 3_000_000, &mut drawn);
    }
    host.stop();

    // Two of the primaries become plain stores, and the third is retired.
    let former = host.path("former.toml");
    let text = format!("stores = {}\nroutes = {}\n", primaries.stores_toml(), primaries.routes);
    fs::write(&former, text).unwrap();
    let words = ["--yes", "--former", former.to_str().unwrap()];
    let plain = databases.fleet(
        &["a", "b"],
        "[{ tags = ['orders'], store = 'a' }, { tags = ['pay.*'], store = 'b' }]",
    );
    // The command fails while ends are being raised, and can be rolled back.
    databases.sql("a", BREAK_RAISING);
    let said = refused(&plain.apply(&words).output().unwrap());
    assert!(said.contains("half-way"), "{said}");
    assert!(databases.place("a").starts_with("frozen, "));
    let stray = "INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('stray', 1, 1)";
    databases.sql("b", stray);
    let said = refused(&plain.apply(&words).output().unwrap());
    assert!(said.contains("stray in b") && said.contains("former role again"), "{said}");
    assert!(databases.place("b").starts_with("primary 0 of 3, era 1"));
    databases.sql("b", "DELETE FROM leaf_alloc WHERE biz_tag = 'stray'");
    databases.sql("a", "DROP TRIGGER half_way ON leafd_tag");
    // The command fails when two of three stores have their new roles, and can no longer be rolled back.
    databases.sql("c", BREAK_RETIRING);
    let said = refused(&plain.apply(&words).output().unwrap());
    assert!(said.contains("not yet") && databases.place("b").starts_with("store b, "), "{said}");
    databases.sql("b", stray);
    let said = refused(&plain.apply(&words).output().unwrap());
    assert!(said.contains("stray in b") && said.contains("stay frozen"), "{said}");
    assert!(databases.place("c").starts_with("frozen, "));
    databases.sql("b", "DELETE FROM leaf_alloc WHERE biz_tag = 'stray'");
    databases.sql("c", "DROP TRIGGER stays ON leafd_meta");
    done(&plain.apply(&words).output().unwrap());
    assert_eq!(databases.place("c"), "retired");
    plain.configure(&mut host);
    host.start();
    for tag in ["orders", "pay.in"] {
        goes_on(&host, tag, &mut drawn);
        delete(&host, tag);
    }
    host.stop();

    // Their homes change, and the third tag has a home again.
    let swapped = databases
        .fleet(&["a", "b"], "[{ tags = ['pay.*'], store = 'a' }, { tags = ['*'], store = 'b' }]");
    let said = done(&swapped.apply(&["--yes"]).output().unwrap());
    assert!(said.contains("3 names were used before"), "{said}");
    swapped.configure(&mut host);
    host.start();
    for tag in TAGS {
        goes_on(&host, tag, &mut drawn);
        delete(&host, tag);
    }
    host.stop();

    // A store without tags is removed.
    let text = format!("stores = {}\nroutes = {}\n", swapped.stores_toml(), swapped.routes);
    fs::write(&former, text).unwrap();
    let left = databases.fleet(&["a"], "[{ tags = ['*'], store = 'a' }]");
    done(&left.apply(&words).output().unwrap());
    left.configure(&mut host);
    host.start();
    TAGS.iter().for_each(|tag| goes_on(&host, tag, &mut drawn));
}
