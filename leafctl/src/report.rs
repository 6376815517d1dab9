//! The first part of `leafctl status`: whether all is well. Then what isn't, since when, what it means for ids, and
//! what to do.

use std::io::{self, Write};

use jiff::{Timestamp, Zoned, tz::TimeZone};
use leafd_checkup::snapshot::{Condition, Health};

/// Prints the summary line, then each condition.
pub fn write(out: &mut impl Write, health: &Health) -> io::Result<()> {
    writeln!(out, "{}", health.line)?;
    let now = Zoned::now();
    for condition in &health.conditions {
        write_condition(out, condition, &now)?;
    }
    if let Some(further) = further(health) {
        writeln!(out, "\n{further}")?;
    }
    writeln!(out)
}

/// How many conditions are not listed, in words; `None` if all are.
pub fn further(health: &Health) -> Option<String> {
    let left_out = health.conditions_left_out;
    (left_out > 0).then(|| format!("and {left_out} more, none of them worse"))
}

fn write_condition(out: &mut impl Write, condition: &Condition, now: &Zoned) -> io::Result<()> {
    let public = &condition.public;
    let subject = if public.subject.is_empty() { "this host" } else { &public.subject };
    let since =
        instant(now, public.since_ms_ago).map_or(String::new(), |at| format!(", since {at}"));
    writeln!(
        out,
        "\n{} {} ({subject}), for {}{since}",
        public.severity.to_ascii_uppercase(),
        public.code.replace('_', " "),
        duration(public.since_ms_ago)
    )?;
    line(out, "what", &public.message)?;
    line(out, "for ids", &condition.meaning)?;
    if let Some(ms) = condition.last_success_ms_ago {
        line(out, "last good", &format!("{} ago", duration(ms)))?;
    }
    line(out, "to do", &condition.remedy)
}

fn line(out: &mut impl Write, name: &str, text: &str) -> io::Result<()> {
    if text.is_empty() { Ok(()) } else { writeln!(out, "  {name:<20} {text}") }
}

/// An instant in the past, in local time; only the time of day if it was today.
fn instant(now: &Zoned, ms_ago: u64) -> Option<String> {
    let then = now.timestamp().as_millisecond().checked_sub(i64::try_from(ms_ago).ok()?)?;
    let zone = TimeZone::try_system().unwrap_or(TimeZone::UTC);
    let then = Timestamp::from_millisecond(then).ok()?.to_zoned(zone);
    let form = if then.date() == now.date() { "%H:%M:%S" } else { "%Y-%m-%d %H:%M:%S" };
    Some(then.strftime(form).to_string())
}

/// An instant's time of day, in local time.
pub fn clock_time(unix_ms: u64) -> Option<String> {
    let at = Timestamp::from_millisecond(i64::try_from(unix_ms).ok()?).ok()?;
    let zone = TimeZone::try_system().unwrap_or(TimeZone::UTC);
    Some(at.to_zoned(zone).strftime("%H:%M:%S").to_string())
}

/// A length of time, in the daemon's own words.
pub fn duration(ms: u64) -> String {
    let seconds = ms / 1_000;
    match (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60, seconds % 60) {
        (0, 0, 0, 0) if ms > 0 => "less than a second".to_owned(),
        (0, 0, 0, s) => format!("{s} s"),
        (0, 0, m, s) if m < 5 && s > 0 => format!("{m} min {s} s"),
        (0, 0, m, _) => format!("{m} min"),
        (0, h, 0, _) => format!("{h} h"),
        (0, h, m, _) => format!("{h} h {m} min"),
        (d, 0, _, _) => format!("{d} d"),
        (d, h, _, _) => format!("{d} d {h} h"),
    }
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
                subject: "postgres://db/ids".to_owned(),
                kind: "segments".to_owned(),
                severity: "error".to_owned(),
                since_ms_ago: 61_000,
                message: "permission denied".to_owned(),
            },
            last_success_ms_ago: Some(3_700_000),
            remaining_ms: Some(0),
            meaning: "no ids available".to_owned(),
            remedy: "grant it".to_owned(),
        };
        let now: Zoned = "2026-03-04T12:00:00[UTC]".parse().unwrap();
        let mut out = Vec::new();
        write_condition(&mut out, &condition, &now).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(
            text.contains("ERROR claims failing (postgres://db/ids), for 1 min 1 s, since "),
            "{text}"
        );
        for expected in ["permission denied", "no ids available", "1 h 1 min ago", "grant it"] {
            assert!(text.contains(expected), "{expected}: {text}");
        }
    }
}
