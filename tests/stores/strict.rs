//! A strict tag on three daemons and one server: a request made after another one was answered gets the larger id,
//! whatever hosts the two are on, even when a daemon is killed or stopped meanwhile. A host that draws alone holds the
//! tag.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use leafd_client::Client;
use leafd_tests::host::{Host, eventually};
use leafd_tests::load::Drawn;
use leafd_tests::order::{Answer, overtaken};
use leafd_tests::power::{Mode, PowerLoss};
use leafd_tests::raw::{Raw, ids_request};
use leafd_tests::relay::{AtCommit, Relay};
use leafd_tests::servers::{DATABASE, Pair, Server};
use leafd_wire::{IdsReply, IdsRequest, Run, Status, opcode};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::scene::{RESUMES_WITHIN, report};

/// The tag.
const TAG: &str = "ledger";

/// How long the threads draw before and after the kill.
const DRAWS: Duration = Duration::from_millis(1_500);

/// The number of threads for each daemon.
const THREADS: usize = 6;

/// How long a request waits, including a restart of its daemon.
const DEADLINE: Duration = Duration::from_secs(10);

on_each_server!(
    who_asks_later_gets_more_on_any_host,
    a_host_that_draws_alone_holds_the_tag_until_another_one_comes,
    a_holder_that_stops_or_dies_delays_the_others_for_the_time_held,
    a_store_that_loses_the_record_of_the_holder_lets_nobody_in_early,
    a_stop_during_a_claim_releases_the_tag,
    a_host_that_was_stopped_over_its_claim_issues_nothing_of_it,
    nothing_is_held_if_that_is_off,
    what_can_t_be_met_takes_nothing,
);

#[test]
fn one_that_is_overtaken_is_found() {
    let base = Instant::now();
    let at = |ms| base + Duration::from_millis(ms);
    let answer = |asked, answered, first, last| Answer {
        asked: at(asked),
        answered: at(answered),
        first,
        last,
    };
    // Overlapping requests may be answered in any order, and a request made at the very instant of an answer overlaps
    // it.
    let sound = [answer(0, 5, 7, 7), answer(1, 3, 2, 4), answer(3, 6, 1, 1), answer(6, 7, 8, 9)];
    assert_eq!(overtaken(&sound), None);
    let late = answer(8, 9, 9, 12);
    assert_eq!(overtaken(&[&sound[..], &[late]].concat()), Some((sound[3], late)));
    let late = answer(4, 9, 3, 3);
    assert_eq!(overtaken(&[&sound[..], &[late]].concat()), Some((sound[1], late)));
}

/// Threads that draw until they are stopped.
struct Asking {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Vec<Answer>>>,
}

impl Asking {
    /// For each daemon: threads that share a client as applications do, with held runs allowed, and some with their own
    /// client.
    fn start(hosts: &[Host]) -> Asking {
        let stop = Arc::new(AtomicBool::new(false));
        let mut threads = Vec::new();
        for host in hosts {
            let client =
                || Client::builder().socket(host.socket()).deadline(DEADLINE).build().unwrap();
            let shared = client();
            for number in 0..THREADS {
                let client = if number % 2 == 0 { shared.clone() } else { client() };
                let count = if number == 1 { 3 } else { 1 };
                let stop = Arc::clone(&stop);
                threads.push(std::thread::spawn(move || ask(&client, count, &stop)));
            }
        }
        Asking { stop, threads }
    }

    fn stop(self) -> Vec<Answer> {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    }
}

fn ask(client: &Client, count: u64, stop: &AtomicBool) -> Vec<Answer> {
    let mut answers = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let asked = Instant::now();
        let ids: Result<Vec<u64>, _> = match count {
            1 => client.next(TAG).map(|id| vec![id]),
            _ => client.next_batch(TAG, count).map(Iterator::collect),
        };
        let answered = Instant::now();
        match ids {
            Ok(ids) => {
                let (first, last) = (ids[0], *ids.last().unwrap());
                assert_eq!(ids, (first..=last).collect::<Vec<u64>>(), "one answer is one run");
                answers.push(Answer { asked, answered, first, last });
            }
            // The daemon is unavailable for a moment.
            Err(_) => std::thread::sleep(Duration::from_millis(5)),
        }
    }
    answers
}

/// Three hosts on a new server, which may hold the tag for this time.
fn three_hosts<S: Server>(strict_hold: &str) -> (S, Vec<Host>) {
    let server = S::new();
    let host = |_| Host::on_store(&server.url()).set("strict_hold", strict_hold);
    let mut hosts: Vec<Host> = (0..3).map(host).collect();
    hosts.iter_mut().for_each(Host::start);
    create_strict(&hosts[0]);
    (server, hosts)
}

