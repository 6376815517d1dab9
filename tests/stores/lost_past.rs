//! Stores that lose commits although their engine reports no change, and servers and hosts that appear where commits
//! were lost: no id is issued twice. In each case, one host holds ids whose claims are lost, and another one claims as
//! soon as it can.

use std::time::Duration;

use leafd_tests::host::{Host, REPEATS, eventually};
use leafd_tests::load::Drawn;
use leafd_tests::raw::{Raw, ids_request};
use leafd_tests::relay::Relay;
use leafd_tests::servers::pgbouncer::{PgBouncer, Pooling};
use leafd_tests::servers::volume::Volume;
use leafd_tests::servers::{DATABASE, Pair, Postgres, Server, apply_schema};
use leafd_tests::wall_clock::WallClock;
use leafd_wire::{Status, opcode};
use nix::sys::signal::Signal;
use serde_json::json;

use crate::routes::{Databases, done};
use crate::scene::{create, draw, report, store};

/// The setting `failover_settle` of all hosts, because a busy machine needs time to report to the store.
const SETTLE: Duration = Duration::from_secs(8);

/// The same if a host that was stopped must report its lease.
const LONG_SETTLE: &str = "20s";

/// How long a host is stopped while another one claims: much shorter than [`SETTLE`].
const STOPPED: Duration = Duration::from_secs(1);

/// How soon ids must return after a loss: [`SETTLE`], and what a busy machine needs.
const WITHIN: Duration = Duration::from_secs(55);

const TAG: &str = "orders";
/// The tag that the second host draws to see the store continue without seeing the other tag.
const OTHER: &str = "others";
const STEP: u64 = 1_000;

on_each_server!(
    a_volume_is_put_back_to_a_snapshot,
    a_volume_with_leases_is_put_back_to_a_snapshot,
    a_data_directory_is_put_back,
    a_newcomer_right_after_a_fail_over,
    an_old_primary_comes_back_first_in_the_url,
);

/// A started host on this store.
fn host(url: &str) -> Host {
    host_with(url, &[])
}

fn host_with(url: &str, settings: &[(&str, &str)]) -> Host {
    let mut host = Host::on_store(url);
    host.change("failover_settle", &format!("{}s", SETTLE.as_secs()));
    settings.iter().for_each(|(key, value)| host.change(key, value));
    host.start();
    host
}

/// Makes both hosts draw ids of the tag.
#[track_caller]
fn begin(drawn: &mut Drawn, first: &Host, second: &Host) {
    for tag in [TAG, OTHER] {
        eventually("the store is met", WITHIN, || {
            let tag = json!({ "tag": tag, "step": STEP }).to_string();
            first.client().admin(opcode::TAG_CREATE, &tag).ok()
        });
    }
    draw(drawn, second, TAG, 1, 10);
    draw(drawn, first, TAG, 1, 10);
}

/// Makes claims that will be lost, and issues ids of them.
fn claim_much(drawn: &mut Drawn, host: &Host) {
    draw(drawn, host, TAG, 30, STEP as u32);
}

/// Requests ids this many times. [`answered`] collects the answers.
fn ask(host: &Host, tag: &str, times: u32) -> Vec<Raw> {
    let deadline_ms = WITHIN.as_millis().try_into().unwrap();
    let asked = (0..times).map(|number| {
        let mut raw = host.raw();
        raw.stream.set_read_timeout(Some(WITHIN + SETTLE)).unwrap();
        raw.send(&ids_request(tag, STEP as u32, number, deadline_ms));
        raw
    });
    asked.collect()
}

#[track_caller]
fn answered(drawn: &mut Drawn, tag: &str, raws: &mut [Raw]) {
    for raw in raws {
        drawn.add_ids(tag, &raw.reply().ids());
    }
}

/// Checks that each host claims again.
#[track_caller]
fn have_settled(drawn: &mut Drawn, hosts: &[&Host]) {
    for mut asked in hosts.iter().map(|host| ask(host, OTHER, 2)).collect::<Vec<_>>() {
        answered(drawn, OTHER, &mut asked);
    }
}

