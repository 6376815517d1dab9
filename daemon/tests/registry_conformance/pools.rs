//! Pools of all sizes.

use leafd_core::registry::Mode;

use crate::{Backend, free, held, snapshot, take};

fn numbers(backend: &mut dyn Backend, pool: std::ops::Range<u64>) -> Vec<u64> {
    let entries = snapshot(&mut *backend.connect(Mode::Leased), pool).entries;
    entries.into_iter().map(|entry| entry.worker.0).collect()
}

pub fn a_look_shows_the_pool_in_order(backend: &mut dyn Backend) {
    let mut registry = backend.connect(Mode::Leased);
    let workers = [1023, 0, 65_535, 512, 1024, 9, 100, 10, 511, 2, 65_536];
    for worker in workers {
        take(&mut *registry, worker, None, &held("a", worker)).unwrap();
    }
    assert_eq!(numbers(backend, 0..1024), [0, 2, 9, 10, 100, 511, 512, 1023]);
    assert_eq!(numbers(backend, 512..1024), [512, 1023]);
    assert_eq!(numbers(backend, 0..65_536), [0, 2, 9, 10, 100, 511, 512, 1023, 1024, 65_535]);
    assert_eq!(numbers(backend, 65_536..u64::MAX), [65_536]);
    let empty = u64::from(u32::MAX);
    for (start, end) in [(0, 0), (9, 9), (10, 9), (3, 9), (empty, u64::MAX), (u64::MAX, u64::MAX)] {
        assert_eq!(numbers(backend, start..end), [0; 0], "{start}..{end}");
    }
}

fn seen_whole(backend: &mut dyn Backend, size: u64) {
    backend.fill(0..size);
    let mut registry = backend.connect(Mode::Leased);
    let entries = snapshot(&mut *registry, 0..size).entries;
    assert!(entries.iter().map(|entry| entry.worker.0).eq(0..size), "{} entries", entries.len());
    assert!(entries.iter().all(|entry| entry.holding == free(1)));
    take(&mut *registry, size - 1, Some(&free(1)), &held("a", 2)).unwrap();
    let half = snapshot(&mut *registry, size / 2..size).entries;
    assert_eq!(half.len() as u64, size - size / 2);
    assert_eq!(half.last().unwrap().holding, held("a", 2));
}

pub fn small_pools_are_seen_whole(backend: &mut dyn Backend) {
    seen_whole(backend, 1024);
}

pub fn large_pools_are_seen_whole(backend: &mut dyn Backend) {
    seen_whole(backend, 65_536);
}
