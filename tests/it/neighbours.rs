//! The effects of one user on others: no user can take what is left for the others, whatever it sends and however it
//! disconnects.

use std::collections::HashSet;
use std::io::Write;
use std::net::Shutdown;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use leafd_wire::{Header, Status, opcode};
use serde_json::{Value, json};

use crate::access::raw_as;
use crate::host::{Host, eventually};
use crate::public_ids::host_with_keys;
use crate::raw::{Raw, ids_request};

const ATTACKER: u32 = 4_001;
const VICTIM: u32 = 4_002;

/// The maximum wait of a victim for an id; the machine may be busy with other tests.
const GAP_MAX: Duration = Duration::from_secs(2);

fn serving(settings: &[(&str, &str)]) -> Host {
    let mut host = Host::new().worker(17).set("socket_mode", "0666");
    for (key, value) in settings {
        host = host.set(key, value);
    }
    host.start();
    host.create("orders");
    host
}

fn as_user(host: &Host, uid: u32) -> Raw {
    raw_as(host, uid, uid, &[])
}

#[track_caller]
fn assert_prompt(victim: &mut Raw, tag: &str) {
    for _ in 0..50 {
        let asked = Instant::now();
        assert_eq!(victim.draw(tag, 1).len(), 1);
        assert!(asked.elapsed() < GAP_MAX, "{:?}", asked.elapsed());
    }
}

fn lock(host: &Host) -> rusqlite::Connection {
    let lock = rusqlite::Connection::open(host.state_dir().join("store.db")).unwrap();
    lock.execute_batch("BEGIN IMMEDIATE").unwrap();
    lock
}

#[test]
fn idle_connections_of_one_user_leave_room_for_others() {
    let host = serving(&[("connections_max", "64")]);
    let mut idle = Vec::new();
    let refused = loop {
        let mut raw = as_user(&host, ATTACKER);
        match raw.try_info() {
            Ok(_) => idle.push(raw),
            Err(_) => break idle.len(),
        }
        assert!(idle.len() < 64, "nobody was refused");
    };
    assert_eq!(refused, 31, "half of what is not kept for administrators");
    let mut raw = as_user(&host, ATTACKER);
    let text = raw.reply().refused(Status::ConnectionLimit);
    assert!(text.contains("4001") && text.contains("connections_max"), "{text}");
    assert_prompt(&mut as_user(&host, VICTIM), "orders");
    assert_prompt(&mut host.raw(), "orders");
}

#[test]
fn a_user_who_never_reads_is_bounded_in_memory_and_holds_up_nobody() {
    let host = serving(&[("peer_memory_mib", "8")]);
    let mut victim = as_user(&host, VICTIM);
    assert_prompt(&mut victim, "orders");
    let before_kib = host.resident_kib();
    let mut requests = Vec::new();
    for request_id in 0..5_000 {
        Header::request(opcode::STATUS, 0, request_id).put_frame(b"", &mut requests);
    }
    let unread: Vec<_> = (0..1_000)
        .map(|_| {
            let raw = as_user(&host, ATTACKER);
            raw.stream.set_nonblocking(true).unwrap();
            // Writes as much as the daemon accepts.
            let _ = (&raw.stream).write(&requests);
            raw
        })
        .collect();
    assert_prompt(&mut victim, "orders");
    let grown_kib = host.resident_kib().saturating_sub(before_kib);
    assert!(grown_kib < 24 << 10, "{grown_kib} KiB for 1,000 connections that never read");
    drop(unread);
    assert_prompt(&mut victim, "orders");
}

/// A host with a masked tag from which nothing has been claimed yet.
fn with_masked_tag() -> Host {
    let (host, _) = host_with_keys("1 000102030405060708090a0b0c0d0e0f\n");
    let mut host = host.set("socket_mode", "0666").set("peer_memory_mib", "8");
    host.start();
    host.admin(opcode::TAG_CREATE, &json!({ "tag": "tickets", "masked": 53 }));
    host
}

/// Reads this many answers with 10,000 ids each, and checks that none of the ids was issued before.
#[track_caller]
fn read_masked(raw: &mut Raw, answers: u32, ids: &mut HashSet<u64>) {
    for _ in 0..answers {
        let before = ids.len();
        ids.extend(raw.reply().ids());
        assert_eq!(ids.len(), before + 10_000, "an id came twice, or is missing");
    }
}

