//! Pods without disks come and go at the highest rate that a pool of 1,024 workers sustains by the arithmetic of
//! docs/guide/snowflake.md: live pods, pods stopped within the restart's grace, pods killed within the lease.

use leafd_core::lease::Mode;

use crate::check::Violation;
use crate::seed::seeds;
use crate::world::World;
use crate::{LEASES, Simulation};

const PODS: usize = 10_000;
const WORKERS: u64 = 1_024;

/// One in this many is killed, the rest are stopped.
const KILLED_OF: usize = 20;

/// The defaults.
const LEASE_MS: u64 = 600_000;
const GRACE_MS: u64 = 60_000;

/// How long a pod runs, and the time between two steps. Conflicts with others, one after the other, take a pod up to two
/// seconds before it has a worker, once in many thousands.
const LIFE_MS: u64 = 5_000;
const STEP_MS: u64 = 50;

/// How long a pod keeps a worker from the pool on average: while it runs, and after.
const COST_MS: u64 = LIFE_MS + (GRACE_MS * (KILLED_OF as u64 - 1) + LEASE_MS) / KILLED_OF as u64;

/// A pod starts every so many milliseconds: at the rate that the pool sustains, less a twentieth because chance is
/// uneven.
const EVERY_MS: u64 = COST_MS * 21 / (WORKERS * 20);

#[test]
fn ten_thousand_pods_go_through_a_pool_of_1024() {
    for mut seed in seeds(1) {
        if let Err(violation) = churn(seed.u64(..)) {
            panic!("{violation}");
        }
    }
}

fn churn(seed: u64) -> Result<(), Violation> {
    let sim = Simulation { lease_ms: LEASE_MS, grace_ms: GRACE_MS, ..LEASES };
    let mut world = World::new(sim, seed, None);
    world.mode = Mode::Leased;
    world.pool = 0..WORKERS;
    world.calm_until_ms = u64::MAX;
    world.hosts.clear();
    // Each place of a pod: the number of the pod in it and when it started, if there is one.
    let mut places: Vec<Option<(usize, u64)>> = Vec::new();
    let (mut pods, mut drew, mut waited_ms) = (0, 0, 0);
    while pods < PODS || places.iter().any(Option::is_some) {
        world.pass(STEP_MS)?;
        let now_ms = world.true_ms;
        while pods < PODS && pods as u64 * EVERY_MS <= world.elapsed_ms() {
            let mut host = world.new_host();
            (host.start_at_ms, host.quiet_until_ms) = (now_ms, 0);
            let pod = Some((pods, now_ms));
            match places.iter().position(Option::is_none) {
                Some(free) => (world.hosts[free], places[free]) = (host, pod),
                None => {
                    world.hosts.push(host);
                    places.push(pod);
                }
            }
            pods += 1;
        }
        for (index, place) in places.iter_mut().enumerate() {
            let Some((number, born_ms)) = *place else { continue };
            let has_drawn = world.hosts[index].has_drawn_snowflakes();
            if now_ms < born_ms + LIFE_MS {
                world.host_goes_on(index)?;
                if !has_drawn {
                    waited_ms = waited_ms.max(now_ms - born_ms);
                }
                continue;
            }
            match number % KILLED_OF {
                0 => world.crash(index),
                _ => world.stop(index),
            }
            if world.hosts[index].daemon.is_some() {
                // It stops: one call of the registry.
                world.host_goes_on(index)?;
            }
            if world.hosts[index].daemon.is_none() {
                drew += usize::from(has_drawn);
                *place = None;
            }
        }
    }
    println!(
        "{pods} pods in {} ms, one every {EVERY_MS} ms, longest wait {waited_ms} ms: {}",
        world.elapsed_ms(),
        world.totals.show()
    );
    assert_eq!(drew, PODS, "every pod gets ids");
    Ok(())
}