/// The second host claims while the first one is stopped for a moment, and then both draw.
#[track_caller]
fn claim_beside(drawn: &mut Drawn, first: &Host, second: &Host, lose: impl FnOnce()) {
    first.signal(Signal::SIGSTOP);
    lose();
    let mut asked = ask(second, TAG, 20);
    std::thread::sleep(STOPPED);
    first.signal(Signal::SIGCONT);
    let mut of_first = ask(first, TAG, 20);
    answered(drawn, TAG, &mut asked);
    answered(drawn, TAG, &mut of_first);
}

#[track_caller]
fn judge<S: Server>(what: &str, drawn: &Drawn) {
    report::<S>(what, 0, drawn, None);
    drawn.assert_sound();
}

/// The store's data is reset to a saved state while the first host is stopped. The second host has seen later states of
/// the store.
#[track_caller]
fn goes_back<S: Server, T>(
    what: &str,
    server: &mut S,
    save: impl FnOnce(&mut S) -> T,
    put_back: impl FnOnce(&mut S, &T),
) {
    let [first, second] = [(); 2].map(|()| host(&server.url()));
    let mut drawn = Drawn::default();
    begin(&mut drawn, &first, &second);
    let saved = save(server);
    claim_much(&mut drawn, &first);
    draw(&mut drawn, &second, OTHER, 1, 10);
    claim_beside(&mut drawn, &first, &second, || put_back(server, &saved));
    judge::<S>(what, &drawn);
}

fn a_volume_is_put_back_to_a_snapshot<S: Server>() {
    let mut server = S::new();
    let volume = Volume::of(&mut server);
    let save = |server: &mut S| volume.snapshot(server);
    goes_back("volume put back to a snapshot", &mut server, save, |server, snapshot| {
        volume.put_back(server, snapshot);
    });
}

/// Not the volume, but the files of the data directory, including `auto.cnf` with MySQL's server id.
fn a_data_directory_is_put_back<S: Server>() {
    let save = |server: &mut S| server.snapshot();
    goes_back("data directory put back", &mut S::new(), save, |server, copy| {
        server.put_back(copy);
    });
}

/// The first host's lease of the only worker is lost. The second host has no lease, and wants that worker.
fn a_volume_with_leases_is_put_back_to_a_snapshot<S: Server>() {
    let mut server = S::new();
    let volume = Volume::of(&mut server);
    let settings = [("worker_range", "0..1"), ("failover_settle", LONG_SETTLE)];
    let [first, second] = [(); 2].map(|()| host_with(&server.url(), &settings));
    let mut drawn = Drawn::default();
    begin(&mut drawn, &first, &second);
    let snapshot = volume.snapshot(&mut server);
    first.raw().draw_until("snowflake", WITHIN);
    draw(&mut drawn, &second, OTHER, 1, 10);
    first.signal(Signal::SIGSTOP);
    volume.put_back(&mut server, &snapshot);
    let mut raw = second.raw();
    raw.stream.set_read_timeout(Some(WITHIN)).unwrap();
    raw.send(&ids_request("snowflake", 1, 1, 50_000));
    // The first host resumes when the second one is about to take the worker, unless somebody reports it.
    eventually("the loss is noticed", WITHIN, || {
        let status = second.status();
        let mut conditions = status["health"]["conditions"].as_array()?.iter();
        conditions.find(|one| one["code"] == "registry_settling").map(drop)
    });
    first.signal(Signal::SIGCONT);
    first.raw().draw_until("snowflake", WITHIN);
    let refused = raw.reply().refused(Status::NoWorker);
    assert!(refused.contains("worker"), "{refused}");
    first.raw().draw_until("snowflake", WITHIN);
}

/// The new host has never used the store before.
fn a_newcomer_right_after_a_fail_over<S: Server>() {
    let mut pair = Pair::<S>::new();
    let [first, second] = [(); 2].map(|()| host(&pair.url()));
    let mut drawn = Drawn::default();
    begin(&mut drawn, &first, &second);
    pair.caught_up();
    pair.lose_from_now();
    claim_much(&mut drawn, &first);
    create(&first, "invoices", STEP);
    draw(&mut drawn, &first, "invoices", 5, STEP as u32);
    for host in [&first, &second] {
        host.signal(Signal::SIGSTOP);
    }
    pair.primary.kill();
    pair.standby.promote();
    let newcomer = host(&pair.url());
    let mut asked = ask(&newcomer, TAG, 20);
    // The standby doesn't know this tag. If it is created again, it must not start over.
    let anew = json!({ "tag": "invoices", "step": STEP }).to_string();
    let making = std::thread::spawn({
        let client = newcomer.client();
        move || client.admin(opcode::TAG_CREATE, &anew).is_ok()
    });
    std::thread::sleep(STOPPED);
    for host in [&first, &second] {
        host.signal(Signal::SIGCONT);
    }
    let is_made = making.join().unwrap();
    let mut anew = ask(&newcomer, "invoices", if is_made { 5 } else { 0 });
    answered(&mut drawn, TAG, &mut asked);
    answered(&mut drawn, "invoices", &mut anew);
    claim_much(&mut drawn, &first);
    judge::<S>("a host's first start right after a fail-over", &drawn);
}

