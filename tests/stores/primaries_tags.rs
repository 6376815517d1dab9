//! Tags that differ between independent primaries, or that some lack: a tag is created in all primaries or none, and is
//! shown and listed even if a primary is unavailable.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use leafd_tests::host::{Host, eventually};
use leafd_tests::load::Drawn;
use leafd_tests::raw::ids_request;
use leafd_wire::{Status, opcode};

use crate::primaries::{End, Primaries, WITHIN, tag};

/// The number of daemons that have never drawn. The probability that all of them choose the same one of two primaries
/// is 1 in 500,000.
const FRESH: usize = 20;

#[track_caller]
fn done(host: &Host, words: &[&str]) -> String {
    let (done, said) = tag(host, words);
    assert!(done, "{words:?}: {said}");
    said
}

#[track_caller]
fn refused(host: &Host, words: &[&str]) -> String {
    let (done, said) = tag(host, words);
    assert!(!done, "{words:?}: {said}");
    said
}

#[test]
fn a_tag_gives_no_ids_before_all_primaries_have_it() {
    let primaries = Primaries::new(2);
    let mut host = primaries.host();
    host.start();
    let rows = || primaries.all.iter().map(|one| one.rows().len()).sum::<usize>();
    // The primaries remember different ends of a name. The number in the message must be enough for all.
    done(&host, &["create", "events.a"]);
    let mut drawn = Drawn::default();
    drawn.add_ids("events.a", &host.raw().draw("events.a", 100));
    done(&host, &["delete", "events.a", "--yes-delete", "events.a"]);
    primaries.all[1].sql("UPDATE leafd_tag SET highest_end = 900001 WHERE tag = 'events.a'");
    for start in ["1", "800000"] {
        let said = refused(&host, &["create", "events.a", "--start", start]);
        assert!(said.contains("with start 900001 or more"), "{said}");
        assert_eq!(rows(), 0);
    }
    host.raw().refused(&ids_request("events.a", 1, 1, 1_000), Status::TagUnknown);
    done(&host, &["create", "events.a", "--start", "900001"]);
    drawn.add_ids("events.a", &host.raw().draw("events.a", 100));
    assert_eq!(rows(), 2);

    // One of them refuses at the last moment.
    primaries.all[1].sql(
        "CREATE TRIGGER refuse BEFORE INSERT ON leaf_alloc FOR EACH ROW SIGNAL SQLSTATE '45000' \
         SET MESSAGE_TEXT = 'not here'",
    );
    let said = refused(&host, &["create", "events.b"]);
    for part in ["not here", "primary \"b\" refused", "the tag issues no ids yet"] {
        assert!(said.contains(part), "no {part} in {said}");
    }
    assert_eq!(rows(), 3);
    let mut raw = host.raw();
    raw.send(&ids_request("events.b", 1, 1, 1_000));
    // The answer depends on the primary that is asked first, and on whether the other one is asked in time.
    let reply = raw.reply();
    let refusals = [Status::TagExhausted, Status::TagUnknown, Status::Deadline];
    assert!(refusals.contains(&reply.status()), "{}", reply.status());
    assert!(reply.text().contains("leafctl tag create"), "{}", reply.text());
    primaries.all[1].sql("DROP TRIGGER refuse");
    done(&host, &["create", "events.b"]);
    drawn.add_ids("events.b", &host.raw().draw("events.b", 100));
    assert_eq!(rows(), 4);
    drawn.backwards.clear();
    drawn.assert_sound();

    // An interrupted creation is reported.
    primaries.all[0].sql("DELETE FROM leaf_alloc WHERE biz_tag = 'events.b'");
    let said = done(&host, &["show", "events.b"]);
    assert!(said.contains("primary a issues no ids of the tag"), "{said}");
}

/// The number of deletions of tags that are being drawn, so that claims are pending.
const DELETIONS: usize = 20;

#[test]
fn a_deleted_tag_gives_no_ids_however_it_was_drawn() {
    let primaries = Primaries::new(2);
    let mut host = primaries.host();
    host.start();
    for turn in 0..DELETIONS {
        let name = format!("events.{turn}");
        done(&host, &["create", &name, "--step", "20"]);
        let mut raw = host.raw();
        raw.draw(&name, 100);
        let stopped = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut raw = host.raw();
                while !stopped.load(Ordering::Relaxed) {
                    raw.ask(&name, 20, 1);
                    raw.reply();
                    std::thread::sleep(Duration::from_millis(2));
                }
            });
            done(&host, &["delete", &name, "--yes-delete", &name]);
            stopped.store(true, Ordering::Relaxed);
        });
        raw.refused(&ids_request(&name, 1, 1, 1_000), Status::TagUnknown);
    }
}

