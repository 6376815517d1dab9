//! What callers and memory pay when the daemon is watched: by a collector that scrapes once a second, and by open
//! pages, on a daemon with many tags.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use leafd_client::Client;

use crate::duplicates::{Duplicates, check_ascending, spans_of};
use crate::host::daemon::{OwnDaemon, new_dir};
use crate::host::footprint::{TAGS, draw_of_tags, make_tags};
use crate::processes::resident_mib;
use crate::report::{Report, Section};
use crate::stats::{call_ns, percentile};
use crate::{Plan, progress, stop};

const NAME: &str = "watched: ids while somebody looks on";

const ROUNDS: u32 = 5;
const TIME: Duration = Duration::from_secs(5);

/// The pause between two ids: one id per millisecond, as applications draw.
const EVERY: Duration = Duration::from_millis(1);

/// How often a collector asks.
const SCRAPES_EVERY: Duration = Duration::from_secs(1);

/// As many pages as the daemon serves live.
const PAGES: usize = 8;

/// The watchers. "nobody again" shows how much runs differ by themselves.
const ROWS: [(&str, Onlooker); 4] = [
    ("nobody", Onlooker::Nobody),
    ("a scrape a second", Onlooker::Collector),
    ("eight pages", Onlooker::Pages),
    ("nobody again", Onlooker::Nobody),
];

const P50: &str = "p50 us";
const P99: &str = "p99 us";
const P999: &str = "p99.9 us";
const MEMORY: &str = "daemon MiB";

#[derive(Clone, Copy, PartialEq, Eq)]
enum Onlooker {
    Nobody,
    Collector,
    Pages,
}

/// The names of all rows.
pub(crate) fn names() -> Vec<String> {
    vec![NAME.to_owned()]
}

/// Measures the costs if they are selected.
///
/// # Errors
/// A daemon can't be started or doesn't answer; the user stops the run.
pub(crate) fn measure(plan: &Plan, duplicates: &mut Duplicates, report: &mut Report) -> Result<()> {
    if !plan.wants(NAME) {
        return Ok(());
    }
    let (rounds, time) = (plan.rounds(ROUNDS), plan.time(TIME));
    let dir = new_dir()?;
    make_tags(dir.path(), TAGS).context("cannot prepare a journal with many tags")?;
    let http = dir.path().join("http.sock");
    let setting = format!("http={}", http.display());
    let daemon = OwnDaemon::start_with(dir.path(), &[&setting])?;
    draw_of_tags(&daemon.socket(), 0..TAGS)?;
    let client = Client::connect(daemon.socket())?;
    let tag = "watched";
    daemon.create_tag(&client, tag)?;
    client.next_direct(tag)?;

    let about = format!(
        "One id each millisecond, drawn directly, beside 10,000 active tags: medians of {rounds} rounds"
    );
    let mut section = Section::new("watched", about, &[P50, P99, P999, MEMORY]);
    let mut ids = Vec::new();
    for round in 1..=rounds {
        for (row, onlooker) in ROWS {
            progress(&format!("{round}/{rounds} {NAME}: {row}"));
            let mut latencies_ns =
                while_looked_on(onlooker, &http, || draw(&client, tag, time, &mut ids))?;
            latencies_ns.sort_unstable();
            for (column, share) in [(P50, 0.5), (P99, 0.99), (P999, 0.999)] {
                if let Some(ns) = percentile(&latencies_ns, share) {
                    section.put(row, column, f64::from(ns) / 1e3);
                }
            }
            section.put(row, MEMORY, resident_mib(daemon.process.pid())?);
        }
    }
    check_ascending(&ids)?;
    duplicates.add(tag, spans_of(&mut ids))?;
    report.sections.push(section);
    daemon.process.stop()
}

/// How long each call took.
fn draw(client: &Client, tag: &str, time: Duration, ids: &mut Vec<u64>) -> Result<Vec<u32>> {
    let began = Instant::now();
    let (mut next, mut latencies_ns) = (began, Vec::new());
    while began.elapsed() < time {
        stop::check()?;
        thread::sleep(next.saturating_duration_since(Instant::now()));
        next = (next + EVERY).max(Instant::now());
        let asked = Instant::now();
        ids.push(client.next_direct(tag)?);
        latencies_ns.push(call_ns(asked.elapsed()));
    }
    Ok(latencies_ns)
}

/// Draws while the daemon is watched.
fn while_looked_on<T>(
    onlooker: Onlooker,
    http: &Path,
    act: impl FnOnce() -> Result<T>,
) -> Result<T> {
    let ended = AtomicBool::new(false);
    thread::scope(|scope| {
        let onlookers: Vec<_> = match onlooker {
            Onlooker::Nobody => Vec::new(),
            Onlooker::Collector => vec![scope.spawn(|| scrape_until(&ended, http))],
            Onlooker::Pages => {
                (0..PAGES).map(|_| scope.spawn(|| read_until(&ended, http))).collect()
            }
        };
        let done = act();
        ended.store(true, Ordering::Relaxed);
        for onlooker in onlookers {
            onlooker.join().expect("no onlooker panics")?;
        }
        done
    })
}

fn ask(http: &Path, path: &str) -> Result<UnixStream> {
    let mut stream = UnixStream::connect(http).context("cannot connect to the daemon's HTTP")?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
    Ok(stream)
}

fn scrape_until(ended: &AtomicBool, http: &Path) -> Result<()> {
    while !ended.load(Ordering::Relaxed) {
        let mut text = String::new();
        ask(http, "/metrics")?.read_to_string(&mut text)?;
        ensure!(text.contains("leafd_tags_in_use 10001"), "a scrape lacks tags: {text}");
        thread::sleep(SCRAPES_EVERY);
    }
    Ok(())
}

fn read_until(ended: &AtomicBool, http: &Path) -> Result<()> {
    let mut stream = ask(http, "/events")?;
    let (mut bytes, mut all) = (vec![0; 64 * 1024], 0);
    while !ended.load(Ordering::Relaxed) {
        let count = stream.read(&mut bytes)?;
        ensure!(count > 0, "the events end after {all} bytes");
        all += count;
    }
    Ok(())
}
