//! Sockets passed as systemd passes them: the right one is served and left in its place, and any other is refused with
//! an explanation.

use std::net::TcpListener;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use leafd_client::{Client, Error};
use leafd_wire::{Status, opcode};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::host::{Host, die_with_parent};
use crate::raw::Raw;

/// A host whose daemon is started by a shell that sets variables, because the shell knows its own process id.
pub fn host(variables: &str) -> Host {
    let run = format!("{variables} exec \"$@\"");
    Host::new().runner(&["sh", "-c", &run, "sh"])
}

/// The daemon's command, with a descriptor as the first one that is passed.
pub fn command(host: &Host, given: Option<RawFd>) -> Command {
    let mut command = host.command(None);
    if let Some(given) = given {
        // SAFETY: between fork and exec only two system calls are made.
        unsafe {
            command.pre_exec(move || {
                // The descriptor may already have this number, and exec would then close it.
                if libc::dup2(given, 3) == 3 && libc::fcntl(3, libc::F_SETFD, 0) == 0 {
                    Ok(())
                } else {
                    Err(std::io::Error::last_os_error())
                }
            });
        }
    }
    die_with_parent(&mut command).stdin(Stdio::null());
    command
}

#[track_caller]
fn refused(variables: &str, given: Option<RawFd>, because: &str) {
    let host = host(variables);
    let output = command(&host, given).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(1) && said.contains(because), "{variables}: {said}");
    assert!(!host.socket().exists());
}

#[test]
fn what_is_not_the_socket_to_serve_is_refused() {
    let one = "LISTEN_PID=$$ LISTEN_FDS=1";
    let folder = tempfile::tempdir().unwrap();
    let listener = UnixListener::bind(folder.path().join("a.sock")).unwrap();
    let good = Some(listener.as_raw_fd());
    refused("LISTEN_PID=$$ LISTEN_FDS=2 4>&3", good, "passed 2 sockets");
    refused("LISTEN_PID=$$ LISTEN_FDS=one", good, "invalid LISTEN_FDS");
    refused("LISTEN_PID=me LISTEN_FDS=1", good, "invalid LISTEN_PID");
    refused(&format!("{one} LISTEN_FDNAMES=metrics"), good, "\"metrics\"");
    refused(&format!("{one} LISTEN_FDNAMES=leafd:more"), good, "invalid LISTEN_FDNAMES");
    refused(one, None, "Bad file descriptor");
    let null = std::fs::File::open("/dev/null").unwrap();
    refused(one, Some(null.as_raw_fd()), "is not a socket");
    let (stream, _other) = UnixStream::pair().unwrap();
    refused(one, Some(stream.as_raw_fd()), "is not listening");
    let datagram = UnixDatagram::bind(folder.path().join("b.sock")).unwrap();
    refused(one, Some(datagram.as_raw_fd()), "is not a stream socket");
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    refused(one, Some(tcp.as_raw_fd()), "is not a Unix socket");
}

#[test]
fn the_socket_that_is_handed_over_is_served_and_left_behind() {
    let host = host("LISTEN_PID=$$ LISTEN_FDS=1 LISTEN_FDNAMES=leafd");
    let path = host.path("given.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let start = || -> Child {
        let mut command = command(&host, Some(listener.as_raw_fd()));
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    };
    for life in 0..3 {
        // A client that connects while nothing serves the socket waits.
        let mut early = Raw::connect(&path);
        let mut child = start();
        assert_eq!(early.info().pid, child.id(), "life {life}");
        assert!(!host.socket().exists(), "the configured one is not made beside it");
        kill(Pid::from_raw(child.id() as i32), Signal::SIGTERM).unwrap();
        assert!(child.wait().unwrap().success());
        assert!(path.exists(), "it is not the daemon's to remove");
    }
}

/// The socket outlives the daemon, and so do the requests that were sent to it.
#[test]
fn an_administrative_request_whose_client_gave_up_is_not_carried_out() {
    let host = host("LISTEN_PID=$$ LISTEN_FDS=1 LISTEN_FDNAMES=leafd");
    let path = host.path("given.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let create = |tag: &str| {
        let mut client = Raw::connect(&path);
        client.request(opcode::TAG_CREATE, 1, format!(r#"{{"tag":"{tag}"}}"#).as_bytes());
        client
    };
    drop(create("given-up"));
    let mut waiting = create("orders");
    let mut command = command(&host, Some(listener.as_raw_fd()));
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    assert_eq!(waiting.reply().status(), Status::Ok);
    waiting.request(opcode::TAG_LIST, 2, b"{}");
    let tags = String::from_utf8(waiting.reply().body).unwrap();
    assert!(tags.contains("orders") && !tags.contains("given-up"), "{tags}");
    // A client library that times out closes the connection, which withdraws the request.
    kill(Pid::from_raw(child.id() as i32), Signal::SIGTERM).unwrap();
    assert!(child.wait().unwrap().success());
    let client = Client::builder().socket(&path).deadline(Duration::from_millis(50)).build();
    let client = client.unwrap();
    let asked = client.admin(opcode::TAG_CREATE, r#"{"tag":"late"}"#);
    assert!(matches!(asked, Err(Error::Timeout { .. })), "{asked:?}");
    let mut child = command.spawn().unwrap();
    let mut raw = Raw::connect(&path);
    raw.request(opcode::TAG_SHOW, 3, br#"{"tag":"late"}"#);
    raw.reply().refused(Status::TagUnknown);
    kill(Pid::from_raw(child.id() as i32), Signal::SIGTERM).unwrap();
    assert!(child.wait().unwrap().success());
}

#[test]
fn variables_for_another_process_mean_nothing() {
    let mut host = host("LISTEN_PID=1 LISTEN_FDS=7 LISTEN_FDNAMES=x");
    host.start();
    host.create("orders");
    assert_eq!(host.raw().draw("orders", 1), [1]);
    host.stop();
}