/// A daemon is killed while it creates a tag: between the rows of the two primaries, and between their releases.
#[test]
fn a_creation_that_was_interrupted_gives_no_ids_that_another_primary_does_not_know_of() {
    let primaries = Primaries::new(2);
    let mut host = primaries.host();
    host.start();
    let mut drawn = Drawn::default();
    let mut interrupted = |table: &str, event: &str, name: &str, row_in: usize| {
        primaries.all[1].sql(&format!(
            "CREATE TRIGGER slow BEFORE {event} ON {table} FOR EACH ROW DO SLEEP(2)"
        ));
        let mut raw = host.raw();
        let body = format!("{{\"tag\":\"{name}\"}}");
        raw.request(opcode::TAG_CREATE, 1, body.as_bytes());
        eventually("its row", WITHIN, || {
            primaries.all[row_in].rows().iter().any(|row| row[0] == name).then_some(())
        });
        if event == "UPDATE" {
            primaries.all[0].await_ceiling(name);
        }
        host.kill();
        primaries.all[1].sql("DROP TRIGGER slow");
        host.start();
        host.raw()
    };
    let mut raw = interrupted("leaf_alloc", "INSERT", "events.a", 0);
    // The answer is that of the primary that is asked first: one has an unfinished tag, the other one has none.
    eventually("it is refused", WITHIN, || {
        raw.send(&ids_request("events.a", 1, 1, 5_000));
        let status = raw.reply().status();
        assert_ne!(status, Status::Ok);
        [Status::TagExhausted, Status::TagUnknown].contains(&status).then_some(())
    });
    let mut raw = interrupted("leafd_tag", "UPDATE", "events.b", 1);
    let of_first = raw.draw("events.b", 500);
    assert!(of_first.iter().all(|id| id % 2 == 0), "the second one gives none yet");
    drawn.add_ids("events.b", &of_first);
    for name in ["events.a", "events.b"] {
        let said = done(&host, &["show", name]);
        assert!(said.contains("issues no ids of the tag, because its creation"), "{said}");
        done(&host, &["create", name]);
        let said = done(&host, &["show", name]);
        assert!(!said.contains("primary"), "{said}");
        assert!(refused(&host, &["create", name]).contains("already has a tag"));
        primaries.all.iter().for_each(|one| one.await_ceiling(name));
        drawn.add_ids(name, &host.raw().draw(name, 5_000));
    }
    drawn.backwards.clear();
    drawn.assert_sound();
}

#[test]
fn tags_are_shown_and_listed_while_a_primary_is_away() {
    let mut primaries = Primaries::new(2);
    let mut host = primaries.host();
    host.start();
    done(&host, &["create", "events.a"]);
    done(&host, &["create", "events.b", "--start", "1000"]);
    assert!(!done(&host, &["list"]).contains("primary"));
    for (away, name) in [(0, "a"), (1, "b")] {
        primaries.all[away].away(End::Kill);
        // This also works if the daemon has never been in contact with it.
        host.stop();
        host.start();
        let told = format!("leafctl: no answer from primary {name}; max_id there may be higher");
        let said = done(&host, &["show", "events.b"]);
        assert!(said.contains(&told) && said.contains(" 1000\n"), "{said}");
        let said = done(&host, &["list"]);
        assert!(said.contains(&told), "{said}");
        assert!(said.contains("events.a ") && said.contains("events.b "), "{said}");
        assert!(refused(&host, &["show", "events.c"]).contains("refused"), "it may be there");
        primaries.all[away].back();
        eventually("the daemon finds it again", WITHIN, || {
            (!tag(&host, &["list"]).1.contains("primary")).then_some(())
        });
    }
}

#[test]
fn fresh_daemons_turn_to_any_of_the_primaries_first() {
    let primaries = Primaries::new(2);
    let mut hosts: Vec<Host> = (0..FRESH).map(|_| primaries.host()).collect();
    let mut drawn = Drawn::default();
    for host in &mut hosts {
        host.start();
        eventually("both are met", Duration::from_secs(10), || {
            let status = host.status();
            let stores = status["segments"]["stores"].as_array().unwrap();
            stores.iter().all(|store| store["ready"] == true).then_some(())
        });
    }
    done(&hosts[0], &["create", "events.a"]);
    let first: Vec<u64> = hosts.iter().map(|host| host.raw().draw("events.a", 1)[0]).collect();
    let of_b = first.iter().filter(|id| *id % 2 == 1).count();
    println!("of {FRESH} fresh daemons, {of_b} turned to the second primary first");
    assert!(0 < of_b && of_b < FRESH, "{first:?}");
    drawn.add_ids("events.a", &first);
    drawn.backwards.clear();
    drawn.assert_sound();
}
