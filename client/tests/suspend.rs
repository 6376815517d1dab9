//! Tests that held ids age while the machine is suspended. This program replaces the function that reads clocks, and
//! simulates a suspend as the kernel shows it: the clock that counts it jumps, and the others continue.

#![expect(clippy::unwrap_used, reason = "a test that meets an error is to fail")]

#[path = "it/checks.rs"]
#[expect(dead_code, reason = "another test program uses the rest")]
mod checks;
#[path = "it/server.rs"]
#[expect(dead_code, reason = "another test program uses the rest")]
mod server;

use std::ffi::c_int;
use std::sync::atomic::{AtomicI64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use checks::{check_unique, client};
use server::Server;

static SUSPENDED_SECONDS: AtomicI64 = AtomicI64::new(0);

/// Replaces the C library's function.
///
/// # Safety
/// The same as for the C library's function.
#[unsafe(no_mangle)]
unsafe extern "C" fn clock_gettime(clock: libc::clockid_t, time: *mut libc::timespec) -> c_int {
    // SAFETY: the caller follows the C library's contract, which is that of the system call.
    unsafe {
        let outcome = libc::syscall(libc::SYS_clock_gettime, clock, time);
        if outcome == 0 && clock == libc::CLOCK_BOOTTIME {
            (*time).tv_sec += SUSPENDED_SECONDS.load(Ordering::Relaxed);
        }
        outcome as c_int
    }
}

fn suspend(seconds: i64) {
    SUSPENDED_SECONDS.fetch_add(seconds, Ordering::Relaxed);
    // Waits for the coarse clock's next tick, which occurs when a machine wakes up.
    thread::sleep(Duration::from_millis(20));
}

#[test]
fn ids_that_were_held_over_a_suspend_are_dropped() {
    let server = Server::start();
    let client = client(&server);
    let before = Instant::now();
    let mut ids = vec![client.next("orders").unwrap()];
    suspend(30);
    // The fixture allows ids to be held for 60 s, and its counter is above all ids that it issued.
    ids.push(client.next("orders").unwrap());
    if before.elapsed() < Duration::from_secs(20) {
        assert_eq!(ids[1], ids[0] + 1, "a run was dropped that could be used");
    }
    suspend(31);
    let mark = client.next_direct("orders").unwrap();
    ids.push(mark);
    for _ in 0..100 {
        let id = client.next("orders").unwrap();
        assert!(id > mark, "{id} was held over more than a minute of suspend");
        ids.push(id);
    }
    // A run that was requested before a suspend and has not been used since.
    let due = server.requests_for("orders") + 1;
    while server.requests_for("orders") < due {
        ids.push(client.next("orders").unwrap());
        thread::sleep(Duration::from_millis(1));
    }
    suspend(61);
    let mark = client.next_direct("orders").unwrap();
    ids.push(mark);
    for _ in 0..100 {
        let id = client.next("orders").unwrap();
        assert!(id > mark, "{id} was requested before more than a minute of suspend");
        ids.push(id);
    }
    assert_eq!(check_unique(ids.iter().copied()), ids.len());
}
