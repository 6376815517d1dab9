//! Compare-and-set: what is recorded is what was written, and only who knows it replaces it.

use std::time::{SystemTime, UNIX_EPOCH};

use leafd_core::registry::{
    Entry, HOLDER_BYTES_MAX, Holder, LeaseRecord, Mode, RegistryError, RegistryId,
};
use leafd_core::store::{History, StartToken, StoreId};
use leafd_core::{UnixMs, WorkerId};

use crate::{
    Backend, HOUR, compare_and_set, conflict, entry, free, held, holder, holding, refused,
    snapshot, take,
};

pub fn an_empty_registry_knows_nobody(backend: &mut dyn Backend) {
    let mut registry = backend.connect(Mode::Leased);
    let first = snapshot(&mut *registry, 0..1024);
    assert_eq!(first.entries, []);
    assert!(!first.registry.id.0.is_empty());
    // Its server is on this machine.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    assert!(u128::from(first.now.0).abs_diff(now.as_millis()) < 60_000, "{:?}", first.now);
    assert!(first.history_age.is_none_or(|age| age > HOUR), "nothing is lost of what never was");
    let again = snapshot(&mut *backend.connect(Mode::Leased), 0..1024);
    assert_eq!(again.registry, first.registry);
}

pub fn a_worker_is_taken_once(backend: &mut dyn Backend) {
    let mut registry = backend.connect(Mode::Leased);
    let before = snapshot(&mut *registry, 0..1024);
    let (mine, others) = (held("a", before.now.0 + 5), held("b", before.now.0 + 5));
    let now = take(&mut *registry, 17, None, &mine).unwrap();
    let after = snapshot(&mut *registry, 0..1024);
    let recorded =
        Entry { worker: WorkerId(17), holding: mine.clone(), seen: UnixMs(7), written: now };
    assert_eq!(after.entries, std::slice::from_ref(&recorded));
    assert!(before.now <= now && now <= after.now, "{before:?} {now:?} {after:?}");
    assert_eq!(after.registry, before.registry);
    conflict(take(&mut *registry, 17, None, &others), 17, Some(&recorded));
    conflict(take(&mut *registry, 18, Some(&mine), &others), 18, None);
    assert_eq!(snapshot(&mut *registry, 0..1024).entries, [recorded]);
}

pub fn only_who_knows_all_of_a_holding_replaces_it(backend: &mut dyn Backend) {
    let mut registry = backend.connect(Mode::Leased);
    let is = held("a", 100);
    take(&mut *registry, 3, None, &is).unwrap();
    let recorded = entry(&mut *registry, 3).unwrap();
    let a = holder("a");
    let with = |holder: Holder| LeaseRecord { holder: Some(holder), expires: UnixMs(100) };
    let others = [
        held("a", 99),
        held("a", 101),
        held("b", 100),
        free(100),
        with(Holder { id: "10.0.0.1:A".into(), ..a.clone() }),
        with(Holder { name: "A".into(), ..a.clone() }),
        with(Holder { incarnation: StartToken("Life-of-a".into()), ..a.clone() }),
        with(Holder { id: "".into(), ..a }),
        held("a", u64::MAX),
    ];
    let next = held("c", 200);
    for was in &others {
        conflict(take(&mut *registry, 3, Some(was), &next), 3, Some(&recorded));
    }
    conflict(take(&mut *registry, 3, None, &next), 3, Some(&recorded));
    assert_eq!(entry(&mut *registry, 3), Some(recorded));
    take(&mut *registry, 3, Some(&is), &next).unwrap();
    assert_eq!(holding(&mut *registry, 3), Some(next));
}

pub fn a_worker_given_back_keeps_its_bound(backend: &mut dyn Backend) {
    let mut registry = backend.connect(Mode::Leased);
    take(&mut *registry, 0, None, &held("a", 500)).unwrap();
    take(&mut *registry, 0, Some(&held("a", 500)), &free(300)).unwrap();
    assert_eq!(holding(&mut *registry, 0), Some(free(300)));
    let found = entry(&mut *registry, 0);
    conflict(take(&mut *registry, 0, None, &held("b", 600)), 0, found.as_ref());
    take(&mut *registry, 0, Some(&free(300)), &held("b", 600)).unwrap();
    assert_eq!(holding(&mut *registry, 0), Some(held("b", 600)));
}

