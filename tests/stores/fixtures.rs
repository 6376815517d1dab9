//! The fixtures themselves do what the other tests rely on.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use leafd_tests::relay::{AtCommit, Relay};
use leafd_tests::servers::{DATABASE, Pair, Server};

on_each_server!(
    a_standby_lacks_what_was_committed_after_the_cut,
    a_backup_holds_what_was_there_then
);

fn a_standby_lacks_what_was_committed_after_the_cut<S: Server>() {
    let mut pair = Pair::<S>::new();
    let insert = |server: &S, tag: &str| {
        server
            .sql(&format!("INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('{tag}', 1, 1)"));
    };
    insert(&pair.primary, "followed");
    pair.caught_up();
    pair.lose_from_now();
    insert(&pair.primary, "lost");
    pair.primary.kill();
    pair.standby.promote();
    assert_eq!(pair.standby.sql("SELECT biz_tag FROM leaf_alloc"), [["followed"]]);
    insert(&pair.standby, "later");
    pair.standby.stop();
    pair.standby.start();
    assert_eq!(pair.standby.max_id("later"), 1);
}

fn a_backup_holds_what_was_there_then<S: Server>() {
    let server = S::new();
    server.sql("INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('orders', 5, 1)");
    let dump = server.dump(DATABASE);
    server.sql("UPDATE leaf_alloc SET max_id = 9");
    server.restore(DATABASE, &dump);
    assert_eq!(server.max_id("orders"), 5);
    server.restore("ids2", &dump);
    assert_eq!(server.ask("ids2", "SELECT max_id FROM leaf_alloc"), [["5"]]);
}

/// A server that answers each byte by itself.
fn echo() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            std::thread::spawn(move || {
                let mut bytes = [0; 64];
                while let Ok(count @ 1..) = stream.read(&mut bytes) {
                    let _ = stream.write_all(&bytes[..count]);
                }
            });
        }
    });
    port
}

fn connect(relay: &Relay) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", relay.port())).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    stream
}

/// What comes back; nothing when the connection is cut.
fn sent(stream: &mut TcpStream, bytes: &[u8]) -> Vec<u8> {
    let mut back = vec![0; 64];
    let count = stream.write_all(bytes).and_then(|()| stream.read(&mut back)).unwrap_or(0);
    back.truncate(count);
    back
}

#[test]
fn a_relay_passes_delays_swallows_refuses_and_cuts() {
    let relay = Relay::to(echo());
    let mut stream = connect(&relay);
    assert_eq!(sent(&mut stream, b"hello"), b"hello");
    relay.delay(Duration::from_millis(50));
    let begun = Instant::now();
    assert_eq!(sent(&mut stream, b"slow"), b"slow");
    assert!(begun.elapsed() >= Duration::from_millis(100), "{:?}", begun.elapsed());
    relay.pass();
    relay.cut();
    assert_eq!(sent(&mut stream, b"?"), b"");
    let mut stream = connect(&relay);
    assert_eq!(sent(&mut stream, b"hello"), b"hello");
    relay.swallow();
    for mut swallowed in [stream, connect(&relay)] {
        swallowed.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        let silent = swallowed.write_all(b"?").and_then(|()| swallowed.read(&mut [0]));
        assert!(silent.is_err(), "neither an answer nor an end: {silent:?}");
    }
    relay.pass();
    let mut stream = connect(&relay);
    assert_eq!(sent(&mut stream, b"hello"), b"hello");
    relay.swallow_answers();
    for mut swallowed in [stream, connect(&relay)] {
        swallowed.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        let silent = swallowed.write_all(b"?").and_then(|()| swallowed.read(&mut [0]));
        assert!(silent.is_err(), "neither an answer nor an end: {silent:?}");
    }
    relay.refuse();
    assert!(TcpStream::connect(("127.0.0.1", relay.port())).is_err());
    relay.pass();
    assert_eq!(sent(&mut connect(&relay), b"hello"), b"hello");
}

#[test]
fn a_relay_fails_at_a_commit_once() {
    let relay = Relay::to(echo());
    for commit in [&b"Q\0\0\0\x0dX;COMMIT\0"[..], b"\x07\0\0\0\x03COMMIT"] {
        let mut stream = connect(&relay);
        relay.at_commit_of("orders", AtCommit::CutAnswer);
        assert_eq!(sent(&mut stream, commit), commit);
        assert_eq!(sent(&mut stream, b"SELECT 'COMMIT' orders"), b"SELECT 'COMMIT' orders");
        assert_eq!(sent(&mut stream, commit), b"");
        assert_eq!(sent(&mut connect(&relay), commit), commit);
    }
    assert_eq!(relay.commits_met(), 2);
    assert_eq!(relay.round_trips(), 8);
}
