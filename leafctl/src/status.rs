//! `leafctl status`: what the daemon reports about itself. `leafctl top` shows the same, live.

use std::fmt::Display;
use std::io::{self, Write};
use std::path::Path;

use jiff::{Timestamp, Zoned, tz::TimeZone};
use leafd_checkup::snapshot::{
    Condition, Event, Health, Layout, LeaseNumbers, Snapshot, Store, TagInUse, TagNumbers, User,
};
use leafd_checkup::{NEAR_PERCENT, duration, parse};
use leafd_client::Client;
use leafd_wire::text::clean;

use crate::failure::{CommandError, NOT_READY};

/// Arguments of `leafctl status`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The first line says which ids are available. Each problem follows, with its start time, its effect
on ids, and a remedy. Administrators see tags, rates and counters; others see only whether the
daemon can issue ids. protocol.md describes the JSON.

Exit status: 0 ids are available, 3 the daemon doesn't answer, 4 ids that clients are requesting are
unavailable.")]
pub struct StatusArgs {
    /// Print the daemon's JSON unchanged
    #[arg(long)]
    json: bool,
}

/// How many recent events are shown.
const EVENTS_MAX: usize = 10;

/// Queries the daemon and prints its state.
pub fn run(socket: &Path, args: &StatusArgs) -> Result<(), CommandError> {
    let client = Client::builder().socket(socket).build()?;
    let answer = client.status_json()?;
    let mut out = io::stdout().lock();
    let status: Snapshot = parse(&answer)?;
    if args.json {
        writeln!(out, "{}", clean(&answer))?;
    } else {
        health(&mut out, &status.health)?;
        details(&mut out, &status)?;
        body(&mut out, &status)?;
    }
    out.flush()?;
    if status.health.state == "error" { Err(CommandError::Reported(NOT_READY)) } else { Ok(()) }
}

/// The summary line, then each problem.
pub fn health(out: &mut impl Write, health: &Health<Condition>) -> io::Result<()> {
    writeln!(out, "{}", health.line)?;
    let now = Zoned::now();
    health.conditions.iter().try_for_each(|one| condition(out, one, &now))?;
    match health.conditions_left_out {
        0 => Ok(()),
        left_out => writeln!(out, "\nand {left_out} more, none of them worse"),
    }
}

fn condition(out: &mut impl Write, condition: &Condition, now: &Zoned) -> io::Result<()> {
    let public = &condition.public;
    let subject = if public.subject.is_empty() { "this host" } else { &public.subject };
    let since = local(now.timestamp().as_millisecond() - public.since_ms_ago as i64, now);
    writeln!(
        out,
        "\n{} {} ({subject}), for {}{}",
        public.severity.to_ascii_uppercase(),
        public.code.replace('_', " "),
        duration(public.since_ms_ago),
        since.map_or(String::new(), |at| format!(", since {at}"))
    )?;
    let last_good = condition.last_success_ms_ago.map(|ms| format!("{} ago", duration(ms)));
    let page = format!("docs/operate/troubles.md#{}", public.code);
    let parts = [
        ("cause", condition.message.as_str()),
        ("effect", &condition.meaning),
        ("last success", last_good.as_deref().unwrap_or_default()),
        ("remedy", &condition.remedy),
        ("see", &page),
    ];
    let mut parts = parts.iter().filter(|(_, text)| !text.is_empty());
    parts.try_for_each(|(name, text)| writeln!(out, "  {name:<20} {text}"))
}

/// An instant in local time; only the time of day if it is today.
fn local(unix_ms: i64, now: &Zoned) -> Option<String> {
    let zone = TimeZone::try_system().unwrap_or(TimeZone::UTC);
    let at = Timestamp::from_millisecond(unix_ms).ok()?.to_zoned(zone);
    let form = if at.date() == now.date() { "%H:%M:%S" } else { "%Y-%m-%d %H:%M:%S" };
    Some(at.strftime(form).to_string())
}

fn details(out: &mut impl Write, status: &Snapshot) -> io::Result<()> {
    let Snapshot { daemon, host, segments, snowflake, counters, .. } = status;
    writeln!(out)?;
    line(out, "release", &daemon.release)?;
    line(out, "pid", daemon.pid)?;
    line(out, "up", duration(daemon.uptime_ms))?;
    line(out, "segments ready", segments.state.ready)?;
    line(out, "snowflake ready", snowflake.state.ready)?;
    some(out, "worker", snowflake.state.worker)?;
    let is_idle = snowflake.state.worker.is_none() && snowflake.worker_error.is_none();
    if snowflake.lease.is_some() && is_idle {
        line(out, "worker", "none; the next request for a snowflake id leases one")?;
    }
    if host.host.is_empty() {
        // The rest is for administrators.
        return Ok(());
    }
    line(out, "host", &host.host)?;
    line(out, "socket", &host.socket)?;
    line(out, "state_dir", &host.state_dir)?;
    some(out, "journal_set_aside", host.journal_set_aside.as_ref())?;
    line(out, "claims", segments.counters.claims)?;
    line(out, "tags_in_use", segments.counters.tags_in_use)?;
    line(out, "registry", &snowflake.registry)?;
    if let Some(held) = &snowflake.lease {
        lease(out, &held.numbers)?;
    }
    line(out, "connections", counters.connections)?;
    line(out, "requests", counters.requests)?;
    line(out, "requests_refused", counters.requests_refused)?;
    line(out, "journal_commits", counters.journal_commits)
}

