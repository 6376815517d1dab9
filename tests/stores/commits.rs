//! A claim that the store has granted although the host never got the answer: its numbers are lost, no host issues
//! them, and ids continue. Also a slow network.

use std::time::{Duration, Instant};

use leafd_tests::host::{Host, eventually};
use leafd_tests::raw::{Raw, ids_request};
use leafd_tests::relay::{AtCommit, Relay};
use leafd_tests::servers::{DATABASE, MariaDb, Server};

use crate::scene::{DRY, Route, Scene, create, first_of, report};

/// A tag's step, which is the size of a host's first claim.
const STEP: u64 = 100;

/// How long a host may take to have ids again: a statement's time limit (3 s), a back-off and another claim, or the
/// time that a server waits for the lock of a session that it believes to be alive. The rest is for a busy machine.
const CLAIMED_WITHIN: Duration = Duration::from_secs(60);

on_each_server!(
    the_answer_to_a_commit_is_cut,
    the_answer_to_a_commit_is_swallowed,
    every_packet_is_late,
    a_commit_is_swallowed,
);

fn the_answer_to_a_commit_is_cut<S: Server>() {
    let fault = "COMMIT's answer cut, 5 times";
    fails_at_commits::<S>(fault, AtCommit::CutAnswer, 5);
}

fn the_answer_to_a_commit_is_swallowed<S: Server>() {
    let fault = "COMMIT's answer swallowed";
    fails_at_commits::<S>(fault, AtCommit::SwallowAnswer, 1);
}

/// The server still believes in a session that has locked the tag's row.
fn a_commit_is_swallowed<S: Server>() {
    fails_at_commits::<S>("black hole before COMMIT", AtCommit::SwallowCommit, 1);
}

/// Fails at the first claim of a tag, each time of another tag.
#[track_caller]
fn fails_at_commits<S: Server>(fault: &str, what: AtCommit, times: u32) {
    // The size of the first claim, if the server has carried it out.
    let lost = if what == AtCommit::SwallowCommit { 0 } else { STEP };
    let scene = Scene::<S>::new(Route::ThroughRelay);
    let load = scene.load();
    let before = load.issued();
    let mut raws: Vec<Raw> = scene.hosts.iter().map(Host::raw).collect();
    let mut longest = Duration::ZERO;
    let mut drawn = Vec::new();
    for round in 0..times {
        let tag = format!("lost{round}");
        create(&scene.hosts[0], &tag, STEP);
        scene.relay.at_commit_of(&tag, what);
        let (mut ids, took) = first_of(&mut raws[..1], &tag);
        longest = longest.max(took);
        assert_eq!(scene.relay.commits_met(), round + 1, "the relay has failed at a COMMIT");
        assert!(scene.server.max_id(&tag) > lost + STEP);
        assert_eq!(ids, [1 + lost], "what the host never heard of is not used");
        for raw in raws.iter_mut().rev() {
            for _ in 0..3 {
                let mut some = raw.draw(&tag, 60);
                ids.append(&mut some);
            }
        }
        assert!(ids.iter().all(|id| *id > lost), "{ids:?}");
        drawn.push((tag, ids));
    }
    load.each_draws(Duration::from_secs(30));
    let issued = load.issued() - before;
    let mut all = load.stop();
    drawn.iter().for_each(|(tag, ids)| all.add_ids(tag, ids));
    report::<S>(fault, issued, &all, Some(longest));
    all.assert_sound();
    assert!(all.errors.is_empty(), "{:?}", all.errors);
    assert!(longest < CLAIMED_WITHIN, "{fault}: ids came after {longest:?}");
}