/// As after an answer that was lost.
pub fn a_repeated_swap_finds_itself(backend: &mut dyn Backend) {
    let mut registry = backend.connect(Mode::Leased);
    let (one, two) = (held("a", 500), held("a", 600));
    for (expected, next) in [(None, &one), (Some(&one), &two)] {
        take(&mut *registry, 9, expected, next).unwrap();
        let recorded = entry(&mut *registry, 9).unwrap();
        assert_eq!(recorded.holding, *next);
        conflict(take(&mut *registry, 9, expected, next), 9, Some(&recorded));
    }
    // What stays as it is can be written anew.
    let before = entry(&mut *registry, 9).unwrap();
    let now = take(&mut *registry, 9, Some(&two), &two).unwrap();
    assert_eq!(entry(&mut *registry, 9), Some(Entry { written: now, ..before }));
}

pub fn nothing_is_done_under_another_history(backend: &mut dyn Backend) {
    let mut registry = backend.connect(Mode::Leased);
    take(&mut *registry, 1, None, &held("a", 100)).unwrap();
    let before = snapshot(&mut *registry, 0..9).entries;
    let is = snapshot(&mut *registry, 0..0).registry;
    let others = [
        RegistryId { id: StoreId("another".into()), ..is.clone() },
        RegistryId { history: History("another".into()), ..is.clone() },
    ];
    for was in &others {
        for (worker, expected) in [(2, None), (1, Some(held("a", 100))), (1, None)] {
            match registry
                .compare_and_set(was, &compare_and_set(worker, expected.as_ref(), &held("b", 200)))
            {
                Err(RegistryError::Changed { expected, found }) => {
                    assert_eq!((&expected, &found), (was, &is));
                }
                other => panic!("{other:?}"),
            }
        }
    }
    assert_eq!(snapshot(&mut *registry, 0..9).entries, before);
}

pub fn what_was_written_outlives_connections(backend: &mut dyn Backend) {
    let mut one = backend.connect(Mode::Leased);
    let mut two = backend.connect(Mode::Leased);
    take(&mut *one, 5, None, &held("a", 100)).unwrap();
    take(&mut *two, 5, Some(&held("a", 100)), &held("b", 200)).unwrap();
    conflict(take(&mut *one, 5, Some(&held("a", 100)), &free(0)), 5, entry(&mut *two, 5).as_ref());
    drop((one, two));
    let mut three = backend.connect(Mode::Leased);
    assert_eq!(holding(&mut *three, 5), Some(held("b", 200)));
}

pub fn holders_out_of_range_are_refused(backend: &mut dyn Backend) {
    let mut registry = backend.connect(Mode::Leased);
    let longest = "h".repeat(HOLDER_BYTES_MAX);
    let a = holder("a");
    for text in ["", " ", "a b", "a\n", "\0", "Überall", &format!("{longest}h")] {
        let wrong = [
            Holder { id: text.into(), ..a.clone() },
            Holder { name: text.into(), ..a.clone() },
            Holder { incarnation: StartToken(text.into()), ..a.clone() },
        ];
        for holder in wrong {
            let next = LeaseRecord { holder: Some(holder), expires: UnixMs(1) };
            refused(take(&mut *registry, 1, None, &next), &["worker 1", &format!("{text:?}")]);
        }
    }
    assert_eq!(snapshot(&mut *registry, 0..9).entries, []);
    let every: String = (b'!'..=b'~').map(char::from).collect();
    for (worker, text) in (1..).zip([&longest, &every]) {
        let (id, name) = (text.as_str().into(), text.as_str().into());
        let incarnation = StartToken(text.as_str().into());
        let next =
            LeaseRecord { holder: Some(Holder { id, name, incarnation }), expires: UnixMs(1) };
        take(&mut *registry, worker, None, &next).unwrap();
        assert_eq!(holding(&mut *registry, worker), Some(next));
    }
}

pub fn numbers_are_not_given_where_they_are_leased(backend: &mut dyn Backend) {
    let mut registry = backend.connect(Mode::Leased);
    let under = snapshot(&mut *registry, 0..0).registry;
    refused(registry.assign(&under, 0..1024, &held("a", 5)), &["leases"]);
    assert_eq!(snapshot(&mut *registry, 0..1024).entries, []);
}
