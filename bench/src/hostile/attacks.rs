//! What an unprivileged user who may connect can try.

use std::collections::VecDeque;
use std::io::{Read as _, Write as _};
use std::net::Shutdown;
use std::ops::RangeInclusive;
use std::os::unix::net::UnixStream;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use leafd_tests::host::{Host, eventually};
use leafd_tests::http;
use leafd_tests::lingering::pass;
use leafd_tests::raw::{Raw, connect_as, ids_request, tcp_as};
use leafd_tests::seed::seeds;
use leafd_wire::{Header, Status, opcode};
use serde_json::json;

use super::victim::UID as VICTIM_UID;
use crate::duplicates::{Span, spans_of};

/// One way to hurt others.
pub(super) struct Attack {
    pub(super) name: &'static str,
    /// The tag that the victim draws meanwhile.
    pub(super) victim_tag: &'static str,
    /// Further settings of the daemon.
    pub(super) settings: &'static [(&'static str, &'static str)],
    /// Attacks until told to stop, then releases everything.
    pub(super) run: fn(&Course<'_>),
}

pub(super) const ATTACKS: [Attack; 17] = [
    Attack {
        name: "4,000 idle connections",
        victim_tag: "orders",
        settings: &[],
        run: idle_connections,
    },
    Attack { name: "connect, ask, close", victim_tag: "orders", settings: &[], run: ask_and_close },
    Attack {
        name: "connect, ask, close during a store outage",
        victim_tag: "orders",
        settings: &[],
        run: ask_and_close_unserved,
    },
    Attack {
        name: "STATUS from 1,000 connections, unread",
        victim_tag: "orders",
        settings: &[],
        run: unread_status,
    },
    Attack {
        name: "ids from 1,000 connections, never read",
        victim_tag: "orders",
        settings: &[],
        run: unread_ids,
    },
    Attack {
        name: "masked ids from 1,000 connections, never read",
        victim_tag: "orders",
        settings: &[],
        run: unread_masked_ids,
    },
    Attack {
        name: "made-up tags during a store outage",
        victim_tag: "orders",
        settings: &[],
        run: made_up_tags,
    },
    Attack {
        name: "waiting requests of closed connections",
        victim_tag: "orders",
        settings: &[],
        run: waiting_and_closed,
    },
    Attack {
        name: "1,000 requests for 1,000,000 snowflake ids",
        victim_tag: "snowflake",
        settings: &[],
        run: snowflake_batches,
    },
    Attack {
        name: "all ids that a quota of 10,000 a second allows",
        victim_tag: "orders",
        settings: &[("access", QUOTA)],
        run: beyond_a_quota,
    },
    Attack {
        name: "random bytes and broken frames",
        victim_tag: "orders",
        settings: &[],
        run: broken_frames,
    },
    Attack {
        name: "passed sockets that linger",
        victim_tag: "orders",
        settings: &[],
        run: lingering_sockets,
    },
    Attack {
        name: "half-closed connections with unread answers",
        victim_tag: "orders",
        settings: &[],
        run: half_closed,
    },
    Attack {
        name: "connections with 65,536 groups, and rules by group",
        victim_tag: "orders",
        settings: &[("access", RULES_BY_GROUP)],
        run: many_groups,
    },
    Attack {
        name: "connections of 4,000 subordinate uids",
        victim_tag: "orders",
        settings: &[],
        run: subordinate_uids,
    },
    Attack {
        name: "slow heads on all of HTTP",
        victim_tag: "orders",
        settings: &[("log", "info"), ("http", "127.0.0.1:0"), ("leaf_http", "127.0.0.1:0")],
        run: slow_heads,
    },
    Attack {
        name: "1,000,000 snowflake ids by another connection of the user",
        victim_tag: "snowflake",
        settings: &[],
        run: greedy_sibling,
    },
];

/// None of them names a group of the attacker.
const RULES_BY_GROUP: &str = "[{ tags = ['a.*'], gids = [1] }, { tags = ['b.*'], gids = [2] }, \
                              { tags = ['*'], gids = [3], uids = [4002] }]";

/// An attack while it lasts.
pub(super) struct Course<'a> {
    pub(super) host: &'a Host,
    pub(super) over: &'a AtomicBool,
    /// The ids that the attacker was given and read.
    pub(super) given: Mutex<Vec<Span>>,
}

impl Course<'_> {
    fn until_over(&self, mut step: impl FnMut()) {
        while !self.over.load(Ordering::Relaxed) {
            step();
        }
    }

    fn connect(&self) -> Option<UnixStream> {
        let stream = connect_as(&self.host.socket(), UID, UID, &[]).ok()?;
        stream.set_nonblocking(true).ok()?;
        Some(stream)
    }

    /// The store answers nobody until the answer is dropped.
    fn lock_store(&self) -> rusqlite::Connection {
        let store = rusqlite::Connection::open(self.host.state_dir().join("store.db"));
        let store = store.expect("the bench may open the store");
        store.execute_batch("BEGIN IMMEDIATE").expect("the store can be locked");
        store
    }
}

