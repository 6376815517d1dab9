//! A simulator of hosts that issue ids. Every host runs the core's own state machines, driven as the daemon drives them,
//! and every id is checked. There are two simulations of one world:
//!
//! - `leases`: hosts lease workers from a registry that holds nothing else, for a limited time or permanently. Clocks
//!   step, pods churn, and the registry loses its last writes.
//! - `failovers`: hosts claim segments from a store and lease workers from the same store. It loses commits visibly or
//!   not, returns to a former primary, answers once more as one, or has two primaries that take writes; or several
//!   servers are one store with one history.
//!
//! In both, daemons crash at every step, stop, are suspended or cut off, and find journals that are lost, foreign or old.
//! Commits of their journals hang or fail.
//! Answers are late, lost, or carried out after their caller gave up. Clocks run at their own rates.
//!
//! A run depends on its seed alone. `LEAFD_TEST_SEED=N` repeats a run, and `LEAFD_SIM_RUNS=N` sets how many there are:
//!
//! ```text
//! LEAFD_SIM_RUNS=5000 cargo test --release -p leafd-core --test simulator -- --nocapture
//! ```
//!
//! - `world`: the true time, and a step of a run; `calls`: the calls under way.
//! - `store`: the servers and what they hold; `workers`: their table of workers.
//! - `host`: a host's clocks and journal; `tags` and `lease`: its daemon's parts for segments and for the worker.
//! - `mischief`: what goes wrong, and when.
//! - `check`: what must never happen, and what must have happened in the end.
//! - `breaks`: a promise is broken on purpose, and a run must notice.
//! - `coverage`: which events each state has met.
//! - `churn`: pods that come and go as fast as a pool allows.
#![allow(clippy::unwrap_used, reason = "in a test an unwrap is an assertion")]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::disallowed_macros,
    reason = "the core is pure, its tests need not be"
)]

mod breaks;
mod calls;
mod check;
mod churn;
mod coverage;
mod host;
mod lease;
mod mischief;
mod store;
mod tags;
mod workers;
mod world;

#[path = "../../../tests/seed.rs"]
mod seed;

use breaks::Break;
use check::Totals;
use coverage::{MACHINES, Pairs};
use world::World;

/// One of the two simulations. All times are short, so that much happens.
#[derive(Clone, Copy, Debug)]
pub struct Simulation {
    pub name: &'static str,
    /// Runs, unless the environment says otherwise, and the steps of each.
    pub runs: usize,
    pub steps: u64,
    /// The longest time between two steps.
    pub step_ms_max: u64,
    /// Whether the registry of workers is a store from which hosts claim segments too.
    pub has_tags: bool,
    /// How long a daemon waits for an answer.
    pub timeout_ms: u64,
    pub settle_ms: u64,
    pub lease_ms: u64,
    pub grace_ms: u64,
    /// How long a slow disk takes at most.
    pub sync_ms: u64,
    /// The longest pause or outage.
    pub outage_ms: u64,
    /// When everything must have recovered, and how long it takes each host then to draw ids of every kind.
    pub recovery_ms: u64,
    pub draw_ms: u64,
}

const LEASES: Simulation = Simulation {
    name: "leases",
    runs: 200,
    steps: 20_000,
    step_ms_max: 40,
    has_tags: false,
    timeout_ms: 3_000,
    settle_ms: 10_000,
    lease_ms: 20_000,
    grace_ms: 5_000,
    sync_ms: 500,
    outage_ms: 40_000,
    // Everything that was claimed runs out, the last fail-over settles, and the clocks catch up with the ids.
    recovery_ms: 70_000,
    draw_ms: 40_000,
};

const FAILOVERS: Simulation = Simulation {
    name: "failovers",
    runs: 240,
    steps: 3_000,
    step_ms_max: 30,
    has_tags: true,
    // Longer than a store settles.
    timeout_ms: 5_000,
    settle_ms: 2_000,
    lease_ms: 6_000,
    grace_ms: 1_500,
    sync_ms: 1_500,
    outage_ms: 6_000,
    // The last call times out, the last loss is noticed, and the store settles.
    recovery_ms: 11_000,
    draw_ms: 4_000,
};

/// How many runs to make.
fn count(default: usize) -> usize {
    let runs = std::env::var("LEAFD_SIM_RUNS");
    runs.map_or(default, |runs| runs.parse().expect("LEAFD_SIM_RUNS is a number"))
}

#[test]
fn no_id_comes_twice_whatever_happens() {
    let (mut met, mut is_default) = (<[Pairs; MACHINES.len()]>::default(), true);
    for sim in [LEASES, FAILOVERS] {
        let (mut made, mut steps, mut total) = (0, 0, Totals::default());
        for mut seed in seed::seeds(count(sim.runs)) {
            let mut world = World::new(sim, seed.u64(..), None);
            if let Err(violation) = world.run() {
                panic!("{}: {violation} after {} ms", sim.name, world.elapsed_ms());
            }
            total.add(&world.totals);
            (made, steps) = (made + 1, steps + world.steps);
        }
        println!("{made} runs of {}, {steps} steps: {}", sim.name, total.show());
        is_default &= made >= sim.runs;
        if made >= sim.runs {
            total.assert_all_happened(&sim);
        }
        met.iter_mut().zip(&total.pairs).for_each(|(met, pairs)| met.add(pairs));
    }
    for (machine, pairs) in MACHINES.iter().zip(&met) {
        println!("{}", machine.coverage(pairs));
    }
    if is_default {
        MACHINES.iter().zip(&met).for_each(|(machine, pairs)| machine.assert_as_expected(pairs));
    }
}

#[test]
fn a_run_depends_on_its_seed_alone() {
    for sim in [LEASES, FAILOVERS] {
        for mut seed in seed::seeds(3) {
            let seed = seed.u64(..);
            let [one, other] = [(); 2].map(|()| {
                let mut world = World::new(sim, seed, None);
                let violation = world.run().err().map(|violation| violation.to_string());
                let next = world.random.u64(..);
                (violation, world.steps, world.true_ms, next, world.totals.show())
            });
            assert_eq!(one, other, "{}: seed {seed}", sim.name);
        }
    }
}
