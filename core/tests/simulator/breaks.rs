//! Promises broken on purpose, one at a time: a simulator that does not notice would prove nothing.

use crate::STEPS;
use crate::world::World;

/// What is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Break {
    /// The registry writes whatever it is told to, without comparing.
    CompareIgnored,
    /// The registry forgets until when a worker was claimed.
    BoundsForgotten,
    /// A fail-over with lost writes looks as if it were long ago.
    SettlingSkipped,
    /// A fail-over with lost writes does not show.
    HistoryHidden,
    /// A write that was not answered is taken for done.
    SilenceIsConsent,
    /// Ids are issued beyond the end of the claim.
    LimitIgnored,
    /// Ids are issued from before the claim begins.
    StartIgnored,
    /// The disk says that it has what it loses in a crash.
    SyncsLost,
    /// A restart does not know up to where ids were issued.
    JournalBoundForgotten,
    /// A clean stop gives the rest of the claim back without a word in the journal.
    StopNotJournalled,
    /// Ids are issued with a worker that was lost or given back.
    LossIgnored,
    /// A host that runs on a copy of another one's files does not notice.
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

/// So many runs may go by before a break is noticed.
const RUNS_MAX: u64 = 200;

#[test]
fn every_broken_promise_is_noticed() {
    for broken in BREAKS {
        let mut steps = 0;
        let noticed = (1..=RUNS_MAX).find_map(|seed| {
            let mut world = World::new(seed, Some(broken));
            let violation = world.run(STEPS).err();
            steps += world.steps();
            violation.map(|violation| (seed, violation))
        });
        let Some((seed, violation)) = noticed else {
            panic!("{broken:?} went unnoticed in {RUNS_MAX} runs of {STEPS} steps");
        };
        println!("{broken:?}: noticed with seed {seed} after {steps} steps: {violation}");
    }
}
