//! Shared by `leafd doctor` and `leafctl doctor`: a report of checks, and the checks that any client of the daemon can
//! make.
//!
//! - `daemon`: the socket, and what the daemon behind it reports about itself.
//! - `snapshot`: the daemon's state, as it reports it.

mod daemon;
pub mod snapshot;

use std::fmt::Write as _;

use serde::de::DeserializeOwned;
use serde_json::{Value, json};

pub use leafd_core::health::duration;
pub use leafd_core::store::percent_used;

pub use daemon::{Expected, NEAR_PERCENT, check_ceiling, check_daemon};
use leafd_wire::text::clean;

/// Parses JSON from the daemon, or from another program that answers in its place, and makes its texts safe to show.
///
/// # Errors
/// Text that is not JSON, or JSON that is not a `T`.
pub fn parse<T: DeserializeOwned>(json: &str) -> serde_json::Result<T> {
    serde_json::from_value(cleaned(serde_json::from_str(json)?))
}

fn cleaned(value: Value) -> Value {
    match value {
        Value::String(text) => clean(&text).into(),
        Value::Array(items) => items.into_iter().map(cleaned).collect(),
        Value::Object(members) => {
            members.into_iter().map(|(name, value)| (clean(&name), cleaned(value))).collect()
        }
        other => other,
    }
}

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckResult {
    /// As it should be.
    Ok,
    /// It works, but the operator should know.
    Warning,
    /// It makes ids unavailable, or puts them at risk.
    Failed,
}

/// What a check found.
#[derive(Clone, Debug)]
struct Finding {
    verdict: CheckResult,
    /// The subject of the check.
    subject: &'static str,
    text: String,
    /// What to do about it; empty if nothing is needed.
    remedy: String,
}

/// The findings of all checks, in order.
#[derive(Clone, Debug, Default)]
pub struct Report {
    findings: Vec<Finding>,
}

/// The line below a finding is aligned with its text.
const TEXT_COLUMN: usize = 27;

impl CheckResult {
    fn as_str(self) -> &'static str {
        match self {
            CheckResult::Ok => "ok",
            CheckResult::Warning => "warning",
            CheckResult::Failed => "failed",
        }
    }
}

impl Report {
    /// Adds a finding without a problem.
    pub fn ok(&mut self, subject: &'static str, text: impl Into<String>) {
        self.add(CheckResult::Ok, subject, text, "");
    }

    /// Adds a warning and its remedy.
    pub fn warning(
        &mut self,
        subject: &'static str,
        text: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        self.add(CheckResult::Warning, subject, text, remedy);
    }

    /// Adds a failure and its remedy.
    pub fn failed(
        &mut self,
        subject: &'static str,
        text: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        self.add(CheckResult::Failed, subject, text, remedy);
    }

    pub fn add(
        &mut self,
        verdict: CheckResult,
        subject: &'static str,
        text: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        let (text, remedy) = (in_a_line(&text.into()), in_a_line(&remedy.into()));
        self.findings.push(Finding { verdict, subject, text, remedy });
    }

    pub fn has_failed(&self) -> bool {
        self.count(CheckResult::Failed) > 0
    }

    /// The report as text: one line per finding, with the remedy below it, and a summary.
    pub fn text(&self) -> String {
        let mut out = String::new();
        for Finding { verdict, subject, text, remedy } in &self.findings {
            let _ = writeln!(out, "{:<8} {subject:<17} {text}", verdict.as_str());
            if !remedy.is_empty() {
                let _ = writeln!(out, "{:TEXT_COLUMN$}remedy: {remedy}", "");
            }
        }
        let [failed, warnings, ok] = [CheckResult::Failed, CheckResult::Warning, CheckResult::Ok]
            .map(|verdict| self.count(verdict));
        let _ = writeln!(out, "\n{failed} failed, {warnings} with a warning, {ok} ok");
        out
    }

    pub fn json(&self) -> Value {
        let finding = |finding: &Finding| {
            json!({
                "verdict": finding.verdict.as_str(),
                "subject": finding.subject,
                "text": finding.text,
                "remedy": finding.remedy,
            })
        };
        json!({
            "failed": self.has_failed(),
            "findings": self.findings.iter().map(finding).collect::<Vec<Value>>(),
        })
    }

    fn count(&self, verdict: CheckResult) -> usize {
        self.findings.iter().filter(|finding| finding.verdict == verdict).count()
    }
}

/// Text from other parties may contain line breaks, which would end the finding.
fn in_a_line(text: &str) -> String {
    clean(&text.replace(char::is_control, " "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_has_a_line_a_finding_and_its_remedy_below() {
        let mut report = Report::default();
        report.ok("clock", "2 ms off");
        report.warning("socket", "mode 666\nfor \u{202e}everybody", "");
        assert!(!report.has_failed());
        report.failed("port", "refused", "start it");
        assert_eq!(
            report.text(),
            "ok       clock             2 ms off\n\
             warning  socket            mode 666 for \u{fffd}everybody\n\
             failed   port              refused\n                           remedy: start it\n\n\
             1 failed, 1 with a warning, 1 ok\n"
        );
        let json = report.json();
        assert_eq!(
            (&json["failed"], &json["findings"][2]["remedy"]),
            (&true.into(), &"start it".into())
        );
    }
}
