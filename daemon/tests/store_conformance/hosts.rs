//! Starts of hosts, and the store's own name.

use std::sync::Arc;

use leafd::store::Store;
use leafd_core::WorkerId;
use leafd_core::mask::KeyNumber;
use leafd_core::store::{CheckIn, HostId, Identity, StartToken, StaticUser, StoreError, StoreId};

use crate::{Backend, check_in};

fn host(name: &str) -> HostId {
    HostId(format!("{name:0>32}").into())
}

fn token(name: &str) -> StartToken {
    StartToken(format!("{name:0>32}").into())
}

pub fn a_host_checks_in(backend: &mut dyn Backend) {
    let mut store = backend.connect();
    let a = host("a");
    assert_eq!(check_in(&mut store, &a, &[], &token("1")), CheckIn::New);
    assert_eq!(check_in(&mut store, &a, &[token("1")], &token("2")), CheckIn::Current);
    // The answers to starts 3 and 4 never reached the journal.
    let known = [token("2"), token("3"), token("4")];
    assert_eq!(check_in(&mut store, &a, &known, &token("5")), CheckIn::Current);
    assert_eq!(check_in(&mut store, &host("b"), &[token("5")], &token("1")), CheckIn::New);
    let mut store = backend.connect();
    assert_eq!(check_in(&mut store, &a, &[token("5")], &token("6")), CheckIn::Current);
}

pub fn a_stale_journal_is_told(backend: &mut dyn Backend) {
    let mut store = backend.connect();
    let a = host("a");
    check_in(&mut store, &a, &[], &token("1"));
    check_in(&mut store, &a, &[token("1")], &token("2"));
    // A copy of the journal as it was after start 1.
    assert_eq!(check_in(&mut store, &a, &[token("1")], &token("9")), CheckIn::Stale);
    assert_eq!(check_in(&mut store, &a, &[], &token("9")), CheckIn::Stale);
    // It left no trace: the original goes on.
    assert_eq!(check_in(&mut store, &a, &[token("2")], &token("3")), CheckIn::Current);
}

pub fn a_repeated_check_in_is_current(backend: &mut dyn Backend) {
    let mut store = backend.connect();
    let a = host("a");
    assert_eq!(check_in(&mut store, &a, &[], &token("1")), CheckIn::New);
    assert_eq!(check_in(&mut store, &a, &[], &token("1")), CheckIn::Current);
    assert_eq!(check_in(&mut store, &a, &[token("1")], &token("2")), CheckIn::Current);
    assert_eq!(check_in(&mut store, &a, &[token("1")], &token("2")), CheckIn::Current);
}

pub fn identity_stays(backend: &mut dyn Backend) {
    let mut store = backend.connect();
    let first = store.identity().unwrap();
    assert!(first.id.0.len() >= 16);
    assert_eq!(backend.connect().identity().unwrap(), first);
    drop(store);
    assert_eq!(backend.connect().identity().unwrap(), first);
}

pub fn the_first_host_s_mask_key_counts(backend: &mut dyn Backend) {
    let (mut store, mut other) = (backend.connect(), backend.connect());
    let under = store.identity().unwrap();
    let second = KeyNumber::new(2).unwrap();
    assert_eq!(store.note_mask_key(&under, KeyNumber::FIRST, 1 << 63).unwrap(), 1 << 63);
    assert_eq!(other.note_mask_key(&under, KeyNumber::FIRST, 17).unwrap(), 1 << 63);
    assert_eq!(other.note_mask_key(&under, second, 0).unwrap(), 0);
    assert_eq!(store.note_mask_key(&under, second, 5).unwrap(), 0);
    let stranger = Identity { id: StoreId("another".into()), ..under.clone() };
    let error = store.note_mask_key(&stranger, KeyNumber::new(3).unwrap(), 5).unwrap_err();
    assert!(matches!(error, StoreError::Changed { .. }), "{error:?}");
    backend.execute("UPDATE leafd_meta SET value = 'mine' WHERE name = 'mask_key_1'");
    let error = store.note_mask_key(&under, KeyNumber::FIRST, 17).unwrap_err();
    assert!(error.to_string().contains("mask_key_1"), "{error}");
}

pub fn who_uses_a_static_worker_number_is_told_of_the_others(backend: &mut dyn Backend) {
    let (mut one, mut other) = (backend.connect(), backend.connect());
    let under = one.identity().unwrap();
    let starts = ["s1", "s2"].map(|start| StartToken(start.into()));
    // Its own use comes first.
    let names = |users: Vec<StaticUser>| -> Vec<Arc<str>> {
        assert!(users.iter().all(|user| users[0].at_ms - user.at_ms < 60_000), "{users:?}");
        users.into_iter().skip(1).map(|user| user.name).collect()
    };
    let note = |store: &mut Store, worker, at: usize| {
        let name = ["a", "b"][at];
        names(store.note_static_worker(&under, WorkerId(worker), &starts[at], name).unwrap())
    };
    assert_eq!(note(&mut one, 17, 0), []);
    assert_eq!(note(&mut one, 17, 0), []);
    assert_eq!(note(&mut other, 18, 1), []);
    assert_eq!(note(&mut other, 17, 1), ["a".into()]);
    assert_eq!(note(&mut one, 17, 0), ["b".into()]);
    let other_store = Identity { id: StoreId("another".into()), ..under.clone() };
    let refused = one.note_static_worker(&other_store, WorkerId(17), &starts[0], "a");
    assert!(matches!(refused, Err(StoreError::Changed { .. })), "{refused:?}");
}
