//! `leafctl status`: what the daemon reports about itself.

use std::io::{self, Write};
use std::path::Path;

use leafd_checkup::NEAR_PERCENT;
use leafd_client::Client;
use serde_json::Value;

use crate::failure::Failure;
use crate::report::{self, duration};

/// How to show it.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The first line says whether all is well; then comes what isn't, since when, what it means for ids and what to do.\n\
                  Administrators see tags, rates and counters. Others see whether the daemon can issue ids. protocol.md describes the JSON."
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
    report::write(&mut out, &status)?;
    line(&mut out, "release", &status["release"])?;
    line(&mut out, "pid", &status["pid"])?;
    writeln!(out, "{:<22} {}", "up", duration(status["uptime_ms"].as_u64().unwrap_or(0)))?;
    for name in ["host", "socket", "state_dir", "journal_set_aside"] {
        line(&mut out, name, &status[name])?;
    }
    let segments = &status["segments"];
    line(&mut out, "segments ready", &segments["ready"])?;
    for name in ["claims", "tags_in_use"] {
        line(&mut out, name, &segments[name])?;
    }
    let snowflake = &status["snowflake"];
    line(&mut out, "snowflake ready", &snowflake["ready"])?;
    for name in ["registry", "worker"] {
        line(&mut out, name, &snowflake[name])?;
    }
    lease(&mut out, &snowflake["lease"])?;
    for name in ["connections", "requests", "requests_refused", "journal_commits"] {
        line(&mut out, name, &status[name])?;
    }
    stores(&mut out, &segments["stores"])?;
    tags(&mut out, &segments["tags"])?;
    layouts(&mut out, &snowflake["layouts"])?;
    Ok(())
}

/// Each store: its name, whether claims can be made from it, and anything unusual.
fn stores(out: &mut impl Write, stores: &Value) -> io::Result<()> {
    for store in stores.as_array().map_or(&[][..], Vec::as_slice) {
        let (name, url) = (text(&store["name"]), text(&store["url"]));
        let name = if name.is_empty() { url } else { format!("{name} ({url})") };
        let ready = if store["ready"] == true { "ready" } else { "NOT READY" };
        writeln!(out, "\nSTORE {name}: {ready}")?;
        let settling_ms = store["settling_ms"].as_u64().unwrap_or(0);
        if settling_ms > 0 {
            let more = duration(settling_ms);
            writeln!(out, "  {:<20} {more} more, after a fail-over", "claims wait")?;
        }
        if store["journal_stale"] == true {
            let words = "an old copy: the ids left in it are skipped";
            writeln!(out, "  {:<20} {words}", "journal")?;
        }
        let shown = [
            ("error", "error"),
            ("role", "role"),
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

/// A value without JSON's quotes; an empty text for null.
pub fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        value => value.as_str().map_or_else(|| value.to_string(), str::to_owned),
    }
}

/// The worker's lease, and the clock that ids are made with.
pub fn lease(out: &mut impl Write, lease: &Value) -> io::Result<()> {
    line(out, "worker mode", &lease["mode"])?;
    for (name, member) in [("lease left", "left_ms"), ("renewed ago", "renewed_ms_ago")] {
        if let Some(ms) = lease[member].as_u64() {
            writeln!(out, "{name:<22} {}", duration(ms))?;
        }
    }
    if let Some(ms) = lease["clock_offset_ms"].as_i64() {
        let side = if ms < 0 { "behind" } else { "ahead of" };
        let seconds = ms.unsigned_abs() as f64 / 1_000.0;
        writeln!(out, "{:<22} {seconds:.3} s {side} the registry's", "clock")?;
    }
    line(out, "clock_error", &lease["clock_error"])?;
    if let Some(ms) = lease["clock_held_back_ms"].as_u64().filter(|ms| *ms > 0) {
        writeln!(
            out,
            "{:<22} by {}, until the registry confirms the step",
            "clock held back",
            duration(ms)
        )?;
    }
    Ok(())
}

/// Writes a line if the value has a text.
pub fn line(out: &mut impl Write, name: &str, value: &Value) -> io::Result<()> {
    if value.is_null() {
        return Ok(());
    }
    writeln!(out, "{name:<22} {}", text(value))
}

/// The busiest tags: how long the held ids last, and how much of each tag is used up.
fn tags(out: &mut impl Write, tags: &Value) -> io::Result<()> {
    let Some(tags) = tags.as_array().filter(|tags| !tags.is_empty()) else { return Ok(()) };
    writeln!(
        out,
        "\n{:<32} {:>12} {:>16} {:>14} {:>18} {:>8}  USED",
        "TAG", "IDS/S", "ISSUED", "HELD", "LASTS", "WAITING"
    )?;
    for tag in tags {
        let lasts = match (tag["lasts_ms"].as_u64(), tag["held"].as_u64()) {
            (Some(ms), _) => duration(ms),
            (None, Some(1..)) => "not drawn".to_owned(),
            (None, _) => String::new(),
        };
        writeln!(
            out,
            "{:<32} {:>12} {:>16} {:>14} {lasts:>18} {:>8}  {}",
            text(&tag["tag"]),
            tag["ids_per_second"].as_f64().unwrap_or(0.0),
            text(&tag["issued"]),
            text(&tag["held"]),
            text(&tag["waiting"]),
            used(tag["ceiling_used_percent"].as_u64()),
        )?;
    }
    Ok(())
}

/// How much of a tag's numbers is claimed, highlighted when little is left.
pub fn used(percent: Option<u64>) -> String {
    match percent {
        None => String::new(),
        Some(100..) => "100 % USED UP".to_owned(),
        Some(percent @ NEAR_PERCENT..) => format!("{percent} % NEAR ITS CEILING"),
        Some(percent) => format!("{percent} %"),
    }
}

fn layouts(out: &mut impl Write, layouts: &Value) -> io::Result<()> {
    let Some(layouts) = layouts.as_array().filter(|layouts| !layouts.is_empty()) else {
        return Ok(());
    };
    writeln!(
        out,
        "\n{:<32} {:>16} {:>18} {:>18}",
        "LAYOUT", "ISSUED", "AHEAD OF CLOCK", "TIME LEFT"
    )?;
    for layout in layouts {
        let ahead = layout["clock_ahead_ms"].as_u64().filter(|ms| *ms > 0).map(duration);
        writeln!(
            out,
            "{:<32} {:>16} {:>18} {:>18}",
            text(&layout["name"]),
            text(&layout["issued"]),
            ahead.unwrap_or_default(),
            layout["time_left_ms"].as_u64().map(duration).unwrap_or_default(),
        )?;
    }
    Ok(())
}
