//! What a service manager learns about a daemon's life, and that a manager that doesn't listen does no harm.

use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::Path;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::host::Host;

/// How long a message may take on a busy machine.
const WITHIN: Duration = Duration::from_secs(60);

/// Receives messages until one contains this line, and returns the whole message.
#[track_caller]
fn told(manager: &UnixDatagram, line: &str) -> String {
    manager.set_read_timeout(Some(WITHIN)).unwrap();
    let begun = Instant::now();
    let mut buffer = [0; 4096];
    while begun.elapsed() < WITHIN {
        let length = manager.recv(&mut buffer).unwrap_or_else(|error| panic!("{line}: {error}"));
        let message = String::from_utf8(buffer[..length].to_vec()).unwrap();
        if message.lines().any(|one| one.starts_with(line)) {
            return message;
        }
    }
    panic!("{line} is not told within {WITHIN:?}");
}

fn life(manager: &UnixDatagram, address: &Path) {
    let mut host = Host::new().variable("NOTIFY_SOCKET", address);
    host = host.variable("WATCHDOG_USEC", "300000");
    host.start();
    told(manager, "STATUS=waiting");
    let ready = told(manager, "READY=1");
    assert!(ready.contains("STATUS=OK: segment"), "{ready}");
    told(manager, "WATCHDOG=1");
    host.signal(Signal::SIGHUP);
    assert!(told(manager, "RELOADING=1").contains("MONOTONIC_USEC="));
    assert!(!told(manager, "READY=1").contains("RELOADING"));
    told(manager, "WATCHDOG=1");
    host.stop();
    let stopping = told(manager, "STOPPING=1");
    assert!(stopping.contains("EXTEND_TIMEOUT_USEC=15000000"), "{stopping}");
}

#[test]
fn a_life_is_told_by_path_and_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("manager");
    life(&UnixDatagram::bind(&path).unwrap(), &path);
    let name = format!("leafd-test-manager-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).unwrap();
    life(&UnixDatagram::bind_addr(&address).unwrap(), format!("@{name}").as_ref());
}

#[test]
fn signs_of_life_come_as_often_when_nobody_asks() {
    signs_of_life_come(Duration::from_millis(3_600));
}

#[test]
fn signs_of_life_come_in_time_for_the_installed_unit() {
    signs_of_life_come(Duration::from_secs(10));
}

fn signs_of_life_come(within: Duration) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("manager");
    let manager = UnixDatagram::bind(&path).unwrap();
    let host = Host::new().variable("NOTIFY_SOCKET", &path);
    let mut host = host.variable("WATCHDOG_USEC", within.as_micros().to_string());
    // `Host::start` would send requests until one is answered, but the daemon must become ready without any.
    host.begin();
    told(&manager, "READY=1");
    let mut signs: Vec<Instant> = Vec::new();
    while signs.len() < 6 {
        told(&manager, "WATCHDOG=1");
        signs.push(Instant::now());
    }
    // One signal each third of the time is promised. On a busy machine, some are late.
    let mut gaps: Vec<Duration> = signs.windows(2).map(|two| two[1] - two[0]).collect();
    gaps.sort();
    assert!(gaps[gaps.len() / 2] < within * 2 / 5, "{gaps:?}");
    host.stop();
}

#[test]
fn a_manager_that_does_not_listen_holds_up_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("manager");
    let manager = UnixDatagram::bind(&path).unwrap();
    // The manager's queue is full.
    let filler = UnixDatagram::unbound().unwrap();
    filler.set_nonblocking(true).unwrap();
    while filler.send_to(b"STATUS=busy", &path).is_ok() {}
    let mut host = Host::new().variable("NOTIFY_SOCKET", &path);
    host.start();
    host.create("orders");
    assert_eq!(host.raw().draw("orders", 3), [1, 2, 3]);
    host.signal(Signal::SIGHUP);
    assert_eq!(host.raw().draw("orders", 1), [4]);
    assert!(host.log().contains("can't notify the service manager"), "{}", host.log());
    host.stop();
    drop(manager);
}
