//! A status as lines of a terminal: first what is wrong, then stores, worker, users, tags and events.

use super::line::{Line, Look};
use super::screen::Size;
use crate::report::{self, duration};
use leafd_checkup::NEAR_PERCENT;
use leafd_checkup::snapshot::{Event, Segment, Snapshot, Snowflake, Store, Tag, TagNumbers, User};

/// The content of the screen.
#[derive(Default)]
pub(super) struct View {
    pub status: Option<Snapshot>,
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
    fn tags(&self) -> &[Tag] {
        self.status.as_ref().map_or(&[], |status| &status.segments.tags)
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
        if status.host.host.is_empty() {
            let words = "tags, stores, users and events are shown to administrators (admin_uids, admin_gids)";
            lines.push(Line::of(Look::Faint, words, columns));
        } else {
            self.body(&mut lines, status, columns, room);
        }
        lines.truncate(room);
        lines.push(Line::of(Look::Faint, &self.foot(status), columns));
        lines
    }

    fn body(&self, lines: &mut Vec<Line>, status: &Snapshot, columns: u16, room: usize) {
        lines.extend(status.segments.stores.iter().map(|store| store_line(store, columns)));
        worker(lines, &status.snowflake, columns);
        users(lines, &status.host.users, columns);
        let events = &status.host.events;
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
        lines.extend(
            tags.iter().skip(first).take(of_tags).map(|tag| tag_line(&tag.numbers, columns)),
        );
        if of_events > 0 {
            let shown = tags.len().saturating_sub(first).min(of_tags);
            lines.extend((shown..of_tags).map(|_| Line::default()));
            lines.push(Line::of(Look::Strong, "RECENT EVENTS, newest first", columns));
            lines.extend(events.iter().take(of_events).map(|event| event_line(event, columns)));
        }
    }

    fn foot(&self, status: &Snapshot) -> String {
        let (shown, in_use) = (self.tags().len(), status.segments.counters.tags_in_use);
        let of = match in_use > shown as u64 {
            true => format!("   the {shown} busiest of {} tags", number(in_use as f64)),
            false => String::new(),
        };
        format!(
            "q quits   arrow keys: more tags{of}   LASTS: what is held, at the present rate, without the store"
        )
    }
}

fn head(lines: &mut Vec<Line>, status: &Snapshot, columns: u16) {
    let look = match status.health.state.as_str() {
        "ok" => Look::Good,
        "warning" => Look::Warning,
        _ => Look::Bad,
    };
    lines.push(Line::of(look, &status.health.line, columns));
    let up = duration(status.daemon.uptime_ms);
    let mut words = format!("leafd {}, up {up}", status.daemon.release);
    if !status.host.host.is_empty() {
        words.push_str(&format!(
            ", connections: {}, requests refused: {}",
            number(status.counters.connections as f64),
            number(status.counters.requests_refused as f64)
        ));
    }
    lines.push(Line::of(Look::Faint, &words, columns));
    for condition in &status.health.conditions {
        let public = &condition.public;
        let words = format!(
            "{}, for {}: {}",
            public.code.replace('_', " "),
            duration(public.since_ms_ago),
            public.message
        );
        let look = if public.severity == "error" { Look::Bad } else { Look::Warning };
        lines.push(Line::of(look, &words, columns));
        if !condition.remedy.is_empty() {
            let words = format!("to do: {}", condition.remedy);
            lines.push(Line::default().part(2, columns.saturating_sub(2), Look::Plain, &words));
        }
    }
    if let Some(further) = report::further(&status.health) {
        lines.push(Line::of(Look::Plain, &further, columns));
    }
}

fn store_line(store: &Store, columns: u16) -> Line {
    let numbers = &store.numbers;
    let name = if numbers.name.is_empty() { &store.url } else { &numbers.name };
    let ago = |ms: Option<u64>| ms.map_or("never".to_owned(), |ms| format!("{} ago", duration(ms)));
    let mut words = format!(
        "{name}: {}, answered {}, last claim {}, fail-overs {}",
        if numbers.ready { "ready" } else { "NOT READY" },
        ago(numbers.answered_ms_ago),
        ago(numbers.claimed_ms_ago),
        numbers.failovers,
    );
    if numbers.settling_ms > 0 {
        let more = duration(numbers.settling_ms);
        words.push_str(&format!(", claims wait {more} more after a fail-over"));
    }
    let line = Line::default().part(0, 7, Look::Strong, "STORE");
    let look = if numbers.ready { Look::Plain } else { Look::Bad };
    line.part(7, columns.saturating_sub(7), look, &words)
}

