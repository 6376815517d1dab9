//! The problems that health reports, under stable names.

use std::fmt;
use std::sync::Arc;

use crate::BootMs;
use crate::lease::LeaseProblem;
use crate::store::{StoreError, Why};
use crate::upstream;

/// The kind of problem. The names never change, because programs rely on them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Code {
    /// The journal can't be written.
    JournalFailing,
    /// A store has not answered since the start, or no longer answers.
    StoreAway,
    /// A store is not the expected one.
    StoreRefused,
    /// A store may have lost commits. Claims wait until every daemon has reported the highest ids it has seen claimed.
    StoreSettling,
    /// A store answers, but refuses claims.
    ClaimsFailing,
    /// The claims of one tag fail, while its store serves others.
    TagClaimsFailing,
    /// A tag has no numbers left below its ceiling.
    TagUsedUp,
    /// A tag has few numbers left up to its ceiling.
    TagNearCeiling,
    /// The worker registry is still being queried after the start.
    WorkerStarting,
    /// The worker registry can't be reached.
    RegistryAway,
    /// The worker registry may have lost writes, so no host takes a new lease for a while.
    RegistrySettling,
    /// The registry that answers is not the one that granted the lease.
    RegistryReplaced,
    /// Every worker number is taken.
    WorkersTaken,
    /// Another host has this host's worker number.
    WorkerLost,
    /// Another daemon uses this host's static worker number.
    WorkerShared,
    /// Another live daemon has this host's identity.
    IdentityInUse,
    /// The host gets no worker until an operator fixes the problem.
    WorkerRefused,
    /// An administrator released the worker.
    WorkerReleased,
    /// The host's clock differs from the registry's or from other hosts' clocks.
    ClockOff,
    /// The host's clock is behind the last ids by more than the allowed drift.
    ClockBehind,
    /// The current time no longer fits a layout's time bits.
    LayoutUsedUp,
    /// The journal's entry of a layout contradicts the ids that were issued.
    LayoutContradicted,
}

/// The longest message of a cause, in characters.
pub const MESSAGE_CHARS_MAX: usize = 160;

/// Which ids a cause affects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdKind {
    /// Ids of segment tags.
    Segments,
    /// Ids of snowflake layouts.
    Snowflake,
    All,
}

/// How severe a cause is; the most severe comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    Error,
    /// It will stop service, or may stop it.
    Warning,
}

/// How long ids are still available.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lasts {
    Over,
    /// This many milliseconds, at the current rate of drawing.
    Ms(u64),
    /// Indefinitely, as far as is known.
    NoEnd,
}

/// One problem.
#[derive(Clone, Debug)]
pub struct Cause {
    pub code: Code,
    /// The name of the store, tag, layout or registry; empty for the host. Code and subject together identify a cause.
    pub subject: Arc<str>,
    /// Which ids it affects.
    pub kind: IdKind,
    /// The class of its reason, which decides the remedy.
    pub why: Why,
    /// What was tried, and what happened; see [`Cause::new`].
    pub message: String,
    pub remedy: String,
    /// When it began, if that is known. `None`: when it was first noticed.
    pub since: Option<BootMs>,
    /// When the failing operation last succeeded.
    pub last_success: Option<BootMs>,
    /// How long ids are still available.
    pub lasts: Lasts,
    /// Whether these ids have never been requested; if so, the cause affects nothing in use.
    pub idle: bool,
}

