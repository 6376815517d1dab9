//! The program in the tests' application container: it draws ids from the pod's daemon until it is asked to stop,
//! continues for a while like an application that finishes its work, and then writes everything that it got to a file.
//!
//! `application FILE TAG DRAIN_MS`. The file has a line for each id, and one for each error.
#![allow(clippy::unwrap_used, reason = "in a test an unwrap is an assertion")]

use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use leafd_client::Client;
use nix::sys::signal::{SigSet, Signal};

/// A call's deadline: longer than the restart of a container takes.
const DEADLINE: Duration = Duration::from_secs(20);

/// The pause between two draws.
const PAUSE: Duration = Duration::from_millis(1);

/// The number of ids that a draw takes from a held run, and the number that it requests directly.
const IDS: usize = 5;

/// What one thread got.
#[derive(Default)]
struct Seen {
    ids: Vec<u64>,
    errors: Vec<String>,
    longest: Duration,
}

fn draw(client: &Client, tag: &str, held: bool, stop: &AtomicBool) -> Seen {
    let mut seen = Seen::default();
    let mut last = 0;
    while !stop.load(Ordering::Relaxed) {
        for _ in 0..IDS {
            let begun = Instant::now();
            let outcome = if held { client.next(tag) } else { client.next_direct(tag) };
            seen.longest = seen.longest.max(begun.elapsed());
            match outcome {
                Ok(id) if held || id > last => {
                    last = id;
                    seen.ids.push(id);
                }
                Ok(id) => seen.errors.push(format!("{id} came after {last}")),
                Err(error) => seen.errors.push(error.to_string()),
            }
        }
        std::thread::sleep(PAUSE);
    }
    seen
}

fn main() {
    let mut args = std::env::args().skip(1);
    let mut arg = || args.next().expect("application FILE TAG DRAIN_MS");
    let (file, tag, drain_ms) = (arg(), arg(), arg().parse().unwrap());
    // This comes before any thread starts, so that the signal ends none of them.
    let asked_to_stop = SigSet::from_iter([Signal::SIGTERM]);
    asked_to_stop.thread_block().unwrap();
    let client = Client::builder().deadline(DEADLINE).build().unwrap();
    let stop = AtomicBool::new(false);
    let seen: Vec<Seen> = std::thread::scope(|scope| {
        let threads = [true, false].map(|held| {
            let (client, tag, stop) = (&client, &tag, &stop);
            scope.spawn(move || draw(client, tag, held, stop))
        });
        asked_to_stop.wait().unwrap();
        std::thread::sleep(Duration::from_millis(drain_ms));
        stop.store(true, Ordering::Relaxed);
        threads.map(|thread| thread.join().unwrap()).into()
    });
    let longest = seen.iter().map(|seen| seen.longest).max().unwrap_or_default();
    let mut text = format!("longest {}\n", longest.as_micros());
    for seen in &seen {
        seen.ids.iter().for_each(|id| writeln!(text, "id {id}").unwrap());
        seen.errors.iter().for_each(|error| writeln!(text, "error {error}").unwrap());
    }
    std::fs::write(file, text).unwrap();
}
