//! Leased workers: the content of the nodes, and that only one of several writers wins.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use leafd::registry::Registry as _;
use leafd_core::registry::{LeaseRecord, RegistryError};
use leafd_core::{UnixMs, WorkerId};
use leafd_tests::seed::seeds;

use crate::scene::*;

#[test]
fn a_claim_is_a_node() {
    let place = Place::new();
    let mut registry = place.leased();
    let before = snapshot(&mut registry);
    assert!(before.entries.is_empty());
    assert_eq!(before.history_age, None);
    let clock = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
    assert!(clock.abs_diff(before.now.0.into()) < 10_000, "{clock} {before:?}");

    let bound = soon(&mut registry);
    let ours = held("h1", "i1", bound);
    let written = compare_and_set(&mut registry, 17, None, ours.clone()).unwrap();
    let text = format!(
        r#"{{"holder":{{"id":"h1","name":"name-of-h1","incarnation":"i1"}},"bound":{},"seen":1}}"#,
        bound.0
    );
    let (payload, stat) = place.raw.get("/leafd/workers/00017");
    assert_eq!(payload, text);
    let at = UnixMs(stat.mtime.unsigned_abs());
    assert!(written.0 - at.0 < 5_000, "{written:?} {at:?}");

    let after = snapshot(&mut place.leased());
    assert_eq!((&after.registry, after.entries.len()), (&before.registry, 1));
    let entry = &after.entries[0];
    assert_eq!((entry.worker, &entry.holding), (WorkerId(17), &ours));
    assert_eq!((entry.seen, entry.written), (UnixMs(1), at));

    // After its release, the expiry stays.
    let free = LeaseRecord { holder: None, expires: bound };
    compare_and_set(&mut registry, 17, Some(ours.clone()), free.clone()).unwrap();
    assert_eq!(
        conflict(compare_and_set(&mut registry, 17, Some(ours.clone()), ours.clone())),
        Some(free.clone())
    );
    assert_eq!(conflict(compare_and_set(&mut registry, 17, None, ours.clone())), Some(free));
    assert_eq!(conflict(compare_and_set(&mut registry, 18, Some(ours.clone()), ours)), None);
}

#[test]
fn bounds_are_judged_by_the_ensembles_clock() {
    let place = Place::new();
    let mut registry = place.leased();
    let now = snapshot(&mut registry).now;
    let far = UnixMs(now.0 + 3_600_000);
    let result = compare_and_set(&mut registry, 1, None, held("h", "i", far));
    let Err(RegistryError::TooFarAhead { now: clock, bound }) = result else {
        panic!("{result:?}")
    };
    assert!(bound == far && clock >= now, "{clock:?} {bound:?}");
    assert!(!place.raw.exists("/leafd/workers/00001"));
    // An expiry in the past is judged again, and so is a node that was last written long ago.
    let ours = held("h", "i", UnixMs(5));
    compare_and_set(&mut registry, 1, None, ours.clone()).unwrap();
    let near = held("h", "i", UnixMs(now.0 + 60_000));
    compare_and_set(&mut registry, 1, Some(ours), near.clone()).unwrap();
    let result = compare_and_set(&mut registry, 1, Some(near), held("h", "i", UnixMs(u64::MAX)));
    assert!(matches!(result, Err(RegistryError::TooFarAhead { .. })), "{result:?}");
}

#[test]
fn of_many_that_claim_one_worker_one_gets_it() {
    const ROUNDS: u64 = 60;
    let place = Place::new();
    let start = soon(&mut place.leased()).0;
    let wins: Vec<Vec<u64>> = std::thread::scope(|scope| {
        let host = |host: u64| {
            let mut registry = place.leased();
            scope.spawn(move || {
                let under = snapshot(&mut registry).registry;
                let (mut won, mut last) = (Vec::new(), None::<LeaseRecord>);
                loop {
                    let round = last.as_ref().map_or(0, |last| last.expires.0 - start + 1);
                    if round == ROUNDS {
                        return won;
                    }
                    let next = held(&format!("h{host}"), "i", UnixMs(start + round));
                    match registry.compare_and_set(&under, &swap_of(3, last, next.clone())) {
                        Ok(_) => {
                            won.push(round);
                            last = Some(next);
                        }
                        Err(RegistryError::Conflict { found, .. }) => {
                            last = found.map(|entry| entry.holding);
                        }
                        Err(error) => panic!("{error}"),
                    }
                }
            })
        };
        let hosts: Vec<_> = (0..8).map(host).collect();
        hosts.into_iter().map(|host| host.join().unwrap()).collect()
    });
    let mut all: Vec<u64> = wins.iter().flatten().copied().collect();
    all.sort_unstable();
    assert!(all.into_iter().eq(0..ROUNDS), "each round has one winner: {wins:?}");
    assert!(wins.iter().filter(|won| !won.is_empty()).count() > 1, "they met: {wins:?}");
}

