//! What an unprivileged user who may connect can try.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use leafd_tests::host::Host;
use leafd_tests::raw::{Raw, connect_as, ids_request};
use leafd_tests::seed::seeds;
use leafd_wire::{Header, Status, opcode};

/// One way to hurt others.
pub(super) struct Attack {
    pub(super) name: &'static str,
    /// The tag that the victim draws meanwhile.
    pub(super) victim_tag: &'static str,
    /// Further settings of the daemon.
    pub(super) settings: &'static [(&'static str, &'static str)],
    /// Attacks until told to stop, then releases everything.
    pub(super) run: fn(&Host, &AtomicBool),
}

pub(super) const ATTACKS: [Attack; 9] = [
    Attack {
        name: "4,000 idle connections",
        victim_tag: "orders",
        settings: &[],
        run: idle_connections,
    },
    Attack { name: "connect, ask, close", victim_tag: "orders", settings: &[], run: ask_and_close },
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
        name: "made-up tags while the store is away",
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
        name: "all ids that a quota of 10,000 a second gives",
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
];

/// Of every user.
const QUOTA: &str = "[{ tags = ['orders'], ids_per_second = 10000, burst = 20000 }]";
const QUOTA_A_SECOND: f64 = 10_000.0;
const QUOTA_AT_ONCE: u64 = 20_000;

const UID: u32 = 4_001;

/// How many connections attacks keep open that keep many.
const CONNECTIONS: usize = 1_000;

fn connect(host: &Host) -> Option<UnixStream> {
    let stream = connect_as(&host.socket(), UID, UID, &[]).ok()?;
    stream.set_nonblocking(true).ok()?;
    Some(stream)
}

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

fn until(over: &AtomicBool, mut step: impl FnMut()) {
    while !over.load(Ordering::Relaxed) {
        step();
    }
}

fn rest() {
    thread::sleep(Duration::from_millis(10));
}

fn idle_connections(host: &Host, over: &AtomicBool) {
    let mut held = Vec::new();
    until(over, || match (held.len() < 4_000).then(|| connect(host)).flatten() {
        Some(stream) => held.push(stream),
        None => rest(),
    });
}

fn ask_and_close(host: &Host, over: &AtomicBool) {
    let request = ids_request("orders", 1, 1, 60_000);
    until(over, || {
        if let Some(stream) = connect(host) {
            push(&stream, &request);
        }
    });
}

fn from_many(host: &Host, over: &AtomicBool, bytes: &[u8]) {
    let held: Vec<_> = (0..CONNECTIONS).filter_map(|_| connect(host)).collect();
    until(over, || {
        for stream in &held {
            push(stream, bytes);
        }
    });
}

fn unread_status(host: &Host, over: &AtomicBool) {
    from_many(host, over, &requests(opcode::STATUS, 5_000));
}

fn unread_ids(host: &Host, over: &AtomicBool) {
    let bytes: Vec<u8> =
        (0..1_000).flat_map(|request_id| ids_request("orders", 1, request_id, 1_000)).collect();
    from_many(host, over, &bytes);
}

fn made_up_tags(host: &Host, over: &AtomicBool) {
    let store = rusqlite::Connection::open(host.state_dir().join("store.db"));
    let store = store.expect("the bench may open the store");
    store.execute_batch("BEGIN IMMEDIATE").expect("the store can be locked");
    let mut streams: Vec<_> = (0..50).filter_map(|_| connect(host)).collect();
    let (mut made_up, mut taken) = (0u64, vec![0; 1 << 16]);
    until(over, || {
        for stream in &mut streams {
            made_up += 1;
            push(stream, &ids_request(format!("made-up-{made_up}"), 1, 1, 100));
            let _ = stream.read(&mut taken);
        }
    });
    store.execute_batch("ROLLBACK").expect("the store can be unlocked");
}

fn waiting_and_closed(host: &Host, over: &AtomicBool) {
    let store = rusqlite::Connection::open(host.state_dir().join("store.db"));
    let store = store.expect("the bench may open the store");
    store.execute_batch("BEGIN IMMEDIATE").expect("the store can be locked");
    let bytes: Vec<u8> = (0..1_000)
        .flat_map(|request_id| ids_request("another", 1_000_000, request_id, 60_000))
        .collect();
    until(over, || {
        if let Some(stream) = connect(host) {
            push(&stream, &bytes);
            rest();
        }
    });
    store.execute_batch("ROLLBACK").expect("the store can be unlocked");
}

fn snowflake_batches(host: &Host, over: &AtomicBool) {
    let Some(mut stream) = connect(host) else { return };
    let bytes: Vec<u8> = (0..1_000)
        .flat_map(|request_id| ids_request("snowflake", 1_000_000, request_id, 60_000))
        .collect();
    let mut taken = vec![0; 1 << 16];
    until(over, || {
        push(&stream, &bytes);
        let _ = stream.read(&mut taken);
        rest();
    });
}

/// As many ids as there are: what is issued stays within the quota, and is no less than it gives at once.
fn beyond_a_quota(host: &Host, over: &AtomicBool) {
    const AT_ONCE: u32 = 100;
    let begun = Instant::now();
    let connect = |_| connect_as(&host.socket(), UID, UID, &[]).ok().map(Raw::over);
    let mut peers: Vec<Raw> = (0..8).filter_map(connect).collect();
    let (mut issued, mut refused) = (0, 0);
    until(over, || {
        for peer in &mut peers {
            // One id, some, and as many as a request may name.
            let asked = [1, 500, 1_000_000].map(|count| ids_request("orders", count, 1, 1_000));
            peer.send(&asked.concat().repeat(AT_ONCE as usize / asked.len()));
        }
        for peer in &mut peers {
            for _ in 0..AT_ONCE / 3 * 3 {
                match peer.reply() {
                    reply if reply.status() == Status::Ok => {
                        issued += reply.runs().iter().map(|run| u64::from(run.count)).sum::<u64>();
                    }
                    _ => refused += 1,
                }
            }
        }
    });
    let most = QUOTA_AT_ONCE + (begun.elapsed().as_secs_f64() * QUOTA_A_SECOND).ceil() as u64;
    assert!(issued <= most, "{issued} ids were issued where a quota allows {most}");
    assert!(issued >= QUOTA_AT_ONCE / 2 && refused > 0, "{issued} issued, {refused} refused");
}

fn broken_frames(host: &Host, over: &AtomicBool) {
    for mut random in seeds(1) {
        until(over, || {
            let Some(stream) = connect(host) else { return rest() };
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
