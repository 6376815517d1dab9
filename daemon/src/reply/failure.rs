//! The one place that turns an error into a status on the wire.

use leafd_wire::{Malformed, Status, TagError};

use crate::journal::JournalError;
use leafd_core::health::duration;
use leafd_core::snowflake::Refusal;
use leafd_core::store::StoreError;
use leafd_core::{Tag, UnixMs};

/// A request's failure, as sent to the client.
#[derive(Clone, Debug)]
#[must_use]
pub struct Failure {
    /// The status on the wire.
    pub status: Status,
    /// When a retry may succeed, in milliseconds; 0: unknown.
    pub retry_after_ms: u32,
    /// What was tried, what happened and what to do next.
    pub message: String,
}

/// When a client may retry a request that the journal or the store prevented. The daemon retries both at least this
/// often.
const RETRY_MS: u32 = 1_000;

impl Failure {
    /// A failure that a retry alone does not fix.
    pub fn new(status: Status, message: impl Into<String>) -> Self {
        Failure { status, retry_after_ms: 0, message: message.into() }
    }

    /// A failure that a retry may fix soon.
    pub fn soon_over(status: Status, message: impl Into<String>) -> Self {
        Failure { retry_after_ms: RETRY_MS, ..Failure::new(status, message) }
    }

    /// The deadline passed while the request waited.
    pub fn deadline(tag: &Tag, waited_for: &str) -> Self {
        Failure::new(
            Status::Deadline,
            format!("no id of tag {tag:?} was available before the deadline: {waited_for}"),
        )
    }

    /// Claims can't be made from a store now.
    pub fn store_away(message: impl Into<String>) -> Self {
        Failure::soon_over(Status::StoreUnavailable, message)
    }

    /// The journal contradicts the held ids, so the tag is loaded again; or its disk does not answer.
    pub fn journal(message: impl Into<String>) -> Self {
        Failure::soon_over(Status::Journal, message)
    }

    /// No access rule allows it.
    pub fn may_not_draw(tag: &str, uid: u32) -> Self {
        Failure::new(
            Status::Denied,
            format!(
                "uid {uid} may not draw tag {tag:?}: no access rule for it names this user or its groups"
            ),
        )
    }

    /// The daemon is stopping.
    pub fn stopping() -> Self {
        Failure::new(Status::ShuttingDown, "the daemon is stopping; reconnect and retry")
    }

    /// Too many requests wait already.
    pub fn overloaded(what: &str, setting: &str, limit: usize) -> Self {
        let message = format!("{what} (one user's share of {setting} = {limit}); retry later");
        Failure::soon_over(Status::Overloaded, message)
    }

    /// A layout can't issue a snowflake id.
    pub fn refusal(layout: &Tag, refusal: Refusal, now: UnixMs) -> Self {
        match refusal {
            Refusal::TickUsedUp { wait_ms } => Failure {
                retry_after_ms: millis(wait_ms),
                ..Failure::deadline(layout, "the current tick's sequence is exhausted")
            },
            Refusal::MarkReached => {
                Failure::deadline(layout, "the journal's disk write is still in progress")
            }
            Refusal::NoWorker | Refusal::LeaseEnds => Failure::soon_over(
                Status::NoWorker,
                "this host has no worker, or its lease has expired",
            ),
            Refusal::ClockBehind { behind_ms, wait_ms } => Failure {
                retry_after_ms: millis(wait_ms),
                ..Failure::new(
                    Status::ClockBehind,
                    format!(
                        "the host's clock is {} behind the last {layout:?} id, more than max_drift allows; ids are \
                         refused for another {}, until it has caught up",
                        duration(behind_ms),
                        duration(wait_ms)
                    ),
                )
            },
            Refusal::TimeExhausted => Failure::new(
                Status::TimeExhausted,
                format!(
                    "the current time doesn't fit the time bits of layout {layout:?}; use a new layout"
                ),
            ),
            Refusal::BeforeEpoch => Failure::new(
                Status::TimeExhausted,
                format!(
                    "the host's clock ({} ms of Unix time) is before the epoch of layout {layout:?}; set the clock",
                    now.0
                ),
            ),
        }
    }
}

fn millis(ms: u64) -> u32 {
    u32::try_from(ms).unwrap_or(u32::MAX)
}

impl From<Malformed> for Failure {
    fn from(error: Malformed) -> Self {
        Failure::new(Status::Malformed, format!("the request's body can't be read: {error}"))
    }
}

impl From<TagError> for Failure {
    fn from(error: TagError) -> Self {
        Failure::new(Status::TagInvalid, error.to_string())
    }
}

impl From<&StoreError> for Failure {
    fn from(error: &StoreError) -> Self {
        let status = match error {
            StoreError::Unavailable { .. } | StoreError::Changed { .. } => Status::StoreUnavailable,
            StoreError::UnknownTag { .. } => Status::TagUnknown,
            StoreError::TagExists { .. } => Status::TagExists,
            StoreError::Exhausted { .. } => Status::TagExhausted,
            StoreError::Refused(_) => Status::StoreRefused,
            StoreError::Overloaded { .. } => Status::Overloaded,
            StoreError::Held { .. } => Status::Deadline,
        };
        let retry_after_ms = if status.retry_may_help() { RETRY_MS } else { 0 };
        Failure { status, retry_after_ms, message: error.to_string() }
    }
}

impl From<&JournalError> for Failure {
    fn from(error: &JournalError) -> Self {
        Failure::journal(format!("{error}; no ids are issued until it can be written again"))
    }
}
