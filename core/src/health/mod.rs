//! The daemon's health: what keeps ids from being had, or soon will, since when, how long what is held lasts, and what to
//! do about it.
//!
//! The engine says what it finds as a list of [`Cause`]s, whenever it looks. [`Health`] remembers when each began, and
//! tells what belongs into the log: each cause when it begins, when it changes, once a minute while it lasts, and when
//! it is over. Status, log, service manager and whoever else asks read the same list, [`Health::conditions`].
//!
//! - `causes`: what can be wrong, by stable names.
//! - `claims`: what claims came to lately, in each store and for each tag.
//! - `words`: all of it for people.

mod causes;
mod claims;
mod words;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::BootMs;

pub use causes::{Cause, Code, Kind, Lasts, Severity};
pub use claims::{ClaimFailure, ClaimOutcomes};
pub use words::duration;

/// A cause that stands is logged this often, in milliseconds.
const REPEAT_MS: u64 = 60_000;

/// A cause's other words are logged at most this often, in milliseconds: two faults may take turns.
const CHANGE_MS: u64 = 10_000;

/// A cause that is gone for less than this is still the same one, in milliseconds.
const OVER_MS: u64 = 3_000;

/// What the engine finds when it looks.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    /// Whether an id of a segment tag could be had now.
    pub segments_ready: bool,
    /// Whether a snowflake id could be had now.
    pub snowflake_ready: bool,
    /// Whether snowflake ids are to be had at all: a daemon without a worker lacks nothing.
    pub snowflake_meant: bool,
    /// What is wrong.
    pub causes: Vec<Cause>,
}

/// What is wrong now, and what the log was told of it.
#[derive(Debug, Default)]
pub struct Health {
    entries: BTreeMap<(Code, Arc<str>), Entry>,
    findings: Ready,
    looks: u64,
}

#[derive(Debug, Default)]
struct Ready {
    segments: bool,
    snowflake: bool,
    snowflake_meant: bool,
}

#[derive(Debug)]
struct Entry {
    cause: Cause,
    since: BootMs,
    /// When it was found last, and by which look.
    seen: BootMs,
    look: u64,
    told: Option<Told>,
}

/// What the log was told last.
#[derive(Debug)]
struct Told {
    at: BootMs,
    severity: Severity,
    message: String,
}

/// A cause that stands, as everybody is told.
#[derive(Clone, Debug)]
pub struct Condition<'a> {
    /// What it is.
    pub cause: &'a Cause,
    /// How long it has stood, in milliseconds.
    pub since_ms_ago: u64,
    /// When what it keeps from succeeding last succeeded, in milliseconds before now.
    pub last_success_ms_ago: Option<u64>,
}

/// Why a line is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Occasion {
    /// It has begun.
    Began,
    /// It is worse, better, or for another reason.
    Changed,
    /// It has stood for another minute.
    Lasts,
    /// It is over.
    Over,
}

/// A line for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// Why.
    pub occasion: Occasion,
    /// How bad it is; that of the cause when it is over.
    pub severity: Severity,
    /// The cause.
    pub code: Code,
    /// What it is about.
    pub subject: Arc<str>,
    /// In words.
    pub text: String,
}

impl Health {
    /// Takes in what was found now.
    pub fn found(&mut self, now: BootMs, findings: Findings) {
        self.findings = Ready {
            segments: findings.segments_ready,
            snowflake: findings.snowflake_ready,
            snowflake_meant: findings.snowflake_meant,
        };
        let former = self.looks;
        self.looks += 1;
        for cause in findings.causes {
            let began = cause.since.unwrap_or(now).min(now);
            let key = (cause.code, Arc::clone(&cause.subject));
            let entry = self.entries.entry(key).or_insert_with(|| Entry {
                cause: cause.clone(),
                since: began,
                seen: now,
                look: former,
                told: None,
            });
            let came_back = entry.look < former && now.0.saturating_sub(entry.seen.0) >= OVER_MS;
            entry.since = if came_back { began } else { entry.since.min(began) };
            (entry.cause, entry.seen, entry.look) = (cause, now, self.looks);
        }
    }

    /// What the log is to be told now.
    pub fn notices(&mut self, now: BootMs) -> Vec<Notice> {
        let (mut notices, looks) = (Vec::new(), self.looks);
        self.entries.retain(|(code, subject), entry| {
            let notice = |occasion, text| Notice {
                occasion,
                severity: entry.cause.severity(),
                code: *code,
                subject: Arc::clone(subject),
                text,
            };
            if entry.look != looks {
                let is_over = now.0.saturating_sub(entry.seen.0) >= OVER_MS;
                if is_over && entry.told.is_some() {
                    let lasted_ms = entry.seen.0.saturating_sub(entry.since.0);
                    notices.push(notice(Occasion::Over, words::over(&entry.cause, lasted_ms)));
                }
                return !is_over;
            }
            if let Some(occasion) = entry.occasion(now) {
                let condition = entry.condition(now);
                notices.push(notice(occasion, words::line(&condition, occasion)));
                entry.told = Some(Told {
                    at: now,
                    severity: entry.cause.severity(),
                    message: entry.cause.message.clone(),
                });
            }
            true
        });
        notices
    }

    /// What is wrong now: the worst first, and of the same weight what has stood longest.
    #[must_use]
    pub fn conditions(&self, now: BootMs) -> Vec<Condition<'_>> {
        let standing = self.entries.values().filter(|entry| entry.look == self.looks);
        let mut conditions: Vec<_> = standing.map(|entry| entry.condition(now)).collect();
        conditions.sort_by_key(|condition| {
            (condition.cause.severity(), std::cmp::Reverse(condition.since_ms_ago))
        });
        conditions
    }

    /// Whether an id of a segment tag could be had at the last look.
    #[must_use]
    pub fn segments_ready(&self) -> bool {
        self.findings.segments
    }

    /// Whether a snowflake id could be had at the last look.
    #[must_use]
    pub fn snowflake_ready(&self) -> bool {
        self.findings.snowflake
    }

    /// How things are, in a line.
    #[must_use]
    pub fn headline(&self, now: BootMs) -> String {
        words::headline(self, &self.conditions(now))
    }
}

impl Entry {
    fn condition(&self, now: BootMs) -> Condition<'_> {
        let ago = |at: BootMs| now.0.saturating_sub(at.0);
        Condition {
            cause: &self.cause,
            since_ms_ago: ago(self.since),
            last_success_ms_ago: self.cause.last_success.map(ago),
        }
    }

    /// Whether the log is to be told, and why.
    fn occasion(&self, now: BootMs) -> Option<Occasion> {
        let Some(told) = &self.told else { return Some(Occasion::Began) };
        let passed_ms = now.0.saturating_sub(told.at.0);
        let worse = self.cause.severity() < told.severity;
        let other = self.cause.severity() != told.severity
            || words::without_numbers(&self.cause.message) != words::without_numbers(&told.message);
        // That service stops is said at once; more often than once a second nothing is.
        if worse && passed_ms >= 1_000 || other && passed_ms >= CHANGE_MS {
            return Some(Occasion::Changed);
        }
        // What nobody uses is no news once it was told.
        (passed_ms >= REPEAT_MS && !self.cause.idle).then_some(Occasion::Lasts)
    }
}
