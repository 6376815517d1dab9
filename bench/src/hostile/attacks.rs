//! What an unprivileged user who may connect can try.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use leafd_tests::host::Host;
use leafd_tests::raw::{connect_as, ids_request};
use leafd_tests::seed::seeds;
use leafd_wire::{Header, opcode};

/// One way to hurt others.
pub(super) struct Attack {
    pub(super) name: &'static str,
    /// The tag that the victim draws meanwhile.
    pub(super) victim_tag: &'static str,
    /// Attacks until told to stop, then releases everything.
    pub(super) run: fn(&Host, &AtomicBool),
}

pub(super) const ATTACKS: [Attack; 8] = [
    Attack { name: "4,000 idle connections", victim_tag: "orders", run: idle_connections },
    Attack { name: "connect, ask, close", victim_tag: "orders", run: ask_and_close },
    Attack {
        name: "STATUS from 1,000 connections, unread",
        victim_tag: "orders",
        run: unread_status,
    },
    Attack {
        name: "ids from 1,000 connections, never read",
        victim_tag: "orders",
        run: unread_ids,
    },
    Attack {
        name: "made-up tags while the store is away",
        victim_tag: "orders",
        run: made_up_tags,
    },
    Attack {
        name: "waiting requests of closed connections",
        victim_tag: "orders",
        run: waiting_and_closed,
    },
    Attack {
        name: "1,000 requests for 1,000,000 snowflake ids",
        victim_tag: "snowflake",
        run: snowflake_batches,
    },
    Attack { name: "random bytes and broken frames", victim_tag: "orders", run: broken_frames },
];

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