/// Waits until a host that is drawing holds the tag.
fn holds(host: &Host) {
    eventually("a hold", RESUMES_WITHIN, || of_tag(host)["holding"].as_bool()?.then_some(()));
}

fn of_tag(host: &Host) -> Value {
    host.status()["segments"]["tags"][0].clone()
}

fn create_strict(host: &Host) {
    host.admin(opcode::TAG_CREATE, &json!({ "tag": TAG, "strict": true }));
}

fn who_asks_later_gets_more_on_any_host<S: Server>() {
    let (_server, mut hosts) = three_hosts::<S>("2s");
    let asking = Asking::start(&hosts);
    std::thread::sleep(DRAWS);
    hosts[2].kill();
    std::thread::sleep(DRAWS / 3);
    hosts[2].start();
    std::thread::sleep(DRAWS);
    let answers = asking.stop();

    check::<S>("strict, 3 daemons, one killed", &answers);
    // Requests that wait together share a claim.
    let claims = hosts[0].status()["segments"]["claims"].as_u64().unwrap();
    let of_host = hosts[0].status()["requests"].as_u64().unwrap();
    assert!(
        claims * 4 < of_host * 3,
        "{claims} claims for {of_host} requests of {THREADS} threads"
    );
}

fn a_host_that_draws_alone_holds_the_tag_until_another_one_comes<S: Server>() {
    // The hold is long, so that waiting for a dead holder would be noticed.
    let (_server, mut hosts) = three_hosts::<S>("8s");
    let alone = Asking::start(&hosts[..1]);
    holds(&hosts[0]);
    let claims = || hosts[0].status()["segments"]["claims"].as_u64().unwrap();
    let (before, claimed) = (of_tag(&hosts[0])["issued"].as_u64().unwrap(), claims());
    std::thread::sleep(DRAWS);
    let drawn = of_tag(&hosts[0])["issued"].as_u64().unwrap() - before;
    let claimed = claims() - claimed;
    println!("{}: {drawn} ids of {claimed} claims from memory", S::NAME);
    assert!(drawn > claimed * 100, "{drawn} ids took {claimed} claims");

    let mut raw = hosts[0].raw();
    assert_eq!(draw_to_hold(&mut raw).len(), 1);

    let begun = Instant::now();
    let id = hosts[1].raw().draw(TAG, 1)[0];
    let handed_over = begun.elapsed();
    println!("{}: handed over within {handed_over:?}, id {id}", S::NAME);
    assert!(handed_over < Duration::from_secs(5), "{handed_over:?}");
    assert_eq!(of_tag(&hosts[0])["holding"], json!(false));
    let together = Asking::start(&hosts[1..]);
    std::thread::sleep(DRAWS);
    assert_eq!(hosts.iter().filter(|host| of_tag(host)["holding"] == json!(true)).count(), 0);
    let mut answers = together.stop();
    // The other hosts have stopped drawing.
    holds(&hosts[0]);
    answers.extend(alone.stop());
    // Nobody draws, so no host holds the tag, and the next host need not wait.
    eventually("the end of the hold", RESUMES_WITHIN, || {
        (of_tag(&hosts[0])["holding"] == json!(false)).then_some(())
    });
    let prompt = |host: &Host| {
        let begun = Instant::now();
        let id = host.raw().draw(TAG, 1)[0];
        assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
        id
    };
    let last = prompt(&hosts[2]);
    assert!(answers.iter().all(|answer| answer.last < last));
    // A daemon that stops cleanly releases the hold first.
    let alone = Asking::start(&hosts[1..2]);
    holds(&hosts[1]);
    hosts[1].stop();
    let last = prompt(&hosts[2]);
    answers.extend(alone.stop());
    assert!(answers.iter().all(|answer| answer.last < last));
    check::<S>("strict, held and shared in turn", &answers);
}

