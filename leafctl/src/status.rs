//! `leafctl status`: what the daemon reports about itself.

use std::fmt::Display;
use std::io::{self, Write};
use std::path::Path;

use leafd_checkup::NEAR_PERCENT;
use leafd_checkup::snapshot::{Layout, LeaseNumbers, Snapshot, Store, Tag, TagNumbers};
use leafd_client::Client;
use serde_json::Value;

use crate::failure::Failure;
use crate::report::{self, duration};

/// How to show it.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The first line says which ids are available; then each trouble follows: since when, what it means for ids, and what to do.\n\
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
    let status: Snapshot = serde_json::from_str(&answer)?;
    report::write(&mut out, &status.health)?;
    line(&mut out, "release", &status.daemon.release)?;
    line(&mut out, "pid", status.daemon.pid)?;
    line(&mut out, "up", duration(status.daemon.uptime_ms))?;
    line(&mut out, "segments ready", status.segments.state.ready)?;
    line(&mut out, "snowflake ready", status.snowflake.state.ready)?;
    some(&mut out, "worker", status.snowflake.state.worker)?;
    if status.host.host.is_empty() {
        // The rest is for administrators.
        return Ok(());
    }
    let Snapshot { host, segments, snowflake, counters, .. } = &status;
    line(&mut out, "host", &host.host)?;
    line(&mut out, "socket", &host.socket)?;
    line(&mut out, "state_dir", &host.state_dir)?;
    some(&mut out, "journal_set_aside", host.journal_set_aside.as_ref())?;
    line(&mut out, "claims", segments.counters.claims)?;
    line(&mut out, "tags_in_use", segments.counters.tags_in_use)?;
    line(&mut out, "registry", &snowflake.registry)?;
    if let Some(held) = &snowflake.lease {
        lease(&mut out, &held.numbers)?;
    }
    line(&mut out, "connections", counters.connections)?;
    line(&mut out, "requests", counters.requests)?;
    line(&mut out, "requests_refused", counters.requests_refused)?;
    line(&mut out, "journal_commits", counters.journal_commits)?;
    segments.stores.iter().try_for_each(|one| store(&mut out, one))?;
    tags(&mut out, &segments.tags)?;
    layouts(&mut out, &snowflake.layouts)
}

/// A store: its name, whether claims can be made from it, and anything unusual. What is wrong stands above.
fn store(out: &mut impl Write, store: &Store) -> Result<(), Failure> {
    let (numbers, url) = (&store.numbers, &store.url);
    let name = match numbers.name.as_str() {
        "" => url.clone(),
        name => format!("{name} ({url})"),
    };
    let ready = if numbers.ready { "ready" } else { "NOT READY" };
    writeln!(out, "\nSTORE {name}: {ready}")?;
    if numbers.settling_ms > 0 {
        let more = duration(numbers.settling_ms);
        writeln!(out, "  {:<20} {more} more, after a fail-over", "claims wait")?;
    }
    if store.journal_stale {
        let words = "an old copy: the ids left in it are skipped";
        writeln!(out, "  {:<20} {words}", "journal")?;
    }
    let shown = [
        ("role", Some(&store.role).filter(|role| !role.is_empty()).cloned()),
        ("fail-overs", Some(numbers.failovers.to_string())),
        ("store_id", store.store_id.clone()),
        ("history", store.history.clone()),
    ];
    for (title, text) in shown {
        if let Some(text) = text {
            writeln!(out, "  {title:<20} {text}")?;
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
pub fn lease(out: &mut impl Write, lease: &LeaseNumbers) -> Result<(), Failure> {
    line(out, "worker mode", &lease.mode)?;
    some(out, "lease left", lease.left_ms.map(duration))?;
    some(out, "renewed ago", lease.renewed_ms_ago.map(duration))?;
    if let Some(ms) = lease.clock_offset_ms {
        let side = if ms < 0 { "behind" } else { "ahead of" };
        let seconds = ms.unsigned_abs() as f64 / 1_000.0;
        line(out, "clock", format!("{seconds:.3} s {side} the registry's"))?;
    }
    some(out, "clock_error", lease.clock_error.as_ref())?;
    if lease.clock_held_back_ms > 0 {
        let by = duration(lease.clock_held_back_ms);
        line(out, "clock held back", format!("by {by}, until the registry confirms the step"))?;
    }
    Ok(())
}

/// Writes a line.
pub fn line(out: &mut impl Write, name: &str, value: impl Display) -> Result<(), Failure> {
    Ok(writeln!(out, "{name:<22} {value}")?)
}

/// Writes a line if there is a value.
pub fn some(out: &mut impl Write, name: &str, value: Option<impl Display>) -> Result<(), Failure> {
    value.map_or(Ok(()), |value| line(out, name, value))
}

/// The busiest tags: how long the held ids last, and how much of each tag is used up.
fn tags(out: &mut impl Write, tags: &[Tag]) -> Result<(), Failure> {
    if tags.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "\n{:<32} {:>12} {:>16} {:>14} {:>18} {:>8}  USED",
        "TAG", "IDS/S", "ISSUED", "HELD", "LASTS", "WAITING"
    )?;
    for TagNumbers {
        tag,
        ids_per_second,
        issued,
        held,
        lasts_ms,
        waiting,
        ceiling_used_percent,
        ..
    } in tags.iter().map(|tag| &tag.numbers)
    {
        let lasts = match lasts_ms {
            Some(ms) => duration(*ms),
            None if *held > 0 => "not drawn".to_owned(),
            None => String::new(),
        };
        let used = used(*ceiling_used_percent);
        writeln!(
            out,
            "{tag:<32} {ids_per_second:>12} {issued:>16} {held:>14} {lasts:>18} {waiting:>8}  {used}"
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

fn layouts(out: &mut impl Write, layouts: &[Layout]) -> Result<(), Failure> {
    if layouts.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "\n{:<32} {:>16} {:>18} {:>18}",
        "LAYOUT", "ISSUED", "AHEAD OF CLOCK", "TIME LEFT"
    )?;
    for Layout { name, issued, clock_ahead_ms, time_left_ms, .. } in layouts {
        let ahead = clock_ahead_ms.filter(|ms| *ms > 0).map(duration).unwrap_or_default();
        let left = duration(*time_left_ms);
        writeln!(out, "{name:<32} {issued:>16} {ahead:>18} {left:>18}")?;
    }
    Ok(())
}
