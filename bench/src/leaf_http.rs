//! Leaf's own paths by HTTP, asked by `wrk`, where that is installed: what Leaf says of its server is 50,000 ids a second,
//! 99.9 % of them within a millisecond, on four cores.

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use leafd_client::Client;
use serde::Deserialize;

use crate::host::daemon::{OwnDaemon, new_dir};
use crate::processes::{Process, find_program};
use crate::report::{Budget, Report, Section};
use crate::{Plan, progress};

const NAME: &str = "leaf http: Leaf's paths asked by wrk";

const ROUNDS: u32 = 3;
const TIME: Duration = Duration::from_secs(5);

/// The tag whose ids are asked for.
const TAG: &str = "orders";

const ROWS: [(&str, &str, u32); 4] = [
    ("segment, 8 connections", "segment", 8),
    ("segment, 64 connections", "segment", 64),
    ("snowflake, 8 connections", "snowflake", 8),
    ("snowflake, 64 connections", "snowflake", 64),
];

const RATE: &str = "ids/s";
const P50: &str = "p50 us";
const P99: &str = "p99 us";
const P999: &str = "p99.9 us";

/// What Leaf's authors measured of Leaf.
const RATE_LEAST: f64 = 50_000.0;

/// Has wrk print what it measured as JSON; times in microseconds.
const SCRIPT: &str = r#"
done = function(summary, latency)
    local errors = summary.errors
    io.write(string.format('{"requests":%d,"seconds":%f,"errors":%d,"p50_us":%f,"p99_us":%f,"p999_us":%f}\n',
        summary.requests, summary.duration / 1e6,
        errors.connect + errors.read + errors.write + errors.status + errors.timeout,
        latency:percentile(50), latency:percentile(99), latency:percentile(99.9)))
end
"#;

/// What wrk measured in one run.
#[derive(Debug, Deserialize)]
struct Measured {
    requests: u64,
    seconds: f64,
    errors: u64,
    p50_us: f64,
    p99_us: f64,
    p999_us: f64,
}

/// The names of all rows.
pub(crate) fn names() -> Vec<String> {
    vec![NAME.to_owned()]
}

/// Measures them if they are selected and wrk is installed.
///
/// # Errors
/// A daemon can't be started, or a request is refused; the user stops the run.
pub(crate) fn measure(plan: &Plan, report: &mut Report) -> Result<()> {
    if !plan.wants(NAME) {
        return Ok(());
    }
    let Some(wrk) = find_program("wrk") else {
        report.not_measured.push(format!("{NAME}: wrk is not installed"));
        return Ok(());
    };
    let dir = new_dir()?;
    let script = dir.path().join("tell.lua");
    fs::write(&script, SCRIPT).context("cannot write a script for wrk")?;
    let port = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr())?.port();
    let setting = format!("leaf_http=127.0.0.1:{port}");
    let daemon = OwnDaemon::start_with(dir.path(), &[&setting])?;
    let client = Client::connect(daemon.socket())?;
    daemon.create_tag(&client, TAG)?;

    let (first, mut given) = (client.next_direct(TAG)?, 0);
    let (rounds, time) = (plan.rounds(ROUNDS), plan.time(TIME));
    let about = format!(
        "One id a request, wrk with one thread beside the daemon: medians of {rounds} rounds"
    );
    let mut section = Section::new("leaf http", about, &[RATE, P50, P99, P999]);
    for round in 1..=rounds {
        for (row, kind, connections) in ROWS {
            progress(&format!("{round}/{rounds} {NAME}: {row}"));
            let url = format!("http://127.0.0.1:{port}/api/{kind}/get/{TAG}");
            let measured = ask(&wrk, &script, time, connections, &url)?;
            ensure!(measured.errors == 0, "{row}: {} requests failed", measured.errors);
            if kind == "segment" {
                // wrk keeps no ids. As many as it was given since the start must at least have been used up; what it is
                // given now may have been fetched ahead long ago.
                given += measured.requests;
                let used = client.next_direct(TAG)? - first;
                ensure!(used > given, "{given} ids of {used} numbers");
            }
            #[expect(clippy::cast_precision_loss, reason = "for people to read")]
            section.put(row, RATE, measured.requests as f64 / measured.seconds);
            section.put(row, P50, measured.p50_us);
            section.put(row, P99, measured.p99_us);
            section.put(row, P999, measured.p999_us);
        }
    }
    report.budgets.extend(
        ROWS.iter().map(|(row, ..)| {
            Budget::at_least(row, section.median(row, RATE), RATE_LEAST, " ids/s")
        }),
    );
    report.sections.push(section);
    daemon.process.stop()
}

/// Has wrk ask for as long as told, at least a second.
fn ask(wrk: &Path, script: &Path, time: Duration, connections: u32, url: &str) -> Result<Measured> {
    let mut command = Command::new(wrk);
    command.arg("-t1").arg(format!("-c{connections}"));
    command.arg(format!("-d{}s", time.as_secs().max(1)));
    command.arg("-s").arg(script).arg(url);
    let told = Process::start(&mut command)?.rest().context("wrk fails")?;
    let told = String::from_utf8_lossy(&told);
    let line = told.lines().last().with_context(|| "wrk tells nothing")?;
    serde_json::from_str(line).with_context(|| format!("wrk tells {line:?}"))
}
