//! Numbers that are given for good.

use std::collections::BTreeSet;
use std::thread;

use leafd_core::UnixMs;
use leafd_core::registry::{Entry, Holder, LeaseRecord, Mode, RegistryError, RegistryId};
use leafd_core::store::{History, StartToken};

use crate::together::Together;
use crate::{
    Backend, compare_and_set, conflict, entry, free, held, holder, refused, snapshot, take,
};

pub fn a_number_is_given_for_good(backend: &mut dyn Backend) {
    let mut registry = backend.connect(Mode::Permanent);
    let before = snapshot(&mut *registry, 0..1024);
    assert_eq!(before.entries, []);
    let under = before.registry;
    let mine = held("8080", 5);
    let given = registry.assign(&under, 0..1024, &mine).unwrap();
    assert!(given.worker.0 < 1024);
    assert_eq!(given.holding, mine);
    assert_eq!(snapshot(&mut *registry, 0..1024).entries, std::slice::from_ref(&given));
    // Again, by a later life of the same host, which gets what is recorded.
    let later = Holder { incarnation: StartToken("later".into()), ..holder("8080") };
    let later = LeaseRecord { holder: Some(later), expires: UnixMs(9) };
    for connection in [&mut registry, &mut backend.connect(Mode::Permanent)] {
        assert_eq!(connection.assign(&under, 0..1024, &later).unwrap(), given);
    }
    let other = registry.assign(&under, 0..1024, &held("8081", 5)).unwrap();
    assert_ne!(other.worker, given.worker);
    let mut both = [given, other];
    both.sort_by_key(|entry| entry.worker);
    assert_eq!(snapshot(&mut *registry, 0..1024).entries, both);
    refused(registry.assign(&under, 0..1024, &free(5)), &["needs a holder"]);
    let unnamed = Holder { id: "a b".into(), ..holder("a") };
    let unnamed = LeaseRecord { holder: Some(unnamed), expires: UnixMs(5) };
    refused(registry.assign(&under, 0..1024, &unnamed), &["\"a b\""]);
    assert_eq!(snapshot(&mut *registry, 0..1024).entries, both);
}

pub fn hosts_at_once_get_numbers_of_their_own(backend: &mut dyn Backend) {
    const HOSTS: u64 = 16;
    const ROUNDS: u64 = 3;
    let under = snapshot(&mut *backend.connect(Mode::Permanent), 0..0).registry;
    let registries: Vec<_> = (0..HOSTS).map(|_| backend.connect(Mode::Permanent)).collect();
    let together = Together::new(registries.len());
    let bound: Vec<Entry> = thread::scope(|scope| {
        let threads: Vec<_> = (0..)
            .zip(registries)
            .map(|(host, mut registry)| {
                let (under, together) = (&under, &together);
                scope.spawn(move || {
                    let mut bound = Vec::new();
                    for round in 0..ROUNDS {
                        // Two of them are the same host.
                        for id in [100 + round * HOSTS + host, 200 + round * HOSTS + host / 2] {
                            together.wait();
                            let mine = held(&id.to_string(), 5);
                            bound.push(registry.assign(under, 0..1024, &mine).unwrap());
                        }
                    }
                    bound
                })
            })
            .collect();
        threads.into_iter().flat_map(|one| one.join().unwrap()).collect()
    });
    let hosts: BTreeSet<_> =
        bound.iter().map(|entry| entry.holding.holder.clone().unwrap().id).collect();
    let pairs: BTreeSet<_> = bound
        .iter()
        .map(|entry| (entry.worker, entry.holding.holder.clone().unwrap().id))
        .collect();
    let workers: BTreeSet<_> = bound.iter().map(|entry| entry.worker).collect();
    assert_eq!(hosts.len() as u64, ROUNDS * (HOSTS + HOSTS / 2));
    assert_eq!((pairs.len(), workers.len()), (hosts.len(), hosts.len()), "{bound:?}");
    let entries = snapshot(&mut *backend.connect(Mode::Permanent), 0..1024).entries;
    assert!(entries.iter().map(|entry| entry.worker).eq(workers));
}

pub fn a_used_up_pool_is_told(backend: &mut dyn Backend) {
    let mut registry = backend.connect(Mode::Permanent);
    let under = snapshot(&mut *registry, 0..0).registry;
    let mut given = BTreeSet::new();
    let words = loop {
        match registry.assign(&under, 0..8, &held(&format!("{}", 8000 + given.len()), 5)) {
            Ok(entry) => assert!(entry.worker.0 < 8 && given.insert(entry.worker), "{entry:?}"),
            Err(RegistryError::Exhausted(words)) => break words,
            Err(error) => panic!("{error}"),
        }
    };
    // Leaf's fork counts from 1.
    assert!(given.len() >= 7, "{given:?}");
    assert!(words.contains('7'), "{words}");
    assert_eq!(snapshot(&mut *registry, 0..8).entries.len(), given.len());
    // Who has one keeps it.
    let again = registry.assign(&under, 0..8, &held("8003", 5)).unwrap();
    assert!(given.contains(&again.worker));
    // A larger pool has more of them.
    let more = registry.assign(&under, 0..16, &held("9000", 5)).unwrap();
    assert!((8..16).contains(&more.worker.0), "{more:?}");
    let outside = registry.assign(&under, 0..8, &held("9000", 5));
    assert!(matches!(outside, Err(RegistryError::Exhausted(_))), "{outside:?}");
}

pub fn only_its_owner_renews_a_number(backend: &mut dyn Backend) {
    let mut registry = backend.connect(Mode::Permanent);
    let under = snapshot(&mut *registry, 0..0).registry;
    let now = snapshot(&mut *registry, 0..0).now.0;
    let mine = held("8080", now);
    let worker = registry.assign(&under, 0..1024, &mine).unwrap().worker.0;
    let later = Holder { incarnation: StartToken("later".into()), ..holder("8080") };
    let renewed = LeaseRecord { holder: Some(later), expires: UnixMs(now + 3000) };
    let at = take(&mut *registry, worker, Some(&mine), &renewed).unwrap();
    let is = entry(&mut *registry, worker).unwrap();
    assert_eq!((&is.holding, is.seen, is.written), (&renewed, UnixMs(7), at));
    conflict(take(&mut *registry, worker, Some(&mine), &renewed), worker, Some(&is));
    for next in [held("8081", now), free(now)] {
        refused(take(&mut *registry, worker, Some(&renewed), &next), &["10.0.0.1:8080"]);
    }
    // A number comes from the registry alone.
    let unknown = (worker + 1) % 1024;
    refused(take(&mut *registry, unknown, None, &mine), &[&unknown.to_string()]);
    let again = registry.compare_and_set(
        &under,
        &compare_and_set(worker, Some(&renewed), &held("8080", now + 9000)),
    );
    again.unwrap();
    assert_eq!(snapshot(&mut *registry, 0..1024).entries.len(), 1);
}

pub fn nothing_is_given_under_another_history(backend: &mut dyn Backend) {
    let mut registry = backend.connect(Mode::Permanent);
    let is = snapshot(&mut *registry, 0..0).registry;
    let was = RegistryId { history: History("another".into()), ..is.clone() };
    match registry.assign(&was, 0..1024, &held("8080", 5)) {
        Err(RegistryError::Changed { expected, found }) => assert_eq!((expected, found), (was, is)),
        other => panic!("{other:?}"),
    }
    assert_eq!(snapshot(&mut *registry, 0..1024).entries, []);
}