#[test]
fn masked_ids_for_requests_that_waited_for_a_claim_hold_up_nobody() {
    const REQUESTS: u32 = 64;
    let host = with_masked_tag();
    let mut victim = as_user(&host, VICTIM);
    victim.draw("snowflake", 1);
    let before_kib = host.resident_kib();
    let lock = lock(&host);
    let mut raw = as_user(&host, ATTACKER);
    for request_id in 0..REQUESTS {
        raw.send(&ids_request("tickets", 10_000, request_id, 60_000));
    }
    eventually("all of them wait", GAP_MAX, || {
        let waiting = host.status()["segments"]["tags"][0]["waiting"].as_u64();
        (waiting == Some(REQUESTS.into())).then_some(())
    });
    lock.execute_batch("ROLLBACK").unwrap();
    let (began, over) = (Instant::now(), AtomicBool::new(false));
    let (mut longest, mut most_kib) = (Duration::ZERO, 0);
    let took = std::thread::scope(|scope| {
        let attacking = scope.spawn(|| {
            // If an answer is late, the victim's gap shows that.
            raw.stream.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
            read_masked(&mut raw, REQUESTS, &mut HashSet::new());
            over.store(true, Ordering::Relaxed);
            began.elapsed()
        });
        while !over.load(Ordering::Relaxed) && !attacking.is_finished() {
            let asked = Instant::now();
            victim.draw("snowflake", 1);
            longest = longest.max(asked.elapsed());
            most_kib = most_kib.max(host.resident_kib());
        }
        attacking.join().unwrap()
    });
    assert!(longest < took / 4, "the victim waited for {longest:?} of {took:?}");
    let grown_kib = most_kib.saturating_sub(before_kib);
    assert!(grown_kib < 6 << 10, "{grown_kib} KiB for the answers of one connection");
}

#[test]
fn masked_ids_that_are_never_read_are_bounded_in_memory() {
    const CONNECTIONS: usize = 200;
    let host = with_masked_tag();
    let mut victim = as_user(&host, VICTIM);
    assert_eq!(victim.draw("tickets", 1).len(), 1);
    let before_kib = host.resident_kib();
    let mut unread: Vec<_> = (0..CONNECTIONS)
        .map(|_| {
            let mut raw = as_user(&host, ATTACKER);
            raw.send(&ids_request("tickets", 10_000, 1, 60_000));
            raw
        })
        .collect();
    let all_drawn = 10_000 * CONNECTIONS as u64;
    eventually("all of it is drawn", Duration::from_secs(60), || {
        let issued = host.status()["segments"]["tags"][0]["issued"].as_u64();
        (issued > Some(all_drawn)).then_some(())
    });
    assert_prompt(&mut victim, "snowflake");
    let grown_kib = host.resident_kib().saturating_sub(before_kib);
    assert!(grown_kib < 12 << 10, "{grown_kib} KiB for {CONNECTIONS} answers that are never read");
    // A client that reads in the end gets the ids.
    let mut ids = HashSet::new();
    unread.iter_mut().step_by(20).for_each(|raw| read_masked(raw, 1, &mut ids));
    drop(unread);
    assert_prompt(&mut victim, "snowflake");
}

#[test]
fn a_connection_that_is_gone_takes_its_waiting_requests_along() {
    let host = serving(&[("waiters_max", "1000")]);
    host.create("stuck");
    let lock = lock(&host);
    for _ in 0..5 {
        let mut raw = as_user(&host, ATTACKER);
        for request_id in 0..400 {
            raw.send(&ids_request("stuck", 1, request_id, 60_000));
        }
        let waiting = || {
            let status = host.status();
            let tags = status["segments"]["tags"].as_array().cloned().unwrap_or_default();
            tags.iter()
                .find(|tag| tag["tag"] == "stuck")
                .map_or(0, |tag| tag["waiting"].as_u64().unwrap())
        };
        eventually("400 requests wait", GAP_MAX, || (waiting() == 400).then_some(()));
        drop(raw);
        eventually("none waits", GAP_MAX, || (waiting() == 0).then_some(()));
    }
    lock.execute_batch("ROLLBACK").unwrap();
    let first = host.raw().draw_until("stuck", Duration::from_secs(20));
    assert_eq!(first, 1, "nothing was issued to those who had gone");
}