/// Each of a call's statements is in time, but together they are not, so the claim is abandoned at the call's limit.
#[test]
fn statements_share_the_time_of_their_call() {
    let server = MariaDb::new();
    let relay = Relay::to(server.port());
    let url = MariaDb::url_of(&[relay.port()], DATABASE);
    let mut host = Host::on_store(&url).set("store_statement_timeout", "3s");
    host.start();
    create(&host, "late", STEP);
    relay.at_commit_of("late", AtCommit::DelayAnswer(Duration::from_millis(2_400)));
    std::thread::scope(|scope| {
        // Locks the row for this long.
        let lock = "UPDATE leaf_alloc SET description = SLEEP(2.4) WHERE biz_tag = 'late'";
        scope.spawn(|| server.sql(lock));
        let sleeps = "SELECT 1 FROM information_schema.processlist WHERE state = 'User sleep'";
        eventually("the row is locked", CLAIMED_WITHIN, || {
            (!server.sql(sleeps).is_empty()).then_some(())
        });
        let id = host.raw().draw_until("late", CLAIMED_WITHIN);
        assert_eq!(relay.commits_met(), 1, "the relay has delayed a COMMIT");
        assert_eq!(id, 1 + STEP, "what came too late is not used");
    });
}

/// The server ends a COMMIT that exceeds `max_statement_time`. It is then unknown whether the commit was carried out,
/// so its ids are either lost or claimed again.
#[test]
fn a_commit_that_the_server_ends_is_not_relied_on() {
    let server = MariaDb::new();
    let mut host = Host::on_store(&server.url()).set("store_statement_timeout", "2s");
    host.start();
    create(&host, "ended", STEP);
    let ended = || {
        let count = "SELECT variable_value FROM information_schema.global_status
            WHERE variable_name = 'MAX_STATEMENT_TIME_EXCEEDED'";
        server.sql(count)[0][0].parse::<u64>().unwrap()
    };
    let before = ended();
    let mut ids = std::thread::scope(|scope| {
        // During this stage, changes continue, but COMMITs wait.
        let stages = "BACKUP STAGE START; BACKUP STAGE FLUSH; BACKUP STAGE BLOCK_DDL; BACKUP STAGE BLOCK_COMMIT;
            SELECT SLEEP(5); BACKUP STAGE END";
        scope.spawn(|| server.sql(stages));
        let sleeps = "SELECT 1 FROM information_schema.processlist WHERE state = 'User sleep'";
        eventually("COMMITs wait", CLAIMED_WITHIN, || {
            (!server.sql(sleeps).is_empty()).then_some(())
        });
        vec![host.raw().draw_until("ended", CLAIMED_WITHIN)]
    });
    assert!(ended() > before, "the server has ended a COMMIT");
    let mut raw = host.raw();
    for _ in 0..5 {
        ids.extend(raw.draw("ended", 60));
    }
    assert!(ids.is_sorted_by(|one, next| one < next), "{ids:?}");
    assert!(server.max_id("ended") > ids[ids.len() - 1], "{ids:?} are claimed in the store");
}

fn every_packet_is_late<S: Server>() {
    // A claim takes several round trips, which at these delays need more than the default of three seconds.
    let limits = [("store_statement_timeout", "15s"), ("store_connect_timeout", "15s")];
    let scene = Scene::<S>::with(Route::ThroughRelay, &[], &limits);
    let load = scene.load();
    let before = load.issued();
    scene.relay.delay(Duration::from_millis(300));
    let mut raws: Vec<Raw> = scene.hosts.iter().map(Host::raw).collect();
    let (mut ids, took) = first_of(&mut raws, DRY);
    // The draws repeatedly cross the end of what is claimed. A host's claim waits for the row while the other host's
    // claim lasts.
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(5) {
        for raw in &mut raws {
            raw.send(&ids_request(DRY, 50, 3, 19_000));
            ids.extend(raw.reply().ids());
        }
    }
    load.each_draws(Duration::from_secs(30));
    let issued = load.issued() - before + ids.len() as u64;
    let mut all = load.stop();
    all.add_ids(DRY, &ids);
    report::<S>("every packet 300 ms late", issued, &all, Some(took));
    all.assert_sound();
    assert!(all.errors.is_empty(), "{:?}", all.errors);
    assert!(took < CLAIMED_WITHIN, "ids came after {took:?}");
}
