//! Promises broken on purpose, one at a time. A simulator that doesn't notice would prove nothing.

use crate::world::World;
use crate::{Simulation, count};

/// Defines what can be broken, and which breaks each simulation must notice.
macro_rules! breaks {
    ($($list:ident: $($(#[$words:meta])* $name:ident,)*;)*) => {
        /// What is broken.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Break { $($($(#[$words])* $name,)*)* }
        $(const $list: &[Break] = &[$(Break::$name),*];)*
    };
}

breaks! {
LEASES:
    /// The registry writes everything without comparing.
    CompareIgnored,
    /// The registry forgets how long a worker was claimed.
    BoundsForgotten,
    /// A fail-over with lost writes looks long past.
    LossLooksOld,
    /// A fail-over with lost writes doesn't show.
    HistoryHidden,
    /// An unanswered write counts as done.
    SilenceIsConsent,
    /// Ids are issued beyond the end of the claim.
    LimitIgnored,
    /// Ids are issued from before the start of the claim.
    StartIgnored,
    /// The disk confirms what it loses in a crash.
    SyncsLost,
    /// A write of the journal that failed counts as done.
    FailedWriteCounts,
    /// A restart forgets up to where ids were issued.
    MarkForgotten,
    /// A clean stop gives back the rest of the claim without a record in the journal.
    StopNotJournalled,
    /// Ids are issued with a worker that was lost or given back.
    LossIgnored,
    /// A host that runs on a copy of another host's files doesn't notice.
    CopyUnnoticed,
;
FAILOVERS:
    /// Claims go on at once after a fail-over.
    SettlingSkipped,
    /// A host that meets a store for the first time claims at once.
    NewcomersTrust,
    /// No claim records that the settling time is over.
    SettledNotRecorded,
    /// A daemon assumes that it has told the store in time.
    InTimeAssumed,
    /// The store is not told.
    PushSkipped,
    /// The store is told what the journal has, but not what is on its way there.
    PushMissesWhatIsNotJournalled,
    /// Ids are issued while it is unknown whether the store was told in time.
    DoubtIgnored,
    /// A daemon that was stopped issues ids before it has asked the store.
    StopIgnored,
    /// Ids are issued while the journal fails.
    FaultIgnored,
    /// Numbers that may have been claimed anew are kept.
    DistrustIgnored,
    /// A claim made under another history counts.
    LateClaimUsed,
    /// The store grants claims under any history.
    HistoryUnchecked,
    /// What the engine says about itself is not compared with the note.
    EngineIgnored,
    /// The engine is asked when a connection is opened, and not in each transaction.
    EngineAskedOnce,
    /// A host doesn't look for its own last write, or at how far the engine has come.
    ProofIgnored,
    /// A restart forgets the history that the host trusted.
    HistoryForgotten,
    /// A restart doesn't look for the last write that its journal knows.
    JournalsProofIgnored,
    /// Numbers left in a journal are used, although the store knows a later start than that journal.
    LeftoversUsed,
    /// A daemon forgets the histories that it has left.
    FormerHistoriesForgotten,
    /// The boot-time clock stands still while a host is suspended.
    SuspendNotCounted,
    /// Servers that are one store each show a history of their own.
    HistoryPerServer,
    /// The store writes leases under any history.
    WorkersUnchecked,
    /// A host leases workers from a store that it has not verified.
    WorkersUnverified,
    /// Workers are leased at once after a fail-over.
    WorkersAtOnce,
;
}

#[test]
fn every_break_of_leases_is_noticed() {
    all_are_noticed(crate::LEASES, LEASES);
}

#[test]
fn every_break_of_failovers_is_noticed() {
    all_are_noticed(crate::FAILOVERS, &[FAILOVERS, &[Break::FailedWriteCounts]].concat());
}

/// Checks that nine of ten default runs of a simulation notice each of these breaks.
fn all_are_noticed(sim: Simulation, breaks: &[Break]) {
    let unnoticed = breaks.iter().filter(|broken| !is_noticed(sim, **broken));
    assert_eq!(unnoticed.collect::<Vec<_>>(), Vec::<&Break>::new());
}

fn is_noticed(sim: Simulation, broken: Break) -> bool {
    let tries = count(sim.runs).div_ceil(sim.runs);
    let (mut steps, mut noticed, mut first) = (0, 0, None);
    for number in 0..tries {
        let violation = (number * sim.runs..(number + 1) * sim.runs).find_map(|seed| {
            let mut world = World::new(sim, seed as u64, Some(broken));
            let violation = world.run().err();
            steps += world.steps;
            violation
        });
        noticed += usize::from(violation.is_some());
        first = first.or(violation);
    }
    let after = steps.checked_div(noticed as u64).unwrap_or(steps);
    let first = first.map_or_else(String::new, |first| first.to_string());
    let words: String = first.chars().take(160).collect();
    println!("{broken:?}: noticed in {noticed} of {tries} runs, after {after} steps: {words}");
    10 * noticed >= 9 * tries
}
