//! The daemon's health. It collects the engine's findings for the core's model, and reports the result to the status,
//! the service manager and the log.
//!
//! - `remedy`: what to do about each cause, on this host.

mod remedy;

use std::cell::RefCell;
use std::rc::Rc;

use leafd_checkup::snapshot::{self, PublicCondition, store_subject};
use tracing::{error, info, warn};

use crate::clock;
use crate::engine::lease::Worker;
use crate::engine::segments::Segments;
use crate::engine::snowflakes::Snowflakes;
use crate::engine::writer::Writer;
use crate::reply::Failure;
use leafd_core::BootMs;
use leafd_core::health::{
    ActiveCause, Cause, Code, Findings, Health, IdKind, Lasts, Notice, Occasion, Severity,
};
use leafd_core::snowflake::{Now, Refusal};
use leafd_core::store::{StoreError, Why};

pub use remedy::Remedies;

/// The maximum number of conditions that the status and the metrics report, because thousands of tags may have one
/// each.
pub const CONDITIONS_MAX: usize = 50;

/// Watches the daemon's health.
pub struct Watch {
    segments: Rc<Segments>,
    snowflakes: Rc<Snowflakes>,
    writer: Rc<Writer>,
    remedies: Remedies,
    health: RefCell<Health>,
}

impl Watch {
    /// A watch without findings.
    pub fn new(
        segments: Rc<Segments>,
        snowflakes: Rc<Snowflakes>,
        writer: Rc<Writer>,
        remedies: Remedies,
    ) -> Watch {
        Watch { segments, snowflakes, writer, remedies, health: RefCell::default() }
    }

    /// Checks the health, and passes it to `read`.
    pub fn with<T>(&self, read: impl FnOnce(&Health, BootMs) -> T) -> T {
        let now = clock::now();
        let findings = self.findings(now);
        let mut health = self.health.borrow_mut();
        health.found(now.boot, findings);
        read(&health, now.boot)
    }

    /// Checks the health, and logs changes. Call this every second.
    pub fn tell(&self) {
        self.with(|_, _| ());
        let notices = self.health.borrow_mut().notices(clock::boot());
        notices.iter().for_each(tell);
    }

    /// The current state and the worst cause in one line, for the service manager.
    pub fn status_line(&self) -> String {
        self.with(Health::status_line)
    }

    /// Whether the worker registry has not answered yet since the start.
    pub fn is_starting(&self) -> bool {
        let causes = self.snowflakes.worker.causes(clock::now());
        causes.iter().any(|cause| cause.code == Code::WorkerStarting)
    }

    /// The part that everyone may see, without single tags; at most `most` conditions, the worst first.
    pub fn public(&self, most: usize) -> snapshot::Health<PublicCondition> {
        self.shown(most, |code| !code.is_of_a_tag(), public)
    }

