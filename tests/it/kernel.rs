//! Kernel resources that a user can occupy count as the user's: socket buffers, groups, subordinate uids.

use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use leafd_tests::cgroup::{Cgroup, bind_subuid, shipped_limit_bytes};
use leafd_wire::{Status, opcode};

use crate::access::raw_as;
use crate::host::{Host, eventually};
use crate::raw::{Raw, connect_as, ids_request, tcp_as, tcp_from};
use leafd_tests::http;
use nix::sys::socket::{setsockopt, sockopt};

const ATTACKER: u32 = 4_001;
const VICTIM: u32 = 4_002;

/// The maximum wait of a victim for an id; the machine may be busy with other tests.
const GAP_MAX: Duration = Duration::from_secs(5);

fn open() -> Host {
    Host::new().worker(17).set("socket_mode", "0666")
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

/// As many connections as users may have, each with unread answers, within the memory limit of the manifests.
#[test]
fn unread_answers_of_all_connections_fit_the_limit_of_the_manifests() {
    let cgroup = Cgroup::new(shipped_limit_bytes());
    let runner = cgroup.runner();
    let mut host = open().runner(&runner.each_ref().map(String::as_str));
    host.start();
    host.create("orders");
    let mut victim = as_user(&host, VICTIM);
    assert_prompt(&mut victim, "orders");
    // The answers fit a socket buffer of the default size.
    let mut requests = Vec::new();
    for request_id in 0..700 {
        leafd_wire::Header::request(opcode::STATUS, 0, request_id).put_frame(b"", &mut requests);
    }
    // Two users share what a single one could not have, with open and with half-closed connections.
    let mut kept = Vec::new();
    for uid in [ATTACKER, ATTACKER + 10] {
        for number in 0..2_100 {
            let Ok(mut stream) = connect_as(&host.socket(), uid, uid, &[]) else { break };
            stream.set_nonblocking(true).unwrap();
            let _ = stream.write(&requests);
            if number % 2 == 0 {
                let _ = stream.shutdown(Shutdown::Write);
            }
            kept.push(stream);
        }
        assert_prompt(&mut victim, "orders");
    }
    // A new client waits until leafd has accepted the connections before its own, which takes half a minute on an
    // emulated processor.
    let mut newcomer = as_user(&host, VICTIM);
    newcomer.stream.set_read_timeout(Some(GAP_MAX * 20)).unwrap();
    assert_eq!(newcomer.draw("orders", 1).len(), 1);
    let status = host.status();
    assert!(status["connections"].as_u64() > Some(2_000), "{status}");
    let used_mib = cgroup.used_bytes() >> 20;
    assert_eq!(cgroup.killed(), 0, "{used_mib} MiB");
    assert!(used_mib < shipped_limit_bytes() >> 20, "{used_mib} MiB");
    println!("{used_mib} MiB for {} connections with unread answers", kept.len());
    drop(kept);
    assert_prompt(&mut victim, "orders");
    host.stop();
}

#[test]
fn a_half_closed_connection_keeps_its_place_until_its_answers_are_read() {
    let mut host = open().set("connections_max", "64");
    host.start();
    host.create("orders");
    // From now on ids are held, and answers come immediately.
    assert_prompt(&mut as_user(&host, VICTIM), "orders");
    let mut half_closed = Vec::new();
    for _ in 0..40 {
        let mut raw = as_user(&host, ATTACKER);
        let _ = raw.stream.write_all(&ids_request("orders", 1, 1, 1_000));
        let _ = raw.stream.shutdown(Shutdown::Write);
        half_closed.push(raw);
    }
    eventually("all are answered or refused", GAP_MAX * 10, || {
        let status = host.status();
        let refused = status["connections_refused"].as_u64()?;
        (status["connections"].as_u64()? >= 31 && refused >= 9).then_some(())
    });
    let answers: Vec<Status> = half_closed.iter_mut().map(|raw| raw.reply().status()).collect();
    let served = answers.iter().filter(|status| **status == Status::Ok).count();
    assert_eq!(served, 31, "half of what is not kept for administrators: {answers:?}");
    // Clients that have read get the end of the stream immediately, and their slots are soon free.
    half_closed.iter_mut().for_each(Raw::assert_closed);
    eventually("the places are free", GAP_MAX * 10, || {
        (host.status()["connections"].as_u64()? <= 1).then_some(())
    });
}

#[test]
fn groups_that_no_rule_names_take_neither_memory_nor_time() {
    let rules = r#"[{tags = ["a.*"], gids = [1]}, {tags = ["b.*"], gids = [2]}, {tags = ["*"], gids = [70000]}]"#;
    let mut host = open().set("access", rules);
    host.start();
    for tag in ["a.1", "b.1", "c"] {
        host.create(tag);
    }
    let mut victim = raw_as(&host, VICTIM, VICTIM, &[70_000]);
    assert_prompt(&mut victim, "c");
    let before_kib = host.resident_kib();
    let groups: Vec<u32> = (100_000..165_536).collect();
    // leafd reads fewer groups than that, so the kernel refuses to copy them.
    let of = |number: usize| &groups[..[groups.len(), 1_024][number % 2]];
    let mut kept: Vec<Raw> =
        (0..100).map(|number| raw_as(&host, ATTACKER, ATTACKER, of(number))).collect();
    for round in 0..20 {
        for (request_id, raw) in (0..).zip(&mut kept) {
            let tag = ["a.1", "b.1", "c"][(round + request_id as usize) % 3];
            raw.send(&ids_request(tag, 1, request_id, 1_000).repeat(4));
        }
        assert_prompt(&mut victim, "c");
    }
    for raw in &mut kept {
        raw.reply().refused(Status::Denied);
    }
    let grown_kib = host.resident_kib().saturating_sub(before_kib);
    assert!(grown_kib < 8 << 10, "{grown_kib} KiB for 100 connections with 65,536 groups");
}

#[test]
fn newcomers_hardly_wait_longer_for_peers_with_many_groups() {
    let rules = r#"[{tags = ["a"], gids = [70000]}]"#;
    let mut host = open().set("access", rules).set("admin_gids", "[70000]");
    host.start();
    host.create("orders");
    assert_prompt(&mut as_user(&host, VICTIM), "orders");
    // The client queues behind clients that connect, send a request and leave. leafd identifies each of them before it
    // notices that.
    let waits_behind = |groups: Vec<u32>| {
        let socket = host.socket();
        let connected = crate::raw::as_user(ATTACKER, ATTACKER, groups, move || {
            for request_id in 0..2_000 {
                let request = ids_request("orders", 1, request_id, 1_000);
                UnixStream::connect(&socket)?.write_all(&request)?;
            }
            Ok(())
        });
        connected.unwrap();
        let asked = Instant::now();
        let mut newcomer = as_user(&host, VICTIM);
        newcomer.stream.set_read_timeout(Some(GAP_MAX * 20)).unwrap();
        assert_eq!(newcomer.draw("orders", 1).len(), 1);
        asked.elapsed()
    };
    let behind_few = waits_behind(Vec::new());
    let behind_many = waits_behind((100_000..165_536).collect());
    assert!(behind_many < behind_few * 10 + GAP_MAX, "{behind_few:?}, then {behind_many:?}");
    host.stop();
}

/// Rules that reserve "orders" for a group.
fn reserved_for(gid: u32) -> String {
    format!("[[access]]\ntags = [\"orders\"]\ngids = [{gid}]\n")
}

/// A host that reads such rules from a file, together with the file.
fn ruled_by_file(gid: u32) -> (Host, PathBuf) {
    let mut host = open();
    let file = host.path("leafd.toml");
    fs::write(&file, reserved_for(gid)).unwrap();
    host = host.variable("LEAFD_CONFIG", &file);
    host.start();
    host.create("orders");
    (host, file)
}

#[test]
fn a_reload_holds_up_nobody_for_connections_with_many_groups() {
    let (mut host, file) = ruled_by_file(70_000);
    host.create("open");
    let groups: Vec<u32> = (100_000..165_536).collect();
    let mut kept: Vec<Raw> =
        (0..1_000).map(|_| raw_as(&host, ATTACKER, ATTACKER, &groups)).collect();
    kept.iter_mut().for_each(|raw| drop(raw.draw("open", 1)));
    let mut victim = raw_as(&host, VICTIM, VICTIM, &[70_001]);
    victim.refused(&ids_request("orders", 1, 1, 1_000), Status::Denied);
    fs::write(&file, reserved_for(70_001)).unwrap();
    host.signal(nix::sys::signal::Signal::SIGHUP);
    eventually("the new rules apply", GAP_MAX * 10, || {
        let asked = Instant::now();
        victim.ask("orders", 1, 2);
        let reply = victim.reply();
        assert!(asked.elapsed() < GAP_MAX, "{:?}", asked.elapsed());
        (reply.status() == Status::Ok).then_some(())
    });
    drop(kept);
    host.stop();
}

#[test]
fn other_rules_name_other_groups_of_open_connections() {
    let (host, file) = ruled_by_file(5);
    let mut raw = raw_as(&host, VICTIM, VICTIM, &[6]);
    raw.refused(&ids_request("orders", 1, 1, 1_000), Status::Denied);
    fs::write(&file, reserved_for(6)).unwrap();
    host.signal(nix::sys::signal::Signal::SIGHUP);
    eventually("the group is found", GAP_MAX * 10, || {
        raw.ask("orders", 1, 2);
        (raw.reply().status() == Status::Ok).then_some(())
    });
}

#[test]
fn a_request_that_waits_gets_nothing_once_its_right_is_revoked() {
    let mut host = open();
    let rules = |uid: u32| format!("[[access]]\ntags = [\"orders\"]\nuids = [{uid}]\n");
    let file = host.path("leafd.toml");
    fs::write(&file, rules(ATTACKER)).unwrap();
    host = host.variable("LEAFD_CONFIG", &file);
    host.start();
    host.create("orders");
    let store = rusqlite::Connection::open(host.state_dir().join("store.db")).unwrap();
    store.execute_batch("BEGIN IMMEDIATE").unwrap();
    let mut raw = as_user(&host, ATTACKER);
    raw.send(&ids_request("orders", 1, 1, 60_000));
    eventually("it waits", GAP_MAX * 10, || {
        let status = host.status();
        let tags = status["segments"]["tags"].as_array()?.clone();
        tags.iter().any(|tag| tag["waiting"].as_u64() == Some(1)).then_some(())
    });
    fs::write(&file, rules(VICTIM)).unwrap();
    host.signal(nix::sys::signal::Signal::SIGHUP);
    eventually("the rules are in force", GAP_MAX * 10, || {
        (host.status()["reloads"]["succeeded"].as_u64() == Some(1)).then_some(())
    });
    store.execute_batch("ROLLBACK").unwrap();
    assert!(raw.try_reply().is_err(), "it got an answer");
    assert_eq!(as_user(&host, VICTIM).draw_until("orders", GAP_MAX * 10), 1);
}

/// A daemon for which the attacker has the uids from 200,000 on as subordinate uids.
fn with_subordinate_uids(host: Host) -> Host {
    let given = host.path("subuid");
    fs::write(&given, format!("{ATTACKER}:200000:65536\n")).unwrap();
    host.runner(&["unshare", "--mount", "sh", "-c", &bind_subuid(&given), "sh"])
}

#[test]
fn subordinate_uids_share_the_connections_of_their_owner() {
    let mut host = with_subordinate_uids(open().set("connections_max", "64"));
    host.start();
    host.create("orders");
    let mut kept = Vec::new();
    for uid in 200_000..200_064 {
        let mut raw = as_user(&host, uid);
        if raw.try_info().is_ok() {
            kept.push(raw);
        }
    }
    assert_eq!(kept.len(), 31, "half of what is not kept for administrators");
    as_user(&host, ATTACKER).reply().refused(Status::ConnectionLimit);
    assert_prompt(&mut as_user(&host, VICTIM), "orders");
    assert_prompt(&mut as_user(&host, 265_536), "orders");
}

#[test]
fn subordinate_uids_share_the_quota_of_their_owner() {
    let rules = r#"[{tags = ["orders"], ids_per_second = 10, burst = 10}]"#;
    let mut host = with_subordinate_uids(open().set("access", rules));
    host.start();
    host.create("orders");
    let begun = Instant::now();
    let mut drawn = 0;
    for uid in 200_000..200_050 {
        let mut raw = as_user(&host, uid);
        raw.ask("orders", 10, 1);
        if raw.reply().status() == Status::Ok {
            drawn += 10;
        }
    }
    let most = 10 + (begun.elapsed().as_secs() + 1) * 10;
    assert!(drawn <= most, "{drawn} ids instead of {most}");
    assert_eq!(as_user(&host, VICTIM).draw("orders", 10).len(), 10);
}

#[test]
fn slow_heads_of_one_user_leave_connections_for_http_to_others() {
    let mut host = open().set("http", "127.0.0.1:0").set("leaf_http", "127.0.0.1:0");
    host.start();
    for (what, path, many) in [
        ("serving metrics and health", "/livez", 100),
        ("serving Leaf's paths", "/decodeSnowflakeId?snowflakeId=1", 1_100),
    ] {
        let address = host.http(what);
        let slow: Vec<TcpStream> = (0..many)
            .map(|_| {
                let mut stream = tcp_as(&address, ATTACKER).unwrap();
                let _ = stream.write_all(b"GET / HTTP/1.1\r\nHost: ");
                stream
            })
            .collect();
        for uid in [VICTIM, 0] {
            let stream = tcp_as(&address, uid).unwrap();
            stream.set_read_timeout(Some(GAP_MAX)).unwrap();
            let head = format!("GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n");
            let answer = http::send(stream, head.as_bytes());
            assert_eq!(answer.status, 200, "{uid}: {}", answer.head);
        }
        drop(slow);
    }
}

#[test]
fn slow_heads_on_the_unix_socket_leave_connections_to_others() {
    let mut host = open();
    let socket = host.path("http.sock");
    host.change("http", socket.to_str().unwrap());
    host.start();
    let mut slow = Vec::new();
    for _ in 0..100 {
        let mut stream = connect_as(&socket, ATTACKER, ATTACKER, &[]).unwrap();
        let _ = stream.write_all(b"GET / HTTP/1.1\r\nHost: ");
        slow.push(stream);
    }
    for uid in [VICTIM, 0] {
        let stream = connect_as(&socket, uid, uid, &[]).unwrap();
        stream.set_read_timeout(Some(GAP_MAX)).unwrap();
        let answer = http::send(stream, b"GET /livez HTTP/1.0\r\nHost: localhost\r\n\r\n");
        assert_eq!(answer.status, 200, "{uid}: {}", answer.head);
    }
}

#[test]
fn one_user_has_one_rate_for_leaf_s_paths_whatever_its_address() {
    let mut host = open().set("leaf_http", "127.0.0.1:0").set("leaf_http_requests_per_second", "5");
    host.start();
    let address = host.http("serving Leaf's paths");
    let begun = Instant::now();
    let mut served = 0;
    for last in 1..=100 {
        let stream = tcp_from([127, 0, 0, last], &address, ATTACKER).unwrap();
        let head = "GET /api/snowflake/get/x HTTP/1.0\r\nHost: localhost\r\n\r\n";
        served += u64::from(http::send(stream, head.as_bytes()).status == 200);
    }
    let most = 5 + (begun.elapsed().as_secs() + 1) * 5;
    assert!(served <= most, "{served} instead of {most}");
}

#[test]
fn large_requests_of_one_connection_leave_ticks_for_others_of_its_user() {
    let mut host = open();
    host.start();
    let mut greedy = as_user(&host, ATTACKER);
    for request_id in 0..1_000 {
        greedy.send(&ids_request("snowflake", 1_000_000, request_id, 60_000));
    }
    let mut sibling = as_user(&host, ATTACKER);
    for _ in 0..20 {
        sibling.send(&ids_request("snowflake", 1, 1, 2_000));
        assert_eq!(sibling.reply().ids().len(), 1);
    }
}

/// Each unread page would be a different copy, because the tags have changed.
#[test]
fn unread_pages_of_one_user_leave_pages_to_others() {
    const TAGS: usize = 1_200;
    let mut host = open().set("leaf_http", "127.0.0.1:0");
    host.start();
    // Escaped as HTML, these names are long.
    (0..TAGS).for_each(|number| host.create(&format!("{number:&>100}")));
    let address = host.http("serving Leaf's paths");
    let ask = |uid| {
        let mut stream = tcp_as(&address, uid).unwrap();
        setsockopt(&stream, sockopt::RcvBuf, &4_096).unwrap();
        stream.write_all(b"GET /db HTTP/1.0\r\nHost: localhost\r\n\r\n").unwrap();
        stream
    };
    let mut unread: Vec<TcpStream> = (0..20).map(|_| ask(ATTACKER)).collect();
    let codes = unread.iter_mut().map(|stream| {
        let mut start = [0; 12];
        stream.read_exact(&mut start).unwrap();
        String::from_utf8_lossy(&start[9..]).into_owned()
    });
    let codes: Vec<String> = codes.collect();
    let sent = codes.iter().filter(|code| *code == "200").count();
    assert!((1..=4).contains(&sent), "{codes:?}");
    assert!(codes.iter().all(|code| code == "200" || code == "429"), "{codes:?}");
    let rows = |uid| {
        let mut page = String::new();
        ask(uid).read_to_string(&mut page).unwrap();
        page.matches("<tr>").count()
    };
    assert!(rows(VICTIM) > TAGS, "the header, and a row for each tag");
    drop(unread);
    eventually("the user gets pages again", Duration::from_secs(20), || {
        (rows(ATTACKER) > TAGS).then_some(())
    });
}
