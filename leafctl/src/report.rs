//! The first part of `leafctl status`: whether all is well. Then what isn't, since when, what it means for ids, and
//! what to do.

use std::io::{self, Write};

use jiff::{Timestamp, Zoned, tz::TimeZone};
use leafd_checkup::NEAR_PERCENT;
use serde_json::Value;

/// Prints the summary line, then each condition.
pub fn write(out: &mut impl Write, status: &Value) -> io::Result<()> {
    writeln!(out, "{}", first_line(status))?;
    let now = Zoned::now();
    for condition in conditions(status) {
        write_condition(out, condition, &now)?;
    }
    if let Some(further) = further(status) {
        writeln!(out, "\n{further}")?;
    }
    writeln!(out)
}

/// The line that says whether all is well.
pub fn first_line(status: &Value) -> String {
    let kinds = [("segments", "segment"), ("snowflake", "snowflake")];
    let meant = |kind: &str| kind != "snowflake" || status["snowflake"]["registry"] != "none";
    let names = |ready: bool| {
        let of =
            |(kind, _): &&(&str, &str)| (status[*kind]["ready"] == true) == ready && meant(kind);
        let names: Vec<&str> = kinds.iter().filter(of).map(|(_, name)| *name).collect();
        names.join(" and ")
    };
    let (ready, missing) = (names(true), names(false));
    // A tag's end that is near is no trouble yet.
    let trouble = conditions(status).iter().any(|one| one["code"] != "tag_near_ceiling");
    if !trouble && missing.is_empty() {
        return match near_their_ceiling(status).as_slice() {
            [] => format!("all is well: {ready} ids can be had"),
            [tag] => format!("WARNING: tag {tag} is near its ceiling; {ready} ids can be had"),
            [tag, others @ ..] => format!(
                "WARNING: tag {tag} and {} more are near their ceilings; {ready} ids can be had",
                others.len()
            ),
        };
    }
    let can = if ready.is_empty() { String::new() } else { format!("; {ready} ids can be had") };
    if !missing.is_empty() {
        return format!("TROUBLE: {missing} ids can't be had now{can}");
    }
    let ends = conditions(status).iter().filter_map(|one| one["remaining_ms"].as_u64());
    match ends.filter(|ms| *ms > 0).min() {
        Some(ms) => format!(
            "TROUBLE: {ready} ids can be had; if nothing changes some run out in {}",
            duration(ms)
        ),
        None => format!("TROUBLE{can}"),
    }
}

/// Tags that are used up or soon will be.
fn near_their_ceiling(status: &Value) -> Vec<&Value> {
    let tags = status["segments"]["tags"].as_array().map_or(&[][..], Vec::as_slice).iter();
    let near = tags.filter(|tag| tag["ceiling_used_percent"].as_u64() >= Some(NEAR_PERCENT));
    near.map(|tag| &tag["tag"]).collect()
}

/// Why ids of a kind are not available, in one sentence.
pub fn reason(status: &Value, kind: &str) -> Option<String> {
    let of_kind = conditions(status).iter().find(|one| one["kind"] == kind || one["kind"] == "all");
    of_kind.and_then(|one| one["message"].as_str()).map(str::to_owned)
}

/// How many conditions are not told one by one, in words; `None` if all are.
pub fn further(status: &Value) -> Option<String> {
    let left_out = status["health"]["conditions_left_out"].as_u64().filter(|count| *count > 0)?;
    Some(format!("and {left_out} more, none of them worse"))
}

fn conditions(status: &Value) -> &[Value] {
    status["health"]["conditions"].as_array().map_or(&[], Vec::as_slice)
}

