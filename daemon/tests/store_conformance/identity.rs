//! Who a store says it is, and that nothing is granted or judged under anything else.

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use leafd::store::Store;
use leafd_core::store::{
    CheckIn, ClaimWish, History, HostId, Identity, ROLE_BYTES_MAX, Role, StartToken, StoreError,
    StoreId,
};

use crate::{Backend, check_in, create, new_tag, tag};

const WISH: ClaimWish = ClaimWish::new(1, 1000);

fn role(text: &str) -> Role {
    Role(text.into())
}

/// The call was refused because it was made under `was`, while the store `is` something else.
#[track_caller]
pub fn changed<T: std::fmt::Debug>(result: Result<T, StoreError>, was: &Identity, is: &Identity) {
    match result {
        Err(StoreError::Changed { expected, found, store }) => {
            assert_eq!((&expected, &found), (was, is));
            assert!(!store.is_empty());
        }
        other => panic!("{other:?}"),
    }
}

pub fn under_another_identity_nothing_is_done(backend: &mut dyn Backend) {
    let mut store = backend.connect();
    create(&mut store, &new_tag("t", 1, 10)).unwrap();
    let before = store.show(&tag("t")).unwrap();
    let is = store.identity().unwrap();
    let others = [
        Identity { id: StoreId("another".into()), ..is.clone() },
        Identity { history: History("another".into()), ..is.clone() },
        Identity { role: role("another"), ..is.clone() },
    ];
    let (host, start) = (HostId("h".into()), StartToken("s".into()));
    for was in &others {
        changed(store.claim(None, was, &tag("t"), WISH, None), was, &is);
        // Not that it is unknown: what another store lacks says nothing.
        changed(store.claim(None, was, &tag("no"), WISH, None), was, &is);
        changed(store.create(was, &new_tag("no", 1, 10)), was, &is);
        changed(store.look_up(was, &[tag("t")]), was, &is);
        changed(store.look_up(was, &[tag("no")]), was, &is);
        changed(store.raise(was, &[(tag("no"), 5), (tag("t"), 500)], false), was, &is);
        changed(store.check_in(was, &host, &[], &start), was, &is);
        changed(store.replace_role(was, &role("x")), was, &is);
        if was.role == is.role {
            changed(store.take_role(was, &role("x")), was, &is);
        }
    }
    assert_eq!(store.show(&tag("t")).unwrap(), before);
    assert_eq!(store.identity().unwrap(), is);
    assert_eq!(check_in(&mut store, &host, &[], &start), CheckIn::New);
    assert_eq!(store.claim(None, &is, &tag("t"), WISH, None).unwrap().run.range(), 1..11);
}

pub fn a_role_is_taken_once(backend: &mut dyn Backend) {
    let mut store = backend.connect();
    create(&mut store, &new_tag("t", 1, 10)).unwrap();
    let sole = store.identity().unwrap();
    assert_eq!(sole.role, role(""));
    store.take_role(&sole, &role("")).unwrap();
    store.take_role(&sole, &role("1 of 2")).unwrap();
    let taken = Identity { role: role("1 of 2"), ..sole.clone() };
    assert_eq!(store.identity().unwrap(), taken);
    // Again, as after an answer that was lost, and by who knows already.
    store.take_role(&sole, &role("1 of 2")).unwrap();
    store.take_role(&taken, &role("1 of 2")).unwrap();
    for other in ["2 of 2", ""] {
        match store.take_role(&taken, &role(other)) {
            Err(StoreError::Refused(words)) => {
                let both = words.contains("\"1 of 2\"") && words.contains(&format!("{other:?}"));
                assert!(both, "{words}");
            }
            result => panic!("{result:?}"),
        }
    }
    changed(store.claim(None, &sole, &tag("t"), WISH, None), &sole, &taken);
    assert_eq!(store.claim(None, &taken, &tag("t"), WISH, None).unwrap().run.range(), 1..11);
    drop(store);
    assert_eq!(backend.connect().identity().unwrap(), taken);
}

pub fn one_of_many_roles_is_taken(backend: &mut dyn Backend) {
    let under = backend.connect().identity().unwrap();
    let stores: Vec<_> = (0..4).map(|_| backend.connect()).collect();
    let together = Barrier::new(stores.len());
    let take = |name: &str, store: &mut Store| {
        together.wait();
        let result = store.take_role(&under, &role(name));
        assert!(matches!(result, Ok(()) | Err(StoreError::Refused(_))), "{result:?}");
        result.is_ok()
    };
    let taken: Vec<String> = thread::scope(|scope| {
        let threads: Vec<_> = (0..)
            .zip(stores)
            .map(|(number, mut store)| {
                let take = &take;
                scope.spawn(move || {
                    let name = format!("role {number}");
                    take(&name, &mut store).then_some(name)
                })
            })
            .collect();
        threads.into_iter().filter_map(|one| one.join().unwrap()).collect()
    });
    assert_eq!(taken.len(), 1, "{taken:?}");
    assert_eq!(backend.connect().identity().unwrap().role, role(&taken[0]));
}