fn an_old_primary_comes_back_first_in_the_url<S: Server>() {
    let mut pair = Pair::<S>::new();
    let [first, mut second] = [(); 2].map(|()| host(&pair.url()));
    let mut drawn = Drawn::default();
    begin(&mut drawn, &first, &second);
    pair.caught_up();
    pair.lose_from_now();
    pair.primary.kill();
    pair.standby.promote();
    have_settled(&mut drawn, &[&first, &second]);
    claim_much(&mut drawn, &first);
    // The old primary accepts writes, because nobody has fenced it.
    pair.primary.start();
    second.stop();
    second.start();
    let mut asked = ask(&second, TAG, 20);
    claim_much(&mut drawn, &first);
    answered(&mut drawn, TAG, &mut asked);
    judge::<S>("an old primary came back, a host restarted", &drawn);
    // It must not become the store even if it is the only server that answers.
    let before = pair.primary.max_id(TAG);
    pair.standby.kill();
    second.stop();
    second.start();
    let mut raw = second.raw();
    let end = std::time::Instant::now() + 2 * SETTLE;
    while std::time::Instant::now() < end {
        raw.send(&ids_request(TAG, STEP as u32, 1, 500));
        let reply = raw.reply();
        if reply.status() == Status::Ok {
            drawn.add_ids(TAG, &reply.ids());
        }
    }
    assert_eq!(pair.primary.max_id(TAG), before, "nothing is claimed from the old primary");
    drawn.assert_sound();
    // An operator decides for it, without the new primary's commits.
    let (code, said) = second.run("declare-loss");
    assert_eq!(code, Some(0), "{said}");
    for host in [&first, &second] {
        eventually("it claims from the old primary", WITHIN, || {
            (store(host)["ready"] == true).then_some(())
        });
    }
    claim_much(&mut drawn, &second);
    claim_much(&mut drawn, &first);
    judge::<S>("an old primary takes over, by declare-loss", &drawn);
}

/// The first standby is promoted, and dies before the second one follows it, which is then promoted. PostgreSQL calls
/// both lives timeline 2.
#[test]
fn two_promotions_that_the_engine_calls_alike() {
    let mut a = Postgres::new();
    let [mut b, mut c] = [(); 2].map(|()| a.standby(a.port()));
    let url = Postgres::url_of(&[a.port(), b.port(), c.port()], DATABASE);
    let [first, second] = [(); 2].map(|()| host(&url));
    let mut drawn = Drawn::default();
    begin(&mut drawn, &first, &second);
    let position = a.position();
    eventually("the standbys follow", WITHIN, || {
        (b.has_reached(&position) && c.has_reached(&position)).then_some(())
    });
    a.kill();
    b.promote();
    have_settled(&mut drawn, &[&first, &second]);
    claim_much(&mut drawn, &first);
    claim_beside(&mut drawn, &first, &second, || {
        b.kill();
        c.promote();
    });
    judge::<Postgres>("two promotions to timeline 2", &drawn);
}

/// A restored base backup that is started without `recovery.signal` stays on its timeline.
#[test]
fn a_base_backup_is_restored_without_a_recovery_signal() {
    let what = "base backup restored without recovery.signal";
    let save = |server: &mut Postgres| server.base_backup();
    goes_back(what, &mut Postgres::new(), save, |server, backup| server.put_back(backup));
}

#[test]
fn a_fail_over_behind_a_pooler_of_transactions() {
    fail_over_behind(Pooling::Transaction);
}

