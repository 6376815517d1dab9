//! Tests with a daemon that is missing, refuses, doesn't answer, or violates the protocol.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use leafd_client::{Client, Error, Status, opcode};

use crate::checks::{check_unique, check_within, client, direct};
use crate::server::Server;

#[test]
fn a_daemon_that_never_was_is_a_clear_error_at_once() {
    let start = Instant::now();
    let error = Client::connect("/nonexistent/leafd.sock").unwrap_err();
    check_within(start.elapsed(), 0, 500);
    assert!(matches!(error, Error::Connect { .. }), "{error:?}");
    assert!(error.is_retryable());
    let text = error.to_string();
    assert!(text.contains("/nonexistent/leafd.sock"), "{text}");
    assert!(text.contains("is the daemon running"), "{text}");
    assert!(text.contains("systemctl status leafd") && text.contains("LEAFD_SOCKET can"), "{text}");
    let lazy = Client::builder().socket("/nonexistent/leafd.sock").build().unwrap();
    assert!(matches!(lazy.next("orders"), Err(Error::Connect { .. })));
}

#[test]
fn a_path_that_no_socket_can_have_is_refused_when_the_client_is_made() {
    for path in ["/x".repeat(54), String::new(), "/run/\0".to_owned()] {
        let error = Client::builder().socket(&path).build().unwrap_err();
        assert!(
            matches!(error, Error::InvalidArgument { .. }) && !error.is_retryable(),
            "{error:?}"
        );
        assert!(error.to_string().contains("1 to 107 bytes"), "{error}");
    }
    assert!(Client::builder().socket(format!("/{}", "x".repeat(106))).build().is_ok());
}

#[test]
fn a_silent_daemon_is_a_timeout() {
    let server = Server::start();
    for client in [client(&server), direct(&server)] {
        let start = Instant::now();
        let error = client.within(Duration::from_millis(200)).next("silent").unwrap_err();
        check_within(start.elapsed(), 200, 900);
        assert!(matches!(error, Error::Timeout { .. }), "{error:?}");
        check_unique((0..100).map(|_| client.next("orders").unwrap()));
        let mut pipeline = client.within(Duration::from_millis(100)).pipeline();
        pipeline.push("silent", 1).unwrap();
        pipeline.push("orders", 1).unwrap();
        let answers: Vec<_> = std::iter::from_fn(|| pipeline.answer()).collect();
        assert!(answers[0].ids.is_ok() && answers[0].request == 1);
        assert!(matches!(answers[1].ids, Err(Error::Timeout { .. })));
    }
}

#[test]
fn late_answers_meet_no_other_request() {
    let server = Server::start();
    let client = direct(&server);
    let mut ids = Vec::new();
    let mut late = 0;
    while late < 20 {
        // On a busy machine, the answer may arrive before the clock is checked.
        match client.within(Duration::ZERO).next("slow") {
            Err(error) => {
                assert!(matches!(error, Error::Timeout { .. }), "{error:?}");
                late += 1;
            }
            Ok(_) => continue,
        }
        ids.extend((0..20).map(|_| client.next("orders").unwrap()));
    }
    assert_eq!(check_unique(ids), 400);
}

#[test]
fn what_the_service_says_comes_through() {
    let server = Server::start();
    for client in [client(&server), direct(&server)] {
        let error = client.next("unknown").unwrap_err();
        assert_eq!(error.status(), Some(Status::TagUnknown));
        assert!(!error.is_retryable());
        let text = error.to_string();
        assert!(text.contains("TAG_UNKNOWN") && text.contains("no such tag"), "{text}");
        assert_eq!(client.next("orders").map(|_| ()).ok(), Some(()));
    }
}

