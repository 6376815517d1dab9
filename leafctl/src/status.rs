//! `leafctl status`: what the daemon says of itself.

use std::io::{self, Write};
use std::path::Path;

use leafd_client::Client;
use serde_json::Value;

use crate::failure::Failure;

/// How to show it.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Administrators see tags, rates and counters; other users see whether ids are available."
)]
pub struct StatusArgs {
    /// Print the daemon's JSON as it is
    #[arg(long)]
    json: bool,
}

/// Asks and prints.
pub fn run(socket: &Path, args: &StatusArgs) -> Result<(), Failure> {
    let client = Client::builder().socket(socket).build()?;
    let answer = client.status_json()?;
    let mut out = io::stdout().lock();
    if args.json {
        writeln!(out, "{answer}")?;
        return Ok(());
    }
    let status: Value = serde_json::from_str(&answer)?;
    line(&mut out, "release", &status["release"])?;
    line(&mut out, "pid", &status["pid"])?;
    writeln!(out, "{:<22} {}", "up", duration(status["uptime_ms"].as_u64().unwrap_or(0)))?;
    for name in ["host", "socket", "state_dir", "journal_set_aside", "journal_error"] {
        line(&mut out, name, &status[name])?;
    }
    let segments = &status["segments"];
    line(&mut out, "segments ready", &segments["ready"])?;
    // Administrators are told of each store below.
    let told = if segments["stores"].is_array() { &[][..] } else { &["store_error"][..] };
    for name in told.iter().chain(&["claims", "tags_in_use"]) {
        line(&mut out, name, &segments[*name])?;
    }
    let snowflake = &status["snowflake"];
    line(&mut out, "snowflake ready", &snowflake["ready"])?;
    for name in ["registry", "worker", "worker_error"] {
        line(&mut out, name, &snowflake[name])?;
    }
    lease(&mut out, &snowflake["lease"])?;
    for name in ["connections", "requests", "requests_refused", "journal_commits"] {
        line(&mut out, name, &status[name])?;
    }
    stores(&mut out, &segments["stores"])?;
    table(
        &mut out,
        &segments["tags"],
        "TAG",
        &["tag", "ids_per_second", "issued", "held", "waiting"],
    )?;
    table(
        &mut out,
        &snowflake["layouts"],
        "LAYOUT",
        &["name", "issued", "clock_ahead_ms", "bound_ms"],
    )?;
    Ok(())
}

/// Each store: its name, whether it can be claimed from, and what is out of the ordinary.
fn stores(out: &mut impl Write, stores: &Value) -> io::Result<()> {
    for store in stores.as_array().map_or(&[][..], Vec::as_slice) {
        let (name, url) = (text(&store["name"]), text(&store["url"]));
        let name = if name.is_empty() { url } else { format!("{name} ({url})") };
        let ready = if store["ready"] == true { "ready" } else { "NOT READY" };
        writeln!(out, "\nSTORE {name}: {ready}")?;
        let settling_ms = store["settling_ms"].as_u64().unwrap_or(0);
        if settling_ms > 0 {
            writeln!(out, "  {:<20} {settling_ms} ms more, after a fail-over", "claims wait")?;
        }
        if store["journal_stale"] == true {
            let words = "of an earlier start: its numbers are skipped";
            writeln!(out, "  {:<20} {words}", "journal")?;
        }
        let shown = [
            ("error", "error"),
            ("place", "place"),
            ("fail-overs", "failovers"),
            ("store_id", "store_id"),
            ("history", "history"),
        ];
        for (title, member) in shown {
            let value = text(&store[member]);
            if !value.is_empty() {
                writeln!(out, "  {title:<20} {value}")?;
            }
        }
    }
    Ok(())
}

/// A value without JSON's quotes; nothing for null.
fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        value => value.as_str().map_or_else(|| value.to_string(), str::to_owned),
    }
}

/// The claim on the worker and the clock that ids are made of.
pub fn lease(out: &mut impl Write, lease: &Value) -> io::Result<()> {
    line(out, "worker mode", &lease["mode"])?;
    for (name, member) in [("claim left", "left_ms"), ("renewed ago", "renewed_ms_ago")] {
        if let Some(ms) = lease[member].as_u64() {
            writeln!(out, "{name:<22} {}", duration(ms))?;
        }
    }
    if let Some(ms) = lease["clock_offset_ms"].as_i64() {
        let side = if ms < 0 { "behind" } else { "ahead of" };
        writeln!(out, "{:<22} {} ms {side} the registry's", "clock", ms.unsigned_abs())?;
    }
    line(out, "clock_error", &lease["clock_error"])?;
    if let Some(ms) = lease["clock_held_back_ms"].as_u64().filter(|ms| *ms > 0) {
        writeln!(
            out,
            "{:<22} by {ms} ms, until the registry confirms the step",
            "clock held back"
        )?;
    }
    Ok(())
}

/// A line, if there is something to say.
pub fn line(out: &mut impl Write, name: &str, value: &Value) -> io::Result<()> {
    if value.is_null() {
        return Ok(());
    }
    writeln!(out, "{name:<22} {}", text(value))
}

fn table(out: &mut impl Write, rows: &Value, title: &str, members: &[&str]) -> io::Result<()> {
    let Some(rows) = rows.as_array().filter(|rows| !rows.is_empty()) else { return Ok(()) };
    write!(out, "\n{title:<32}")?;
    for member in &members[1..] {
        write!(out, " {:>16}", member.to_uppercase())?;
    }
    writeln!(out)?;
    for row in rows {
        write!(out, "{:<32}", row[members[0]].as_str().unwrap_or_default())?;
        for member in &members[1..] {
            write!(out, " {:>16}", row[*member].to_string())?;
        }
        writeln!(out)?;
    }
    Ok(())
}

pub fn duration(ms: u64) -> String {
    let seconds = ms / 1_000;
    match (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60, seconds % 60) {
        (0, 0, 0, s) => format!("{s} s"),
        (0, 0, m, s) => format!("{m} min {s} s"),
        (0, h, m, _) => format!("{h} h {m} min"),
        (d, h, _, _) => format!("{d} d {h} h"),
    }
}
