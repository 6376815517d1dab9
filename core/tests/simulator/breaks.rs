//! Promises broken on purpose, one at a time. A simulator that doesn't notice would prove nothing.

use crate::runs::is_noticed;
use crate::world::World;
use crate::{RUNS, STEPS};

/// What is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Break {
    /// The registry writes everything without comparing.
    CompareIgnored,
    /// The registry forgets how long a worker was claimed.
    BoundsForgotten,
    /// A fail-over with lost writes looks long past.
    SettlingSkipped,
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
    /// A restart forgets up to where ids were issued.
    JournalBoundForgotten,
    /// A clean stop gives back the rest of the claim without a record in the journal.
    StopNotJournalled,
    /// Ids are issued with a worker that was lost or given back.
    LossIgnored,
    /// A host that runs on a copy of another host's files doesn't notice.
    CopyUnnoticed,
}

const BREAKS: [Break; 12] = [
    Break::CompareIgnored,
    Break::BoundsForgotten,
    Break::SettlingSkipped,
    Break::HistoryHidden,
    Break::SilenceIsConsent,
    Break::LimitIgnored,
    Break::StartIgnored,
    Break::SyncsLost,
    Break::JournalBoundForgotten,
    Break::StopNotJournalled,
    Break::LossIgnored,
    Break::CopyUnnoticed,
];

#[test]
fn every_broken_promise_is_noticed() {
    let unnoticed = BREAKS.into_iter().filter(|broken| {
        !is_noticed(*broken, RUNS, |seed| {
            let mut world = World::new(seed, Some(*broken));
            (world.run(STEPS).err(), world.steps())
        })
    });
    assert_eq!(unnoticed.collect::<Vec<_>>(), []);
}
