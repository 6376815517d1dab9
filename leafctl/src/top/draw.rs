//! A status as lines of a terminal: first what is wrong, then stores, worker, users, tags and events.

use serde_json::Value;

use super::line::{Line, Look};
use super::screen::Size;
use crate::report::{self, duration};
use crate::status::text;
use leafd_checkup::NEAR_PERCENT;

/// The content of the screen.
#[derive(Default)]
pub(super) struct View {
    pub status: Option<Value>,
    /// Why the daemon doesn't answer.
    pub away: Option<String>,
    /// How many tags are scrolled out above.
    pub scrolled: usize,
}

/// How many lines the tags get before events get any.
const TAGS_MIN: usize = 4;

/// How many events are shown.
const EVENTS_MAX: usize = 6;

/// The width of the figures after a tag's name and bar, in columns.
const FIGURES: u16 = 44;

impl View {
    fn tags(&self) -> &[Value] {
        list(self.status.as_ref().map_or(&Value::Null, |status| &status["segments"]["tags"]))
    }

    /// Scrolls to later tags.
    pub(super) fn scroll_down(&mut self, by: usize) {
        self.scrolled = (self.scrolled + by).min(self.tags().len().saturating_sub(1));
    }

    /// As many lines as fit.
    pub(super) fn lines(&self, size: Size) -> Vec<Line> {
        let columns = size.columns;
        let room = usize::from(size.lines).saturating_sub(1);
        let mut lines = Vec::new();
        if let Some(why) = &self.away {
            let words = format!("the daemon doesn't answer; what is shown is old: {why}");
            lines.push(Line::of(Look::Bad, &words, columns));
        }
        let Some(status) = &self.status else {
            lines.push(Line::of(Look::Faint, "q quits", columns));
            return lines;
        };
        head(&mut lines, status, columns);
        if status["segments"]["tags"].is_null() {
            let words = "tags, stores, users and events are shown to administrators (admin_uids, admin_gids)";
            lines.push(Line::of(Look::Faint, words, columns));
        } else {
            self.body(&mut lines, status, columns, room);
        }
        lines.truncate(room);
        lines.push(Line::of(Look::Faint, &self.foot(status), columns));
        lines
    }

    fn body(&self, lines: &mut Vec<Line>, status: &Value, columns: u16, room: usize) {
        for store in list(&status["segments"]["stores"]) {
            lines.push(store_line(store, columns));
        }
        worker(lines, &status["snowflake"], columns);
        users(lines, &status["users"], columns);
        let events = list(&status["events"]);
        let left = room.saturating_sub(lines.len() + 2);
        let of_events = match left.saturating_sub(TAGS_MIN) {
            0..=2 => 0,
            left => (left - 1).min(EVENTS_MAX).min(events.len()),
        };
        let of_tags = left.saturating_sub(of_events + usize::from(of_events > 0));
        lines.push(Line::default());
        lines.push(titles(columns));
        let tags = self.tags();
        let first = self.scrolled.min(tags.len().saturating_sub(1));
        lines.extend(tags.iter().skip(first).take(of_tags).map(|tag| tag_line(tag, columns)));
        if of_events > 0 {
            let shown = tags.len().saturating_sub(first).min(of_tags);
            lines.extend((shown..of_tags).map(|_| Line::default()));
            lines.push(Line::of(Look::Strong, "RECENT EVENTS, newest first", columns));
            lines.extend(events.iter().take(of_events).map(|event| event_line(event, columns)));
        }
    }