impl Code {
    pub fn as_str(self) -> &'static str {
        match self {
            Code::JournalFailing => "journal_failing",
            Code::StoreAway => "store_away",
            Code::StoreRefused => "store_refused",
            Code::StoreSettling => "store_settling",
            Code::ClaimsFailing => "claims_failing",
            Code::TagClaimsFailing => "tag_claims_failing",
            Code::TagUsedUp => "tag_used_up",
            Code::TagNearCeiling => "tag_near_ceiling",
            Code::WorkerStarting => "worker_starting",
            Code::RegistryAway => "registry_away",
            Code::RegistrySettling => "registry_settling",
            Code::RegistryReplaced => "registry_replaced",
            Code::WorkersTaken => "workers_taken",
            Code::WorkerLost => "worker_lost",
            Code::WorkerShared => "worker_shared",
            Code::IdentityInUse => "identity_in_use",
            Code::WorkerRefused => "worker_refused",
            Code::WorkerReleased => "worker_released",
            Code::ClockOff => "clock_off",
            Code::ClockBehind => "clock_behind",
            Code::LayoutUsedUp => "layout_used_up",
            Code::LayoutContradicted => "layout_contradicted",
        }
    }

    /// Whether it concerns a single tag. Not every user may know that the tag exists.
    pub fn is_of_a_tag(self) -> bool {
        matches!(self, Code::TagClaimsFailing | Code::TagUsedUp | Code::TagNearCeiling)
    }

    /// Whether the code that detects it logs it once. Health doesn't log such causes, because it would repeat them for
    /// as long as they last, which may be months.
    pub fn is_logged_where_found(self) -> bool {
        self == Code::TagNearCeiling
    }

    /// The code of a store's condition; `None` if the condition is not a problem.
    pub fn of_store(condition: &upstream::Condition) -> Option<Code> {
        use upstream::Condition;
        Some(match condition {
            // It answered and refused.
            Condition::Away(StoreError::Refused(_)) => Code::ClaimsFailing,
            Condition::Unmet | Condition::Away(_) => Code::StoreAway,
            Condition::Settling | Condition::LostCommits => Code::StoreSettling,
            // It lasts for two seconds at most.
            Condition::Crowded => return None,
            Condition::Refused(_) => Code::StoreRefused,
        })
    }

    /// The code of a missing worker; `None` if no id has been requested yet, or the daemon is stopping.
    pub fn of_lease(problem: &LeaseProblem) -> Option<Code> {
        Some(match problem {
            LeaseProblem::Unused | LeaseProblem::Stopping => return None,
            LeaseProblem::Starting => Code::WorkerStarting,
            LeaseProblem::Away(_) => Code::RegistryAway,
            LeaseProblem::Clock(_) => Code::ClockOff,
            LeaseProblem::Taken(_) => Code::WorkersTaken,
            LeaseProblem::IdentityInUse { .. } => Code::IdentityInUse,
            LeaseProblem::Settling(_) => Code::RegistrySettling,
            LeaseProblem::Lost(_) => Code::WorkerLost,
            LeaseProblem::Replaced(_) => Code::RegistryReplaced,
            LeaseProblem::Refused(_) => Code::WorkerRefused,
            LeaseProblem::GivingBack => Code::WorkerReleased,
        })
    }
}

impl IdKind {
    /// Its name in the status.
    pub fn as_str(self) -> &'static str {
        match self {
            IdKind::Segments => "segments",
            IdKind::Snowflake => "snowflake",
            IdKind::All => "all",
        }
    }
}

impl Severity {
    /// Its name in the status.
    pub fn as_str(self) -> &'static str {
        match self {
            Severity::Error => "error",
            Severity::Warning => "warning",
        }
    }
}

impl Cause {
    /// A cause that affects segment tags. Only the first [`MESSAGE_CHARS_MAX`] characters of a longer message are kept.
    pub fn new(code: Code, subject: &str, why: Why, message: &str, lasts: Lasts) -> Cause {
        Cause {
            code,
            subject: Arc::from(subject),
            kind: IdKind::Segments,
            why,
            message: shortened(message),
            remedy: String::new(),
            since: None,
            last_success: None,
            lasts,
            idle: false,
        }
    }

    /// How long it must last before it is logged, in milliseconds, because some conditions occur at every start.
    pub fn logged_after_ms(&self) -> u64 {
        match self.code {
            Code::WorkerStarting => 5_000,
            // Before this daemon has had a worker, the other holder is probably its predecessor: a Java Leaf, or a
            // daemon that crashed. A predecessor counts as live for ten seconds.
            Code::IdentityInUse if self.last_success.is_none() => 15_000,
            _ => 0,
        }
    }

    /// A cause that stops service is an error.
    pub fn severity(&self) -> Severity {
        if self.lasts == Lasts::Over && !self.idle { Severity::Error } else { Severity::Warning }
    }
}

impl Lasts {
    pub fn min(self, other: Lasts) -> Lasts {
        match (self, other) {
            (Lasts::Over, _) | (_, Lasts::Over) => Lasts::Over,
            (Lasts::NoEnd, lasts) | (lasts, Lasts::NoEnd) => lasts,
            (Lasts::Ms(one), Lasts::Ms(other)) => Lasts::Ms(one.min(other)),
        }
    }

    /// In milliseconds; `None`: no end is in sight.
    pub fn ms(self) -> Option<u64> {
        match self {
            Lasts::Over => Some(0),
            Lasts::Ms(ms) => Some(ms),
            Lasts::NoEnd => None,
        }
    }

    /// Ids last for this many milliseconds; with 0 they have run out.
    pub fn of_ms(ms: u64) -> Lasts {
        if ms == 0 { Lasts::Over } else { Lasts::Ms(ms) }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

fn shortened(message: &str) -> String {
    if message.chars().count() <= MESSAGE_CHARS_MAX {
        return message.to_owned();
    }
    let kept: String = message.chars().take(MESSAGE_CHARS_MAX - 6).collect();
    let kept = kept.rsplit_once(' ').map_or(&*kept, |(words, _)| words);
    format!("{} [...]", kept.trim_end_matches([',', ';', ':', '.']))
}
