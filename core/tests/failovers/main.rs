//! A simulator of stores that fail over. Several daemons run the core's own monitor, driven as the daemon drives it,
//! over a model of claims in which every id is checked. The store loses commits visibly or not, returns to a former
//! primary, goes away, or answers once more as a former primary. Answers are late, lost, or carried out after their
//! caller gave up. Daemons crash, stop, are suspended or cut off, and find journals that are lost, foreign or old.
//! Clocks run at their own rates. In another world several servers are one store with one history.
//!
//! A run depends on its seed alone. `LEAFD_TEST_SEED=N` repeats a run, and `LEAFD_SIM_RUNS=N` sets how many there are:
//!
//! ```text
//! LEAFD_SIM_RUNS=5000 cargo test --release -p leafd-core --test failovers -- --nocapture
//! ```
//!
//! - `world`: the true time, the calls under way, and a step of a run.
//! - `store`: the servers and what they hold.
//! - `host`: a host's journal, and its daemon's life.
//! - `mischief`: what goes wrong, and when.
//! - `check`: what must never happen, and what must have happened in the end.
//! - `breaks`: a promise is broken on purpose, and the run must notice.
//! - `coverage` and `pairs`: which events each state has met.
//! - `runs`: how many runs there are.
#![allow(clippy::unwrap_used, reason = "in a test an unwrap is an assertion")]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::disallowed_macros,
    reason = "the core is pure, its tests need not be"
)]

mod breaks;
mod check;
mod coverage;
mod host;
mod mischief;
mod pairs;
mod runs;
mod store;
mod world;

#[path = "../../../tests/seed.rs"]
mod seed;

use seed::seeds;

use check::Totals;
use world::World;

/// Steps in a run.
const STEPS: u64 = 3_000;

/// Runs, unless the environment says otherwise.
const RUNS: usize = 80;

#[test]
fn no_id_comes_twice_whatever_the_store_loses() {
    let (mut made, mut total) = (0, Totals::default());
    for mut seed in seeds(runs::count(RUNS)) {
        let mut world = World::new(seed.u64(..), None);
        match world.run(STEPS) {
            Ok(()) => total.add(&world.totals),
            Err(violation) => panic!("{violation} after {} ms", world.true_ms),
        }
        made += 1;
    }
    println!("{made} runs of {STEPS} steps: {total}");
    if made >= RUNS {
        total.assert_all_happened();
    }
}
