//! Who claimed what: remembered with the claim, told in pages, and forgotten in small batches.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use leafd::store::Store;
use leafd_core::store::{
    Claim, ClaimRecord, ClaimWish, ClaimedBy, HostId, NewTag, Shard, StoreError,
};

use crate::{Backend, claim, create, new_tag, raise, tag};

fn host(name: &str) -> ClaimedBy {
    let host = HostId(format!("id-of-{name}").into());
    ClaimedBy { host, name: name.into(), holds_from: None }
}

fn claim_as(store: &mut Store, by: &ClaimedBy, name: &str, wish: ClaimWish) -> Claim {
    let under = store.identity().unwrap();
    store.claim(Some(by), &under, &tag(name), wish, None).unwrap()
}

fn told(store: &mut Store, name: &str, id: u64) -> Vec<ClaimRecord> {
    store.claims_after(&tag(name), id, 100).unwrap()
}

pub fn a_claim_is_remembered_with_who_made_it(backend: &mut dyn Backend) {
    let (a, b) = (host("a"), host("b"));
    let again = ClaimedBy { holds_from: Some(7), ..a.clone() };
    let mut stores = [backend.connect(), backend.connect()];
    let row = create(&mut stores[0], &new_tag("t", 1, 10)).unwrap();
    let wish = ClaimWish::new(1, 1000);
    let claims =
        [(0, &a), (1, &b), (0, &again)].map(|(at, by)| claim_as(&mut stores[at], by, "t", wish));
    // By Leaf, say: nobody says who.
    claim(&mut stores[0], "t", 5);
    let last = claim_as(&mut stores[1], &b, "t", wish);
    let store = &mut *stores[0];
    let found = told(store, "t", 0);
    let whose: Vec<_> = found.iter().map(|one| (one.run, &*one.by.name)).collect();
    let [first, second, third] = claims.map(|claim| claim.run);
    assert_eq!(whose, [(first, "a"), (second, "b"), (third, "a"), (last.run, "b")]);
    assert_eq!([&found[1].by, &found[2].by], [&b, &again]);
    assert!(found.iter().all(|one| one.generation == row.generation), "{found:?}");
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
    assert!(found.iter().all(|one| u128::from(one.at.0).abs_diff(now) < 60_000), "{found:?}");
    assert!(found[0].has(1) && found[0].has(10) && !found[0].has(11), "{found:?}");

    // Those that end after an id, so many.
    assert_eq!(told(store, "t", 11), found[1..]);
    assert_eq!(told(store, "t", 20), found[1..]);
    assert_eq!(told(store, "t", 21), found[2..]);
    assert_eq!(store.claims_after(&tag("t"), 0, 2).unwrap(), found[..2]);
    assert_eq!(told(store, "t", last.run.end()), []);
    assert_eq!(told(store, "T", 0), []);

    // The tag is gone, and what it had claimed is not forgotten.
    store.delete(&tag("t"), row.generation).unwrap();
    let anew = create(&mut *store, &new_tag("t", 100, 10)).unwrap();
    claim_as(store, &a, "t", wish);
    let later = told(store, "t", 0);
    assert_eq!(later[..4], found);
    assert_eq!((later[4].run.first, later[4].generation), (100, anew.generation));
}

pub fn ids_of_independent_primaries_are_told_from_their_neighbours(backend: &mut dyn Backend) {
    let mut store = backend.connect();
    create(&mut store, &new_tag("t", 1, 10)).unwrap();
    let shard = Shard { of: 3, index: 1 };
    let wish = ClaimWish { shard, ..ClaimWish::new(4, 4) };
    let run = claim_as(&mut store, &host("a"), "t", wish).run;
    assert_eq!(run.stride, 3);
    let [found] = &told(&mut store, "t", 0)[..] else { panic!("one claim") };
    assert_eq!(found.run, run);
    let has: Vec<bool> = (run.first..run.first + 4).map(|id| found.has(id)).collect();
    assert_eq!(has, [true, false, false, true]);
}