const QUOTA: &str = "[{ tags = ['orders'], ids_per_second = 10000, burst = 20000 }]";
const QUOTA_A_SECOND: f64 = 10_000.0;
const QUOTA_AT_ONCE: u64 = 20_000;

pub(super) const UID: u32 = 4_001;

/// The uids that the attacker has as subordinate ones.
pub(super) const SUBORDINATE: RangeInclusive<u32> = 200_000..=203_999;

/// How many connections attacks keep open that keep many.
const CONNECTIONS: usize = 1_000;

fn requests(opcode: u8, count: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    for request_id in 0..count {
        Header::request(opcode, 0, request_id).put_frame(b"", &mut bytes);
    }
    bytes
}

/// Sends as much as the socket accepts now.
fn push(mut stream: &UnixStream, bytes: &[u8]) {
    // The daemon may refuse this.
    let _ = stream.write(bytes);
}

fn rest() {
    thread::sleep(Duration::from_millis(10));
}

fn idle_connections(course: &Course<'_>) {
    let mut held = Vec::new();
    course.until_over(|| match (held.len() < 4_000).then(|| course.connect()).flatten() {
        Some(stream) => held.push(stream),
        None => rest(),
    });
}

fn ask_and_close(course: &Course<'_>) {
    let request = ids_request("orders", 1, 1, 60_000);
    course.until_over(|| {
        if let Some(stream) = course.connect() {
            push(&stream, &request);
        }
    });
}

/// While the store is away no request is answered. The connections are gone all the same.
fn ask_and_close_unserved(course: &Course<'_>) {
    let _locked = course.lock_store();
    let request = ids_request("another", 1, 1, 60_000);
    course.until_over(|| {
        if let Some(stream) = course.connect() {
            push(&stream, &request);
        }
    });
    // The victim's and the one that asks, and a few that are just leaving.
    eventually("closed connections leave their places", Duration::from_secs(5), || {
        (course.host.status()["connections"].as_u64()? <= 10).then_some(())
    });
}

fn from_many(course: &Course<'_>, bytes: &[u8]) {
    let held: Vec<_> = (0..CONNECTIONS).filter_map(|_| course.connect()).collect();
    course.until_over(|| {
        for stream in &held {
            push(stream, bytes);
        }
    });
}

fn unread_status(course: &Course<'_>) {
    from_many(course, &requests(opcode::STATUS, 5_000));
}

fn unread_ids(course: &Course<'_>) {
    let bytes: Vec<u8> =
        (0..1_000).flat_map(|request_id| ids_request("orders", 1, request_id, 1_000)).collect();
    from_many(course, &bytes);
}

/// As many ids as a request may name, of a tag of which nothing is claimed yet.
fn unread_masked_ids(course: &Course<'_>) {
    course.host.admin(opcode::TAG_CREATE, &json!({ "tag": "tickets", "masked": 53 }));
    let bytes: Vec<u8> = (0..1_000)
        .flat_map(|request_id| ids_request("tickets", 10_000, request_id, 60_000))
        .collect();
    from_many(course, &bytes);
}

fn made_up_tags(course: &Course<'_>) {
    let _locked = course.lock_store();
    let mut streams: Vec<_> = (0..50).filter_map(|_| course.connect()).collect();
    let (mut made_up, mut taken) = (0u64, vec![0; 1 << 16]);
    course.until_over(|| {
        for stream in &mut streams {
            made_up += 1;
            push(stream, &ids_request(format!("made-up-{made_up}"), 1, 1, 100));
            let _ = stream.read(&mut taken);
        }
    });
}

fn waiting_and_closed(course: &Course<'_>) {
    let _locked = course.lock_store();
    let bytes: Vec<u8> = (0..1_000)
        .flat_map(|request_id| ids_request("another", 1_000_000, request_id, 60_000))
        .collect();
    course.until_over(|| {
        if let Some(stream) = course.connect() {
            push(&stream, &bytes);
            rest();
        }
    });
}

fn snowflake_batches(course: &Course<'_>) {
    let Some(mut stream) = course.connect() else { return };
    let bytes: Vec<u8> = (0..1_000)
        .flat_map(|request_id| ids_request("snowflake", 1_000_000, request_id, 60_000))
        .collect();
    let mut taken = vec![0; 1 << 16];
    course.until_over(|| {
        push(&stream, &bytes);
        let _ = stream.read(&mut taken);
        rest();
    });
}