    fn foot(&self, status: &Value) -> String {
        let (shown, in_use) = (self.tags().len(), status["segments"]["tags_in_use"].as_u64());
        let of = match in_use {
            Some(in_use) if in_use > shown as u64 => {
                format!("   the {shown} busiest of {} tags", number(in_use as f64))
            }
            _ => String::new(),
        };
        format!(
            "q quits   arrow keys: more tags{of}   LASTS: what is held, at the present rate, without the store"
        )
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn head(lines: &mut Vec<Line>, status: &Value, columns: u16) {
    let look = match status["health"]["state"].as_str() {
        Some("ok") => Look::Good,
        Some("warning") => Look::Warning,
        _ => Look::Bad,
    };
    lines.push(Line::of(look, &report::first_line(status), columns));
    let up = status["uptime_ms"].as_u64().map(duration).unwrap_or_default();
    let mut words = format!("leafd {}, up {up}", text(&status["release"]));
    for (title, member) in
        [("connections:", "connections"), ("requests refused:", "requests_refused")]
    {
        if let Some(count) = status[member].as_u64() {
            words.push_str(&format!(", {title} {}", number(count as f64)));
        }
    }
    lines.push(Line::of(Look::Faint, &words, columns));
    for condition in list(&status["health"]["conditions"]) {
        let error = condition["severity"] == "error";
        let since = condition["since_ms_ago"].as_u64().map(duration).unwrap_or_default();
        let words = format!(
            "{}, for {since}: {}",
            text(&condition["code"]).replace('_', " "),
            text(&condition["message"])
        );
        lines.push(Line::of(if error { Look::Bad } else { Look::Warning }, &words, columns));
        let remedy = text(&condition["remedy"]);
        if !remedy.is_empty() {
            lines.push(Line::default().part(
                2,
                columns.saturating_sub(2),
                Look::Plain,
                &format!("to do: {remedy}"),
            ));
        }
    }
    if let Some(further) = report::further(status) {
        lines.push(Line::of(Look::Plain, &further, columns));
    }
}

fn store_line(store: &Value, columns: u16) -> Line {
    let ready = store["ready"] == true;
    let name = if store["name"] == "" { &store["url"] } else { &store["name"] };
    let ago = |member: &str| {
        store[member].as_u64().map_or("never".to_owned(), |ms| format!("{} ago", duration(ms)))
    };
    let mut words = format!(
        "{}: {}, answered {}, last claim {}, fail-overs {}",
        text(name),
        if ready { "ready" } else { "NOT READY" },
        ago("answered_ms_ago"),
        ago("claimed_ms_ago"),
        text(&store["failovers"]),
    );
    if let Some(ms) = store["settling_ms"].as_u64().filter(|ms| *ms > 0) {
        words.push_str(&format!(", claims wait {} more after a fail-over", duration(ms)));
    }
    let line = Line::default().part(0, 7, Look::Strong, "STORE");
    line.part(7, columns.saturating_sub(7), if ready { Look::Plain } else { Look::Bad }, &words)
}

fn worker(lines: &mut Vec<Line>, snowflake: &Value, columns: u16) {
    let lease = &snowflake["lease"];
    let ready = snowflake["ready"] == true;
    let mut words = match (&snowflake["worker"], ready) {
        (Value::Null, true) => {
            "none yet: taken when the first snowflake id is asked for".to_owned()
        }
        (Value::Null, false) => "none".to_owned(),
        (worker, _) => text(worker),
    };
    if let Some(ms) = lease["left_ms"].as_u64() {
        words.push_str(&format!(", {} of its lease left without the registry", duration(ms)));
    }
    if let Some(ms) = lease["clock_offset_ms"].as_i64() {
        let side = if ms < 0 { "behind" } else { "ahead of" };
        words.push_str(&format!(
            ", clock {:.3} s {side} the registry's",
            ms.unsigned_abs() as f64 / 1_000.0
        ));
    }
    for layout in list(&snowflake["layouts"]) {
        let issued = layout["issued"].as_u64().unwrap_or(0);
        words.push_str(&format!("; {} {} ids", number(issued as f64), text(&layout["name"])));
        if let Some(ms) = layout["clock_ahead_ms"].as_u64().filter(|ms| *ms > 0) {
            words.push_str(&format!(", {} ahead of the clock", duration(ms)));
        }
    }
    let line = Line::default().part(0, 7, Look::Strong, "WORKER");
    let look = if ready { Look::Plain } else { Look::Warning };
    lines.push(line.part(7, columns.saturating_sub(7), look, &words));
}

fn users(lines: &mut Vec<Line>, users: &Value, columns: u16) {
    let show = |user: &Value| {
        let uid = user["uid"].as_u64().map_or("others".to_owned(), |uid| format!("uid {uid}"));
        let [rate, issued] =
            ["ids_per_second", "issued"].map(|name| number(user[name].as_f64().unwrap_or(0.0)));
        format!("{uid}: {rate} ids/s ({issued} in all)")
    };
    let words: Vec<String> = list(users).iter().map(show).collect();
    if !words.is_empty() {
        let line = Line::default().part(0, 7, Look::Strong, "USERS");
        lines.push(line.part(7, columns.saturating_sub(7), Look::Plain, &words.join("   ")));
    }
}

/// The layout of a tag's line: the name's width, then the bar's column and width.
fn places(columns: u16) -> (u16, u16, u16) {
    let left = columns.saturating_sub(FIGURES);
    let name = if left < 30 { left } else { left * 2 / 5 };
    (name, name + 1, left.saturating_sub(name + 1))
}

fn figures(line: Line, columns: u16, figures: [(&str, Look); 4]) -> Line {
    let ends = [0, 11, 23, 35].map(|before| columns.saturating_sub(before));
    let line = line.right(ends[3], figures[0].1, figures[0].0);
    let line = line.right(ends[2], figures[1].1, figures[1].0);
    let line = line.right(ends[1], figures[2].1, figures[2].0);
    line.right(ends[0], figures[3].1, figures[3].0)
}

fn titles(columns: u16) -> Line {
    let (name, bar, wide) = places(columns);
    let line = Line::default().part(0, name, Look::Strong, "TAG");
    let line = line.part(bar, wide, Look::Strong, "HELD, segment by segment");
    let strong = |title| (title, Look::Strong);
    figures(line, columns, [strong("IDS/S"), strong("HELD"), strong("LASTS"), strong("CEILING")])
}

fn tag_line(tag: &Value, columns: u16) -> Line {
    let (name, bar, wide) = places(columns);
    let line = Line::default().part(0, name, Look::Plain, &text(&tag["tag"]));
    let line = line.part(bar, wide, Look::Good, &bar_of(&tag["segments"], wide));
    let strict = tag["strict"] == true;
    let lasts = match tag["lasts_ms"].as_u64() {
        _ if strict => "strict".to_owned(),
        Some(ms) => duration(ms).replace("less than a second", "< 1 s"),
        None => "not drawn".to_owned(),
    };
    let waiting = tag["waiting"].as_u64().unwrap_or(0);
    let used = tag["ceiling_used_percent"].as_u64();
    let ceiling = used.map_or("none".to_owned(), |percent| format!("{percent} %"));
    let near = if used >= Some(NEAR_PERCENT) { Look::Bad } else { Look::Plain };
    let rate = number(tag["ids_per_second"].as_f64().unwrap_or(0.0));
    let held = number(tag["held"].as_f64().unwrap_or(0.0));
    let waits = if waiting > 0 { Look::Bad } else { Look::Plain };
    figures(
        line,
        columns,
        [(&*rate, Look::Plain), (&*held, Look::Plain), (&*lasts, waits), (&*ceiling, near)],
    )
}

/// What is left of each segment. The bar empties from the left.
fn bar_of(segments: &Value, wide: u16) -> String {
    let segments: Vec<(u64, u64)> = list(segments)
        .iter()
        .filter_map(|one| Some((one["left"].as_u64()?, one["claimed"].as_u64()?)))
        .collect();
    let all: u64 = segments.iter().map(|(_, claimed)| claimed).sum();
    let room = u64::from(wide).saturating_sub(segments.len() as u64);
    if all == 0 || room == 0 {
        return String::new();
    }
    let (full, empty) = if is_unicode() { ('█', '░') } else { ('#', '.') };
    let boxes = segments.iter().map(|(left, claimed)| {
        let cells = (u128::from(*claimed) * u128::from(room) / u128::from(all)).max(1);
        let filled = (u128::from(*left) * cells).div_ceil(u128::from((*claimed).max(1)));
        let (cells, filled) = (cells as usize, filled as usize);
        let emptied = std::iter::repeat_n(empty, cells.saturating_sub(filled));
        emptied.chain(std::iter::repeat_n(full, filled)).collect::<String>()
    });
    boxes.collect::<Vec<String>>().join(" ")
}

/// Whether the terminal shows Unicode.
fn is_unicode() -> bool {
    let set = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().filter_map(std::env::var_os);
    let set = set.map(|value| value.to_string_lossy().to_ascii_lowercase());
    let first = set.into_iter().find(|value| !value.is_empty()).unwrap_or_default();
    first.contains("utf-8") || first.contains("utf8")
}

fn event_line(event: &Value, columns: u16) -> Line {
    let look = match event["level"].as_str() {
        Some("error") => Look::Bad,
        Some("warn") => Look::Warning,
        _ => Look::Plain,
    };
    let at = event["unix_ms"].as_u64().and_then(report::clock_time).unwrap_or_default();
    let times = event["times"].as_u64().filter(|times| *times > 1);
    let times = times.map(|times| format!(" (told {times} times)")).unwrap_or_default();
    let line = Line::default().part(0, 9, Look::Faint, &at);
    line.part(9, columns.saturating_sub(9), look, &(text(&event["text"]) + &times))
}

/// A number that fits a column: 12,345 or 12.3 M.
fn number(value: f64) -> String {
    for (size, unit) in [(1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M")] {
        if value >= size {
            return format!("{:.1} {unit}", value / size);
        }
    }
    let digits = format!("{value:.0}");
    let groups: Vec<&str> =
        digits.as_bytes().rchunks(3).rev().filter_map(|group| str::from_utf8(group).ok()).collect();
    groups.join(",")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn bars_show_what_is_left_from_the_right() {
        let bar = bar_of(&json!([{"left": 25, "claimed": 100}, {"left": 100, "claimed": 100}]), 10);
        let cells: Vec<char> = bar.chars().collect();
        assert_eq!(cells.len(), 9);
        assert!(
            cells[0] == cells[2] && cells[3] != cells[0] && cells[4] == ' ' && cells[5] == cells[3],
            "{bar}"
        );
        assert_eq!(bar_of(&json!([]), 10), "");
        assert_eq!(bar_of(&json!([{"left": 1, "claimed": 1}]), 0), "");
    }

    #[test]
    fn numbers_fit_into_their_column() {
        let told = [0.4, 999.0, 12_345.0, 1_234_567.0, 9.2e18].map(number);
        assert_eq!(told, ["0", "999", "12,345", "1.2 M", "9200.0 P"]);
    }

    #[test]
    fn no_status_and_no_size_is_too_small() {
        let mut view = View::default();
        for (columns, lines) in [(1, 1), (10, 3), (80, 24), (300, 100)] {
            let shown = view.lines(Size { columns, lines });
            assert!(shown.len() <= usize::from(lines).max(1), "{columns} {lines}");
        }
        let tag = json!({"tag": "orders", "held": 5, "segments": [{"left": 5, "claimed": 9}]});
        view.status = Some(
            json!({"segments": {"tags": [tag], "stores": [{}]}, "events": [{"text": "ready"}]}),
        );
        view.scroll_down(7);
        assert_eq!(view.scrolled, 0);
        for (columns, lines) in [(1, 1), (10, 3), (80, 24), (300, 100)] {
            let shown = view.lines(Size { columns, lines });
            assert!(shown.len() <= usize::from(lines), "{columns} {lines}: {shown:?}");
        }
    }
}
