//! Many requests, many connections, and clients that don't read: memory stays bounded, and no other client waits.

use std::collections::HashSet;
use std::io::{ErrorKind, Write};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use leafd_wire::{PIPELINE_MAX, Status, opcode};

use crate::host::{Host, eventually};
use crate::raw::ids_request;
use crate::seed::seeds;

/// A generous bound on resident memory for a thousand connections, in KiB; the budget is 30 MiB.
const RESIDENT_KIB_MAX: u64 = 40 << 10;

fn serving() -> Host {
    let mut host = Host::new().worker(17);
    host.start();
    host.create("orders");
    host
}

/// Checks that answers are prompt: several hundred in a row, none of them after more than a second.
#[track_caller]
fn assert_prompt(host: &Host) {
    let mut raw = host.raw();
    for _ in 0..200 {
        let asked = Instant::now();
        assert_eq!(raw.draw("orders", 1).len(), 1);
        assert!(asked.elapsed() < Duration::from_secs(1), "{:?}", asked.elapsed());
    }
}

#[test]
fn ten_thousand_requests_at_once_are_each_answered_once() {
    let mut host = serving();
    let mut raw = host.raw();
    let mut writer = raw.stream.try_clone().unwrap();
    let requests: Vec<u8> =
        (0..10_000).flat_map(|request_id| ids_request("orders", 2, request_id, 10_000)).collect();
    let writing = std::thread::spawn(move || writer.write_all(&requests));
    let mut ids = Vec::new();
    for request_id in 0..10_000 {
        let reply = raw.reply();
        assert_eq!(reply.header.request_id, request_id, "answers of one tag keep their order");
        ids.extend(reply.ids());
    }
    writing.join().unwrap().unwrap();
    assert_eq!(ids.len(), 20_000);
    assert!(ids.is_sorted_by(|left, right| left < right), "ids ascend");
    assert_prompt(&host);
    host.assert_alive();
}

#[test]
fn requests_that_wait_hold_up_only_their_own_connection() {
    let mut host = serving();
    host.raw().draw("orders", 1);
    let lock = rusqlite::Connection::open(host.state_dir().join("store.db")).unwrap();
    lock.execute_batch("BEGIN IMMEDIATE").unwrap();
    // No id of this tag is claimed, and none can be.
    let mut raw = host.raw();
    let waiting = PIPELINE_MAX * 3;
    let requests: Vec<u8> =
        (0..waiting).flat_map(|request_id| ids_request("nosuch", 1, request_id, 1_500)).collect();
    let mut writer = raw.stream.try_clone().unwrap();
    let writing = std::thread::spawn(move || writer.write_all(&requests));
    assert_prompt(&host);
    for _ in 0..PIPELINE_MAX {
        let text = raw.reply().refused(Status::Deadline);
        assert!(text.contains("nosuch"), "{text}");
    }
    lock.execute_batch("ROLLBACK").unwrap();
    for _ in PIPELINE_MAX..waiting {
        let reply = raw.reply();
        assert!([Status::Deadline, Status::TagUnknown].contains(&reply.status()), "{reply:?}");
    }
    writing.join().unwrap().unwrap();
    host.assert_alive();
}

#[test]
fn too_many_waiting_requests_are_refused_at_once() {
    let mut host = Host::new().set("waiters_max", "10");
    host.start();
    let lock = rusqlite::Connection::open(host.state_dir().join("store.db")).unwrap();
    lock.execute_batch("BEGIN IMMEDIATE").unwrap();
    let mut raw = host.raw();
    for request_id in 0..11 {
        raw.ask("orders", 1, request_id);
    }
    let reply = raw.reply();
    assert_eq!(reply.header.request_id, 10);
    let text = reply.refused(Status::Overloaded);
    assert!(text.contains("waiters_max") && text.contains("10"), "{text}");
    assert!(reply.retry_after_ms() > 0);
}

#[test]
fn readers_that_never_read_are_bounded_and_hold_up_nobody() {
    let mut host = serving();
    let before = host.resident_kib();
    let requests: Vec<u8> = std::iter::repeat_with(|| {
        let mut status = Vec::new();
        leafd_wire::Header::request(opcode::STATUS, 0, 1).put_frame(b"", &mut status);
        [status, ids_request("orders", 1, 1, 1_000)].concat()
    })
    .take(500)
    .flatten()
    .collect();
    let mut stuck = Vec::new();
    for _ in 0..20 {
        let mut raw = host.raw();
        raw.stream.set_nonblocking(true).unwrap();
        // Writes until the daemon reads no more from it.
        let mut full = 0;
        while full < 20 {
            match raw.stream.write(&requests) {
                Ok(_) => full = 0,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    full += 1;
                    std::thread::sleep(Duration::from_millis(5));
                }
                Err(error) => panic!("{error}"),
            }
        }
        stuck.push(raw);
    }
    assert_prompt(&host);
    // 20 times the documented 256 KiB, one answer more each, and room for the allocator.
    let grown = host.resident_kib().saturating_sub(before);
    assert!(grown < 20 * 1024, "{grown} KiB for 20 clients that never read");
    // A client that reads in the end gets the answers.
    let mut raw = stuck.pop().unwrap();
    raw.stream.set_nonblocking(false).unwrap();
    for _ in 0..200 {
        raw.reply();
    }
    host.assert_alive();
}