#[test]
fn impossible_arguments_never_reach_the_daemon() {
    let server = Server::start();
    let client = client(&server);
    for tag in ["", "a\0b", &"x".repeat(129)] {
        let error = client.next(tag).unwrap_err();
        assert!(matches!(error, Error::InvalidArgument { .. }), "{error:?}");
        assert!(client.tag(tag).is_err() && client.next_batch(tag, 5).is_err());
    }
    assert!(client.pipeline().push("orders", 0).is_err());
    assert!(client.pipeline().push("orders", u32::MAX).is_err());
    assert!(client.admin(opcode::TAG_LIST, &"x".repeat(70_000)).is_err());
    assert_eq!(server.shared().connections_made.load(Ordering::SeqCst), 0);
}

/// A protocol violation closes the connection and is reported as such, and the next call opens a new one.
fn check_nonsense(tag: &str) {
    let server = Server::start();
    for client in [client(&server), direct(&server)] {
        let first = client.next("orders").unwrap();
        let error = client.next(tag).unwrap_err();
        assert!(matches!(error, Error::Protocol { .. }), "{tag}: {error:?}");
        assert!(!error.is_retryable());
        check_unique([first, client.next("orders").unwrap()]);
    }
}

#[test]
fn an_oversized_length_is_refused() {
    check_nonsense("long");
}

#[test]
fn a_malformed_answer_is_refused() {
    check_nonsense("garbage");
}

#[test]
fn an_answer_to_nobody_is_refused() {
    check_nonsense("stray");
}

#[test]
fn more_ids_than_asked_for_are_refused() {
    check_nonsense("more");
}

#[test]
fn fewer_ids_are_fine_for_a_lease_only() {
    let server = Server::start();
    let client = client(&server);
    assert_eq!(check_unique((0..1000).map(|_| client.next("fewer").unwrap())), 1000);
    let error = client.next_batch("fewer", 10).unwrap_err();
    assert!(matches!(error, Error::Protocol { .. }), "{error:?}");
}

#[test]
fn an_answer_that_comes_twice_ends_the_connection() {
    let server = Server::start();
    let client = direct(&server);
    let first = client.next("twice").unwrap();
    let ids = (0..10).map(|_| client.next("orders").unwrap());
    assert_eq!(check_unique(ids.chain([first])), 11);
    assert_eq!(server.shared().connections_made.load(Ordering::SeqCst), 2);
}

#[test]
fn a_connection_that_always_breaks_is_an_error_soon() {
    let server = Server::start();
    for client in [client(&server), direct(&server)] {
        let error = client.next("half").unwrap_err();
        assert!(matches!(error, Error::Disconnected { .. }), "{error:?}");
        assert!(error.is_retryable());
        assert!(client.next("orders").is_ok());
    }
    assert!(server.requests_for("half") < 20);
}

#[test]
fn signals_interrupt_no_call() {
    extern "C" fn nothing(_: libc::c_int) {}
    // SAFETY: all zeros is a valid action; the handler does nothing.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = nothing as *const () as usize;
        assert_eq!(libc::sigaction(libc::SIGUSR1, &raw const action, std::ptr::null_mut()), 0);
    }
    let server = Server::start();
    let client = direct(&server);
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        // SAFETY: no arguments.
        let target = unsafe { libc::pthread_self() };
        let done = &done;
        let _signalled = DoneOnDrop(done);
        scope.spawn(move || {
            while !done.load(Ordering::Relaxed) {
                // SAFETY: the target outlives this scope.
                unsafe { libc::pthread_kill(target, libc::SIGUSR1) };
                thread::sleep(Duration::from_micros(100));
            }
        });
        let mut ids: Vec<u64> = (0..500).map(|_| client.next("orders").unwrap()).collect();
        ids.push(client.next("slow").unwrap());
        check_unique(ids);
        let start = Instant::now();
        assert!(client.within(Duration::from_millis(100)).next("silent").is_err());
        check_within(start.elapsed(), 100, 800);
    });
}

/// Ends the waiting threads even if an assertion fails, because a hanging test shows nothing.
struct DoneOnDrop<'a>(&'a AtomicBool);

impl Drop for DoneOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