#[test]
fn a_connection_that_is_gone_is_noticed_while_nothing_more_is_read_from_it() {
    let host = serving(&[]);
    host.create("stuck");
    let lock = lock(&host);
    let mut raw = as_user(&host, ATTACKER);
    // These are more than may wait at the same time; the rest stays in the socket.
    let requests: Vec<u8> =
        (0..1_500).flat_map(|request_id| ids_request("stuck", 1, request_id, 60_000)).collect();
    raw.send(&requests);
    let connections = || host.status()["connections"].as_u64().unwrap();
    eventually("the daemon reads no more", GAP_MAX, || (connections() >= 2).then_some(()));
    std::thread::sleep(Duration::from_millis(100));
    drop(raw);
    eventually("it is gone", GAP_MAX, || (connections() == 1).then_some(()));
    lock.execute_batch("ROLLBACK").unwrap();
}

#[test]
fn a_client_that_ended_its_requests_still_gets_the_answers() {
    let host = serving(&[]);
    host.create("late");
    let lock = lock(&host);
    let mut raw = as_user(&host, ATTACKER);
    for request_id in 0..3 {
        raw.send(&ids_request("late", 1, request_id, 60_000));
    }
    raw.stream.shutdown(Shutdown::Write).unwrap();
    std::thread::sleep(Duration::from_millis(200));
    lock.execute_batch("ROLLBACK").unwrap();
    let ids: Vec<_> = (0..3).flat_map(|_| raw.reply().ids()).collect();
    assert_eq!(ids, [1, 2, 3]);
}

#[test]
fn waiting_requests_of_one_user_leave_places_for_others() {
    let host = serving(&[("waiters_max", "64")]);
    host.create("stuck");
    let lock = lock(&host);
    let mut attacker = as_user(&host, ATTACKER);
    for request_id in 0..64 {
        attacker.send(&ids_request("stuck", 1, request_id, 60_000));
    }
    let text = attacker.reply().refused(Status::Overloaded);
    assert!(text.contains("waiters_max"), "{text}");
    let mut victim = as_user(&host, VICTIM);
    victim.send(&ids_request("stuck", 1, 7, 60_000));
    std::thread::sleep(Duration::from_millis(200));
    lock.execute_batch("ROLLBACK").unwrap();
    assert_eq!(victim.reply().ids().len(), 1);
}

#[test]
fn large_requests_of_one_user_for_a_tag_let_others_have_their_turn() {
    const REQUESTS: u32 = 30;
    const COUNT: u32 = 10_000;
    for strict in [false, true] {
        // A claim serves five of the requests.
        let host = serving(&[("max_step", "50000")]);
        host.admin(opcode::TAG_CREATE, &json!({ "tag": "wanted", "strict": strict }));
        let lock = lock(&host);
        let waiting = |count: u32| {
            eventually("they wait", GAP_MAX, || {
                let waiting = host.status()["segments"]["tags"][0]["waiting"].as_u64();
                (waiting == Some(count.into())).then_some(())
            });
        };
        let mut attackers = [as_user(&host, ATTACKER), as_user(&host, ATTACKER)];
        for request_id in 0..REQUESTS {
            attackers[request_id as usize % 2]
                .send(&ids_request("wanted", COUNT, request_id, 60_000));
        }
        waiting(REQUESTS);
        let mut victim = as_user(&host, VICTIM);
        victim.send(&ids_request("wanted", 1, 1, 60_000));
        waiting(REQUESTS + 1);
        lock.execute_batch("ROLLBACK").unwrap();
        let id = victim.reply().ids()[0];
        assert!(id <= 100_000, "strict: {strict}; {id} comes after more than a claim or two");
        // No client loses anything: each connection gets its ids in the order of its requests.
        for raw in &mut attackers {
            let mut last = 0;
            for _ in 0..REQUESTS / 2 {
                let ids = raw.reply().ids();
                assert!(ids.len() == COUNT as usize && ids[0] > last, "{} {last}", ids[0]);
                last = ids[ids.len() - 1];
            }
        }
    }
}

