//! Which events the state machines have met in which states.

use std::collections::BTreeMap;

use leafd_core::lease::{Lease, LeaseProblem, Response as Said};
use leafd_core::registry::RegistryError;
use leafd_core::snowflake::Now;
use leafd_core::store::StoreError;
use leafd_core::upstream::{Condition, Monitor, Response};

use crate::store::Answer;

/// Each pair of a state and an event, with the number of runs in which it was met.
#[derive(Clone, Debug, Default)]
pub struct Pairs(BTreeMap<(&'static str, &'static str), u64>);

/// A state machine. Names are separated by commas. Each line of `never` and `rare` names states, events, and why they
/// don't meet; `*` stands for all.
pub struct Machine {
    name: &'static str,
    states: &'static str,
    /// States that seldom last.
    brief: &'static str,
    events: &'static str,
    /// Pairs that can't be met.
    never: &'static str,
    /// Pairs that not every default run meets.
    rare: &'static str,
}

/// How many of the pairs that the fewest runs have met are shown. If they are met in few, they are `rare`.
const FEWEST_SHOWN: usize = 10;

/// The machines by their numbers.
pub const LEASE: usize = 0;
pub const MONITOR: usize = 1;

pub const MACHINES: [Machine; 2] = [
    Machine {
        name: "lease",
        states: "renewed, journal's, unused, starting, away, clock off, pool taken, identity in use, unsettled, \
                 lost, refused, leaving",
        brief: "unused, clock off, identity in use, unsettled, lost, refused",
        events: "read, read unanswered, written, write unanswered, conflict, changed, too far ahead, assigned, \
                 write refused, stop, release, crash, pause, clock step",
        never: "\
            unused / written, write unanswered, write refused: nobody requests ids from this host
            unused / conflict, changed, too far ahead, assigned: nobody requests ids from this host
            identity in use / release: permanent workers are not released",
        rare: "\
            journal's, starting, away, clock off, pool taken, leaving / write refused: mostly a read is refused
            identity in use, unsettled, lost / write refused: mostly a read is refused
            journal's, clock off, pool taken, identity in use, lost, leaving / assigned: it happens once in a life
            journal's, away, clock off, pool taken / conflict, changed, too far ahead: few writes are made then
            identity in use, unsettled, lost / conflict, changed, too far ahead: few writes are made then
            starting / changed: few writes are made then
            identity in use / read unanswered, write unanswered, pause, clock step: the other daemon is soon gone
            unsettled / read unanswered, write unanswered: few answers are lost right after a fail-over
            lost / write unanswered: another worker soon replaces the lost one
            refused / *: few fail-overs lose the assignment of a permanent worker",
    },
    Machine {
        name: "monitor",
        // Held ids are in doubt while another host may have claimed them.
        states: "unmet, trusted, lost commits, settling, settling in doubt, refused, away",
        brief: "lost commits, settling in doubt, refused",
        events: "identified, checked in, check-in refused, known by a later start, settled, not settled, \
                 asked too late, renewed, renewed by another, pushed, push refused, claimed, claim refused, \
                 unanswered, claim unanswered, stop, crash, pause",
        never: "\
            unmet / pushed, push refused, claimed, claim refused, claim unanswered: these follow the first contact
            trusted, settling, settling in doubt / checked in, check-in refused: these come before
            trusted, settling, settling in doubt / known by a later start: this comes before
            trusted / settled, not settled, asked too late, pushed, push refused: these come before
            trusted / renewed, renewed by another: these come before",
        rare: "\
            settling, settling in doubt / claim unanswered: after a second the store counts as away
            settling, settling in doubt / asked too late, renewed by another, push refused: a visit is short
            settling in doubt / claimed, claim refused: few late claims count
            refused / *: few former primaries return
            lost commits / *: a host's own last write shows most losses before a claim does",
    },
];

impl Pairs {
    /// Notes a pair in a run.
    pub fn meet(&mut self, state: &'static str, event: &'static str) {
        self.0.insert((state, event), 1);
    }

    /// How many different events a run has met in a state.
    pub fn met_in(&self, state: &str) -> usize {
        self.0.keys().filter(|(of, _)| *of == state).count()
    }

    /// Adds a run.
    pub fn add(&mut self, run: &Pairs) {
        for (pair, count) in &run.0 {
            *self.0.entry(*pair).or_default() += count;
        }
    }
}

impl Machine {
    fn pairs(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        let events = self.events.split(", ");
        self.states
            .split(", ")
            .flat_map(move |state| events.clone().map(move |event| (state, event)))
    }

    pub fn is_brief(&self, state: &str) -> bool {
        self.brief.split(", ").any(|brief| brief == state)
    }