fn write_condition(out: &mut impl Write, condition: &Value, now: &Zoned) -> io::Result<()> {
    let text = |member: &str| condition[member].as_str().unwrap_or_default();
    let ago = |member: &str| {
        let ms = condition[member].as_u64()?;
        let at = instant(now, ms).map(|at| format!(", since {at}")).unwrap_or_default();
        Some((duration(ms), at))
    };
    let subject = text("subject");
    let subject = if subject.is_empty() { "this host" } else { subject };
    let weight = if condition["severity"] == "error" { "ERROR" } else { "WARNING" };
    let since = ago("since_ms_ago").map(|(ms, at)| format!(", for {ms}{at}")).unwrap_or_default();
    writeln!(out, "\n{weight} {} ({subject}){since}", text("code").replace('_', " "))?;
    line(out, "what", text("message"))?;
    line(out, "for ids", text("meaning"))?;
    if let Some((ms, _)) = ago("last_success_ms_ago") {
        line(out, "last good", &format!("{ms} ago"))?;
    }
    line(out, "to do", text("remedy"))
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
    use serde_json::json;

    fn status(segments: bool, snowflake: bool, conditions: &Value) -> Value {
        json!({
            "segments": { "ready": segments },
            "snowflake": { "ready": snowflake, "registry": "store" },
            "health": { "conditions": conditions },
        })
    }

    #[test]
    fn the_first_line_says_whether_all_is_well() {
        let line =
            |segments, snowflake, conditions| first_line(&status(segments, snowflake, &conditions));
        assert_eq!(
            line(true, true, json!([])),
            "all is well: segment and snowflake ids can be had"
        );
        assert_eq!(
            line(true, true, json!([{ "remaining_ms": null }, { "remaining_ms": 125_000 }])),
            "TROUBLE: segment and snowflake ids can be had; if nothing changes some run out in 2 min 5 s"
        );
        assert_eq!(
            line(false, true, json!([{}])),
            "TROUBLE: segment ids can't be had now; snowflake ids can be had"
        );
        assert_eq!(
            line(false, false, json!([{}])),
            "TROUBLE: segment and snowflake ids can't be had now"
        );
        let mut without = status(true, false, &json!([]));
        without["snowflake"]["registry"] = json!("none");
        assert_eq!(first_line(&without), "all is well: segment ids can be had");
        let mut full = status(true, true, &json!([]));
        full["segments"]["tags"] = json!([
            { "tag": "orders", "ceiling_used_percent": 79 },
            { "tag": "a\nb", "ceiling_used_percent": 100 },
        ]);
        assert_eq!(
            first_line(&full),
            r#"WARNING: tag "a\nb" is near its ceiling; segment and snowflake ids can be had"#
        );
        full["segments"]["tags"][0]["ceiling_used_percent"] = json!(80);
        assert!(first_line(&full).contains("\"orders\" and 1 more are near"));
        full["health"]["conditions"] = json!([{ "code": "tag_near_ceiling", "subject": "orders" }]);
        assert!(first_line(&full).starts_with("WARNING: tag \"orders\""));
    }

    #[test]
    fn a_condition_is_told_with_its_beginning_its_meaning_and_its_remedy() {
        let condition = json!({
            "code": "claims_failing", "subject": "postgres://db/ids", "kind": "segments", "severity": "error",
            "since_ms_ago": 61_000, "last_success_ms_ago": 3_700_000, "remaining_ms": 0,
            "message": "permission denied", "meaning": "no id can be had", "remedy": "grant it",
        });
        let now: Zoned = "2026-03-04T12:00:00[UTC]".parse().unwrap();
        let mut out = Vec::new();
        write_condition(&mut out, &condition, &now).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(
            text.contains("ERROR claims failing (postgres://db/ids), for 1 min 1 s, since "),
            "{text}"
        );
        for expected in ["permission denied", "no id can be had", "1 h 1 min ago", "grant it"] {
            assert!(text.contains(expected), "{expected}: {text}");
        }
        let of = |kind| reason(&status(false, false, &json!([condition.clone()])), kind);
        assert_eq!(of("segments").as_deref(), Some("permission denied"));
        assert_eq!(of("snowflake"), None);
    }
}