#[test]
fn a_fail_over_behind_a_pooler_of_sessions() {
    fail_over_behind(Pooling::Session);
}

/// The hosts stay connected to the pooler, which reconnects to another server.
fn fail_over_behind(pooling: Pooling) {
    let mut pair = Pair::<Postgres>::new();
    let relay = Relay::to(pair.primary.port());
    let pooler = PgBouncer::new(pooling, relay.port(), &pair.primary);
    let [first, second] = [(); 2].map(|()| host(&pooler.url()));
    let mut drawn = Drawn::default();
    begin(&mut drawn, &first, &second);
    pair.caught_up();
    pair.lose_from_now();
    claim_much(&mut drawn, &first);
    claim_beside(&mut drawn, &first, &second, || {
        pair.standby.promote();
        relay.lead_to(pair.standby.port());
        pair.primary.kill();
    });
    judge::<Postgres>(&format!("fail-over behind PgBouncer, {pooling:?}"), &drawn);
    for host in [&first, &second] {
        eventually("the fail-over is over", WITHIN, || {
            let known = store(host);
            (known["ready"] == true && known["failovers"] == 1).then_some(())
        });
    }
}

/// The new primary, whose clock the test sets, and two hosts. The first host has been stopped since before the
/// fail-over.
struct AtOtherTime {
    pair: Pair<Postgres>,
    clock: WallClock,
    hosts: [Host; 2],
    drawn: Drawn,
}

fn fail_over_to_another_clock() -> AtOtherTime {
    let mut pair = Pair::<Postgres>::new();
    let clock = WallClock::of_server(pair.standby.process_mut());
    pair.standby.stop();
    pair.standby.start();
    let hosts = [(); 2].map(|()| host(&pair.url()));
    let mut drawn = Drawn::default();
    begin(&mut drawn, &hosts[0], &hosts[1]);
    pair.caught_up();
    pair.lose_from_now();
    // The first host claims ids, but issues none of them before it is stopped. The ids that it has issued until then
    // are lost with the store, so they don't count.
    hosts[0].admin(opcode::TAG_SET, &json!({ "tag": TAG, "step": 100_000 }));
    draw(&mut drawn, &hosts[0], TAG, 1, STEP as u32);
    hosts[0].signal(Signal::SIGSTOP);
    drawn.ids.clear();
    pair.primary.kill();
    pair.standby.promote();
    eventually("the second host notes the new history", WITHIN, || {
        let known = store(&hosts[1]);
        (known["failovers"] == 1 && known["settling_ms"].as_u64()? > 0).then_some(())
    });
    AtOtherTime { pair, clock, hosts, drawn }
}

/// A host that was stopped for longer than the settling time comes too late, whatever the store's clock shows.
#[test]
fn a_host_comes_late_and_the_clock_of_the_store_was_set_back() {
    let AtOtherTime { pair, clock, hosts: [first, second], mut drawn } =
        fail_over_to_another_clock();
    let mut asked = ask(&second, TAG, 20);
    answered(&mut drawn, TAG, &mut asked);
    clock.step(-3_600);
    // It is asked at the very moment when it resumes, before it can have learnt of the new history.
    first.signal(Signal::SIGCONT);
    let mut asked = ask(&first, TAG, 20);
    answered(&mut drawn, TAG, &mut asked);
    judge::<Postgres>("a late host, and the store's clock an hour back", &drawn);
    drop(pair);
}

/// No step of the clock keeps hosts from claiming for longer than the settling time.
#[test]
fn the_clock_of_the_store_is_set_back_while_hosts_settle() {
    let AtOtherTime { pair, clock, hosts: [_, second], mut drawn } = fail_over_to_another_clock();
    clock.step(-3_600);
    let mut asked = ask(&second, TAG, 20);
    answered(&mut drawn, TAG, &mut asked);
    judge::<Postgres>("the store's clock an hour back while a host settles", &drawn);
    drop(pair);
}

