//! What callers and memory pay when the daemon is watched: by a collector that scrapes once a second, and by open
//! pages, on a daemon with many tags; and how much more memory than without HTTP that is.

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
use crate::report::{Budget, Report, Section};
use crate::stats::{call_ns, percentile};
use crate::{Plan, progress, stop};

const NAME: &str = "watched: ids while somebody looks on";

const MEMORY_NAME: &str = "watched: memory of HTTP with 1,000 tags";

/// As many tags as the budget of memory speaks of, and how much more it allows, in MiB.
const MEMORY_TAGS: usize = 1_000;
const MORE_MIB_MAX: f64 = 2.0;

/// Daemons with HTTP and without, and who looks on. "off again" shows how much two daemons differ by themselves.
const MEMORY_ROWS: [(&str, Option<Onlooker>); 5] = [
    ("HTTP off", None),
    ("HTTP that nobody asks", Some(Onlooker::Nobody)),
    ("scraped once a second", Some(Onlooker::Collector)),
    ("eight open pages", Some(Onlooker::Pages)),
    ("HTTP off again", None),
];

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
    vec![NAME.to_owned(), MEMORY_NAME.to_owned()]
}

/// Measures the costs if they are selected.
///
/// # Errors
/// A daemon can't be started or doesn't answer; the user stops the run.
pub(crate) fn measure(plan: &Plan, duplicates: &mut Duplicates, report: &mut Report) -> Result<()> {
    if plan.wants(NAME) {
        measure_calls(plan, duplicates, report)?;
    }
    if plan.wants(MEMORY_NAME) {
        measure_memory(plan, report)?;
    }
    Ok(())
}

/// How much more memory a daemon takes with HTTP, each time of a fresh daemon.
fn measure_memory(plan: &Plan, report: &mut Report) -> Result<()> {
    let (rounds, time) = (plan.rounds(ROUNDS), plan.time(TIME));
    let about = format!("Resident memory with 1,000 active tags: medians of {rounds} daemons each");
    let mut section = Section::new("memory of HTTP", about, &[MEMORY]);
    for round in 1..=rounds {
        for (row, onlooker) in MEMORY_ROWS {
            progress(&format!("{round}/{rounds} {MEMORY_NAME}: {row}"));
            let dir = new_dir()?;
            make_tags(dir.path(), MEMORY_TAGS).context("cannot prepare a journal with tags")?;
            let http = dir.path().join("http.sock");
            let setting = format!("http={}", http.display());
            let settings: &[&str] = if onlooker.is_some() { &[&setting] } else { &[] };
            let daemon = OwnDaemon::start_with(dir.path(), settings)?;
            draw_of_tags(&daemon.socket(), 0..MEMORY_TAGS)?;
            let rest = || {
                thread::sleep(time);
                stop::check()?;
                resident_mib(daemon.process.pid())
            };
            let onlooker = onlooker.unwrap_or(Onlooker::Nobody);
            let resident = while_looked_on(onlooker, &http, MEMORY_TAGS, rest)?;
            section.put(row, MEMORY, resident);
            daemon.process.stop()?;
        }
    }
    let off = section.median(MEMORY_ROWS[0].0, MEMORY);
    for (row, onlooker) in MEMORY_ROWS {
        if onlooker.is_some() {
            let more = section.median(row, MEMORY).zip(off).map(|(on, off)| on - off);
            report.budgets.push(Budget::at_most(row, more, MORE_MIB_MAX, " MiB more"));
        }
    }
    report.sections.push(section);
    Ok(())
}

fn measure_calls(plan: &Plan, duplicates: &mut Duplicates, report: &mut Report) -> Result<()> {
    let (rounds, time) = (plan.rounds(ROUNDS), plan.time(TIME));
    let dir = new_dir()?;
    make_tags(dir.path(), TAGS).context("cannot prepare a journal with many tags")?;
    let http = dir.path().join("http.sock");
    let setting = format!("http={}", http.display());
    let daemon = OwnDaemon::start_with(dir.path(), &[setting.as_str()])?;
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
                while_looked_on(onlooker, &http, TAGS + 1, || draw(&client, tag, time, &mut ids))?;
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

/// Acts while the daemon, which has so many tags in use, is watched.
fn while_looked_on<T>(
    onlooker: Onlooker,
    http: &Path,
    tags: usize,
    act: impl FnOnce() -> Result<T>,
) -> Result<T> {
    let ended = AtomicBool::new(false);
    thread::scope(|scope| {
        let onlookers: Vec<_> = match onlooker {
            Onlooker::Nobody => Vec::new(),
            Onlooker::Collector => vec![scope.spawn(|| scrape_until(&ended, http, tags))],
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

fn scrape_until(ended: &AtomicBool, http: &Path, tags: usize) -> Result<()> {
    let in_use = format!("leafd_tags_in_use {tags}\n");
    while !ended.load(Ordering::Relaxed) {
        let mut text = String::new();
        ask(http, "/metrics")?.read_to_string(&mut text)?;
        ensure!(text.contains(&in_use), "a scrape lacks tags: {text}");
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