#[test]
fn claims_of_one_user_for_many_tags_let_others_have_their_turn() {
    const TAGS: u32 = 120;
    let host = serving(&[]);
    let tags: Vec<String> = (0..TAGS).map(|number| format!("many-{number}")).collect();
    let (mut attacker, mut victim) = (as_user(&host, ATTACKER), as_user(&host, VICTIM));
    for tag in &tags {
        host.create(tag);
        attacker.draw(tag, 1);
    }
    victim.draw("orders", 1);
    let lock = lock(&host);
    for (request_id, tag) in tags.iter().enumerate() {
        attacker.send(&ids_request(tag, 100_000, request_id as u32, 60_000));
    }
    // Its answer shows that the requests before it have been read and wait.
    attacker.info();
    victim.send(&ids_request("orders", 100_000, 1, 60_000));
    victim.info();
    lock.execute_batch("ROLLBACK").unwrap();
    assert_eq!(victim.reply().ids().len(), 100_000);
    tags.iter().for_each(|_| assert_eq!(attacker.reply().ids().len(), 100_000));
    let store = rusqlite::Connection::open(host.state_dir().join("store.db")).unwrap();
    // A few may have been sent earlier, and have failed while the store was locked.
    let before = "SELECT count(DISTINCT tag) FROM leafd_claim WHERE end_id > 100000 AND claimed_ms < (SELECT max(claimed_ms)
        FROM leafd_claim WHERE tag = 'orders')";
    let before: u32 = store.query_row(before, [], |row| row.get(0)).unwrap();
    assert!(before < TAGS / 4, "{before} other claims went ahead");
}

#[test]
fn large_snowflake_requests_of_one_user_leave_ticks_for_others() {
    let host = serving(&[]);
    let mut attacker = as_user(&host, ATTACKER);
    for request_id in 0..200 {
        attacker.send(&ids_request("snowflake", 1_000_000, request_id, 60_000));
    }
    let mut victim = as_user(&host, VICTIM);
    assert_prompt(&mut victim, "snowflake");
    drop(attacker);
    assert_prompt(&mut victim, "snowflake");
}

