//! Processes that sleep with a shared run mapped, or whose clock is another one than the daemon's. Time namespaces step
//! the clock that counts suspend, and leave the other one as it is, just as a suspend does.

use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use leafd_client::Client;

use super::pages::boot_ns;
use super::{requests, sharing};
use crate::host::{Host, die_with_parent};

/// Names the daemon's socket for the drawing process.
const SOCKET: &str = "LEAFD_TEST_SHARED_CLOCK_SOCKET";
/// So many seconds that process sleeps after it has drawn some.
const SLEEPS: &str = "LEAFD_TEST_SHARED_CLOCK_SLEEPS";

const IDS: usize = 400;

/// `linux/sched.h` has it; libc doesn't.
const CLONE_NEWTIME: libc::c_int = 0x80;

/// Not a test by itself: the drawing process's main function when [`SOCKET`] is set.
#[test]
fn drawer_by_a_clock() {
    let Some(socket) = std::env::var_os(SOCKET).map(PathBuf::from) else { return };
    let sleeps: Option<u64> = std::env::var(SLEEPS).ok().map(|text| text.parse().unwrap());
    // SAFETY: the child draws ids and ends by _exit. It has one thread, as who changes its time namespace must.
    match unsafe { libc::fork() } {
        -1 => panic!("no fork: {}", std::io::Error::last_os_error()),
        0 => {
            let outcome = catch_unwind(AssertUnwindSafe(|| draw(socket, sleeps)));
            // SAFETY: it ends the process and nothing else.
            unsafe { libc::_exit(i32::from(outcome.is_err())) };
        }
        child => {
            let mut status = 0;
            // SAFETY: the child is this process's own, and the address is a local's.
            let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
            assert_eq!((waited, status), (child, 0), "the child failed");
        }
    }
}

fn draw(socket: PathBuf, sleeps: Option<u64>) {
    let client = Client::builder().socket(socket).deadline(Duration::from_secs(30)).shared(true);
    let tag = client.build().unwrap().tag("orders").unwrap();
    let mut ids: Vec<u64> = (0..IDS).map(|_| tag.next().unwrap()).collect();
    if let Some(seconds) = sleeps {
        assert!(tag.take().is_some(), "the run is drawn from");
        sleep_in_suspend(seconds);
        // The coarse clock, by which ids are drawn, has ticked since.
        std::thread::sleep(Duration::from_millis(50));
        assert_eq!(tag.take(), None, "of a run that was over before it woke up");
        ids.extend((0..IDS).map(|_| tag.next().unwrap()));
    }
    ids.sort_unstable();
    assert!(ids.windows(2).all(|pair| pair[0] < pair[1]), "an id came twice");
}

/// What a suspend does to the clocks of this process.
fn sleep_in_suspend(seconds: u64) {
    let before_ns = boot_ns();
    // SAFETY: no memory is passed.
    assert_eq!(unsafe { libc::unshare(CLONE_NEWTIME) }, 0, "{}", std::io::Error::last_os_error());
    fs::write("/proc/self/timens_offsets", format!("boottime {seconds} 0\n")).unwrap();
    let later = File::open("/proc/self/ns/time_for_children").unwrap();
    // SAFETY: no memory is passed.
    let moved = unsafe { libc::setns(later.as_raw_fd(), CLONE_NEWTIME) };
    assert_eq!(moved, 0, "{}", std::io::Error::last_os_error());
    assert!(boot_ns() >= before_ns + seconds * 1_000_000_000);
}

/// Runs the drawing process to its end, by this command if there is one.
#[track_caller]
fn run(host: &Host, by: &[&str], sleeps: Option<u64>) {
    let this = std::env::current_exe().unwrap();
    let mut command = match by {
        [] => Command::new(this),
        [first, rest @ ..] => {
            let mut command = Command::new(first);
            command.args(rest).arg(this);
            command
        }
    };
    command
        .args(["shared_runs::clocks::drawer_by_a_clock", "--exact", "--nocapture"])
        .env(SOCKET, host.socket())
        .stdout(Stdio::null());
    if let Some(seconds) = sleeps {
        command.env(SLEEPS, seconds.to_string());
    }
    assert!(die_with_parent(&mut command).status().unwrap().success(), "see its words above");
}

fn drawn(host: &Host) -> u64 {
    host.status()["shared_runs"]["drawn"].as_u64().unwrap()
}

#[test]
fn nothing_is_drawn_after_a_sleep_from_a_run_that_ended_meanwhile() {
    let mut host = sharing();
    host.start();
    host.create("orders");
    // Its clock is ahead of the daemon's afterwards, so it goes on as without sharing.
    run(&host, &[], Some(60));
    let drawn = drawn(&host);
    assert!((IDS as u64..IDS as u64 + 10).contains(&drawn), "{drawn} ids were drawn from memory");
    assert!(requests(&host) < 200, "{} requests", requests(&host));
}

#[test]
fn a_process_by_another_clock_draws_as_without_sharing() {
    let mut host = sharing();
    host.start();
    host.create("orders");
    for offset in ["100000", "-20"] {
        let by = ["unshare", "--time", "--boottime", offset, "--fork", "--kill-child"];
        run(&host, &by, None);
    }
    assert_eq!(drawn(&host), 0);
    assert!(requests(&host) < 200, "{} requests for {IDS} ids each", requests(&host));
}

#[test]
fn who_goes_by_the_daemons_clock_shares_wherever_that_is() {
    let by = ["unshare", "--time", "--boottime", "100000", "--fork", "--kill-child"];
    let mut host = sharing().runner(&by);
    host.begin();
    crate::host::eventually("a daemon answers", Duration::from_secs(60), || {
        crate::raw::Raw::try_connect(&host.socket())
    });
    host.create("orders");
    run(&host, &by, None);
    assert_eq!(drawn(&host), IDS as u64);
}
