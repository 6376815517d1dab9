//! How far ahead a bound may lie, and the registry's clock.

use std::time::Duration;

use leafd::registry::Registry;
use leafd_core::UnixMs;
use leafd_core::registry::{CompareAndSet, Mode, RegistryError};

use crate::{Backend, HOUR, compare_and_set, conflict, entry, held, holding, snapshot, take};

/// The last instant that a registry holds.
const LAST: u64 = i64::MAX as u64;

fn within(
    registry: &mut dyn Registry,
    bound: u64,
    ahead_max: Duration,
) -> Result<UnixMs, RegistryError> {
    let under = snapshot(registry, 0..0).registry;
    let expected = holding(registry, 4);
    let asked = compare_and_set(4, expected.as_ref(), &held("a", bound));
    registry.compare_and_set(&under, &CompareAndSet { ahead_max, ..asked })
}

#[track_caller]
fn too_far(result: Result<UnixMs, RegistryError>, asked: u64) -> u64 {
    match result {
        Err(RegistryError::TooFarAhead { now, bound }) => {
            assert_eq!(bound, UnixMs(asked));
            now.0
        }
        other => panic!("{other:?}"),
    }
}

pub fn a_bound_is_judged_by_the_registrys_clock(backend: &mut dyn Backend) {
    let mut registry = backend.connect(Mode::Leased);
    let now = snapshot(&mut *registry, 0..0).now.0;
    let hour = u64::try_from(HOUR.as_millis()).unwrap();
    // The writer's own clock has no say in it.
    let mut beyond = compare_and_set(4, None, &held("a", now + 3 * hour));
    beyond.seen = UnixMs(now + 3 * hour);
    let under = snapshot(&mut *registry, 0..0).registry;
    let said = too_far(registry.compare_and_set(&under, &beyond), now + 3 * hour);
    assert!(said >= now && said < now + hour, "{said} {now}");
    too_far(within(&mut *registry, now + hour, Duration::ZERO), now + hour);
    too_far(within(&mut *registry, now + 3 * hour, 2 * HOUR), now + 3 * hour);
    assert_eq!(entry(&mut *registry, 4), None);
    within(&mut *registry, now + hour, HOUR).unwrap();
    within(&mut *registry, now, Duration::ZERO).unwrap();
    assert_eq!(holding(&mut *registry, 4), Some(held("a", now)));
}

pub fn bounds_reach_to_both_ends(backend: &mut dyn Backend) {
    let mut registry = backend.connect(Mode::Leased);
    for bound in [0, 1, LAST - 1, LAST] {
        within(&mut *registry, bound, Duration::MAX).unwrap();
        assert_eq!(holding(&mut *registry, 4), Some(held("a", bound)));
    }
    for bound in [LAST + 1, u64::MAX] {
        too_far(within(&mut *registry, bound, Duration::MAX), bound);
    }
    assert_eq!(holding(&mut *registry, 4), Some(held("a", LAST)));
    within(&mut *registry, 0, Duration::ZERO).unwrap();
    assert_eq!(holding(&mut *registry, 4), Some(held("a", 0)));
}

pub fn a_conflict_is_told_before_a_bound(backend: &mut dyn Backend) {
    let mut registry = backend.connect(Mode::Leased);
    take(&mut *registry, 4, None, &held("a", 5)).unwrap();
    let under = snapshot(&mut *registry, 0..0).registry;
    let beyond = compare_and_set(4, None, &held("b", u64::MAX));
    let found = entry(&mut *registry, 4);
    conflict(registry.compare_and_set(&under, &beyond), 4, found.as_ref());
}

pub fn the_clock_goes_on(backend: &mut dyn Backend) {
    let mut registries = [backend.connect(Mode::Leased), backend.connect(Mode::Leased)];
    let (first, mut expected) = (snapshot(&mut *registries[0], 0..0), None);
    let mut clock = first.now;
    for round in 0..20 {
        let registry = &mut *registries[round % 2];
        let next = held("a", round as u64);
        for now in
            [take(registry, 4, expected.as_ref(), &next).unwrap(), snapshot(registry, 0..0).now]
        {
            assert!(now >= clock, "the clock went back from {clock:?} to {now:?}");
            clock = now;
        }
        expected = Some(next);
    }
    std::thread::sleep(Duration::from_millis(20));
    let last = snapshot(&mut *registries[1], 0..0);
    assert!(last.now.0 >= clock.0 + 15, "{last:?} {clock:?}");
    match (first.history_age, last.history_age) {
        (None, None) => {}
        (Some(first), Some(last)) => assert!(last >= first, "{first:?} {last:?}"),
        other => panic!("{other:?}"),
    }
}
