//! Promises broken on purpose, one at a time. A simulator that doesn't notice would prove nothing.

use crate::runs::is_noticed;
use crate::world::World;
use crate::{RUNS, STEPS};

/// What is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Break {
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
}

const BREAKS: [Break; 20] = [
    Break::SettlingSkipped,
    Break::NewcomersTrust,
    Break::SettledNotRecorded,
    Break::InTimeAssumed,
    Break::PushSkipped,
    Break::PushMissesWhatIsNotJournalled,
    Break::DoubtIgnored,
    Break::StopIgnored,
    Break::DistrustIgnored,
    Break::LateClaimUsed,
    Break::HistoryUnchecked,
    Break::EngineIgnored,
    Break::EngineAskedOnce,
    Break::ProofIgnored,
    Break::HistoryForgotten,
    Break::JournalsProofIgnored,
    Break::LeftoversUsed,
    Break::FormerHistoriesForgotten,
    Break::SuspendNotCounted,
    Break::HistoryPerServer,
];

#[test]
fn every_broken_promise_is_noticed() {
    let unnoticed = BREAKS.into_iter().filter(|broken| {
        !is_noticed(*broken, RUNS, |seed| {
            let mut world = World::new(seed, Some(*broken));
            (world.run(STEPS).err(), world.steps)
        })
    });
    assert_eq!(unnoticed.collect::<Vec<_>>(), []);
}
