//! Health for people: lines of the log, and the one line that a service manager shows.

use super::{ActiveCause, Cause, Code, Findings, IdKind, Lasts, Occasion};

/// Formats a duration; the longer it is, the more coarsely it is rounded.
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

/// Like `duration`, but rounded even more coarsely, so that a line that is shown repeatedly rarely changes.
fn about(ms: u64) -> String {
    match ms / 1_000 {
        0..60 => "less than a minute".to_owned(),
        _ => format!("about {}", duration(ms / 60_000 * 60_000)),
    }
}

impl Cause {
    /// The cause's effect on ids.
    pub fn meaning(&self) -> String {
        match self.lasts {
            Lasts::Over if self.idle => format!("{}; none were requested", self.unavailable()),
            Lasts::Over => self.unavailable(),
            Lasts::Ms(ms) if self.kind == IdKind::Segments => {
                format!("held ids last another {} at the current rate", duration(ms))
            }
            Lasts::Ms(ms) => format!("ids last another {}", duration(ms)),
            Lasts::NoEnd if self.kind == IdKind::Segments => {
                "ids are available, and held ids do not run out at the current rate".to_owned()
            }
            Lasts::NoEnd => "ids are still being issued".to_owned(),
        }
    }

    fn unavailable(&self) -> String {
        let subject = &self.subject;
        match (self.kind, self.code) {
            (IdKind::All, _) => "no ids available".to_owned(),
            (_, code) if code.is_of_a_tag() => format!("tag {subject:?}: no ids available"),
            (_, Code::ClockBehind | Code::LayoutUsedUp | Code::LayoutContradicted) => {
                format!("layout {subject:?}: no ids available")
            }
            (IdKind::Segments, _) => {
                format!("tags in store {subject}: serving only ids already held by this host")
            }
            (IdKind::Snowflake, _) => "snowflake ids unavailable".to_owned(),
        }
    }
}

/// A line of the log.
pub(super) fn line(condition: &ActiveCause<'_>, occasion: Occasion) -> String {
    let ActiveCause { cause, since_ms_ago, .. } = condition;
    let Cause { message, remedy, .. } = cause;
    let meaning = cause.meaning();
    let since = match occasion {
        Occasion::Lasts => format!("for {} now: ", duration(*since_ms_ago)),
        _ => String::new(),
    };
    let remedy = if remedy.is_empty() { String::new() } else { format!(". Remedy: {remedy}") };
    format!("{since}{message}. {}{remedy}", capital(&meaning))
}

/// The line that reports the end of a cause.
pub(super) fn over(cause: &Cause, lasted_ms: u64) -> String {
    format!("resolved after {}: {}", duration(lasted_ms), cause.message)
}

/// The state in one line: which ids are available, and what needs attention.
pub(super) fn headline(ready: &Findings, conditions: &[ActiveCause<'_>]) -> String {
    let kinds = [(ready.segments_ready, "segment"), (ready.snowflake_ready, "snowflake")];
    let names = |wanted: bool| {
        let meant = |kind: &&(bool, &str)| kind.1 != "snowflake" || ready.snowflake_meant;
        let names: Vec<&str> = kinds
            .iter()
            .filter(|kind| kind.0 == wanted && meant(kind))
            .map(|(_, name)| *name)
            .collect();
        (!names.is_empty()).then(|| format!("{} ids", names.join(" and ")))
    };
    let causes = || conditions.iter().map(|condition| condition.cause);
    match (names(true), names(false)) {
        (Some(ready), Some(missing)) => {
            format!("DEGRADED: {missing} unavailable; {ready} available")
        }
        (None, Some(missing)) => format!("DOWN: {missing} unavailable"),
        (ready, None) => {
            let ready = ready.unwrap_or("no ids".to_owned());
            let shortest = causes().filter_map(|cause| cause.lasts.ms()).filter(|ms| *ms > 0).min();
            let mut near = causes().filter(|cause| cause.code == Code::TagNearCeiling);
            let others = causes().any(|cause| cause.code != Code::TagNearCeiling);
            match (shortest, near.next()) {
                (Some(ms), _) => {
                    format!("DEGRADED: {ready} available; some run out in {}", about(ms))
                }
                _ if others => format!("DEGRADED: {ready} available"),
                (None, Some(tag)) => match near.count() {
                    0 => format!(
                        "WARNING: tag {:?} is near its ceiling; {ready} available",
                        tag.subject
                    ),
                    more => format!(
                        "WARNING: tag {:?} and {more} more are near their ceilings; {ready} available",
                        tag.subject
                    ),
                },
                (None, None) => format!("OK: {ready} available"),
            }
        }
    }
}

/// Removes counts and times from a message, so that two messages with different numbers compare equal.
pub(super) fn without_numbers(message: &str) -> String {
    message.chars().filter(|letter| !letter.is_ascii_digit()).collect()
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}
