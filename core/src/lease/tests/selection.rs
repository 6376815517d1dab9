//! Which worker of a pool is chosen, for any random number.

use std::collections::BTreeSet;
use std::ops::Range;

use super::World;
use crate::lease::Taken;
use crate::lease::selection::{Choice, OldHolder, choose};
use crate::registry::{Entry, LeaseRecord, Snapshot};
use crate::{UnixMs, WorkerId};

/// The worker chosen from a pool in which these workers have these expiries, with this random
/// number.
fn chosen(pool: Range<u64>, bounds: &[(u64, UnixMs)], random: u64) -> Option<u64> {
    chosen_at(World::new().clock(), pool, bounds, random)
}

/// The same under this clock of the host's own.
fn chosen_at(own: UnixMs, pool: Range<u64>, bounds: &[(u64, UnixMs)], random: u64) -> Option<u64> {
    let world = World::new();
    let entry = |&(worker, bound)| {
        let holding = LeaseRecord { holder: None, expires: bound };
        Entry { worker: WorkerId(worker), holding, seen: world.clock(), written: world.clock() }
    };
    let look = Snapshot {
        registry: world.registry.clone(),
        history_age: None,
        now: world.clock(),
        entries: bounds.iter().map(entry).collect(),
    };
    let Choice { worker, expected, start } =
        choose(&look, &world.settings("a", pool), own, random).ok()?;
    let recorded = bounds.iter().find(|(one, _)| *one == worker.0).map(|(_, bound)| *bound);
    assert_eq!(expected.map(|holding| holding.expires), recorded);
    assert_eq!(start, recorded.unwrap_or(UnixMs(0)));
    Some(worker.0)
}

#[test]
fn of_a_billion_workers_one_is_chosen_without_listing_them() {
    let taken = UnixMs(u64::MAX);
    let bounds = [(0, taken), (1, taken), (5, taken), ((1 << 30) - 1, taken)];
    for (random, worker) in [(0, 2), (1, 3), (2, 4), (3, 6), (4, 7), (1 << 20, (1 << 20) + 3)] {
        assert_eq!(chosen(0..1 << 30, &bounds, random), Some(worker));
    }
    // A quarter of the free workers are candidates. A larger random number starts over with the
    // first one.
    assert_eq!(chosen(0..1 << 30, &bounds, (1 << 28) - 1), Some(2));
}

#[test]
fn every_free_worker_of_a_small_pool_can_be_chosen_and_no_other() {
    let (free, taken) = (UnixMs(7), UnixMs(u64::MAX));
    let bounds = [(3, taken), (11, free), (12, taken), (14, taken), (15, free), (40, free)];
    let all: BTreeSet<_> = (0..32).map(|random| chosen(10..16, &bounds, random).unwrap()).collect();
    assert_eq!(all, BTreeSet::from([10, 11, 13, 15]));
    assert_eq!(chosen(12..13, &bounds, 0), None);
    assert_eq!(chosen(10..10, &bounds, 0), None);
}

#[test]
fn the_ones_that_ran_out_longest_ago_are_chosen_when_all_were_used() {
    let bounds: Vec<_> = (0..200).map(|worker| (worker, UnixMs(1_000 - worker))).collect();
    let all: BTreeSet<_> =
        (0..500).map(|random| chosen(0..200, &bounds, random).unwrap()).collect();
    assert_eq!(all, (150..200).collect());
}

#[test]
fn a_worker_is_free_once_both_clocks_have_passed_its_expiry() {
    let now = World::new().clock().0;
    // The host's own clock counts as up to 5 s ahead, because its ids may be.
    for (own, expires, free) in [
        (now, now, true),
        (now, now + 1, false),
        (now + 60_000, now + 1, false),
        (now - 6_000, now - 1_000, true),
        (now - 6_000, now - 999, false),
    ] {
        let chosen = chosen_at(UnixMs(own), 0..1, &[(0, UnixMs(expires))], 0);
        assert_eq!(chosen.is_some(), free, "{expires} at {own}");
    }
}

#[test]
fn a_full_pool_is_described_with_its_size_and_the_longest_silent_holders() {
    let old = |name: &str, worker, written_ms_ago| OldHolder {
        name: name.into(),
        worker: WorkerId(worker),
        written_ms_ago,
    };
    let mut taken = Taken {
        pool: 10..14,
        live: 1,
        left: 2,
        permanent: 1,
        lease_ms: 600_000,
        next_ms: None,
        oldest: vec![old("a", 10, 20_000), old("b", 11, 3_000)],
    };
    let said = taken.to_string();
    assert!(said.starts_with("all 4 workers of the pool 10..14 are taken: 1 by live"), "{said}");
    assert!(
        said.ends_with("; longest silent: a (worker 10, 20 s ago), b (worker 11, 3 s ago)"),
        "{said}"
    );
    taken.oldest.clear();
    assert!(taken.to_string().ends_with("leafctl worker release --worker N"), "{taken}");
}
