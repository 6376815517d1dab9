//! Descriptors that a user passes to the daemon. Their last close can block for an hour, but must block nobody.

use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::Stdio;
use std::time::{Duration, Instant};

use leafd_tests::lingering::{pass, pass_out_of_band};

use crate::activation::{self, command};
use crate::host::Host;
use crate::raw::{Raw, connect_as, ids_request};

const ATTACKER: u32 = 4_001;
const VICTIM: u32 = 4_002;

/// The maximum wait of a victim; the machine may be busy with other tests.
const WITHIN: Duration = Duration::from_secs(5);

#[track_caller]
fn assert_served(victim: &mut Raw, tag: &str) {
    for _ in 0..50 {
        let asked = Instant::now();
        assert_eq!(victim.draw(tag, 1).len(), 1);
        assert!(asked.elapsed() < WITHIN, "{:?}", asked.elapsed());
    }
}

fn connect(socket: &std::path::Path) -> UnixStream {
    connect_as(socket, ATTACKER, ATTACKER, &[]).unwrap()
}

fn victim_of(socket: &std::path::Path) -> Raw {
    let victim = Raw::over(connect_as(socket, VICTIM, VICTIM, &[]).unwrap());
    victim.stream.set_read_timeout(Some(WITHIN)).unwrap();
    victim
}

fn serving(settings: &[(&str, &str)]) -> Host {
    let mut host = Host::new().worker(17).set("socket_mode", "0666");
    for (key, value) in settings {
        host.change(key, value);
    }
    host.start();
    host.create("orders");
    host
}

#[test]
fn a_passed_descriptor_blocks_nobody() {
    let host = serving(&[]);
    let mut victim = victim_of(&host.socket());
    let mut kept = Vec::new();
    // With a whole request, with the beginning of one, and with invalid bytes.
    for bytes in [ids_request("orders", 1, 1, 1_000), vec![24], vec![0; 8]] {
        let connection = connect(&host.socket());
        kept.push(pass(&connection, &bytes).1);
        assert_served(&mut victim, "orders");
        drop(connection);
        assert_served(&mut victim, "orders");
    }
    assert_served(&mut victim_of(&host.socket()), "orders");
}

#[test]
fn a_passed_descriptor_on_a_refused_connection_blocks_nobody() {
    let host = serving(&[("connections_max", "8")]);
    let mut victim = victim_of(&host.socket());
    assert_served(&mut victim, "orders");
    let mut kept = Vec::new();
    for _ in 0..20 {
        let connection = connect(&host.socket());
        kept.push((pass(&connection, &[24]), connection));
    }
    assert_served(&mut victim, "orders");
    drop(kept);
    assert_served(&mut victim, "orders");
}

#[test]
fn a_passed_descriptor_on_the_socket_for_http_blocks_nobody() {
    let mut host = Host::new().worker(17).set("socket_mode", "0666");
    let http = host.path("http.sock");
    host.change("http", http.to_str().unwrap());
    host.start();
    let mut kept = Vec::new();
    for bytes in [&b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"[..], b"GET /li"] {
        let connection = connect(&http);
        kept.push((pass(&connection, bytes), connection));
    }
    let ask = || {
        let mut connection = connect_as(&http, VICTIM, VICTIM, &[]).unwrap();
        connection.set_read_timeout(Some(WITHIN)).unwrap();
        connection.write_all(b"GET /livez HTTP/1.0\r\nHost: localhost\r\n\r\n").unwrap();
        let mut answer = String::new();
        connection.read_to_string(&mut answer).expect("an answer comes");
        assert!(answer.contains(" 200 "), "{answer}");
    };
    ask();
    drop(kept);
    ask();
}

/// On a connection that is older than the daemon, the kernel has not refused descriptors. Before Linux 6.16, this
/// applies to every connection.
#[test]
fn descriptors_that_the_kernel_let_through_block_nobody() {
    let host = activation::host("LISTEN_PID=$$ LISTEN_FDS=1 LISTEN_FDNAMES=leafd")
        .worker(17)
        .set("connections_max", "64");
    let path = host.path("given.sock");
    let listener = UnixListener::bind(&path).unwrap();
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o666)).unwrap();
    let mut kept = Vec::new();
    let request = ids_request("snowflake", 1, 1, 1_000);
    for bytes in [request.clone(), vec![24], [request.repeat(20), vec![24, 0]].concat()] {
        // With the first bytes, and after bytes that can be answered.
        for before in [0, bytes.len() / 2] {
            for closes in [false, true] {
                let mut connection = connect(&path);
                connection.write_all(&bytes[..before]).unwrap();
                let (is_passed, peer) = pass(&connection, &bytes[before..]);
                assert!(is_passed, "nothing refuses it yet");
                kept.push((peer, (!closes).then_some(connection)));
            }
        }
    }
    for closes in [false, true] {
        let mut connection = connect(&path);
        let (is_passed, peer) = pass_out_of_band(&connection);
        assert!(is_passed, "nothing refuses it yet");
        connection.write_all(&request).unwrap();
        kept.push((peer, (!closes).then_some(connection)));
    }
    // This is more than one user's share of connections.
    for _ in 0..50 {
        let connection = connect(&path);
        let (_, peer) = pass(&connection, &[24]);
        kept.push((peer, Some(connection)));
    }
    let mut plain = victim_of(&path);
    let mut command = command(&host, Some(listener.as_raw_fd()));
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    plain.stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    assert_eq!(plain.info().pid, child.id());
    plain.stream.set_read_timeout(Some(WITHIN)).unwrap();
    assert_served(&mut plain, "snowflake");
    drop(kept);
    assert_served(&mut plain, "snowflake");
    assert_served(&mut victim_of(&path), "snowflake");
    drop(plain);
    nix::sys::signal::kill(
        nix::unistd::Pid::from_raw(child.id() as i32),
        nix::sys::signal::Signal::SIGTERM,
    )
    .unwrap();
    assert!(child.wait().unwrap().success());
}