    /// The part that administrators see; at most `most` conditions, the worst first.
    pub fn snapshot(&self, most: usize) -> snapshot::Health<snapshot::Condition> {
        let show = |condition: &ActiveCause<'_>| snapshot::Condition {
            public: public(condition),
            message: condition.cause.message.clone(),
            last_success_ms_ago: condition.last_success_ms_ago,
            remaining_ms: condition.cause.lasts.ms(),
            meaning: condition.cause.meaning(),
            remedy: condition.cause.remedy.clone(),
        };
        self.shown(most, |_| true, show)
    }

    fn shown<C>(
        &self,
        most: usize,
        is_shown: impl Fn(Code) -> bool,
        show: impl Fn(&ActiveCause<'_>) -> C,
    ) -> snapshot::Health<C> {
        self.with(|health, now| {
            let mut conditions = health.conditions(now);
            conditions.retain(|one| is_shown(one.cause.code));
            let worst = conditions.first();
            snapshot::Health {
                state: worst.map_or("ok", |worst| worst.cause.severity().as_str()).to_owned(),
                line: health.headline(&conditions),
                conditions_left_out: conditions.len().saturating_sub(most) as u64,
                conditions: conditions.iter().take(most).map(show).collect(),
            }
        })
    }

    fn findings(&self, now: Now) -> Findings {
        self.segments.upstreams.iter().for_each(|upstream| upstream.watch());
        let mut causes = Vec::new();
        if let Some(failure) = self.writer.trouble() {
            causes.push(Cause {
                kind: IdKind::All,
                ..Cause::new(Code::JournalFailing, "", Why::Other, &failure.message, Lasts::Over)
            });
        }
        self.add_stores(&mut causes, now);
        self.add_tags(&mut causes, now);
        causes.extend(self.snowflakes.worker.causes(now));
        self.add_clock(&mut causes, now);
        self.add_contradicted(&mut causes);
        for cause in &mut causes {
            cause.remedy = self.remedies.of(cause);
        }
        Findings {
            segments_ready: self.writer.works() && self.segments.ready(),
            snowflake_ready: self.snowflakes.ready(),
            snowflake_meant: !matches!(self.snowflakes.worker, Worker::None),
            causes,
        }
    }

    fn add_stores(&self, causes: &mut Vec<Cause>, now: Now) {
        for (index, upstream) in self.segments.upstreams.iter().enumerate() {
            let Some(trouble) = self.segments.store_trouble(index, now.boot) else { continue };
            let lasts = self.segments.lasts_without(index, now.boot);
            let name = store_subject(&upstream.name);
            causes.push(Cause {
                since: trouble.since,
                last_success: trouble.last_success,
                ..Cause::new(trouble.code, name, trouble.why, &trouble.message, lasts)
            });
        }
    }

    fn add_tags(&self, causes: &mut Vec<Cause>, now: Now) {
        let outcomes = self.segments.outcomes.borrow();
        for (name, _, failure) in outcomes.of_tags(now.boot) {
            let Some(tag) = self.segments.in_use(name) else { continue };
            let error = &failure.error;
            let used_up = matches!(error, StoreError::Exhausted { .. });
            let code = if used_up { Code::TagUsedUp } else { Code::TagClaimsFailing };
            let lasts = tag.lasts(now.boot).unwrap_or(Lasts::Over);
            let cause = Cause::new(code, name.as_str(), error.why(), &error.to_string(), lasts);
            causes.push(Cause { since: Some(failure.since), ..cause });
        }
        for (name, near) in self.segments.near_ceilings() {
            if !causes
                .iter()
                .any(|cause| cause.kind == IdKind::Segments && *cause.subject == *name.as_str())
            {
                let message = format!(
                    "tag {name:?} is {} % used: ids up to {} are claimed, and the ceiling is {}",
                    near.percent, near.claimed_to, near.ceiling
                );
                let code = Code::TagNearCeiling;
                causes.push(Cause::new(code, name.as_str(), Why::Other, &message, Lasts::NoEnd));
            }
        }
    }

    fn add_clock(&self, causes: &mut Vec<Cause>, now: Now) {
        for tag in self.snowflakes.layouts() {
            let Some(refusal) = self.snowflakes.clock_refusal(tag, now) else { continue };
            let code = match refusal {
                Refusal::ClockBehind { .. } | Refusal::BeforeEpoch => Code::ClockBehind,
                _ => Code::LayoutUsedUp,
            };
            let message = Failure::refusal(&tag.name, refusal, now.unix).message;
            causes.push(self.of_layout(code, tag.name.as_str(), &message));
        }
    }

    fn add_contradicted(&self, causes: &mut Vec<Cause>) {
        for tag in self.snowflakes.layouts() {
            let Some(failure) = tag.contradicted() else { continue };
            let code = Code::LayoutContradicted;
            causes.push(self.of_layout(code, tag.name.as_str(), &failure.message));
        }
    }

    /// The cause for a layout's problem. Without a worker, no ids of layouts are requested, so it counts as idle then.
    fn of_layout(&self, code: Code, name: &str, message: &str) -> Cause {
        let idle = matches!(self.snowflakes.worker, Worker::None);
        let cause = Cause::new(code, name, Why::Other, message, Lasts::Over);
        Cause { kind: IdKind::Snowflake, idle, ..cause }
    }
}

fn public(condition: &ActiveCause<'_>) -> PublicCondition {
    let cause = condition.cause;
    PublicCondition {
        code: cause.code.as_str().to_owned(),
        subject: cause.subject.to_string(),
        kind: cause.kind.as_str().to_owned(),
        severity: cause.severity().as_str().to_owned(),
        since_ms_ago: condition.since_ms_ago,
    }
}

fn tell(notice: &Notice) {
    let Notice { occasion, severity, code, subject, text } = notice;
    let code = code.as_str();
    match (occasion, severity) {
        (Occasion::Over, _) => info!(code, %subject, "{text}"),
        (_, Severity::Error) => error!(code, %subject, "{text}"),
        (_, Severity::Warning) => warn!(code, %subject, "{text}"),
    }
}
