//! Health over HTTP: the answers, who gets them, and what no request can make the daemon do.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::time::Duration;

use crate::activation;
use crate::host::{Host, eventually};
use leafd_tests::http::{get, get_with, send};

const SERVED: &str = "serving metrics and health";

fn host() -> (Host, String) {
    let mut host = Host::new().set("http", "127.0.0.1:0");
    host.start();
    let address = host.http(SERVED);
    (host, address)
}

#[test]
fn health_is_told_with_reasons() {
    let (mut host, address) = host();
    let live = get(&address, "/livez");
    assert_eq!((live.status, live.body.as_str()), (200, "ok\n"));
    let ready = eventually("it is ready", Duration::from_secs(20), || {
        Some(get(&address, "/readyz?segments&snowflake")).filter(|answer| answer.status == 200)
    });
    assert!(ready.body.starts_with("ready\nsegments: ids are available\n"), "{ready:?}");
    host.stop();

    // Without a worker, segment ids remain available, and clients that need snowflake ids learn why there are none.
    host.change("worker", "none");
    host.start();
    let address = host.http(SERVED);
    let ready = eventually("segments are ready", Duration::from_secs(20), || {
        Some(get(&address, "/readyz")).filter(|answer| answer.status == 200)
    });
    assert!(ready.body.contains("snowflake: no ids available: this daemon holds no"), "{ready:?}");
    assert_eq!(get(&address, "/readyz?snowflake").status, 503);
    assert_eq!(get(&address, "/readyz?tea").status, 400);
}

#[test]
fn what_is_asked_otherwise_is_refused_in_words() {
    let (host, address) = host();
    let other = get(&address, "/nosuch");
    assert!(other.status == 404 && other.body.contains("/readyz"), "{other:?}");
    let post = b"POST /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 2\r\n\r\nhi";
    let refused = send(TcpStream::connect(&address).unwrap(), post);
    assert_eq!((refused.status, refused.field("allow")), (405, Some("GET, HEAD")));
    let head = send(
        TcpStream::connect(&address).unwrap(),
        b"HEAD /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
    );
    assert_eq!(
        (head.status, head.field("content-length"), head.body.as_str()),
        (200, Some("3"), "")
    );
    // A web page whose name resolves to this host.
    let rebound = b"GET /livez HTTP/1.1\r\nHost: evil.example:9644\r\nConnection: close\r\n\r\n";
    assert_eq!(send(TcpStream::connect(&address).unwrap(), rebound).status, 403);
    // The head is too long, or is no HTTP at all.
    let long = format!("X-Long: {}\r\n", "x".repeat(16 * 1024));
    assert_eq!(get_with(&address, "/livez", &long).status, 431);
    assert_eq!(send(TcpStream::connect(&address).unwrap(), b"\x16\x03\x01\r\n\r\n").status, 400);
    drop(host);
}

#[test]
fn many_slow_connections_hold_up_no_ids_and_make_room() {
    let (host, address) = host();
    let mut slow: Vec<TcpStream> = (0..80).map(|_| TcpStream::connect(&address).unwrap()).collect();
    slow.iter_mut().for_each(|stream| stream.write_all(b"GET /livez HT").unwrap());
    host.create("orders");
    assert_eq!(host.raw().draw("orders", 1), [1]);
    // Connections are refused until the others have exceeded the time for their heads.
    eventually("there is room again", Duration::from_secs(60), || {
        let mut stream = TcpStream::connect(&address).ok()?;
        stream.write_all(b"GET /livez HTTP/1.0\r\nHost: localhost\r\n\r\n").ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        answer.contains(" 200 ").then_some(())
    });
}

#[test]
fn a_unix_socket_has_the_mode_of_the_other_and_goes_with_the_daemon() {
    let mut host = Host::new().set("socket_mode", "0600");
    let path = host.path("http.sock");
    host.change("http", path.to_str().unwrap());
    host.start();
    let answer = send(
        UnixStream::connect(&path).unwrap(),
        b"GET /livez HTTP/1.1\r\nHost:\r\nConnection: close\r\n\r\n",
    );
    assert_eq!(answer.status, 200);
    assert_eq!(host.http(SERVED), path.to_str().unwrap());
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    host.stop();
    assert!(!path.exists());
}

#[test]
fn a_port_that_is_taken_keeps_nobody_from_ids() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for setting in ["http", "leaf_http"] {
        let mut host = Host::new().worker(17).set(setting, &address);
        host.start();
        host.create("orders");
        assert_eq!(host.raw().draw_until("orders", Duration::from_secs(20)), 1);
        assert!(host.log().contains(&format!("cannot serve HTTP on {address}")), "{}", host.log());
    }
}

#[test]
fn an_address_of_another_host_keeps_it_from_starting() {
    let mut host = Host::new().set("http", "192.0.2.1:9644");
    let refusal = host.try_start().unwrap_err();
    let is_named = refusal.said.contains("cannot serve HTTP on 192.0.2.1:9644");
    assert!(refusal.code == Some(1) && is_named, "{refusal:?}");
}

#[test]
fn a_socket_that_is_handed_over_is_served() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let host = activation::host("LISTEN_PID=$$ LISTEN_FDS=1 LISTEN_FDNAMES=leafd-http");
    let mut command = activation::command(&host, Some(listener.as_raw_fd()));
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    // A client that connects before the socket is served waits.
    assert_eq!(get(&address, "/livez").body, "ok\n");
    assert!(host.socket().exists(), "ids are drawn from the configured socket");
    child.kill().unwrap();
    child.wait().unwrap();
}