#[test]
fn what_is_odd_is_nobodys_until_it_is_repaired() {
    let place = Place::new();
    let mut registry = place.leased();
    let good = held("h", "i", soon(&mut registry));
    compare_and_set(&mut registry, 5, None, good.clone()).unwrap();
    for odd in ["", "{}", "garbage", r#"{"holder":null,"bound":-1,"seen":0}"#, "\u{1}\u{0}"] {
        place.raw.set("/leafd/workers/00005", odd.as_bytes());
        let entry = snapshot(&mut registry).entries.remove(0);
        assert_eq!(
            entry.holding,
            LeaseRecord { holder: None, expires: UnixMs(i64::MAX.unsigned_abs()) }
        );
        refused(
            compare_and_set(&mut registry, 5, Some(entry.holding), good.clone()),
            "/leafd/workers/00005",
        );
        refused(
            compare_and_set(&mut registry, 5, Some(good.clone()), good.clone()),
            "can't be read",
        );
    }
    // Nodes with other names are not workers' nodes, and are ignored.
    for name in ["5", "000005", "x", "-0005", "+0005", "99999999999999999999999"] {
        place.raw.create(&format!("/leafd/workers/{name}"), b"garbage");
    }
    assert_eq!(snapshot(&mut registry).entries.len(), 1);
    let bad = LeaseRecord { holder: Some(holder("two words", "i")), ..good };
    refused(compare_and_set(&mut registry, 6, None, bad), "two words");
    let under = snapshot(&mut registry).registry;
    let holding = held("h", "i", UnixMs(1));
    refused(registry.assign(&under, 0..9, &holding), "assigns none permanently");
}

#[test]
fn a_pool_is_looked_at_as_a_whole() {
    let place = Place::new();
    let mut registry = place.leased();
    snapshot(&mut registry);
    let workers = 3_000;
    place.raw.run(async {
        let options = zookeeper_client::CreateMode::Persistent
            .with_acls(zookeeper_client::Acls::anyone_all());
        for worker in 0..workers {
            let path = format!("/leafd/workers/{worker:05}");
            let text = format!(r#"{{"holder":null,"bound":{worker},"seen":0}}"#);
            place.raw.client.create(&path, text.as_bytes(), &options).await.unwrap();
        }
    });
    let begun = Instant::now();
    let all = registry.snapshot(0..65_536).unwrap().entries;
    println!("a look at {workers} workers took {:?}", begun.elapsed());
    assert!(all.iter().map(|entry| entry.worker.0).eq(0..workers));
    assert!(all.iter().all(|entry| entry.holding.expires.0 == entry.worker.0));
    let part = registry.snapshot(100..200).unwrap().entries;
    assert!(part.iter().map(|entry| entry.worker.0).eq(100..200));
}

/// Hosts claim, renew, release and take over workers at random, each relying only on the answers that it got: what a
/// holder believes to hold is what is recorded, and no expiry decreases.
#[test]
fn believing_answers_is_enough() {
    for mut random in seeds(3) {
        let place = Place::new();
        let mut hosts: Vec<_> = (0..3).map(|_| place.leased()).collect();
        let start = snapshot(&mut hosts[0]).now.0;
        let mut recorded: Vec<Option<LeaseRecord>> = vec![None; 4];
        for step in 0..150_u64 {
            let (host, worker) = (random.usize(0..3), random.usize(0..4));
            let bound = UnixMs(start + step);
            let next = match random.u8(0..4) {
                0 => LeaseRecord { holder: None, expires: bound },
                _ => held(&format!("h{host}"), "i", bound),
            };
            let known = random.bool();
            let expected =
                if known { recorded[worker].clone() } else { Some(held("x", "y", bound)) };
            let result = compare_and_set(&mut hosts[host], worker as u64, expected, next.clone());
            if known {
                result.unwrap();
                recorded[worker] = Some(next);
            } else {
                assert_eq!(conflict(result), recorded[worker]);
            }
            let reader = random.usize(0..3);
            let entries = snapshot(&mut hosts[reader]).entries;
            let found = entries.into_iter().map(|entry| (entry.worker.0, entry.holding));
            let known = recorded.iter().enumerate();
            let known = known.filter_map(|(worker, one)| Some((worker as u64, one.clone()?)));
            assert!(found.eq(known), "step {step}");
        }
    }
}