fn worker(lines: &mut Vec<Line>, snowflake: &Snowflake, columns: u16) {
    let ready = snowflake.state.ready;
    let mut words = match (snowflake.state.worker, ready) {
        (None, true) => "none yet: leased when the first snowflake id is requested".to_owned(),
        (None, false) => "none".to_owned(),
        (Some(worker), _) => worker.to_string(),
    };
    let lease = snowflake.lease.as_ref().map(|lease| &lease.numbers);
    if let Some(ms) = lease.and_then(|lease| lease.left_ms) {
        words.push_str(&format!(", {} of its lease left without the registry", duration(ms)));
    }
    if let Some(ms) = lease.and_then(|lease| lease.clock_offset_ms) {
        let side = if ms < 0 { "behind" } else { "ahead of" };
        let seconds = ms.unsigned_abs() as f64 / 1_000.0;
        words.push_str(&format!(", clock {seconds:.3} s {side} the registry's"));
    }
    for layout in &snowflake.layouts {
        words.push_str(&format!("; {} {} ids", number(layout.issued as f64), layout.name));
        if let Some(ms) = layout.clock_ahead_ms.filter(|ms| *ms > 0) {
            words.push_str(&format!(", {} ahead of the clock", duration(ms)));
        }
    }
    let line = Line::default().part(0, 7, Look::Strong, "WORKER");
    let look = if ready { Look::Plain } else { Look::Warning };
    lines.push(line.part(7, columns.saturating_sub(7), look, &words));
}

fn users(lines: &mut Vec<Line>, users: &[User], columns: u16) {
    let show = |user: &User| {
        let uid = user.uid.map_or("others".to_owned(), |uid| format!("uid {uid}"));
        let (rate, issued) = (number(user.ids_per_second), number(user.issued as f64));
        format!("{uid}: {rate} ids/s ({issued} in all)")
    };
    let words: Vec<String> = users.iter().map(show).collect();
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

fn tag_line(tag: &TagNumbers, columns: u16) -> Line {
    let (name, bar, wide) = places(columns);
    let line = Line::default().part(0, name, Look::Plain, &tag.tag);
    let line = line.part(bar, wide, Look::Good, &bar_of(&tag.segments, wide));
    let lasts = match tag.lasts_ms {
        _ if tag.strict => "strict".to_owned(),
        Some(ms) => duration(ms).replace("less than a second", "< 1 s"),
        None => "not drawn".to_owned(),
    };
    let used = tag.ceiling_used_percent;
    let ceiling = used.map_or("none".to_owned(), |percent| format!("{percent} %"));
    let near = if used >= Some(NEAR_PERCENT) { Look::Bad } else { Look::Plain };
    let (rate, held) = (number(tag.ids_per_second), number(tag.held as f64));
    let waits = if tag.waiting > 0 { Look::Bad } else { Look::Plain };
    figures(
        line,
        columns,
        [(&*rate, Look::Plain), (&*held, Look::Plain), (&*lasts, waits), (&*ceiling, near)],
    )
}

/// What is left of each segment. The bar empties from the left.
fn bar_of(segments: &[Segment], wide: u16) -> String {
    let all: u64 = segments.iter().map(|segment| segment.claimed).sum();
    let room = u64::from(wide).saturating_sub(segments.len() as u64);
    if all == 0 || room == 0 {
        return String::new();
    }
    let (full, empty) = if is_unicode() { ('█', '░') } else { ('#', '.') };
    let boxes = segments.iter().map(|Segment { left, claimed }| {
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

fn event_line(event: &Event, columns: u16) -> Line {
    let look = match event.level.as_str() {
        "error" => Look::Bad,
        "warn" => Look::Warning,
        _ => Look::Plain,
    };
    let at = report::clock_time(event.unix_ms).unwrap_or_default();
    let times = match event.times {
        0 | 1 => String::new(),
        times => format!(" (told {times} times)"),
    };
    let line = Line::default().part(0, 9, Look::Faint, &at);
    line.part(9, columns.saturating_sub(9), look, &format!("{}{times}", event.text))
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
        let segments = [Segment { left: 25, claimed: 100 }, Segment { left: 100, claimed: 100 }];
        let bar = bar_of(&segments, 10);
        let cells: Vec<char> = bar.chars().collect();
        assert_eq!(cells.len(), 9);
        assert!(
            cells[0] == cells[2] && cells[3] != cells[0] && cells[4] == ' ' && cells[5] == cells[3],
            "{bar}"
        );
        assert_eq!(bar_of(&[], 10), "");
        assert_eq!(bar_of(&segments[..1], 0), "");
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
        let status = json!({
            "host": "a", "segments": {"tags": [tag], "stores": [{}]}, "events": [{"text": "ready"}],
        });
        view.status = Some(serde_json::from_value(status).unwrap());
        view.scroll_down(7);
        assert_eq!(view.scrolled, 0);
        for (columns, lines) in [(1, 1), (10, 3), (80, 24), (300, 100)] {
            let shown = view.lines(Size { columns, lines });
            assert!(shown.len() <= usize::from(lines), "{columns} {lines}: {shown:?}");
        }
    }
}
