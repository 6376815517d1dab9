//! What a monitor thinks of its store, and what happens to it meanwhile.

use leafd_core::store::StoreError;
use leafd_core::upstream::{Condition, Monitor, Response};

use crate::pairs::Machine;
use crate::store::Answer;

/// Held ids are in doubt while another host may have claimed them.
pub const MACHINE: Machine<'_> = Machine {
    states: &[
        "unmet",
        "trusted",
        "lost commits",
        "settling",
        "settling, in doubt",
        "refused",
        "away",
    ],
    events: &[
        "identified",
        "checked in",
        "check-in refused",
        "known by a later start",
        "settled",
        "not settled",
        "asked too late",
        "renewed",
        "renewed by another",
        "pushed",
        "push refused",
        "claimed",
        "claim refused",
        "unanswered",
        "claim unanswered",
        "crash",
        "pause",
    ],
    excused: &[
        (
            &["unmet", "trusted", "settling", "settling, in doubt"],
            &["unanswered", "claim unanswered"],
            "a call that is pending for a second makes the store count as away",
        ),
        (
            &["unmet", "away", "settling", "settling, in doubt"],
            &["check-in refused", "asked too late", "renewed by another", "push refused"],
            "few losses happen between two calls of one visit",
        ),
        (&["unmet"], &["pushed", "claimed", "claim refused"], "these follow the first contact"),
        (
            &["trusted", "lost commits", "settling", "settling, in doubt", "refused", "away"],
            &["known by a later start"],
            "a host checks in at the first contact",
        ),
        (
            &["trusted"],
            &[
                "checked in",
                "check-in refused",
                "settled",
                "not settled",
                "asked too late",
                "renewed",
                "renewed by another",
                "pushed",
                "push refused",
            ],
            "probes and claims are all that is asked of a trusted store",
        ),
        (
            &["settling", "settling, in doubt"],
            &["checked in", "claimed"],
            "a host checks in before it settles, and few claims that are answered then count",
        ),
        (&["settling, in doubt"], &["crash"], "the doubt is short"),
        (&["refused"], &["*"], "few former primaries return"),
        (
            &["lost commits"],
            &["*"],
            "most losses show in the history of the claim's own transaction",
        ),
    ],
};

pub fn state_of(monitor: &Monitor) -> &'static str {
    match monitor.condition() {
        None | Some(Condition::Crowded) => "trusted",
        Some(Condition::Unmet) => "unmet",
        Some(Condition::LostCommits) => "lost commits",
        Some(Condition::Settling) if monitor.own_until().is_some() => "settling, in doubt",
        Some(Condition::Settling) => "settling",
        Some(Condition::Refused(_)) => "refused",
        Some(Condition::Away(_)) => "away",
    }
}

pub fn event_of(answer: &Answer) -> &'static str {
    let response = match answer {
        Answer::Claim(Ok(_)) => return "claimed",
        Answer::Claim(Err(StoreError::Unavailable { .. })) => return "claim unanswered",
        Answer::Claim(Err(_)) => return "claim refused",
        Answer::Monitor(None) => return "known by a later start",
        Answer::Monitor(Some(response)) => response,
    };
    match response {
        Response::Identity(Ok(_)) => "identified",
        Response::CheckIn(Ok(_)) => "checked in",
        Response::CheckIn(Err(StoreError::Changed { .. })) => "check-in refused",
        Response::IsSettled(Ok(Some(true))) => "settled",
        Response::IsSettled(Ok(_)) => "not settled",
        Response::IsSettled(Err(StoreError::Changed { .. })) => "asked too late",
        Response::Renew(Ok(_)) => "renewed",
        Response::Renew(Err(StoreError::Changed { .. })) => "renewed by another",
        Response::PushHighWater(Ok(_)) => "pushed",
        Response::PushHighWater(Err(StoreError::Changed { .. })) => "push refused",
        _ => "unanswered",
    }
}
