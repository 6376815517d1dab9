//! Who had a worker before: remembered whenever somebody else takes it, in the tables; ZooKeeper remembers nobody.

use leafd::registry::Registry;
use leafd_core::registry::{Former, Mode, Taking};
use leafd_core::{UnixMs, WorkerId};

use crate::{Backend, free, held, holder, snapshot, take};

fn at(registry: &mut dyn Registry, worker: u64, instant: u64) -> Former {
    registry.former(WorkerId(worker), UnixMs(instant)).unwrap().unwrap()
}

/// By whom, and since when.
fn told(taking: Option<&Taking>) -> Option<(&str, u64)> {
    taking.map(|taking| (&*taking.holder.name, taking.since.0))
}

pub fn former_holders_are_remembered(backend: &mut dyn Backend) {
    let mut registry = backend.connect(Mode::Leased);
    let before = snapshot(&mut *registry, 0..9).now;
    assert_eq!(at(&mut *registry, 3, before.0), Former::default());
    let taken = take(&mut *registry, 3, None, &held("a", 1_000)).unwrap();
    // To renew it is not to take it, nor is a restart.
    take(&mut *registry, 3, Some(&held("a", 1_000)), &held("a", 2_000)).unwrap();
    let mut again = held("a", 2_500);
    again.holder = Some(holder("a").to_stopped());
    take(&mut *registry, 3, Some(&held("a", 2_000)), &again).unwrap();
    let since = take(&mut *registry, 3, Some(&again), &held("b", 9_000)).unwrap();
    take(&mut *registry, 3, Some(&held("b", 9_000)), &free(10_000)).unwrap();
    let mut other = backend.connect(Mode::Leased);
    take(&mut *other, 3, Some(&free(10_000)), &held("a", 12_000)).unwrap();
    take(&mut *other, 4, None, &held("c", 10_000)).unwrap();

    let (a, b, a_again) = (Some(("a", 0)), Some(("b", 2_500)), Some(("a", 10_000)));
    for (instant, is, next) in [
        (0, a, b),
        (2_499, a, b),
        (2_500, b, a_again),
        (9_999, b, a_again),
        (10_000, a_again, None),
        (u64::MAX, a_again, None),
    ] {
        let former = at(&mut *registry, 3, instant);
        let found = (told(former.taking.as_ref()), told(former.next.as_ref()));
        assert_eq!(found, (is, next), "at {instant}");
    }
    let first = at(&mut *registry, 3, 0);
    assert_eq!(
        first.taking.map(|taking| (taking.holder, taking.taken)),
        Some((holder("a"), taken))
    );
    assert_eq!(first.next.map(|taking| taking.taken), Some(since));
    assert!(before <= taken && taken <= since);
}

pub fn a_number_given_for_good_is_remembered(backend: &mut dyn Backend) {
    let mut registry = backend.connect(Mode::Permanent);
    let under = snapshot(&mut *registry, 0..9).registry;
    let given = registry.assign(&under, 0..9, &held("a", 5)).unwrap();
    take(&mut *registry, given.worker.0, Some(&given.holding), &held("a", 6)).unwrap();
    let former = at(&mut *registry, given.worker.0, 5);
    assert_eq!((told(former.taking.as_ref()), former.next), (Some(("a", 0)), None));
}

/// A swap that fails leaves nothing.
pub fn only_who_got_a_worker_is_remembered(backend: &mut dyn Backend) {
    let mut registry = backend.connect(Mode::Leased);
    take(&mut *registry, 3, None, &held("a", 1_000)).unwrap();
    take(&mut *registry, 3, None, &held("b", 2_000)).unwrap_err();
    take(&mut *registry, 3, Some(&held("b", 1)), &held("b", 2_000)).unwrap_err();
    let former = at(&mut *registry, 3, 5_000);
    assert_eq!((told(former.taking.as_ref()), former.next), (Some(("a", 0)), None));
}

#[test]
fn zookeeper_remembers_nobody() {
    let mut paths = crate::zookeeper::Paths::new();
    let mut registry = paths.connect(Mode::Leased);
    take(&mut *registry, 3, None, &held("a", 1_000)).unwrap();
    assert_eq!(registry.former(WorkerId(3), UnixMs(5)).unwrap(), None);
}
