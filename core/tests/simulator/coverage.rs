//! What a lease allows, or why it allows nothing, and what happens to it meanwhile.

use leafd_core::Now;
use leafd_core::lease::{Lease, LeaseProblem, Response};
use leafd_core::registry::RegistryError;

use crate::pairs::Machine;

/// The states without a lease that this start has renewed, in which a host seldom writes.
const NOT_RENEWED: &[&str] = &[
    "journal's",
    "starting",
    "away",
    "clock off",
    "pool taken",
    "identity in use",
    "settling",
    "lost",
];

pub const MACHINE: Machine<'_> = Machine {
    states: &[
        "renewed",
        "journal's",
        "unused",
        "starting",
        "away",
        "clock off",
        "pool taken",
        "identity in use",
        "settling",
        "lost",
        "refused",
        "leaving",
    ],
    events: &[
        "read",
        "read unanswered",
        "written",
        "write unanswered",
        "conflict",
        "changed",
        "too far ahead",
        "assigned",
        "assignment refused",
        "stop",
        "release",
        "crash",
    ],
    excused: &[
        (&["*"], &["assignment refused"], "a pool of permanent workers has one for every host"),
        (
            NOT_RENEWED,
            &["too far ahead"],
            "few clocks are far ahead during the write of a host without a renewed lease",
        ),
        (
            &[
                "renewed",
                "journal's",
                "away",
                "clock off",
                "pool taken",
                "identity in use",
                "settling",
                "lost",
                "leaving",
            ],
            &["assigned"],
            "only a host without a permanent worker is assigned one",
        ),
        (NOT_RENEWED, &["changed"], "few fail-overs come between a read and its write"),
        (
            &["renewed", "journal's", "away", "clock off", "identity in use", "lost"],
            &["conflict"],
            "few other hosts come between a read and its write",
        ),
        (
            &["identity in use"],
            &["read unanswered", "write unanswered", "release"],
            "the other daemon is soon gone, and permanent workers are not released",
        ),
        (
            &["settling"],
            &["read unanswered", "write unanswered"],
            "no answer is lost right after a fail-over",
        ),
        (&["lost"], &["write unanswered", "release"], "another worker soon replaces the lost one"),
        (&["unused"], &["*"], "every simulated host requests ids"),
        (&["refused"], &["*"], "few fail-overs lose the assignment of a permanent worker"),
    ],
};

pub fn state_of(lease: &Lease, now: Now) -> &'static str {
    match lease.standing(now) {
        Ok(_) if lease.renewed.is_some() => "renewed",
        Ok(_) => "journal's",
        Err(LeaseProblem::Unused) => "unused",
        Err(LeaseProblem::Starting) => "starting",
        Err(LeaseProblem::Away(_)) => "away",
        Err(LeaseProblem::Clock(_)) => "clock off",
        Err(LeaseProblem::Taken(_)) => "pool taken",
        Err(LeaseProblem::IdentityInUse { .. }) => "identity in use",
        Err(LeaseProblem::Settling(_)) => "settling",
        Err(LeaseProblem::Lost(_)) => "lost",
        Err(LeaseProblem::Refused(_) | LeaseProblem::Replaced(_)) => "refused",
        Err(LeaseProblem::GivingBack | LeaseProblem::Stopping) => "leaving",
    }
}

pub fn event_of(answer: &Response) -> &'static str {
    match answer {
        Response::Snapshot(Ok(_)) => "read",
        Response::Snapshot(Err(_)) => "read unanswered",
        Response::CompareAndSet(Ok(_)) => "written",
        Response::Assign(Ok(_)) => "assigned",
        Response::CompareAndSet(Err(error)) | Response::Assign(Err(error)) => match error {
            RegistryError::Unavailable { .. } => "write unanswered",
            RegistryError::Conflict { .. } => "conflict",
            RegistryError::Changed { .. } => "changed",
            RegistryError::TooFarAhead { .. } => "too far ahead",
            RegistryError::Exhausted(_) | RegistryError::Refused(_) => "assignment refused",
        },
        Response::Record(_) => unreachable!("the journal's answers are not the registry's"),
    }
}
