//! A simulator of worker leases. Hosts have clocks that skew and step; they stop, resume, and crash at every step. The
//! registry answers late, carries writes out after their caller gave up, loses answers or its last writes. Journals are
//! lost, copied and set back, and pods churn. Every host runs the daemon's own core, driven as the daemon drives it,
//! and every id is checked.
//!
//! A run depends on its seed alone. `LEAFD_TEST_SEED=N` repeats a run, and `LEAFD_SIM_RUNS=N` sets how many there are:
//!
//! ```text
//! LEAFD_SIM_RUNS=5000 cargo test --release -p leafd-core --test simulator -- --nocapture
//! ```
//!
//! - `world`: the true time, the calls under way, and a step of a run.
//! - `host`: a host's clocks and journal, and its daemon's life.
//! - `registry`: the table of workers.
//! - `mischief`: what goes wrong, and when.
//! - `check`: what must never happen, and what must have happened in the end.
//! - `churn`: pods that come and go as fast as a pool allows.
//! - `breaks`: a promise is broken on purpose, and the run must notice.
#![allow(clippy::unwrap_used, reason = "in a test an unwrap is an assertion")]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::disallowed_macros,
    reason = "the core is pure, its tests need not be"
)]

mod breaks;
mod check;
mod churn;
mod coverage;
mod host;
mod mischief;
mod registry;
mod world;

#[path = "../failovers/pairs.rs"]
mod pairs;
#[path = "../failovers/runs.rs"]
mod runs;
#[path = "../../../tests/seed.rs"]
mod seed;

use seed::seeds;

use world::World;

/// Steps in a run.
const STEPS: u64 = 20_000;

/// Runs, unless the environment says otherwise.
const RUNS: usize = 100;

#[test]
fn no_id_comes_twice_whatever_happens() {
    let (mut made, mut steps, mut total) = (0, 0, check::Totals::default());
    for mut seed in seeds(runs::count(RUNS)) {
        let mut world = World::new(seed.u64(..), None);
        match world.run(STEPS) {
            Ok(()) => total.add(&world.totals()),
            Err(violation) => panic!("{violation} after {} ms", world.elapsed_ms()),
        }
        steps += world.steps();
        made += 1;
    }
    println!("{made} runs, {steps} steps: {total}");
    if made >= RUNS {
        total.assert_all_happened();
    }
}
