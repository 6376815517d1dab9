//! Keeps the recent log lines that matter to an operator, for users who can't read the log itself.

use std::collections::VecDeque;
use std::fmt::{Debug, Write as _};
use std::sync::{Mutex, MutexGuard, PoisonError};

use leafd_checkup::snapshot;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::Context;

use crate::clock;

/// How many lines are kept.
const LINES_MAX: usize = 30;

/// How many bytes of a line are kept.
const LINE_BYTES_MAX: usize = 400;

/// Keeps the last lines.
#[derive(Debug)]
pub struct Layer;

#[derive(Debug)]
struct Line {
    unix_ms: u64,
    level: Level,
    text: String,
    /// If the line reports a cause of trouble: its code and subject.
    about: Option<(String, String)>,
    times: u64,
}

static LINES: Mutex<VecDeque<Line>> = Mutex::new(VecDeque::new());

fn lines() -> MutexGuard<'static, VecDeque<Line>> {
    LINES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The last lines, newest first.
pub(crate) fn list() -> Vec<snapshot::Event> {
    let show = |line: &Line| snapshot::Event {
        unix_ms: line.unix_ms,
        level: line.level.as_str().to_ascii_lowercase(),
        text: line.text.clone(),
        times: line.times,
    };
    lines().iter().rev().map(show).collect()
}

impl<S: Subscriber> tracing_subscriber::Layer<S> for Layer {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let level = *event.metadata().level();
        if level <= Level::INFO {
            let mut seen = Seen::default();
            event.record(&mut seen);
            keep(&mut lines(), level, seen);
        }
    }
}

#[derive(Default)]
struct Seen {
    text: String,
    fields: String,
    code: Option<String>,
    subject: Option<String>,
}

impl Visit for Seen {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "code" => self.code = Some(value.to_owned()),
            _ => self.record_debug(field, &value),
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        match field.name() {
            "message" => self.text = format!("{value:?}"),
            "subject" => self.subject = Some(format!("{value:?}")),
            name => drop(write!(self.fields, " {name}={value:?}")),
        }
    }
}

/// A lasting cause is logged repeatedly, but takes only one line here.
fn keep(lines: &mut VecDeque<Line>, level: Level, seen: Seen) {
    let Seen { mut text, fields, code, subject } = seen;
    text.push_str(&fields);
    while text.len() > LINE_BYTES_MAX {
        text.pop();
    }
    let about = code.map(|code| (code, subject.unwrap_or_default()));
    let mut times = 1;
    if about.is_some() && level < Level::INFO {
        let last = lines.iter().rposition(|line| line.about == about);
        if let Some(last) = last.filter(|last| lines[*last].level < Level::INFO) {
            times += lines.remove(last).map_or(0, |line| line.times);
        }
    }
    if lines.len() >= LINES_MAX {
        lines.pop_front();
    }
    lines.push_back(Line { unix_ms: clock::now().unix.0, level, text, about, times });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_takes_one_line_until_it_is_over() {
        let mut lines = VecDeque::new();
        let seen = |text: &str, code: Option<&str>| Seen {
            text: text.to_owned(),
            code: code.map(str::to_owned),
            ..Seen::default()
        };
        keep(&mut lines, Level::INFO, seen("begins", None));
        keep(&mut lines, Level::ERROR, seen("away", Some("STORE_AWAY")));
        keep(&mut lines, Level::WARN, seen("something else", None));
        keep(&mut lines, Level::ERROR, seen("still away", Some("STORE_AWAY")));
        keep(&mut lines, Level::INFO, seen("back", Some("STORE_AWAY")));
        keep(&mut lines, Level::ERROR, seen("away", Some("STORE_AWAY")));
        let told: Vec<_> = lines.iter().map(|line| (&*line.text, line.times)).collect();
        let expected =
            [("begins", 1), ("something else", 1), ("still away", 2), ("back", 1), ("away", 1)];
        assert_eq!(told, expected);

        (0..100).for_each(|_| keep(&mut lines, Level::WARN, seen(&"é".repeat(1_000), None)));
        assert_eq!(lines.len(), LINES_MAX);
        assert!(lines.iter().all(|line| line.text.len() <= LINE_BYTES_MAX));
    }
}
