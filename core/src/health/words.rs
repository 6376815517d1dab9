//! Health for people: lines of the log, and the one line that a service manager shows.

use super::{Cause, Code, Condition, Health, Kind, Lasts, Occasion, Severity};

/// A length of time: the longer, the coarser.
#[must_use]
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

/// The same, coarser still, for a line that is read repeatedly: it changes seldom.
fn about(ms: u64) -> String {
    match ms / 1_000 {
        0..60 => "less than a minute".to_owned(),
        _ => format!("about {}", duration(ms / 60_000 * 60_000)),
    }
}

impl Cause {
    /// What it means for ids.
    #[must_use]
    pub fn meaning(&self) -> String {
        match self.lasts {
            Lasts::Over if self.idle => format!("{} could be had now", self.none()),
            Lasts::Over => format!("{} can be had", self.none()),
            Lasts::Ms(ms) if self.kind == Kind::Segments => {
                format!("ids that are held last another {} at their present rate", duration(ms))
            }
            Lasts::Ms(ms) => format!("ids come for another {}", duration(ms)),
            Lasts::NoEnd if self.kind == Kind::Segments => {
                "ids can be had, and no end is in sight as they are drawn now".to_owned()
            }
            Lasts::NoEnd => "ids come nevertheless".to_owned(),
        }
    }

    fn none(&self) -> String {
        let subject = &self.subject;
        match (self.kind, self.code) {
            (Kind::All, _) => "no id of any kind".to_owned(),
            (_, code) if code.is_of_a_tag() => format!("no id of tag {subject:?}"),
            (_, Code::ClockBehind | Code::LayoutUsedUp | Code::LayoutContradicted) => {
                format!("no id of layout {subject:?}")
            }
            (Kind::Segments, _) => {
                format!("of the tags in {subject} only ids that this host holds already")
            }
            (Kind::Snowflake, _) => "no snowflake id".to_owned(),
        }
    }
}

/// A line of the log.
pub(super) fn line(condition: &Condition<'_>, occasion: Occasion) -> String {
    let Condition { cause, since_ms_ago, .. } = condition;
    let Cause { message, remedy, .. } = cause;
    let meaning = cause.meaning();
    let since = match occasion {
        Occasion::Lasts => format!("for {} now: ", duration(*since_ms_ago)),
        _ => String::new(),
    };
    let remedy = if remedy.is_empty() { String::new() } else { format!(". To do: {remedy}") };
    format!("{since}{message}. {}{remedy}", capital(&meaning))
}

/// The line that reports the end of a cause.
pub(super) fn over(cause: &Cause, lasted_ms: u64) -> String {
    format!("over after {}: {}", duration(lasted_ms), cause.message)
}

/// The state in one line.
pub(super) fn headline(health: &Health, conditions: &[Condition<'_>]) -> String {
    let worst_of = |kind: Kind| {
        let mut of_kind = conditions
            .iter()
            .filter(|condition| condition.cause.kind == kind || condition.cause.kind == Kind::All);
        of_kind.next().map(|condition| condition.cause)
    };
    let because =
        |cause: Option<&Cause>| cause.map_or(String::new(), |cause| format!(": {}", cause.message));
    let ready = &health.findings;
    let text = match (ready.segments, ready.snowflake) {
        (true, true) => "issues segment and snowflake ids".to_owned(),
        (false, false) => {
            let first = conditions.first().map(|first| first.cause);
            // What an earlier start left is unknown until its tag is drawn from.
            let issues = match first {
                Some(cause) if cause.kind == Kind::Segments => {
                    "issues no more than this host holds"
                }
                _ => "issues nothing",
            };
            format!("{issues}{}", because(first))
        }
        (true, false) if !ready.snowflake_meant => "issues segment ids".to_owned(),
        (true, false) => {
            format!(
                "issues segment ids; snowflake ids are not ready{}",
                because(worst_of(Kind::Snowflake))
            )
        }
        (false, true) => {
            format!(
                "issues snowflake ids; segment ids are not ready{}",
                because(worst_of(Kind::Segments))
            )
        }
    };
    // A resource that runs out is mentioned even while all is well.
    let running_out = conditions.iter().map(|condition| condition.cause).find(|cause| {
        cause.severity() == Severity::Warning && matches!(cause.lasts, Lasts::Ms(_) | Lasts::NoEnd)
    });
    let text = match running_out.map(|cause| (cause, cause.lasts)) {
        Some((cause, Lasts::Ms(ms))) => {
            format!("{text}; some for {} more: {}", about(ms), cause.message)
        }
        Some((cause, _)) => format!("{text}; but: {}", cause.message),
        None => text,
    };
    // A line break would cut the message off.
    text.replace(['\n', '\r'], " ")
}

/// Removes counts and times from a message, so that two messages can be compared by what they say.
pub(super) fn without_numbers(message: &str) -> String {
    message.chars().filter(|letter| !letter.is_ascii_digit()).collect()
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}