/// Ids at both ends of what there is, the longest names, and ids that two claims have: the proof that they were given twice.
pub fn odd_claims_are_told_as_they_were(backend: &mut dyn Backend) {
    let mut store = backend.connect();
    let longest = "\u{8ba2}".repeat(42);
    create(&mut store, &new_tag(&longest, 1, 10)).unwrap();
    let by = ClaimedBy {
        host: HostId("f".repeat(64).into()),
        name: "n".repeat(255).into(),
        holds_from: None,
    };
    let wish = ClaimWish::new(u64::MAX, 1000);
    let all = claim_as(&mut store, &by, &longest, wish).run;
    assert_eq!(all.count, u32::MAX);
    raise(&mut store, &longest, i64::MAX as u64 - 5);
    let last = claim_as(&mut store, &by, &longest, wish).run;
    let found = told(&mut store, &longest, 0);
    assert_eq!(found.iter().map(|one| one.run).collect::<Vec<_>>(), [all, last]);
    assert_eq!(found[0].by, by);

    backend.execute(
        "INSERT INTO leafd_claim (tag, end_id, claimed_ms, first_id, stride, generation, host, name)
         VALUES ('t', 50, 1000, 1, 1, 7, 'h', 'one'), ('t', 50, 2000, 30, 1, 7, 'g', 'two')",
    );
    let both: Vec<_> =
        told(&mut store, "t", 40).into_iter().map(|one| (one.run.first, one.by.name)).collect();
    assert_eq!(both, [(1, "one".into()), (30, "two".into())]);
    backend.execute("UPDATE leafd_claim SET first_id = 60 WHERE tag = 't'");
    let odd = store.claims_after(&tag("t"), 0, 9);
    assert!(
        matches!(&odd, Err(StoreError::Refused(words)) if words.contains("leafd_claim")),
        "{odd:?}"
    );
}

/// Each of its claims serves who waits just then, so that there is one a request or few.
pub fn claims_of_strict_tags_are_not_remembered(backend: &mut dyn Backend) {
    let mut store = backend.connect();
    create(&mut store, &NewTag { strict: true, ..new_tag("s", 1, 10) }).unwrap();
    claim_as(&mut store, &host("a"), "s", ClaimWish::new(1, 1000));
    assert_eq!(told(&mut store, "s", 0), []);
}

pub fn old_claims_are_forgotten_in_batches(backend: &mut dyn Backend) {
    let mut store = backend.connect();
    let row = create(&mut store, &new_tag("t", 1, 10)).unwrap();
    create(&mut store, &new_tag("gone", 1, 10)).unwrap();
    let wish = ClaimWish::new(1, 1000);
    for _ in 0..5 {
        claim_as(&mut store, &host("a"), "t", wish);
    }
    claim_as(&mut store, &host("b"), "gone", wish);
    // One hour, two, and so on; the other tag's is the oldest.
    backend.execute(
        "UPDATE leafd_claim SET claimed_ms = claimed_ms - (60 - end_id) * 360000 WHERE tag = 't'",
    );
    backend
        .execute("UPDATE leafd_claim SET claimed_ms = claimed_ms - 360000000 WHERE tag = 'gone'");
    let hours = |hours: u64| Duration::from_secs(hours * 3600 - 60);
    assert_eq!(store.forget_claims(hours(200), 9).unwrap(), 0);
    assert_eq!(store.forget_claims(hours(2), 1).unwrap(), 1);
    assert_eq!(told(&mut store, "gone", 0), []);
    assert_eq!(store.forget_claims(hours(2), 2).unwrap(), 2);
    assert_eq!(store.forget_claims(hours(2), 2).unwrap(), 1);
    let left: Vec<u64> = told(&mut store, "t", 0).iter().map(|one| one.run.end()).collect();
    assert_eq!(left, [41, 51]);
    assert_eq!(store.forget_claims(Duration::MAX, 9).unwrap(), 0);
    // Claims go on.
    assert_eq!(store.show(&tag("t")).unwrap().generation, row.generation);
    assert_eq!(claim_as(&mut store, &host("a"), "t", wish).run.range(), 51..61);
}

/// What two hosts delete at once is gone, and nothing else.
pub fn hosts_forget_at_once(backend: &mut dyn Backend) {
    const CLAIMS: u64 = 60;
    let mut store = backend.connect();
    create(&mut store, &new_tag("t", 1, 10)).unwrap();
    for _ in 0..CLAIMS {
        claim_as(&mut store, &host("a"), "t", ClaimWish::new(1, 10));
    }
    backend.execute("UPDATE leafd_claim SET claimed_ms = claimed_ms - 7200000 WHERE end_id <= 401");
    let forgotten: u64 = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let mut store = backend.connect();
                scope.spawn(move || {
                    let batch = || store.forget_claims(Duration::from_secs(3600), 7).unwrap();
                    std::iter::repeat_with(batch).take_while(|deleted| *deleted > 0).sum::<u64>()
                })
            })
            .collect();
        threads.into_iter().map(|one| one.join().unwrap()).sum()
    });
    // One that found all of its batch deleted by others stops early.
    let rest =
        std::iter::repeat_with(|| store.forget_claims(Duration::from_secs(3600), 7).unwrap());
    let rest: u64 = rest.take_while(|deleted| *deleted > 0).sum();
    assert_eq!(forgotten + rest, 40);
    let left: Vec<u64> = told(&mut store, "t", 0).iter().map(|one| one.run.first).collect();
    assert_eq!(left, (401..CLAIMS * 10).step_by(10).collect::<Vec<_>>());
}
