//! An asynchronous primary dies with claims that its standby never received, and the standby takes over. Three daemons
//! have seen different parts of the lost claims, and one of them is down during the fail-over. No id is issued twice,
//! because the daemons report what they have seen to the new primary before any of them claims.

use std::time::{Duration, Instant};

use leafd_tests::host::{Host, eventually};
use leafd_tests::load::{Draw, Drawn, Load};
use leafd_tests::raw::ids_request;
use leafd_tests::relay::{AtCommit, Relay};
use leafd_tests::servers::{DATABASE, Pair, Server};

use crate::scene::{DRY, create, draw, report, store};

/// The setting `failover_settle` of all daemons.
const SETTLE: Duration = Duration::from_secs(4);

/// How much longer than [`SETTLE`] the daemons may take to claim again: a promotion, a probe of the store, and claims,
/// on a busy machine.
const CLAIMS_WITHIN: Duration = Duration::from_secs(60);

/// A tag's step, so small that these draws need many claims.
const STEP: u64 = 500;

on_each_server!(
    no_id_comes_twice_over_a_fail_over_that_loses_claims,
    no_id_comes_twice_when_the_answer_after_the_report_is_late,
    the_latest_claims_are_reported_first,
);

fn no_id_comes_twice_over_a_fail_over_that_loses_claims<S: Server>() {
    let mut pair = Pair::<S>::new();
    let settle = format!("{}s", SETTLE.as_secs());
    let mut hosts: Vec<Host> =
        (0..3).map(|_| Host::on_store(&pair.url()).set("failover_settle", &settle)).collect();
    hosts.iter_mut().for_each(Host::start);
    for (tag, step) in [("ample", 1_000_000), ("ample-of-c", 1_000_000), (DRY, 100)] {
        create(&hosts[0], tag, step);
    }
    for tag in ["shared", "only-a", "only-c"] {
        create(&hosts[0], tag, STEP);
    }
    let [a, b, c] = &mut hosts[..] else { panic!("three hosts") };
    let slow =
        Draw { ids: 2, pause: Duration::from_millis(20), ..Draw::steady(&b.socket(), "ample") };
    let load = Load::start(vec![Draw::steady(&a.socket(), "ample"), slow]);
    let load_of_c = Load::start(vec![Draw::steady(&c.socket(), "ample-of-c")]);
    load.under_way();
    load_of_c.under_way();
    let mut others = Drawn::default();
    draw(&mut others, b, "shared", 20, 30);
    pair.caught_up();

    // All claims from here on are lost. C sees the fewest of them and is killed; A sees the last ones.
    pair.lose_from_now();
    draw(&mut others, c, "shared", 20, 60);
    draw(&mut others, c, "only-c", 20, 90);
    c.kill();
    draw(&mut others, b, "shared", 30, 60);
    draw(&mut others, a, "only-a", 20, 90);
    draw(&mut others, a, "shared", 60, 90);
    for tag in ["shared", "only-a", "only-c"] {
        let (kept, lost) = (pair.standby.max_id(tag), pair.primary.max_id(tag));
        assert!(
            kept < lost,
            "{tag}: claims to {lost} are not to be on the standby, which has {kept}"
        );
    }
    let before = load.issued();
    let begun = Instant::now();
    pair.primary.kill();
    pair.standby.promote();
    let mut raws = [a.raw(), b.raw()];
    for raw in &mut raws {
        raw.send(&ids_request(DRY, 1, 1, 55_000));
        raw.stream.set_read_timeout(Some(SETTLE + CLAIMS_WITHIN)).unwrap();
    }
    for host in [&*a, &*b] {
        eventually("a fail-over is noticed", CLAIMS_WITHIN, || {
            let known = store(host);
            (known["failovers"] == 1 && known["settling_ms"].as_u64()? > 0).then_some(())
        });
    }
    load.each_draws(Duration::from_secs(3));
    let issued = load.issued() - before;
    for raw in &mut raws {
        others.add_ids(DRY, &raw.reply().ids());
    }
    let recovered = begun.elapsed();
    assert!(recovered >= SETTLE, "claimed before the others could tell: {recovered:?}");
    for host in [&*a, &*b] {
        let known = store(host);
        assert_eq!((&known["ready"], &known["failovers"]), (&true.into(), &1.into()), "{known}");
        assert_eq!(known["settling_ms"], 0, "{known}");
        assert!(host.log().contains("history has changed"), "{}", host.log());
    }
    draw(&mut others, b, "shared", 60, 90);
    draw(&mut others, a, "shared", 60, 90);
    draw(&mut others, b, "only-a", 60, 90);

    c.start();
    let mut raw = c.raw();
    for tag in ["only-c", "shared"] {
        others.add_ids(tag, &[raw.draw_until(tag, SETTLE + CLAIMS_WITHIN)]);
        draw(&mut others, c, tag, 60, 90);
    }
    assert_eq!(store(c)["failovers"], 1);
    draw(&mut others, a, "only-c", 30, 90);
    load_of_c.each_draws(SETTLE + CLAIMS_WITHIN);
    let mut drawn = load.stop();
    let load_errors = std::mem::take(&mut drawn.errors);
    let mut of_c = load_of_c.stop();
    of_c.errors.clear();
    drawn.add(of_c);
    drawn.add(others);
    report::<S>("fail-over with lost claims, 3 daemons", issued, &drawn, Some(recovered));
    drawn.assert_sound();
    assert!(load_errors.is_empty(), "of what is held: {load_errors:?}");
    for (tag, ids) in &drawn.ids {
        let last = *ids.last().unwrap();
        assert!(pair.standby.max_id(tag) > last, "{tag}: {last} is not claimed");
    }
}