    /// How much was met, and why the rest was not.
    pub fn coverage(&self, met: &Pairs) -> String {
        let is_met = |pair: &(&'static str, &'static str)| met.0.contains_key(pair);
        let (all, count) = (self.pairs().count(), self.pairs().filter(is_met).count());
        let mut text = format!("{}: {count} of {all} pairs of a state and an event", self.name);
        for (state, event) in self.pairs().filter(|pair| !is_met(pair)) {
            let [never, rare] = [self.never, self.rare].map(|reasons| why(reasons, state, event));
            let never = never.map(|why| format!("never: {why}"));
            let reason = never.or(rare.map(|why| format!("rare: {why}")));
            let reason = reason.unwrap_or_else(|| "no reason is known".to_owned());
            text.push_str(&format!("\n  {state} / {event}: {reason}"));
        }
        let is_expected = |(state, event): &(&str, &str)| why(self.rare, state, event).is_none();
        let mut runs: Vec<_> = met.0.iter().filter(|(pair, _)| is_expected(pair)).collect();
        runs.sort_by_key(|(_, runs)| **runs);
        for ((state, event), runs) in runs.into_iter().take(FEWEST_SHOWN) {
            text.push_str(&format!("\n  {state} / {event}: in {runs} runs"));
        }
        text
    }

    /// Checks that each pair was met, unless there is a reason why not, and that the reasons hold.
    pub fn assert_as_expected(&self, met: &Pairs) {
        let names = |(state, event)| self.pairs().any(|pair| pair == (state, event));
        assert!(met.0.keys().all(|pair| names(*pair)), "{met:?}");
        for (state, event) in self.pairs() {
            let is_met = met.0.contains_key(&(state, event));
            let never = why(self.never, state, event);
            assert!(!is_met || never.is_none(), "{state} met {event}, although {never:?}");
            let is_excused = never.or(why(self.rare, state, event)).is_some();
            assert!(is_met || is_excused, "{state} never met {event}: {met:?}");
        }
    }
}

fn why(reasons: &'static str, state: &str, event: &str) -> Option<&'static str> {
    let any = |names: &str, name| names.split(", ").any(|one| one == name || one == "*");
    reasons.lines().find_map(|line| {
        let (pairs, why) = line.trim().split_once(": ")?;
        let (states, events) = pairs.split_once(" / ")?;
        (any(states, state) && any(events, event)).then_some(why)
    })
}

/// What a lease allows, or why it allows nothing.
pub fn lease_state(lease: &Lease, now: Now) -> &'static str {
    match lease.standing(now) {
        Ok(_) if lease.renewed.is_some() => "renewed",
        Ok(_) => "journal's",
        Err(LeaseProblem::Unused) => "unused",
        Err(LeaseProblem::Starting) => "starting",
        Err(LeaseProblem::Away(_)) => "away",
        Err(LeaseProblem::Clock(_)) => "clock off",
        Err(LeaseProblem::Taken(_)) => "pool taken",
        Err(LeaseProblem::IdentityInUse { .. }) => "identity in use",
        Err(LeaseProblem::Settling(_)) => "unsettled",
        Err(LeaseProblem::Lost(_)) => "lost",
        Err(LeaseProblem::Refused(_) | LeaseProblem::Replaced(_)) => "refused",
        Err(LeaseProblem::GivingBack | LeaseProblem::Stopping) => "leaving",
    }
}

/// What a monitor thinks of its store.
pub fn monitor_state(monitor: &Monitor) -> &'static str {
    match monitor.condition() {
        None | Some(Condition::Crowded) => "trusted",
        Some(Condition::Unmet) => "unmet",
        Some(Condition::LostCommits) => "lost commits",
        Some(Condition::Settling) if monitor.own_until().is_some() => "settling in doubt",
        Some(Condition::Settling) => "settling",
        Some(Condition::Refused(_)) => "refused",
        Some(Condition::Away(_)) => "away",
    }
}

pub fn event_of(answer: &Answer) -> &'static str {
    match answer {
        Answer::Worker(said) => event_of_lease(said),
        Answer::Claim(Ok(_)) => "claimed",
        Answer::Claim(Err(StoreError::Unavailable { .. })) => "claim unanswered",
        Answer::Claim(Err(_)) => "claim refused",
        Answer::Monitor(None) => "known by a later start",
        Answer::Monitor(Some(response)) => match response {
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
        },
    }
}

fn event_of_lease(said: &Said) -> &'static str {
    match said {
        Said::Snapshot(Ok(_)) => "read",
        Said::Snapshot(Err(_)) => "read unanswered",
        Said::CompareAndSet(Ok(_)) => "written",
        Said::Assign(Ok(_)) => "assigned",
        Said::CompareAndSet(Err(error)) | Said::Assign(Err(error)) => match error {
            RegistryError::Unavailable { .. } => "write unanswered",
            RegistryError::Conflict { .. } => "conflict",
            RegistryError::Changed { .. } => "changed",
            RegistryError::TooFarAhead { .. } => "too far ahead",
            RegistryError::Exhausted(_) | RegistryError::Refused(_) => "write refused",
        },
        Said::Record(_) => unreachable!("the journal's answers are not the registry's"),
    }
}