/// Stores, tags, layouts, users and recent events. Only administrators see them.
pub fn body(out: &mut impl Write, status: &Snapshot) -> io::Result<()> {
    status.segments.stores.iter().try_for_each(|one| store(out, one))?;
    tags(out, &status.segments.tags)?;
    layouts(out, &status.snowflake.layouts)?;
    users(out, &status.host.users)?;
    events(out, &status.host.events)
}

/// A store: its name, whether claims can be made from it, and anything unusual. Its problems are printed above.
fn store(out: &mut impl Write, store: &Store) -> io::Result<()> {
    let (numbers, url) = (&store.numbers, &store.url);
    let name = match numbers.name.as_str() {
        "" => url.clone(),
        name => format!("{name} ({url})"),
    };
    let ready = if numbers.ready { "ready" } else { "NOT READY" };
    writeln!(out, "\nSTORE {name}: {ready}")?;
    if numbers.settling_ms > 0 {
        let more = duration(numbers.settling_ms);
        writeln!(out, "  {:<20} {more} more, after a fail-over", "claims pause")?;
    }
    if store.journal_stale {
        let words = "an old copy; its held ids are skipped";
        writeln!(out, "  {:<20} {words}", "journal")?;
    }
    let shown = [
        ("server", store.server.clone()),
        ("role", Some(&store.role).filter(|role| !role.is_empty()).cloned()),
        ("fail-overs", Some(numbers.failovers.to_string())),
        ("store_id", store.store_id.clone()),
        ("history", store.history.clone().filter(|history| !history.is_empty())),
    ];
    for (title, text) in shown {
        if let Some(text) = text {
            writeln!(out, "  {title:<20} {text}")?;
        }
    }
    Ok(())
}

/// The worker's lease, and the clock that ids are generated from.
pub fn lease(out: &mut impl Write, lease: &LeaseNumbers) -> io::Result<()> {
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
pub fn line(out: &mut impl Write, name: &str, value: impl Display) -> io::Result<()> {
    writeln!(out, "{name:<22} {value}")
}

/// Writes a line if there is a value.
pub fn some(out: &mut impl Write, name: &str, value: Option<impl Display>) -> io::Result<()> {
    value.map_or(Ok(()), |value| line(out, name, value))
}

/// The busiest tags: how long the held ids last, and how much of each tag is used.
fn tags(out: &mut impl Write, tags: &[TagInUse]) -> io::Result<()> {
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
            None if *held > 0 => "idle".to_owned(),
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
        Some(100..) => "100 % EXHAUSTED".to_owned(),
        Some(percent @ NEAR_PERCENT..) => format!("{percent} % NEAR CEILING"),
        Some(percent) => format!("{percent} %"),
    }
}

fn layouts(out: &mut impl Write, layouts: &[Layout]) -> io::Result<()> {
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

fn users(out: &mut impl Write, users: &[User]) -> io::Result<()> {
    if users.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{:<32} {:>12} {:>16} {:>14}", "USER", "IDS/S", "ISSUED", "CONNECTIONS")?;
    users.iter().try_for_each(|User { uid, connections, issued, ids_per_second }| {
        let uid = uid.map_or("others".to_owned(), |uid| format!("uid {uid}"));
        writeln!(out, "{uid:<32} {ids_per_second:>12} {issued:>16} {connections:>14}")
    })
}

fn events(out: &mut impl Write, events: &[Event]) -> io::Result<()> {
    if events.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nRECENT EVENTS, newest first")?;
    let now = Zoned::now();
    events.iter().take(EVENTS_MAX).try_for_each(|Event { unix_ms, level, text, times }| {
        let at = local(*unix_ms as i64, &now).unwrap_or_default();
        let times = if *times > 1 { format!(" ({times} times)") } else { String::new() };
        writeln!(out, "{at} {level:<5} {text}{times}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use leafd_checkup::snapshot::PublicCondition;

    #[test]
    fn a_condition_is_printed_with_its_beginning_its_meaning_and_its_remedy() {
        let condition = Condition {
            public: PublicCondition {
                code: "claims_failing".to_owned(),
                subject: "default".to_owned(),
                kind: "segments".to_owned(),
                severity: "error".to_owned(),
                since_ms_ago: 61_000,
            },
            message: "permission denied".to_owned(),
            last_success_ms_ago: Some(3_700_000),
            remaining_ms: Some(0),
            meaning: "no ids available".to_owned(),
            remedy: "grant it".to_owned(),
        };
        let now: Zoned = "2026-03-04T12:00:00[UTC]".parse().unwrap();
        let mut out = Vec::new();
        super::condition(&mut out, &condition, &now).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains("ERROR claims failing (default), for 1 min 1 s, since "), "{text}");
        for expected in [
            "permission denied",
            "no ids available",
            "1 h 1 min ago",
            "grant it",
            "troubles.md#claims_failing",
        ] {
            assert!(text.contains(expected), "{expected}: {text}");
        }
    }
}