/// As many ids as there are: what is issued stays within the quota, and is no less than it gives at once.
fn beyond_a_quota(course: &Course<'_>) {
    const AT_ONCE: u32 = 100;
    let begun = Instant::now();
    let connect = |_| connect_as(&course.host.socket(), UID, UID, &[]).ok().map(Raw::over);
    let mut peers: Vec<Raw> = (0..8).filter_map(connect).collect();
    let (mut given, mut refused) = (Vec::new(), 0);
    course.until_over(|| {
        for peer in &mut peers {
            // One id, some, and as many as a request may name.
            let asked = [1, 500, 1_000_000].map(|count| ids_request("orders", count, 1, 1_000));
            peer.send(&asked.concat().repeat(AT_ONCE as usize / asked.len()));
        }
        for peer in &mut peers {
            for _ in 0..AT_ONCE / 3 * 3 {
                match peer.reply() {
                    reply if reply.status() == Status::Ok => {
                        given.extend(reply.ids());
                    }
                    _ => refused += 1,
                }
            }
        }
    });
    let issued = given.len() as u64;
    course.given.lock().expect("one thread attacks").extend(spans_of(&mut given));
    let most = QUOTA_AT_ONCE + (begun.elapsed().as_secs_f64() * QUOTA_A_SECOND).ceil() as u64;
    assert!(issued <= most, "{issued} ids were issued where a quota allows {most}");
    assert!(issued >= QUOTA_AT_ONCE / 2 && refused > 0, "{issued} issued, {refused} refused");
}

fn broken_frames(course: &Course<'_>) {
    for mut random in seeds(1) {
        course.until_over(|| {
            let Some(stream) = course.connect() else { return rest() };
            let mut bytes = vec![0; random.usize(1..4_096)];
            random.fill(&mut bytes);
            if random.bool() {
                // A valid length, followed by random bytes.
                let length = random.u32(8..65_536);
                bytes.splice(0..0, length.to_le_bytes());
            }
            push(&stream, &bytes);
        });
    }
}

fn lingering_sockets(course: &Course<'_>) {
    let request = ids_request("orders", 1, 1, 1_000);
    let mut peers = VecDeque::new();
    course.until_over(|| {
        if let Some(stream) = course.connect() {
            peers.push_back(pass(&stream, &request).1);
        }
        // A peer that is gone ends the lingering.
        if peers.len() > 200 {
            peers.pop_front();
        }
    });
}

fn half_closed(course: &Course<'_>) {
    let bytes = [requests(opcode::STATUS, 100), ids_request("orders", 1, 1, 1_000).repeat(300)];
    let bytes = bytes.concat();
    let mut held = Vec::new();
    course.until_over(|| match (held.len() < 7_500).then(|| course.connect()).flatten() {
        Some(stream) => {
            push(&stream, &bytes);
            let _ = stream.shutdown(Shutdown::Write);
            held.push(stream);
        }
        None => rest(),
    });
}

fn many_groups(course: &Course<'_>) {
    let groups: Vec<u32> = (100_000..165_536).collect();
    let mut held = Vec::new();
    let mut taken = vec![0; 1 << 16];
    course.until_over(|| {
        if held.len() < 40
            && let Ok(stream) = connect_as(&course.host.socket(), UID, UID, &groups)
            && stream.set_nonblocking(true).is_ok()
        {
            held.push(stream);
        }
        for (number, mut stream) in held.iter().enumerate() {
            let tag = ["a.1", "b.1", "orders"][number % 3];
            push(stream, &ids_request(tag, 1, 1, 1_000).repeat(10));
            let _ = stream.read(&mut taken);
        }
    });
}

fn subordinate_uids(course: &Course<'_>) {
    let mut held = Vec::new();
    let mut uids = SUBORDINATE.cycle();
    course.until_over(|| {
        let uid = uids.next().expect("it has no end");
        match (held.len() < 4_000).then(|| connect_as(&course.host.socket(), uid, uid, &[])) {
            Some(Ok(stream)) => held.push(stream),
            _ => rest(),
        }
    });
    let mut stranger =
        Raw::over(connect_as(&course.host.socket(), 4_003, 4_003, &[]).expect("there is room"));
    stranger.draw("orders", 1);
}

/// Others are still served by HTTP.
fn slow_heads(course: &Course<'_>) {
    let addresses =
        ["serving metrics and health", "serving Leaf's paths"].map(|what| course.host.http(what));
    let mut held = Vec::new();
    course.until_over(|| {
        for address in &addresses {
            let connected = (held.len() < 2_400).then(|| tcp_as(address, UID).ok()).flatten();
            if let Some(mut stream) = connected {
                let _ = stream.write_all(b"GET / HTTP/1.1\r\nHost: ");
                held.push(stream);
            }
        }
    });
    for uid in [4_003, 0] {
        let stream = tcp_as(&addresses[0], uid).expect("there is room");
        let answer = http::send(stream, b"GET /livez HTTP/1.0\r\nHost: localhost\r\n\r\n");
        assert_eq!(answer.status, 200, "uid {uid}");
    }
}

/// The victim is the attacker's own user.
fn greedy_sibling(course: &Course<'_>) {
    let Ok(mut stream) = connect_as(&course.host.socket(), VICTIM_UID, VICTIM_UID, &[]) else {
        return;
    };
    stream.set_nonblocking(true).expect("a socket");
    let bytes: Vec<u8> = (0..1_000)
        .flat_map(|request_id| ids_request("snowflake", 1_000_000, request_id, 60_000))
        .collect();
    let mut taken = vec![0; 1 << 16];
    course.until_over(|| {
        push(&stream, &bytes);
        let _ = stream.read(&mut taken);
        rest();
    });
}
