//! Pods without disks come and go at the highest rate that a pool of 1,024 workers sustains by the arithmetic of
//! docs/guide/snowflake.md: live pods, pods stopped within the restart's grace, pods killed within the lease.

use crate::seed::seeds;
use leafd_core::lease::Mode;

use crate::check::Violation;
use crate::world::World;

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
    let mut world = World::new(seed, None);
    world.mode = Mode::Leased;
    world.pool = 0..WORKERS;
    (world.lease_ms, world.grace_ms) = (LEASE_MS, GRACE_MS);
    world.calm_until_ms = u64::MAX;
    world.hosts.clear();
    let begun_ms = world.true_ms;
    // Each pod's start, and how many pods came before it.
    let mut born: Vec<(u64, usize)> = Vec::new();
    let (mut pods, mut drew, mut waited_ms) = (0, 0, 0);
    while pods < PODS || !world.hosts.is_empty() {
        world.pass(STEP_MS);
        let now_ms = world.true_ms;
        while pods < PODS && begun_ms + u64::try_from(pods).unwrap() * EVERY_MS <= now_ms {
            let mut host = world.new_host();
            host.start_at_ms = now_ms;
            world.hosts.push(host);
            born.push((now_ms, pods));
            pods += 1;
        }
        let mut index = 0;
        while index < world.hosts.len() {
            world.host_goes_on(index)?;
            let (born_ms, number) = born[index];
            if world.hosts[index].drew_at_ms == 0 {
                waited_ms = waited_ms.max(now_ms - born_ms);
            }
            if now_ms < born_ms + LIFE_MS {
                index += 1;
                continue;
            }
            let killed = number % KILLED_OF == 0;
            if killed {
                world.crash(index, None);
            } else {
                world.stop(index);
            }
            if world.hosts[index].daemon.is_some() {
                // It stops: one call of the registry.
                index += 1;
                continue;
            }
            drew += usize::from(world.hosts[index].drew_at_ms > 0);
            world.hosts.swap_remove(index);
            born.swap_remove(index);
        }
    }
    let took_ms = world.true_ms - begun_ms;
    let totals = world.totals();
    println!(
        "{pods} pods in {took_ms} ms, one every {EVERY_MS} ms, longest wait {waited_ms} ms: {totals}"
    );
    assert_eq!(drew, PODS, "every pod gets ids");
    assert_eq!(totals.crashes, (PODS / KILLED_OF) as u64);
    Ok(())
}
