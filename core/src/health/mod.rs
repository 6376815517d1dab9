//! The daemon's health: the problems that stop ids or soon will, when they began, how long the held ids last, and the
//! remedies.
//!
//! The engine regularly reports a list of [`Cause`]s. [`Health`] remembers when each began, and decides what to log:
//! each cause when it begins, when it changes, once a minute while it lasts, and when it ends. The status, the log, the
//! service manager and every other reader use the same list, [`Health::conditions`].
//!
//! - `causes`: the problems, under stable names.
//! - `claims`: the outcomes of recent claims, in each store and for each tag.
//! - `words`: the wording for people.

mod causes;
mod claims;
mod words;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::BootMs;

pub use causes::{Cause, Code, IdKind, Lasts, MESSAGE_CHARS_MAX, Severity};
pub use claims::{ClaimFailure, ClaimOutcomes};
pub use words::duration;

/// A cause that lasts is logged this often, in milliseconds.
const REPEAT_MS: u64 = 60_000;

/// A change of a cause's message is logged at most this often, in milliseconds, because two faults may alternate.
const CHANGE_MS: u64 = 10_000;

/// A cause that returns within this time, in milliseconds, counts as the same one.
const OVER_MS: u64 = 3_000;

/// What the engine finds when it checks its health.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    /// Whether a segment tag's id is available now.
    pub segments_ready: bool,
    /// Whether a snowflake id is available now.
    pub snowflake_ready: bool,
    /// Whether this daemon is configured to issue snowflake ids.
    pub snowflake_meant: bool,
    pub causes: Vec<Cause>,
}

/// The current problems, and what has been logged about them.
#[derive(Debug, Default)]
pub struct Health {
    entries: BTreeMap<(Code, Arc<str>), Entry>,
    /// The latest findings, without their causes.
    findings: Findings,
    looks: u64,
}

#[derive(Debug)]
struct Entry {
    cause: Cause,
    since: BootMs,
    /// When it was last found, and by which check.
    seen: BootMs,
    look: u64,
    told: Option<Told>,
}

/// What was last logged.
#[derive(Debug)]
struct Told {
    at: BootMs,
    severity: Severity,
    message: String,
}

/// An active cause, as the status and the log report it.
#[derive(Clone, Debug)]
pub struct ActiveCause<'a> {
    pub cause: &'a Cause,
    /// How long it has been active, in milliseconds.
    pub since_ms_ago: u64,
    /// How long ago the failing operation last succeeded, in milliseconds.
    pub last_success_ms_ago: Option<u64>,
}

/// Why a line is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Occasion {
    Began,
    /// Its severity or its reason has changed.
    Changed,
    /// It has lasted another minute.
    Lasts,
    Over,
}

/// A line for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    pub occasion: Occasion,
    /// The severity of the cause; when a cause ends, the severity that it had.
    pub severity: Severity,
    pub code: Code,
    pub subject: Arc<str>,
    pub text: String,
}

impl Health {
    /// Records the engine's latest findings.
    pub fn found(&mut self, now: BootMs, mut findings: Findings) {
        let causes = std::mem::take(&mut findings.causes);
        self.findings = findings;
        let former = self.looks;
        self.looks += 1;
        for cause in causes {
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

    /// The lines to log now.
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
            if let Some(occasion) = entry.occasion(now).filter(|_| !code.is_logged_where_found()) {
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

    /// The active causes, worst first. Ties go to causes that concern more than one tag, and then to the oldest.
    pub fn conditions(&self, now: BootMs) -> Vec<ActiveCause<'_>> {
        let standing = self.entries.values().filter(|entry| entry.look == self.looks);
        let mut conditions: Vec<_> = standing.map(|entry| entry.condition(now)).collect();
        conditions.sort_by_key(|condition| {
            // Thousands of tags may have one each, which must not hide the others.
            let is_of_a_tag = condition.cause.code.is_of_a_tag();
            (condition.cause.severity(), is_of_a_tag, std::cmp::Reverse(condition.since_ms_ago))
        });
        conditions
    }

    /// The state in one line; `conditions` are those that the reader may see.
    pub fn headline(&self, conditions: &[ActiveCause<'_>]) -> String {
        words::headline(&self.findings, conditions)
    }

    /// The state and the message of the worst cause in one line.
    pub fn status_line(&self, now: BootMs) -> String {
        let conditions = self.conditions(now);
        let headline = self.headline(&conditions);
        let line = match conditions.first() {
            Some(worst) => format!("{headline}: {}", worst.cause.message),
            None => headline,
        };
        // systemd would cut the status line off at a line break.
        line.replace(['\n', '\r'], " ")
    }
}

impl Entry {
    fn condition(&self, now: BootMs) -> ActiveCause<'_> {
        let ago = |at: BootMs| now.0.saturating_sub(at.0);
        ActiveCause {
            cause: &self.cause,
            since_ms_ago: ago(self.since),
            last_success_ms_ago: self.cause.last_success.map(ago),
        }
    }

    /// Whether to log the cause now, and why.
    fn occasion(&self, now: BootMs) -> Option<Occasion> {
        let Some(told) = &self.told else {
            let lasted_ms = now.0.saturating_sub(self.since.0);
            return (lasted_ms >= self.cause.logged_after_ms()).then_some(Occasion::Began);
        };
        let passed_ms = now.0.saturating_sub(told.at.0);
        let worse = self.cause.severity() < told.severity;
        let other = self.cause.severity() != told.severity
            || words::without_numbers(&self.cause.message) != words::without_numbers(&told.message);
        // A cause that stops service is logged at the next check. Nothing is logged more than once a second.
        if worse && passed_ms >= 1_000 || other && passed_ms >= CHANGE_MS {
            return Some(Occasion::Changed);
        }
        // A cause that stops nothing in use is logged once.
        (passed_ms >= REPEAT_MS && !self.cause.idle).then_some(Occasion::Lasts)
    }
}