/// A host that comes too late may have issued ids that another host has claimed since, and reports them.
#[test]
fn a_late_host_reports_the_ids_that_another_host_has_claimed() {
    let mut pair = Pair::<Postgres>::new();
    let [first, second] = [(); 2].map(|()| host(&pair.url()));
    let mut drawn = Drawn::default();
    begin(&mut drawn, &first, &second);
    pair.caught_up();
    pair.lose_from_now();
    claim_much(&mut drawn, &first);
    first.signal(Signal::SIGSTOP);
    pair.primary.kill();
    pair.standby.promote();
    let mut again = Drawn::default();
    answered(&mut again, TAG, &mut ask(&second, TAG, 20));
    first.signal(Signal::SIGCONT);
    first.reports_repeats(&drawn.common(&again, TAG), WITHIN);
    assert!(!second.log().contains(REPEATS), "{}", second.log());
}

/// The claims that a host made before it continued as a new one are its own, and not another host's.
#[test]
fn a_host_that_goes_on_as_a_new_one_reports_none_of_its_own_claims() {
    let server = Postgres::new();
    server.create_database("ids2");
    apply_schema(&Postgres::url_of(&[server.port()], "ids2"));
    let relay = Relay::to(server.port());
    let stores = [(relay.port(), DATABASE), (server.port(), "ids2")];
    let [a, b] = stores.map(|(port, database)| Postgres::url_of(&[port], database));
    let routes = format!("[{{ tags = ['{TAG}'], store = 'b' }}, {{ tags = ['*'], store = 'a' }}]");
    let mut host = Host::on_stores(&[("a", a), ("b", b)], &routes).set("failover_settle", "1s");
    host.start();
    create(&host, TAG, 10);
    create(&host, OTHER, 10);
    let former = host.status()["host"].clone();
    host.stop();
    server.sql("UPDATE leafd_host SET start_token = 'unknown'");
    relay.refuse();
    host.start();
    let mut drawn = Drawn::default();
    draw(&mut drawn, &host, TAG, 20, 5);
    relay.pass();
    eventually("it goes on as a new one, and says so", WITHIN, || {
        let status = host.status();
        let is_stale = status["segments"]["stores"][0]["journal_stale"] == true;
        (is_stale && status["host"] != former).then_some(())
    });
    // The last claim is attributed to another host, and the store loses all of them.
    let of_last = "WHERE end_id = (SELECT MAX(end_id) FROM leafd_claim)";
    server.ask("ids2", &format!("UPDATE leafd_claim SET host = 'x', name = 'stranger' {of_last}"));
    let lose = "UPDATE leaf_alloc SET max_id = 1; UPDATE leafd_tag SET highest_end = 1 WHERE highest_end > 1";
    server.ask("ids2", lose);
    host.raw().draw_until(TAG, WITHIN);
    let reports = eventually("the stranger's claim is reported", WITHIN, || {
        let log = host.log();
        let lines = log.lines().filter(|line| line.contains(REPEATS)).map(str::to_owned);
        Some(lines.collect::<Vec<_>>()).filter(|lines| !lines.is_empty())
    });
    assert!(reports.iter().all(|line| line.contains("by=stranger")), "{reports:?}");
}

/// One store makes a host continue as a new one. The other store has lost nothing, whether the host contacts it before
/// that or after.
#[test]
fn a_host_that_goes_on_as_a_new_one_finds_no_loss_in_its_other_store() {
    let databases = Databases::new();
    let routes = format!("[{{ tags = ['{TAG}'], store = 'b' }}, {{ tags = ['*'], store = 'a' }}]");
    let fleet = databases.fleet(&["a", "b"], &routes);
    done(&fleet.apply(&["--yes"]).output().unwrap());
    let mut host = fleet.host();
    let mut drawn = Drawn::default();
    let mut goes_on = |host: &Host| {
        draw(&mut drawn, host, TAG, 20, 1);
        // After some probes, the journal has the number of the last write.
        std::thread::sleep(Duration::from_secs(2));
        let status = host.status();
        let stores = &status["segments"]["stores"];
        (
            stores[0]["journal_stale"] == true,
            stores[1]["history"].clone(),
            stores[1]["failovers"].clone(),
        )
    };
    host.start();
    host.admin(opcode::TAG_CREATE, &json!({ "tag": TAG, "step": 1 }));
    let (_, history, _) = goes_on(&host);
    host.stop();
    databases.sql("a", "UPDATE leafd_host SET start_token = 'unknown'");
    for is_anew in [true, false] {
        host.start();
        assert_eq!(goes_on(&host), (is_anew, history.clone(), json!(0)), "{}", host.log());
        host.stop();
    }
    drawn.assert_sound();
}
