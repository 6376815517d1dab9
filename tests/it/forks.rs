//! The real client in a process that forks while it holds runs and its other threads draw.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use leafd_client::Client;

use crate::drawing::drawn;
use crate::host::{Host, die_with_parent};

/// Names the folder in which the forking process and its children record the ids that they draw.
const RECORD: &str = "LEAFD_TEST_FORK_TO";
const SOCKET: &str = "LEAFD_TEST_FORK_FROM";

const FORKS: u32 = 30;
const IDS_EACH: usize = 150;
const TAGS: [&str; 2] = ["orders", "snowflake"];

/// Not a test: this is the forking process's main function if [`RECORD`] is set.
#[test]
fn forker() {
    let Some(record) = std::env::var_os(RECORD).map(PathBuf::from) else { return };
    let socket = std::env::var_os(SOCKET).expect("a forker knows its socket");
    let client = Client::builder().socket(socket).build().unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let (client, stop, record) = (&client, &stop, &record);
            scope.spawn(move || {
                for turn in 0.. {
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    draw(client, record, &format!("thread{thread}-{turn}"));
                }
            });
        }
        for number in 0..FORKS {
            draw(&client, &record, &format!("before{number}"));
            // SAFETY: the child draws ids, writes files and ends by _exit; what it needs of the C library and
            // of the client is made to work after a fork.
            match unsafe { libc::fork() } {
                -1 => panic!("no fork: {}", std::io::Error::last_os_error()),
                0 => {
                    let drawing = || draw(&client, &record, &format!("child{number}"));
                    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(drawing));
                    // SAFETY: it ends the process and nothing else.
                    unsafe { libc::_exit(i32::from(outcome.is_err())) };
                }
                child => {
                    draw(&client, &record, &format!("after{number}"));
                    let mut status = 0;
                    // SAFETY: the child is this process's own, and the address is a local's.
                    let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
                    assert_eq!((waited, status), (child, 0), "child {number} failed");
                }
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
}

/// Draws ids of both kinds, most of them from held runs.
fn draw(client: &Client, record: &Path, name: &str) {
    for tag in TAGS {
        let mut bytes = Vec::with_capacity(8 * IDS_EACH);
        for index in 0..IDS_EACH {
            let id = if index % 10 == 9 { client.next_direct(tag) } else { client.next(tag) };
            bytes.extend(id.unwrap().to_le_bytes());
        }
        File::create_new(record.join(format!("{tag}.{name}"))).unwrap().write_all(&bytes).unwrap();
    }
}

#[test]
fn forked_children_draw_ids_of_their_own() {
    let mut host = Host::new().worker(17);
    host.start();
    host.create("orders");
    let record = host.path("drawn");
    fs::create_dir(&record).unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["forks::forker", "--exact", "--nocapture"])
        .env(RECORD, &record)
        .env(SOCKET, host.socket())
        .stdout(Stdio::null());
    let status = die_with_parent(&mut command).spawn().unwrap().wait().unwrap();
    assert!(status.success(), "the forking process failed: see its words above");
    for tag in TAGS {
        let drawn = drawn(&record, tag);
        drawn.assert_unique();
        assert!(drawn.ids.len() > 3 * FORKS as usize * IDS_EACH, "{} ids", drawn.ids.len());
    }
    host.stop();
}