/// The store grants a longer hold to a daemon that is about to end.
fn a_stop_during_a_claim_releases_the_tag<S: Server>() {
    let server = S::new();
    let relay = Relay::to(server.port());
    let urls = [S::url_of(&[relay.port()], DATABASE), server.url()];
    let mut hosts = urls.map(|url| Host::on_store(&url).set("strict_hold", "8s"));
    hosts.iter_mut().for_each(Host::start);
    create_strict(&hosts[0]);
    let asking = Asking::start(&hosts[..1]);
    holds(&hosts[0]);
    relay.at_commit_of(TAG, AtCommit::DelayAnswer(Duration::from_millis(700)));
    eventually("a claim is under way", RESUMES_WITHIN, || (relay.commits_met() > 0).then_some(()));
    hosts[0].stop();
    let begun = Instant::now();
    let next = hosts[1].raw().draw(TAG, 1)[0];
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
    let answers = asking.stop();
    assert!(answers.iter().all(|answer| answer.last < next));
    check::<S>("strict, stopped during a claim", &answers);
}

fn a_holder_that_stops_or_dies_delays_the_others_for_the_time_held<S: Server>() {
    let (_server, mut hosts) = three_hosts::<S>("1s");
    let held = Asking::start(&hosts[..1]);
    let mut answers = Vec::new();
    for round in 0..4 {
        holds(&hosts[0]);
        let dies = round % 2 == 1;
        match dies {
            true => hosts[0].kill(),
            false => hosts[0].signal(Signal::SIGSTOP),
        }
        // The others draw, and get answers once the hold has expired.
        let others = Asking::start(&hosts[1..]);
        std::thread::sleep(2 * DRAWS);
        match dies {
            true => hosts[0].start(),
            false => hosts[0].signal(Signal::SIGCONT),
        }
        std::thread::sleep(DRAWS / 3);
        let of_others = others.stop();
        assert!(of_others.len() > 30, "too few to say anything: {}", of_others.len());
        answers.extend(of_others);
    }
    answers.extend(held.stop());
    check::<S>("strict, the holder stopped and killed", &answers);
}

/// The daemon is stopped after the store's answer and before its journal has the claim, for so long that the store may
/// have failed over. The store does not answer afterwards, so nothing shows whether it still has the claim.
fn a_host_that_was_stopped_over_its_claim_issues_nothing_of_it<S: Server>() {
    let server = S::new();
    let mut host = Host::on_store(&server.url())
        .set("worker", "none")
        .set("strict_hold", "0s")
        .set("failover_settle", "2s");
    fs::create_dir(host.state_dir()).unwrap();
    let scratch = tempfile::tempdir().unwrap();
    let power = PowerLoss::of(&host.state_dir(), scratch.path()).unwrap();
    host.watch(&power, Mode::Sync);
    host.start();
    create_strict(&host);
    let mut raw = host.raw();
    let first = raw.draw_until(TAG, RESUMES_WITHIN);
    power.hang_disk(true).unwrap();
    raw.send(&ids_request(TAG, 1, 1, 30_000));
    let mut beside = host.raw();
    eventually("the claim is on its way to the journal", RESUMES_WITHIN, || {
        beside.send(&ids_request(TAG, 1, 1, 100));
        let reply = beside.reply();
        let is_waiting = reply.status() == Status::Deadline && reply.text().contains("recorded");
        is_waiting.then_some(())
    });
    host.signal(Signal::SIGSTOP);
    server.freeze();
    std::thread::sleep(Duration::from_secs(3));
    power.hang_disk(false).unwrap();
    host.signal(Signal::SIGCONT);
    eventually("the journal has recorded the claim", RESUMES_WITHIN, || {
        beside.send(&ids_request(TAG, 1, 1, 100));
        (!beside.reply().text().contains("recorded")).then_some(())
    });
    server.thaw();
    let next = raw.reply().ids()[0];
    let lost = first + 1;
    assert!(next > lost, "the store may have lost the claim of {lost}, and {next} was issued");
}

/// The primary dies while a host holds the tag, and the standby doesn't have the record. The holder continues for as
/// long as it may, and no other host gets ids meanwhile.
fn a_store_that_loses_the_record_of_the_holder_lets_nobody_in_early<S: Server>() {
    let mut pair = Pair::<S>::new();
    let host = |_| Host::on_store(&pair.url()).set("failover_settle", "2s");
    let mut hosts: Vec<Host> = (0..2).map(host).collect();
    hosts.iter_mut().for_each(Host::start);
    create_strict(&hosts[0]);
    pair.caught_up();
    pair.lose_from_now();
    let held = Asking::start(&hosts[..1]);
    holds(&hosts[0]);
    pair.primary.kill();
    let killed = Instant::now();
    pair.standby.promote();
    let others = Asking::start(&hosts[1..]);
    eventually("ids on the standby", 3 * RESUMES_WITHIN, || {
        (of_tag(&hosts[1])["issued"].as_u64()? > 0).then_some(())
    });
    std::thread::sleep(DRAWS);
    let mut answers = held.stop();
    let from_memory = answers.iter().filter(|one| one.asked > killed).count();
    answers.extend(others.stop());
    assert!(from_memory > 0, "the holder had no ids after the primary had died");
    check::<S>("strict, the record of the holder lost", &answers);
}