#[test]
fn a_thousand_idle_connections_fit_the_budget() {
    let mut host = serving();
    let mut idle: Vec<_> = (0..1_000).map(|_| host.raw()).collect();
    for raw in &mut idle {
        raw.draw("orders", 1);
    }
    assert_prompt(&host);
    let resident = host.resident_kib();
    assert!(resident <= RESIDENT_KIB_MAX, "{resident} KiB with 1,000 connections");
    let mut ids = HashSet::new();
    for raw in &mut idle {
        raw.ask("orders", 5, 1);
    }
    for raw in &mut idle {
        ids.extend(raw.reply().ids());
    }
    assert_eq!(ids.len(), 5_000);
    drop(idle);
    eventually("connections are forgotten", Duration::from_secs(5), || {
        (host.status()["connections"].as_u64()? <= 2).then_some(())
    });
    host.assert_alive();
}

/// The system has no descriptor left for a newcomer, who waits. Whoever is connected is served.
#[test]
fn without_descriptors_newcomers_wait_and_others_are_served() {
    let mut host = Host::new().worker(17);
    host.start();
    host.create("orders");
    let mut known = host.raw();
    known.draw("orders", 1);
    let limit = |soft: &str| {
        let pid = host.pid().to_string();
        let words = ["--pid", &pid, &format!("--nofile={soft}:")];
        assert!(Command::new("prlimit").args(words).status().unwrap().success());
    };
    let is_open = |number: &u32| Path::new(&format!("/proc/{}/fd/{number}", host.pid())).exists();
    let next = (0..).find(|number| !is_open(number)).unwrap();
    limit(&next.to_string());
    let mut newcomer = host.raw();
    newcomer.ask("orders", 1, 1);
    let mut seen = HashSet::new();
    // Through many marks and claims.
    for _ in 0..200 {
        let ids = [known.draw("orders", 100), known.draw("snowflake", 10)].concat();
        assert!(ids.into_iter().all(|id| seen.insert(id)), "an id came twice");
    }
    newcomer.stream.set_nonblocking(true).unwrap();
    assert!(newcomer.try_reply().is_err(), "there was no descriptor for the newcomer");
    newcomer.stream.set_nonblocking(false).unwrap();
    let log = host.log();
    assert!(log.contains("Too many open files") || log.contains("os error 24"), "{log}");
    limit("1024");
    assert!(newcomer.reply().ids().into_iter().all(|id| seen.insert(id)), "an id came twice");
    host.stop();
}

#[test]
fn connections_beyond_the_limit_are_told_so_and_closed() {
    let mut host = Host::new().set("connections_max", "3");
    host.start();
    host.create("orders");
    // The daemon may not have noticed yet that the connections from the set-up are closed.
    let mut kept = eventually("three connections", Duration::from_secs(5), || {
        let mut kept: Vec<_> = (0..3).map(|_| host.raw()).collect();
        kept.iter_mut()
            .all(|raw| {
                let _ = raw.stream.write_all(&ids_request("orders", 1, 1, 1_000));
                raw.try_reply().is_ok_and(|reply| reply.status() == Status::Ok)
            })
            .then_some(kept)
    });
    for _ in 0..10 {
        let mut raw = host.raw();
        let reply = raw.reply();
        let text = reply.refused(Status::ConnectionLimit);
        assert!(text.contains("connections_max") && text.contains('3'), "{text}");
        assert!(reply.retry_after_ms() > 0);
        raw.assert_closed();
    }
    kept.pop();
    eventually("a place is free again", Duration::from_secs(5), || {
        let mut raw = host.raw();
        let _ = raw.stream.write_all(&ids_request("orders", 1, 1, 1_000));
        raw.try_reply().ok().filter(|reply| reply.status() == Status::Ok)
    });
    host.assert_alive();
}

/// Random frames, from almost valid to pure noise, on connection after connection.
#[test]
fn random_frames_do_no_harm() {
    let mut host = serving();
    let mut other = host.raw();
    let mut issued = HashSet::new();
    let end = Instant::now() + Duration::from_secs(3);
    for mut random in seeds(10_000) {
        if Instant::now() > end {
            break;
        }
        let mut raw = host.raw();
        raw.stream.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        for _ in 0..random.usize(1..30) {
            let mut bytes = match random.u32(0..4) {
                0 => noise(&mut random, 1..200),
                1 => ids_request("orders", random.u32(0..2_000), random.u32(..), random.u32(..)),
                2 => ids_request("snowflake", random.u32(0..2_000), random.u32(..), 100),
                _ => {
                    let body = noise(&mut random, 0..60);
                    let mut bytes = Vec::new();
                    leafd_wire::Header::request(random.u8(0..24), random.u8(..), random.u32(..))
                        .put_frame(&body, &mut bytes);
                    bytes
                }
            };
            for _ in 0..random.usize(0..3) {
                let at = random.usize(0..bytes.len());
                bytes[at] = random.u8(..);
            }
            if raw.stream.write_all(&bytes).is_err() {
                break;
            }
        }
        let _ = raw.stream.shutdown(std::net::Shutdown::Write);
        while let Ok(reply) = raw.try_reply() {
            let known = Status::from_number(reply.header.status);
            assert!(known.is_some_and(|status| status != Status::Internal), "{reply:?}");
        }
        for id in other.draw("orders", 7) {
            assert!(issued.insert(id), "{id} is issued twice");
        }
    }
    host.assert_alive();
    assert_prompt(&host);
}

fn noise(random: &mut fastrand::Rng, length: std::ops::Range<usize>) -> Vec<u8> {
    let mut bytes = vec![0; random.usize(length)];
    random.fill(&mut bytes);
    bytes
}