/// How long claims wait, and how much later the first daemon learns that its report was in time.
const SHORT_SETTLE: Duration = Duration::from_secs(2);
const ANSWER_AFTER: Duration = Duration::from_millis(2_600);

/// Two daemons that run, each with a relay of its own to the primary.
fn two_behind_relays<S: Server>(pair: &Pair<S>) -> ([Relay; 2], [Host; 2]) {
    let relays = [(); 2].map(|()| Relay::to(pair.primary.port()));
    let settle = format!("{}s", SHORT_SETTLE.as_secs());
    let hosts = relays.each_ref().map(|relay| {
        let url = S::url_of(&[relay.port()], DATABASE);
        let mut host = Host::on_store(&url).set("failover_settle", &settle);
        host.start();
        host
    });
    (relays, hosts)
}

/// Two daemons notice a fail-over that lost a claim of the first one. The first daemon reports it to the store, but
/// learns that the report was in time only after the other daemon has waited and claims.
fn no_id_comes_twice_when_the_answer_after_the_report_is_late<S: Server>() {
    let mut pair = Pair::<S>::new();
    let (relays, hosts) = two_behind_relays(&pair);
    let [first, second] = &hosts;
    create(first, "orders", 20);
    pair.caught_up();
    let mut drawn = Drawn::default();
    pair.lose_from_now();
    draw(&mut drawn, first, "orders", 1, 3);
    let (kept, lost) = (pair.standby.max_id("orders"), pair.primary.max_id("orders"));
    assert!(kept < lost, "the claim to {lost} is not to be on the standby, which has {kept}");
    relays.iter().for_each(Relay::refuse);
    pair.primary.kill();
    pair.standby.promote();

    relays.iter().for_each(|relay| relay.lead_to(pair.standby.port()));
    relays[0].at_commit_of("INTO leafd_host", AtCommit::DelayAnswer(ANSWER_AFTER));
    relays[0].pass();
    eventually("the first daemon asks whether it is in time", CLAIMS_WITHIN, || {
        (relays[0].commits_met() == 1).then_some(())
    });
    relays[1].pass();
    // The first daemon continues with its held ids while the second one claims.
    let (mut of_first, mut of_second) = (first.raw(), second.raw());
    of_second.send(&ids_request("orders", 10, 10, 30_000));
    of_second.stream.set_read_timeout(Some(CLAIMS_WITHIN)).unwrap();
    drawn.add_ids("orders", &of_second.reply().ids());
    for _ in 0..10 {
        drawn.add_ids("orders", &[of_first.draw_until("orders", CLAIMS_WITHIN)]);
    }
    draw(&mut drawn, second, "orders", 5, 20);
    draw(&mut drawn, first, "orders", 5, 20);
    report::<S>("fail-over, and the answer after the report late", 0, &drawn, None);
    drawn.assert_sound();
}

/// More tags than a daemon reports in one transaction.
const TAGS: usize = 250;

/// A daemon that has seen claims of very many tags is still reporting them when another daemon claims. Its report fails
/// at the earliest lost claim (a000), after the latest one (orders) was reported.
fn the_latest_claims_are_reported_first<S: Server>() {
    let mut pair = Pair::<S>::new();
    let (relays, hosts) = two_behind_relays(&pair);
    let [first, second] = &hosts;
    let tags: Vec<String> = (0..TAGS).map(|number| format!("a{number:03}")).collect();
    // The step is so large that no tag claims twice: a later claim would follow that of "orders".
    let rows: Vec<String> = tags.iter().map(|tag| format!("('{tag}', 1, 1000000)")).collect();
    let rows = rows.join(", ");
    pair.primary.sql(&format!("INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES {rows}"));
    create(first, "orders", 20);
    pair.caught_up();
    let mut drawn = Drawn::default();
    pair.lose_from_now();
    let mut raw = first.raw();
    raw.stream.set_read_timeout(Some(CLAIMS_WITHIN)).unwrap();
    let (earliest, others) = tags.split_first().unwrap();
    assert_eq!(raw.draw(earliest, 1), [1]);
    for tag in others {
        raw.send(&ids_request(tag, 1, 1, 55_000));
    }
    for _ in others {
        assert_eq!(raw.reply().ids(), [1]);
    }
    draw(&mut drawn, first, "orders", 1, 3);
    relays.iter().for_each(Relay::refuse);
    pair.primary.kill();
    pair.standby.promote();
    pair.standby.sql("ALTER TABLE leaf_alloc ADD CHECK (biz_tag <> 'a000' OR max_id = 1)");

    relays.iter().for_each(|relay| relay.lead_to(pair.standby.port()));
    relays[0].pass();
    eventually("the report is stuck", CLAIMS_WITHIN, || {
        first.log().to_lowercase().contains("constraint").then_some(())
    });
    relays[1].pass();
    let mut raw = second.raw();
    raw.stream.set_read_timeout(Some(CLAIMS_WITHIN)).unwrap();
    drawn.add_ids("orders", &[raw.draw_until("orders", CLAIMS_WITHIN)]);
    draw(&mut drawn, second, "orders", 5, 20);
    report::<S>("fail-over, and a report of many tags", 0, &drawn, None);
    assert_eq!(pair.standby.max_id(&others[0]), 1, "the report got past {earliest}");
    drawn.assert_sound();
}
