//! Starts of hosts, and the store's own name.

use leafd::store::{CheckIn, HostId, StartToken};

use crate::Backend;

fn host(name: &str) -> HostId {
    HostId(format!("{name:0>32}").into())
}

fn token(name: &str) -> StartToken {
    StartToken(format!("{name:0>32}").into())
}

pub fn a_host_checks_in(backend: &mut dyn Backend) {
    let mut store = backend.connect();
    let a = host("a");
    assert_eq!(store.check_in(&a, &[], &token("1")).unwrap(), CheckIn::New);
    assert_eq!(store.check_in(&a, &[token("1")], &token("2")).unwrap(), CheckIn::Current);
    // The answers to starts 3 and 4 never reached the journal.
    let known = [token("2"), token("3"), token("4")];
    assert_eq!(store.check_in(&a, &known, &token("5")).unwrap(), CheckIn::Current);
    assert_eq!(store.check_in(&host("b"), &[token("5")], &token("1")).unwrap(), CheckIn::New);
    let mut store = backend.connect();
    assert_eq!(store.check_in(&a, &[token("5")], &token("6")).unwrap(), CheckIn::Current);
}

pub fn a_stale_journal_is_told(backend: &mut dyn Backend) {
    let mut store = backend.connect();
    let a = host("a");
    store.check_in(&a, &[], &token("1")).unwrap();
    store.check_in(&a, &[token("1")], &token("2")).unwrap();
    // A copy of the journal as it was after start 1.
    assert_eq!(store.check_in(&a, &[token("1")], &token("9")).unwrap(), CheckIn::Stale);
    assert_eq!(store.check_in(&a, &[], &token("9")).unwrap(), CheckIn::Stale);
    // It left no trace: the original goes on.
    assert_eq!(store.check_in(&a, &[token("2")], &token("3")).unwrap(), CheckIn::Current);
}

pub fn a_repeated_check_in_is_current(backend: &mut dyn Backend) {
    let mut store = backend.connect();
    let a = host("a");
    assert_eq!(store.check_in(&a, &[], &token("1")).unwrap(), CheckIn::New);
    assert_eq!(store.check_in(&a, &[], &token("1")).unwrap(), CheckIn::Current);
    assert_eq!(store.check_in(&a, &[token("1")], &token("2")).unwrap(), CheckIn::Current);
    assert_eq!(store.check_in(&a, &[token("1")], &token("2")).unwrap(), CheckIn::Current);
}

pub fn identity_stays(backend: &mut dyn Backend) {
    let mut store = backend.connect();
    let first = store.identity().unwrap();
    assert!(first.0.len() >= 16);
    assert_eq!(backend.connect().identity().unwrap(), first);
    drop(store);
    assert_eq!(backend.connect().identity().unwrap(), first);
}
