//! One run that all processes of a user draw from in memory, beside what else real processes on a host can count with:
//! held runs, ids drawn directly, Redis, and a bare number on a page of the same kind.
//!
//! - `drawing`: the processes, and what comes of drawing together.

pub(crate) mod drawing;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result};
use leafd_client::Client;
use nix::unistd::geteuid;
use serde_json::Value;

use crate::duplicates::Duplicates;
use crate::host::daemon::{OwnDaemon, new_dir};
use crate::host::redis::RedisServer;
use crate::processes::wake_ups;
use crate::report::{Budget, Report, Section};
use crate::{Plan, progress, stop};
use drawing::{Number, Source};

const NAME: &str = "shared: one run for all processes of a user";

const ROUNDS: u32 = 5;
const TIME: Duration = Duration::from_millis(250);

/// So many processes draw together.
const PROCESSES: [usize; 4] = [1, 2, 4, 8];

/// The tag that is shared; others are held and drawn directly.
const SHARED: &str = "shared";

const NS: &str = "ns/id";
const CPU_NS: &str = "CPU ns/id";
const TOGETHER: &str = "ids/s";
const TO_REDIS: &str = "x Redis";
const A_REQUEST: &str = "ids/request";
const A_WAKE_UP: &str = "ids/wake-up";

/// What the daemon was troubled with so far.
#[derive(Clone, Copy, Debug)]
struct Trouble {
    requests: u64,
    wake_ups: u64,
}

/// The names of all rows.
pub(crate) fn names() -> Vec<String> {
    vec![NAME.to_owned()]
}

/// Measures them if they are wanted.
///
/// # Errors
/// A process can't be started or can't draw, or an id came twice; the user stops the run.
pub(crate) fn measure(plan: &Plan, duplicates: &mut Duplicates, report: &mut Report) -> Result<()> {
    if !plan.wants(NAME) {
        return Ok(());
    }
    let (rounds, time) = (plan.rounds(ROUNDS), plan.time(TIME));
    let dir = new_dir()?;
    let access =
        format!("access=[{{tags = [\"{SHARED}\"], share_uids = [{}]}}]", geteuid().as_raw());
    let daemon = OwnDaemon::start_with(dir.path(), &[&access])?;
    let client = Client::connect(daemon.socket())?;
    for source in Source::ALL.into_iter().filter(|source| source.asks_leafd()) {
        daemon.create_tag(&client, source.tag())?;
    }
    let redis = RedisServer::start()?;
    if redis.is_none() {
        report.not_measured.push("shared: redis-server is not installed".to_owned());
    }
    let number = Number::new().context("cannot make a page of memory")?;
    let about = format!(
        "Processes that draw together, each one id after the other: medians of {rounds} rounds of {} s a row, \
         interleaved. ns/id is a process's time for an id, with more processes than cores the time that it waits for \
         one included; CPU ns/id is its processor time. Requests and wake-ups are the daemon's",
        time.as_secs_f64()
    );
    let columns = [NS, CPU_NS, TOGETHER, TO_REDIS, A_REQUEST, A_WAKE_UP];
    let mut section = Section::new("processes", about, &columns);
    for round in 1..=rounds {
        for source in Source::ALL {
            let at: PathBuf = match (source, &redis) {
                (Source::Redis, None) => continue,
                (Source::Redis, Some(redis)) => redis.socket.clone(),
                (Source::Number, _) => number.path(),
                _ => daemon.socket(),
            };
            for count in PROCESSES {
                let row = row(source, count);
                progress(&format!("{round}/{rounds} {NAME}: {row}"));
                let mut processes = drawing::start(source, &at, count, time)?;
                let mut spans = drawing::warm_up(&mut processes)?;
                let before = trouble(&client, &daemon)?;
                let drawn = drawing::draw(&mut processes, time, &mut spans)?;
                let after = trouble(&client, &daemon)?;
                drop(processes);
                duplicates.add(&format!("{NAME}, {}", source.tag()), spans)?;
                section.put(&row, NS, drawn.ns_an_id());
                section.put(&row, CPU_NS, drawn.cpu_ns_an_id());
                section.put(&row, TOGETHER, drawn.ids_a_second());
                if source.asks_leafd() {
                    // The second look at the daemon is a request too.
                    let requests = (after.requests - before.requests).saturating_sub(1).max(1);
                    let wake_ups = (after.wake_ups - before.wake_ups).max(1);
                    section.put(&row, A_REQUEST, drawn.ids as f64 / requests as f64);
                    section.put(&row, A_WAKE_UP, drawn.ids as f64 / wake_ups as f64);
                }
                stop::check()?;
            }
        }
    }
    compare(&mut section);
    report.budgets.extend(budgets(&section));
    report.sections.push(section);
    daemon.process.stop()
}

fn row(source: Source, processes: usize) -> String {
    let drawing = match processes {
        1 => "one process".to_owned(),
        more => format!("{more} processes"),
    };
    format!("{}, {drawing}", source.name())
}

fn trouble(client: &Client, daemon: &OwnDaemon) -> Result<Trouble> {
    let status: Value = serde_json::from_str(&client.status_json()?)?;
    let requests = status["requests"].as_u64().context("the status tells no requests")?;
    Ok(Trouble { requests, wake_ups: wake_ups(daemon.process.pid())? })
}

/// Puts each row beside Redis with as many processes.
fn compare(section: &mut Section) {
    for count in PROCESSES {
        let Some(redis) = section.median(&row(Source::Redis, count), TOGETHER) else { continue };
        for source in Source::ALL.into_iter().filter(|source| *source != Source::Redis) {
            let row = row(source, count);
            if let Some(together) = section.median(&row, TOGETHER) {
                section.put(&row, TO_REDIS, together / redis);
            }
        }
    }
}

fn budgets(section: &Section) -> Vec<Budget> {
    let shared = PROCESSES.map(|count| row(Source::Shared, count));
    let [one, .., eight] = &shared;
    let mut budgets = vec![
        Budget::at_most(one, section.median(one, NS), 25.0, " ns/id"),
        Budget::at_least(eight, section.median(eight, TO_REDIS), 100.0, "x Redis ids/s"),
    ];
    budgets.extend(
        shared.iter().map(|row| {
            Budget::at_least(row, section.median(row, A_WAKE_UP), 500.0, " ids a wake-up")
        }),
    );
    budgets
}