/// Checks that the answers are in order, and that no id came twice.
fn check<S: Server>(what: &str, answers: &[Answer]) {
    let mut drawn = Drawn::default();
    let ids: Vec<u64> = answers.iter().flat_map(|one| one.first..=one.last).collect();
    drawn.add_ids(TAG, &ids);
    report::<S>(what, ids.len() as u64, &drawn, None);
    drawn.assert_sound();
    assert!(answers.len() > 30, "too few to say anything: {}", answers.len());
    assert_eq!(overtaken(answers), None);
}

fn what_can_t_be_met_takes_nothing<S: Server>() {
    let server = S::new();
    let mut host = Host::on_store(&server.url());
    host.start();
    host.admin(opcode::TAG_CREATE, &json!({ "tag": TAG, "strict": true, "ceiling": 1_000 }));
    let mut raw = host.raw();
    let mut ids = Vec::new();
    // The first request shows that the tag is strict.
    for (count, left) in [(2_000, 1_000), (1, 0), (1_000, 999), (999, 0), (1, 0)] {
        raw.send(&ids_request(TAG, count, 1, 2_000));
        let reply = raw.reply();
        if reply.status() == Status::Ok {
            ids.extend(reply.ids());
            continue;
        }
        let text = reply.refused(Status::TagExhausted);
        let says =
            if left == 0 { "is exhausted".to_owned() } else { format!("only {left} ids left") };
        assert!(text.contains(&says), "{says}: {text}");
    }
    assert_eq!(ids, (1..=1_000).collect::<Vec<u64>>());
}

/// Requests a run to hold, of any length. A single id is returned, and it must not be held.
fn draw_to_hold(raw: &mut Raw) -> Vec<u64> {
    let mut bytes = Vec::new();
    IdsRequest { tag: TAG.as_bytes(), count: 100, deadline_ms: 5_000 }.put(true, 1, &mut bytes);
    raw.send(&bytes);
    let reply = raw.reply();
    assert_eq!(reply.status(), Status::Ok, "{}", reply.text());
    let answer = IdsReply::decode(&reply.body).unwrap();
    assert_eq!(answer.hold_ms, 0, "nobody may hold them");
    let ids: Vec<u64> = answer.runs().flat_map(Run::ids).collect();
    assert_eq!(ids.len(), 1, "{ids:?}");
    ids
}

fn nothing_is_held_if_that_is_off<S: Server>() {
    let mut server = S::new();
    let mut host = Host::on_store(&server.url()).set("strict_hold", "0s");
    host.start();
    create_strict(&host);
    let mut raw = host.raw();
    let mut ids = Vec::new();
    // The first claim tells the daemon that the tag is strict.
    ids.extend(raw.draw(TAG, 1));
    let mut end = server.max_id(TAG);
    assert_eq!(end, 2, "the first claim is of what was asked for");
    for _ in 0..5 {
        ids.extend(draw_to_hold(&mut raw));
        end += 1;
        assert_eq!(server.max_id(TAG), end, "no more than was asked for is claimed");
    }
    let of_tag = host.status()["segments"]["tags"][0].clone();
    assert_eq!((&of_tag["strict"], &of_tag["held"]), (&json!(true), &json!(0)), "{of_tag}");

    // Without the store, no ids are available.
    server.kill();
    raw.send(&ids_request(TAG, 1, 1, 1_000));
    let mut drawn = Drawn::default();
    let text = raw.reply().refused(Status::StoreUnavailable);
    drawn.errors.insert(format!("STORE_UNAVAILABLE: {text}"), 1);
    server.start();
    let begun = Instant::now();
    ids.push(raw.draw_until(TAG, RESUMES_WITHIN));
    let recovered = begun.elapsed();
    host.kill();
    host.start();
    ids.push(eventually("a restart", RESUMES_WITHIN, || {
        let mut raw: Raw = host.raw();
        raw.ask(TAG, 1, 1);
        let reply = raw.reply();
        (reply.status() == Status::Ok).then(|| reply.ids()[0])
    }));
    assert!(ids.is_sorted_by(|one, next| one < next), "{ids:?}");
    drawn.add_ids(TAG, &ids);
    report::<S>("strict, the store killed", 0, &drawn, Some(recovered));
    drawn.assert_sound();
}
