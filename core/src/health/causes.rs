//! What can be wrong, by stable names.

use std::fmt;
use std::sync::Arc;

use crate::BootMs;
use crate::lease::LeaseProblem;
use crate::store::StoreError;
use crate::upstream;

/// What is wrong. The names are for programs, and stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Code {
    /// The journal can't be written.
    JournalFailing,
    /// A store has not answered yet, or does not.
    StoreAway,
    /// A store is not the one that is meant.
    StoreRefused,
    /// A store may have lost commits, and claims wait until every daemon has told it what it has seen.
    StoreSettling,
    /// A store serves many daemons that have just started, and this one waits for its turn.
    StoreCrowded,
    /// A store answers, and refuses the claims.
    ClaimsFailing,
    /// The claims of one tag fail, while its store serves others.
    TagClaimsFailing,
    /// A tag has no numbers left up to its ceiling.
    TagUsedUp,
    /// The worker registry has not been asked to the end yet.
    WorkerStarting,
    /// The worker registry can't be reached.
    RegistryAway,
    /// The worker registry may have lost writes, and nobody claims anew for a while.
    RegistrySettling,
    /// Another worker registry answers than the one that the lease is from.
    RegistryReplaced,
    /// Every worker number is taken.
    WorkersTaken,
    /// Somebody else has this host's worker number.
    WorkerLost,
    /// Another live daemon has this host's identity.
    IdentityInUse,
    /// There is no worker until somebody does something.
    WorkerRefused,
    /// The worker is being given back, as somebody has asked.
    WorkerReleased,
    /// The host's clock does not agree with those of others.
    ClockOff,
    /// The host's clock is behind the last ids by more than the drift that is allowed.
    ClockBehind,
    /// A layout's time bits can't hold the present time.
    LayoutUsedUp,
    /// What the journal has of a layout contradicts what was issued of it.
    LayoutContradicted,
}

/// Which ids it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Those of segment tags.
    Segments,
    /// Those of snowflake layouts.
    Snowflake,
    /// Both.
    All,
}

/// How bad it is; the worst comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// It stops service.
    Error,
    /// It will, or may.
    Warning,
}

/// For how long ids can be had nevertheless.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lasts {
    /// None can be had.
    Over,
    /// So long, in milliseconds, if they are drawn as they are now.
    Ms(u64),
    /// No end is in sight.
    NoEnd,
}

/// One thing that is wrong.
#[derive(Clone, Debug)]
pub struct Cause {
    /// What.
    pub code: Code,
    /// With what: a store, a tag, a layout or a registry; empty for the host. With the code it tells one cause from
    /// another.
    pub subject: Arc<str>,
    /// Which ids it is about.
    pub kind: Kind,
    /// What was tried, and what happened.
    pub message: String,
    /// What to do.
    pub remedy: String,
    /// When it began, where that is known better than from looking.
    pub since: Option<BootMs>,
    /// When what it keeps from succeeding last succeeded.
    pub last_success: Option<BootMs>,
    /// For how long ids can be had.
    pub lasts: Lasts,
    /// Whether nobody has asked for such ids: then nothing that is used stands still.
    pub idle: bool,
}

impl Code {
    /// Its stable name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Code::JournalFailing => "journal_failing",
            Code::StoreAway => "store_away",
            Code::StoreRefused => "store_refused",
            Code::StoreSettling => "store_settling",
            Code::StoreCrowded => "store_crowded",
            Code::ClaimsFailing => "claims_failing",
            Code::TagClaimsFailing => "tag_claims_failing",
            Code::TagUsedUp => "tag_used_up",
            Code::WorkerStarting => "worker_starting",
            Code::RegistryAway => "registry_away",
            Code::RegistrySettling => "registry_settling",
            Code::RegistryReplaced => "registry_replaced",
            Code::WorkersTaken => "workers_taken",
            Code::WorkerLost => "worker_lost",
            Code::IdentityInUse => "identity_in_use",
            Code::WorkerRefused => "worker_refused",
            Code::WorkerReleased => "worker_released",
            Code::ClockOff => "clock_off",
            Code::ClockBehind => "clock_behind",
            Code::LayoutUsedUp => "layout_used_up",
            Code::LayoutContradicted => "layout_contradicted",
        }
    }

    /// Whether it is about one tag, which not everybody need know of.
    #[must_use]
    pub fn is_of_a_tag(self) -> bool {
        matches!(self, Code::TagClaimsFailing | Code::TagUsedUp)
    }

    /// What keeps a store from being claimed from.
    #[must_use]
    pub fn of_store(condition: &upstream::Condition) -> Code {
        use upstream::Condition;
        match condition {
            // It answered, and would not serve.
            Condition::Away(StoreError::Refused(_)) => Code::ClaimsFailing,
            Condition::Unmet | Condition::Away(_) => Code::StoreAway,
            Condition::Settling | Condition::LostCommits => Code::StoreSettling,
            Condition::Crowded => Code::StoreCrowded,
            Condition::Refused(_) => Code::StoreRefused,
        }
    }

    /// What keeps a worker from being had. `None`: nobody has asked for one.
    #[must_use]
    pub fn of_lease(problem: &LeaseProblem) -> Option<Code> {
        Some(match problem {
            LeaseProblem::Unused => return None,
            LeaseProblem::Starting => Code::WorkerStarting,
            LeaseProblem::Away(_) => Code::RegistryAway,
            LeaseProblem::Clock(_) => Code::ClockOff,
            LeaseProblem::Taken(_) => Code::WorkersTaken,
            LeaseProblem::IdentityInUse { .. } => Code::IdentityInUse,
            LeaseProblem::Settling(_) => Code::RegistrySettling,
            LeaseProblem::Lost(_) => Code::WorkerLost,
            LeaseProblem::Replaced(_) => Code::RegistryReplaced,
            LeaseProblem::Refused(_) => Code::WorkerRefused,
            LeaseProblem::GivingBack | LeaseProblem::Stopping => Code::WorkerReleased,
        })
    }
}

impl Kind {
    /// Its name in the status.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Kind::Segments => "segments",
            Kind::Snowflake => "snowflake",
            Kind::All => "all",
        }
    }
}

impl Severity {
    /// Its name in the status.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Severity::Error => "error",
            Severity::Warning => "warning",
        }
    }
}

impl Cause {
    /// What stops service is an error.
    #[must_use]
    pub fn severity(&self) -> Severity {
        if self.lasts == Lasts::Over && !self.idle { Severity::Error } else { Severity::Warning }
    }

    /// For how long ids can be had, in milliseconds; `None`: no end is in sight.
    #[must_use]
    pub fn remaining_ms(&self) -> Option<u64> {
        self.lasts.ms()
    }
}

impl Lasts {
    /// The shorter one.
    #[must_use]
    pub fn min(self, other: Lasts) -> Lasts {
        match (self, other) {
            (Lasts::Over, _) | (_, Lasts::Over) => Lasts::Over,
            (Lasts::NoEnd, lasts) | (lasts, Lasts::NoEnd) => lasts,
            (Lasts::Ms(one), Lasts::Ms(other)) => Lasts::Ms(one.min(other)),
        }
    }

    /// In milliseconds; `None`: no end is in sight.
    #[must_use]
    pub fn ms(self) -> Option<u64> {
        match self {
            Lasts::Over => Some(0),
            Lasts::Ms(ms) => Some(ms),
            Lasts::NoEnd => None,
        }
    }

    /// So long; nothing left is none.
    #[must_use]
    pub fn of_ms(ms: u64) -> Lasts {
        if ms == 0 { Lasts::Over } else { Lasts::Ms(ms) }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
