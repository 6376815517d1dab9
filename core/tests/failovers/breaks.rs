//! Promises broken on purpose, one at a time: a simulator that does not notice would prove nothing.

use crate::STEPS;
use crate::world::World;

/// What is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Break {
    /// Claims go on at once after a fail-over.
    SettlingSkipped,
    /// The store's clock stands still, so that nobody claims again.
    StoreClockStands,
    /// A daemon takes it that it has told the store in time.
    InTimeAssumed,
    /// The store is not told.
    PushSkipped,
    /// The store is told what the journal has, not what is on its way there.
    PushMissesWhatIsNotJournalled,
    /// Ids are issued while it is open whether the store was told in time.
    DoubtIgnored,
    /// What may have been claimed anew is kept.
    DistrustIgnored,
    /// A claim counts that was made under another history.
    LateClaimUsed,
    /// The store grants claims under whatever history.
    HistoryUnchecked,
    /// A restart does not know the history that the host trusted.
    HistoryForgotten,
    /// A daemon does not know the histories that it has left.
    FormerHistoriesForgotten,
    /// The boot-time clock stands still while a host is suspended.
    SuspendNotCounted,
    /// Servers that are one store show a history each.
    HistoryPerServer,
}

const BREAKS: [Break; 13] = [
    Break::SettlingSkipped,
    Break::StoreClockStands,
    Break::InTimeAssumed,
    Break::PushSkipped,
    Break::PushMissesWhatIsNotJournalled,
    Break::DoubtIgnored,
    Break::DistrustIgnored,
    Break::LateClaimUsed,
    Break::HistoryUnchecked,
    Break::HistoryForgotten,
    Break::FormerHistoriesForgotten,
    Break::SuspendNotCounted,
    Break::HistoryPerServer,
];

/// So many runs may go by before a break is noticed.
const RUNS_MAX: u64 = 400;

#[test]
fn every_broken_promise_is_noticed() {
    for broken in BREAKS {
        let noticed = (1..=RUNS_MAX).find_map(|seed| {
            let mut world = World::new(seed, Some(broken));
            let violation = world.run(STEPS).err();
            violation.map(|violation| (seed, violation))
        });
        let Some((seed, violation)) = noticed else {
            panic!("{broken:?} went unnoticed in {RUNS_MAX} runs of {STEPS} steps");
        };
        let text: String = violation.to_string().chars().take(160).collect();
        println!("{broken:?}: noticed with seed {seed}: {text}");
    }
}
