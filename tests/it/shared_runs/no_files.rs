//! A process that may open no further file: the system keeps the descriptors of a shared run back, and ids come as
//! without.

use std::collections::HashSet;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use leafd_client::Client;
use nix::sys::resource::{Resource, getrlimit, setrlimit};

use super::sharing;
use crate::host::die_with_parent;

/// Names the socket that the process draws from.
const SOCKET: &str = "LEAFD_TEST_NO_FILES_FROM";
const IDS: usize = 200;

/// Not a test by itself: such a process's main function when [`SOCKET`] is set.
#[test]
fn draw_without_files() {
    let Some(socket) = std::env::var_os(SOCKET) else { return };
    let client = Client::builder().socket(socket).deadline(Duration::from_secs(30)).shared(true);
    let client = client.build().unwrap();
    let mut ids = HashSet::from([client.next_direct("orders").unwrap()]);
    // All numbers below the first that is free are taken.
    let free = File::open("/dev/null").unwrap().as_raw_fd() as u64;
    setrlimit(Resource::RLIMIT_NOFILE, free, getrlimit(Resource::RLIMIT_NOFILE).unwrap().1)
        .unwrap();
    File::open("/dev/null").unwrap_err();
    // What others draw by the same connection goes on.
    let other = client.clone();
    let other = thread::spawn(move || {
        let draw = |_| other.next_direct("orders").unwrap();
        (0..IDS).map(draw).collect::<Vec<u64>>()
    });
    ids.extend((0..IDS).map(|_| client.next("orders").unwrap()));
    ids.extend(other.join().unwrap());
    assert_eq!(ids.len(), 1 + 2 * IDS);
}

#[test]
fn a_process_that_can_open_no_more_files_draws_as_without() {
    let mut host = sharing();
    host.start();
    host.create("orders");
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["shared_runs::no_files::draw_without_files", "--exact", "--nocapture"])
        .env(SOCKET, host.socket())
        .stdout(Stdio::null());
    assert!(die_with_parent(&mut command).status().unwrap().success(), "see its words above");
}