#[test]
fn expensive_requests_of_many_connections_stop_nobody() {
    let host = serving(&[]);
    let mut victim = as_user(&host, VICTIM);
    let stop = std::sync::atomic::AtomicBool::new(false);
    let mut requests = Vec::new();
    for request_id in 0..1_000 {
        Header::request(opcode::STATUS, 0, request_id).put_frame(b"", &mut requests);
    }
    std::thread::scope(|scope| {
        let attackers: Vec<_> = (0..200).map(|_| as_user(&host, ATTACKER)).collect();
        let (stop, requests) = (&stop, &requests);
        scope.spawn(move || {
            let mut taken = vec![0; 1 << 16];
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                for raw in &attackers {
                    raw.stream.set_nonblocking(true).unwrap();
                    let _ = (&raw.stream).write(requests);
                    let _ = std::io::Read::read(&mut &raw.stream, &mut taken);
                }
            }
        });
        assert_prompt(&mut victim, "orders");
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}

#[test]
fn a_quota_stops_one_user_and_leaves_others() {
    let rules = r#"[{tags = ["orders", "snowflake"], ids_per_second = 100, burst = 1000}]"#;
    let host = serving(&[("access", rules)]);
    let mut greedy = as_user(&host, ATTACKER);
    assert_eq!(greedy.draw("orders", 1_000).len(), 1_000);
    greedy.send(&ids_request("orders", 500, 1, 1_000));
    let reply = greedy.reply();
    let text = reply.refused(Status::Overloaded);
    assert!(text.contains("4001") && text.contains("100 ids/s"), "{text}");
    assert!((1_000..=5_000).contains(&reply.retry_after_ms()), "{}", reply.retry_after_ms());
    // A new connection changes nothing, and more than a burst is never granted.
    let mut again = as_user(&host, ATTACKER);
    again.refused(&ids_request("orders", 500, 2, 1_000), Status::Overloaded);
    again.refused(&ids_request("orders", 1_001, 3, 1_000), Status::CountInvalid);
    // Each tag and each user has a separate quota.
    assert_eq!(again.draw("snowflake", 1_000).len(), 1_000);
    assert_eq!(as_user(&host, VICTIM).draw("orders", 1_000).len(), 1_000);
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(greedy.draw("orders", 20).len(), 20, "the rate comes back");
    let status: Value = host.status();
    assert!(status["requests_refused"].as_u64().unwrap() >= 3, "{status}");
}

#[test]
fn a_quota_is_one_for_all_connections_whatever_else_is_asked_for() {
    const NAMES: u32 = 10_001;
    let rules = r#"[{tags = ["*"], ids_per_second = 1000, burst = 1000}]"#;
    let host = serving(&[("access", rules)]);
    let mut earlier = as_user(&host, ATTACKER);
    earlier.draw("orders", 1);
    // Many useless quotas: these tags don't exist.
    let mut naming = as_user(&host, ATTACKER);
    for first in (0..NAMES).step_by(200) {
        let names = first..NAMES.min(first + 200);
        for number in names.clone() {
            naming.send(&ids_request(format!("made-up-{number}"), 1, number, 5_000));
        }
        names.for_each(|_| drop(naming.reply().refused(Status::TagUnknown)));
    }
    assert_eq!(earlier.draw("orders", 1_000).len(), 1_000);
    let mut later = as_user(&host, ATTACKER);
    later.refused(&ids_request("orders", 1_000, 1, 1_000), Status::Overloaded);
}

#[test]
fn made_up_names_of_one_user_are_bounded_and_forgotten() {
    let host = serving(&[]);
    let lock = lock(&host);
    let mut attacker = as_user(&host, ATTACKER);
    let in_use = || host.status()["segments"]["tags_in_use"].as_u64().unwrap();
    for round in 0..5 {
        for number in 0..600 {
            attacker.send(&ids_request(format!("made-up-{round}-{number}"), 1, number, 3_000));
        }
        let refused = attacker.reply().refused(Status::Overloaded);
        assert!(refused.contains("this user"), "{refused}");
        assert!(in_use() <= 500, "{} names are kept", in_use());
        for _ in 1..600 {
            let status = attacker.reply().status();
            let expected = [Status::Overloaded, Status::Deadline, Status::StoreUnavailable];
            assert!(expected.contains(&status), "{status:?}");
        }
    }
    lock.execute_batch("ROLLBACK").unwrap();
    assert_prompt(&mut as_user(&host, VICTIM), "orders");
    eventually("made-up names are forgotten", Duration::from_secs(30), || {
        (in_use() <= 1).then_some(())
    });
    // Existing tags are not counted, however many one user draws.
    for number in 0..600 {
        host.create(&format!("real-{number}"));
        assert_eq!(attacker.draw(format!("real-{number}"), 1), [1]);
    }
}

#[test]
fn made_up_names_of_one_user_keep_their_places_until_their_turn_to_claim() {
    let host = serving(&[]);
    let (mut attacker, mut victim) = (as_user(&host, ATTACKER), as_user(&host, VICTIM));
    let mut round = 0;
    // On a busy machine, the store may be considered unavailable first, and then no name waits for a turn.
    eventually("a name is refused", Duration::from_secs(60), || {
        let lock = lock(&host);
        let mut refused = 0;
        // Fewer at a time than the limit. Their deadlines have passed at the end of each round.
        for _ in 0..3 {
            round += 1;
            for number in 0..400 {
                attacker.send(&ids_request(format!("made-up-{round}-{number}"), 1, number, 300));
            }
            let answers: Vec<Status> = (0..400).map(|_| attacker.reply().status()).collect();
            refused += answers.iter().filter(|status| **status == Status::Overloaded).count();
        }
        lock.execute_batch("ROLLBACK").unwrap();
        eventually("the store answers again", Duration::from_secs(30), || {
            victim.ask(format!("nosuch-{round}"), 1, 1);
            (victim.reply().status() == Status::TagUnknown).then_some(())
        });
        (refused > 0).then_some(())
    });
    eventually("made-up names are forgotten", Duration::from_secs(30), || {
        (host.status()["segments"]["tags_in_use"].as_u64().unwrap() <= 1).then_some(())
    });
}