pub fn a_role_is_replaced_by_who_knows_it(backend: &mut dyn Backend) {
    let mut store = backend.connect();
    let sole = store.identity().unwrap();
    let with = |text: &str| Identity { role: role(text), ..sole.clone() };
    store.replace_role(&sole, &role("a")).unwrap();
    store.replace_role(&with("a"), &role("b")).unwrap();
    changed(store.replace_role(&with("a"), &role("c")), &with("a"), &with("b"));
    store.replace_role(&with("b"), &role("b")).unwrap();
    store.replace_role(&with("b"), &role("")).unwrap();
    assert_eq!(store.identity().unwrap(), sole);
    store.take_role(&sole, &role("d")).unwrap();
    assert_eq!(store.identity().unwrap(), with("d"));
}

/// What the next claim would start at, asked once a role is replaced, is above every claim under the former one.
pub fn no_claim_outlasts_its_role(backend: &mut dyn Backend) {
    const CLAIMERS: usize = 3;
    const TAKES_MAX: Duration = Duration::from_secs(30);
    let mut operator = backend.connect();
    create(&mut operator, &new_tag("t", 1, 10)).unwrap();
    let mut under = operator.identity().unwrap();
    for round in 0..5 {
        let stores: Vec<_> = (0..CLAIMERS).map(|_| backend.connect()).collect();
        let together = Barrier::new(CLAIMERS + 1);
        let next = Identity { role: role(&format!("round {round}")), ..under.clone() };
        let (known, ends) = thread::scope(|scope| {
            let claimers: Vec<_> = stores
                .into_iter()
                .map(|mut store| {
                    let (under, next, together) = (&under, &next, &together);
                    scope.spawn(move || {
                        let mut end =
                            store.claim(None, under, &tag("t"), WISH, None).unwrap().run.end();
                        together.wait();
                        let begun = Instant::now();
                        loop {
                            assert!(begun.elapsed() < TAKES_MAX, "the role wasn't replaced");
                            // The embedded store's lock goes to whoever asks in the right moment. The operator
                            // asks each 100 ms at last.
                            thread::sleep(Duration::from_millis(5));
                            match store.claim(None, under, &tag("t"), WISH, None) {
                                Ok(claim) => end = claim.run.end(),
                                Err(StoreError::Changed { found, .. }) => {
                                    assert_eq!(found, *next);
                                    return end;
                                }
                                Err(error) => panic!("{error}"),
                            }
                        }
                    })
                })
                .collect();
            together.wait();
            operator.replace_role(&under, &next.role).unwrap();
            let known = operator.look_up(&next, &[tag("t")]).unwrap()[0].unwrap().end;
            let ends: Vec<u64> = claimers.into_iter().map(|one| one.join().unwrap()).collect();
            (known, ends)
        });
        assert_eq!(ends.iter().max(), Some(&known), "{ends:?}");
        under = next;
    }
}

/// A backup's rows take the place of those that are there, in the same tables, under a connection that stays. They know
/// less of what was claimed, and so may whoever claims next.
pub fn set_back_in_place_it_has_another_history(backend: &mut dyn Backend) {
    let mut store = backend.connect();
    create(&mut store, &new_tag("t", 1, 10)).unwrap();
    let was = store.identity().unwrap();
    backend.execute("CREATE TABLE backup AS SELECT * FROM leafd_tag");
    assert_eq!(store.claim(None, &was, &tag("t"), WISH, None).unwrap().run.range(), 1..11);
    backend.execute(
        "DELETE FROM leafd_tag; INSERT INTO leafd_tag SELECT * FROM backup; UPDATE leaf_alloc SET max_id = 1",
    );
    let is = store.identity().unwrap();
    assert_ne!(is.history, was.history);
    assert_eq!((&is.id, &is.role), (&was.id, &was.role));
    changed(store.claim(None, &was, &tag("t"), WISH, None), &was, &is);
    changed(store.look_up(&was, &[tag("t")]), &was, &is);
    // While it is being filled nothing can be told of it.
    backend.execute("DELETE FROM leafd_tag");
    for result in
        [store.identity().map(|_| ()), store.claim(None, &is, &tag("t"), WISH, None).map(|_| ())]
    {
        assert!(matches!(result, Err(StoreError::Refused(_))), "{result:?}");
    }
}

pub fn roles_out_of_range_are_refused(backend: &mut dyn Backend) {
    let mut store = backend.connect();
    let sole = store.identity().unwrap();
    let longest = "r".repeat(ROLE_BYTES_MAX);
    for text in ["a\nb", "Überall", "\0", &format!("{longest}r")] {
        for result in [store.take_role(&sole, &role(text)), store.replace_role(&sole, &role(text))]
        {
            assert!(matches!(result, Err(StoreError::Refused(_))), "{text:?}: {result:?}");
        }
    }
    store.take_role(&sole, &role(&longest)).unwrap();
    assert_eq!(store.identity().unwrap().role, role(&longest));
}
