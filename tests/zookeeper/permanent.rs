//! Permanent workers on Leaf's nodes: what Java Leaf reads and writes there, and what other programs may have left
//! there.

use leafd::registry::Registry as _;
use leafd_core::registry::{LeaseRecord, RegistryError};
use leafd_core::{UnixMs, WorkerId};

use crate::scene::*;

/// The payload that Java Leaf writes when it registers, and every 3 s.
fn java(address: &str, timestamp: u64) -> Vec<u8> {
    let (ip, port) = address.split_once(':').unwrap();
    format!(r#"{{"ip":"{ip}","port":"{port}","timestamp":{timestamp}}}"#).into_bytes()
}

fn forever(name: &str) -> String {
    format!("{FOREVER}/{name}")
}

#[test]
fn a_number_is_a_node_of_leafs() {
    let place = Place::new();
    let mut registry = place.permanent();
    let bound = soon(&mut registry);
    let ours = held("10.0.0.1:8080", "i1", bound);
    let entry = assign(&mut registry, &ours).unwrap();
    assert_eq!((entry.worker, &entry.holding), (WorkerId(0), &ours));
    assert_eq!(place.raw.children(FOREVER), ["10.0.0.1:8080-0000000000"]);
    let node = forever("10.0.0.1:8080-0000000000");
    let payload = |bound: UnixMs| String::from_utf8(java("10.0.0.1:8080", bound.0)).unwrap();
    assert_eq!(place.raw.get(&node).0, payload(bound));
    assert_eq!(assign(&mut place.permanent(), &held("10.0.0.1:8080", "i2", bound)).unwrap(), entry);

    let next = held("10.0.0.1:8080", "i1", UnixMs(bound.0 + 3_000));
    let written = compare_and_set(&mut registry, 0, Some(ours), next.clone()).unwrap();
    assert_eq!(place.raw.get(&node).0, payload(next.expires));
    assert_eq!(place.raw.get(&node).1.mtime.unsigned_abs(), written.0);
    let entries = snapshot(&mut registry).entries;
    assert_eq!((entries.len(), &entries[0].holding, entries[0].seen), (1, &next, UnixMs(1)));
    // The next host gets the next number, whoever it is.
    let java_node = place.raw.create_counted(&forever("10.0.0.2:8080-"), &java("10.0.0.2:8080", 5));
    assert_eq!(java_node, "10.0.0.2:8080-0000000001");
    let third = assign(&mut registry, &held("10.0.0.3:8080", "i", bound)).unwrap();
    assert_eq!(third.worker, WorkerId(2));
}

#[test]
fn a_java_leaf_is_seen_and_succeeded() {
    let place = Place::new();
    place.raw.create_all(FOREVER);
    let mut registry = place.permanent();
    let now = snapshot(&mut registry).now.0;
    let name = place.raw.create_counted(&forever("10.0.0.1:80-"), &java("10.0.0.1:80", now));
    let entry = snapshot(&mut registry).entries.remove(0);
    let holder = entry.holding.holder.clone().unwrap();
    assert_eq!(
        (&*holder.id, &*holder.name, &*holder.incarnation.0),
        ("10.0.0.1:80", "10.0.0.1:80", "")
    );
    // The ids that it has issued since its last write are covered.
    assert_eq!((entry.holding.expires, entry.seen), (UnixMs(now + 10_000), UnixMs(now)));

    // The Leaf writes again, so a caller that has seen the former payload gets a conflict.
    place.raw.set(&forever(&name), &java("10.0.0.1:80", now + 3_000));
    let ours = held("10.0.0.1:80", "i1", UnixMs(now + 20_000));
    let found =
        conflict(compare_and_set(&mut registry, 0, Some(entry.holding), ours.clone())).unwrap();
    assert_eq!(found.expires, UnixMs(now + 13_000));
    compare_and_set(&mut registry, 0, Some(found), ours.clone()).unwrap();
    assert_eq!(snapshot(&mut registry).entries[0].holding, ours);

    // Then a Java Leaf starts again and writes. Its payload is not mistaken for leafd's.
    place.raw.set(&forever(&name), &java("10.0.0.1:80", now + 15_000));
    let back = snapshot(&mut registry).entries.remove(0).holding;
    assert_eq!(&*back.holder.clone().unwrap().incarnation.0, "");
    assert_eq!(back.expires, UnixMs(now + 25_000));
    assert_eq!(
        conflict(compare_and_set(&mut registry, 0, Some(ours.clone()), ours.clone())),
        Some(back.clone())
    );
    // Its clock was set back meanwhile, but leafd's recorded time still counts.
    place.raw.set(&forever(&name), &java("10.0.0.1:80", now - 60_000));
    assert_eq!(snapshot(&mut registry).entries[0].holding.expires, ours.expires);
}

#[test]
fn hosts_that_start_at_once_get_numbers_of_their_own() {
    let place = Place::new();
    let bound = soon(&mut place.permanent());
    let mut numbers: Vec<u64> = std::thread::scope(|scope| {
        let leafd = |host: u64| {
            let mut registry = place.permanent();
            scope.spawn(move || {
                let ours = held(&format!("10.0.0.{host}:80"), "i", bound);
                assign(&mut registry, &ours).unwrap().worker.0
            })
        };
        let java = |host: u64| {
            let raw = Raw::connect(&place.address);
            scope.spawn(move || {
                let prefix = forever(&format!("10.0.1.{host}:80-"));
                let name = raw.create_counted(&prefix, &java("10.0.0.1:80", 5));
                name.rsplit_once('-').unwrap().1.parse().unwrap()
            })
        };
        let hosts: Vec<_> = (0..8).flat_map(|host| [leafd(host), java(host)]).collect();
        hosts.into_iter().map(|host| host.join().unwrap()).collect()
    });
    numbers.sort_unstable();
    assert!(numbers.iter().copied().eq(0..16), "{numbers:?}");
    assert_eq!(place.raw.children(FOREVER).len(), 16);
}

#[test]
fn beyond_the_pool_numbers_of_deleted_nodes_are_given_again() {
    let place = Place::new();
    let mut registry = place.permanent();
    let bound = soon(&mut registry);
    let under = snapshot(&mut registry).registry;
    let mut assign =
        |host: u64| registry.assign(&under, 0..4, &held(&format!("10.0.0.{host}:80"), "i", bound));
    for host in 0..4 {
        assert_eq!(assign(host).unwrap().worker, WorkerId(host));
    }
    match assign(4) {
        Err(RegistryError::Exhausted(words)) => {
            assert!(words.contains("10.0.0.0:80-0000000000") && words.contains(FOREVER), "{words}");
        }
        other => panic!("{other:?}"),
    }
    // As long as the ids recorded by its host may still be used, a number isn't assigned again, even if its node was
    // deleted.
    place.raw.delete(&forever("10.0.0.2:80-0000000002"));
    let short = held("10.0.0.1:80", "i", UnixMs(1));
    compare_and_set(&mut place.permanent(), 1, Some(held("10.0.0.1:80", "i", bound)), short)
        .unwrap();
    place.raw.delete(&forever("10.0.0.1:80-0000000001"));
    assert_eq!(assign(4).unwrap().worker, WorkerId(1));
    assert_eq!(place.raw.children(FOREVER)[2], "10.0.0.4:80-0000000001");
    // A host whose node was deleted gets its own number back if it asks for one.
    assert_eq!(assign(2).unwrap().worker, WorkerId(2));
    assert!(matches!(assign(5), Err(RegistryError::Exhausted(_))));
    // The counter is not used if it has reached a number that was taken without it.
    let place = Place::new();
    let mut registry = place.permanent();
    snapshot(&mut registry);
    place.raw.create(&forever("10.0.0.9:80-1"), &java("10.0.0.9:80", 5));
    place.raw.create(&forever("10.0.0.8:80-2"), &java("10.0.0.8:80", 5));
    assert_eq!(
        crate::scene::assign(&mut registry, &held("10.0.0.1:80", "i", bound)).unwrap().worker,
        WorkerId(0)
    );
    assert_eq!(
        crate::scene::assign(&mut registry, &held("10.0.0.2:80", "i", bound)).unwrap().worker,
        WorkerId(3)
    );
}

#[test]
fn a_host_has_one_number_and_a_number_one_host() {
    let place = Place::new();
    place.raw.create_all(FOREVER);
    let mut registry = place.permanent();
    let ours = held("10.0.0.1:80", "i", soon(&mut registry));
    place.raw.create(&forever("10.0.0.1:80-5"), &java("10.0.0.1:80", 5));
    assert_eq!(assign(&mut registry, &ours).unwrap().worker, WorkerId(5));
    place.raw.create(&forever("10.0.0.1:80-0000000006"), &java("10.0.0.1:80", 5));
    refused(assign(&mut registry, &ours), "10.0.0.1:80-0000000006");
    place.raw.delete(&forever("10.0.0.1:80-0000000006"));
    place.raw.create(&forever("10.0.0.2:80-0000000005"), &java("10.0.0.2:80", 5));
    refused(assign(&mut registry, &ours), "10.0.0.2:80-0000000005");
    place.raw.delete(&forever("10.0.0.2:80-0000000005"));
    let under = snapshot(&mut registry).registry;
    match registry.assign(&under, 0..5, &ours) {
        Err(RegistryError::Exhausted(words)) => assert!(words.contains("0 to 4"), "{words}"),
        other => panic!("{other:?}"),
    }
    // A node whose name doesn't come from the counter is renewed all the same.
    let java_wrote = snapshot(&mut registry).entries.remove(0).holding;
    compare_and_set(&mut registry, 5, Some(java_wrote), ours.clone()).unwrap();
    assert_eq!(snapshot(&mut registry).entries[0].holding, ours);
    place.raw.delete(&forever("10.0.0.1:80-5"));
    assert_eq!(conflict(compare_and_set(&mut registry, 5, Some(ours.clone()), ours)), None);
}

#[test]
fn what_others_left_harms_nobody() {
    let place = Place::new();
    place.raw.create_all(FOREVER);
    let mut registry = place.permanent();
    let bound = soon(&mut registry);
    let ours = held("10.0.0.1:80", "i", bound);
    let entry = assign(&mut registry, &ours).unwrap();
    for name in ["leafd", "a:1-", "a:1-x", "a:1--5", "10.0.0.1:80-9999999999"] {
        place.raw.create(&forever(name), b"garbage");
    }
    for (name, payload) in [
        ("-7", &b""[..]),
        ("two words-8", b"{}"),
        ("10.0.0.9:80-0000000009-x", b"\x00\xff"),
        ("..:-10", br#"{"timestamp":-1}"#),
        ("10.0.0.11:80-0000000011", br#"{"ip":"x","port":5,"timestamp":99999999999999999999}"#),
        ("10.0.0.12:80-+12", br#"{"timestamp":9223372036854775807}"#),
        ("10.0.0.13:80-0000000013", &[b'['; 100_000]),
    ] {
        place.raw.create(&forever(name), payload);
    }
    let entries = snapshot(&mut registry).entries;
    let workers: Vec<u64> = entries.iter().map(|entry| entry.worker.0).collect();
    assert_eq!(workers, [0, 7, 8, 9, 10, 11, 12, 13]);
    for entry in &entries[1..] {
        let holder = entry.holding.holder.as_ref().unwrap();
        assert!(!holder.id.is_empty() && holder.id.bytes().all(|byte| byte.is_ascii_graphic()));
        assert!(entry.worker.0 == 12 || entry.seen == entry.written, "{entry:?}");
    }
    let later = held("10.0.0.1:80", "i", UnixMs(bound.0 + 1));
    compare_and_set(&mut registry, 0, Some(entry.holding), later.clone()).unwrap();
    assert_eq!(assign(&mut registry, &later).unwrap().holding, later);

    // An invalid payload in the host's own node is refused, and not overwritten.
    for odd in ["", "{}", "garbage", r#"{"ip":"10.0.0.1","port":"80","timestamp":"5"}"#] {
        place.raw.set(&forever("10.0.0.1:80-0000000000"), odd.as_bytes());
        refused(assign(&mut registry, &later), "10.0.0.1:80-0000000000");
        refused(compare_and_set(&mut registry, 0, Some(later.clone()), later.clone()), "payload");
        let seen = snapshot(&mut registry).entries.remove(0).holding;
        refused(compare_and_set(&mut registry, 0, Some(seen), later.clone()), "payload");
        assert_eq!(place.raw.get(&forever("10.0.0.1:80-0000000000")).0, odd);
    }
    // So is invalid content in leafd's own node.
    place.raw.set(&forever("10.0.0.1:80-0000000000"), &java("10.0.0.1:80", 5));
    place.raw.set("/leafd/permanent/com.acme-ids/hosts/10.0.0.1:80", b"garbage");
    refused(assign(&mut registry, &later), "leafd node");
}

#[test]
fn what_can_t_be_for_good_is_refused() {
    let place = Place::new();
    let mut registry = place.permanent();
    let bound = soon(&mut registry);
    for id in ["host", "pod-1:80", ":8080", "a/b:1"] {
        refused(assign(&mut registry, &held(id, "i", bound)), "IP:PORT");
    }
    refused(assign(&mut registry, &LeaseRecord { holder: None, expires: bound }), "needs a holder");
    let ours = held("10.0.0.1:80", "i", bound);
    assign(&mut registry, &ours).unwrap();
    let theirs = held("10.0.0.2:80", "i", bound);
    let free = LeaseRecord { holder: None, expires: bound };
    for next in [theirs.clone(), free] {
        refused(
            compare_and_set(&mut registry, 0, Some(ours.clone()), next),
            "permanently assigned to \"10.0.0.1:80\"",
        );
    }
    refused(
        compare_and_set(&mut registry, 1, None, theirs.clone()),
        "worker 1 is not permanently assigned",
    );
    let found = conflict(compare_and_set(&mut registry, 0, Some(theirs.clone()), theirs));
    assert_eq!(found, Some(ours.clone()));
    let far = held("10.0.0.1:80", "i", UnixMs(u64::MAX));
    let result = compare_and_set(&mut registry, 0, Some(ours), far);
    assert!(matches!(result, Err(RegistryError::TooFarAhead { .. })), "{result:?}");
}

#[test]
fn leafs_folder_is_there_before_anybody_and_not_made_again() {
    // If the folder were missing, a Java Leaf that starts first, or several at once, would run as worker 0.
    let place = Place::new();
    let mut registry = place.permanent();
    let bound = soon(&mut registry);
    assert!(place.raw.children(FOREVER).is_empty());
    let ours = held("10.0.0.1:80", "i", bound);
    assign(&mut registry, &ours).unwrap();
    // Numbers would be assigned again from 0 on while hosts with these numbers continue.
    place.raw.delete(&forever("10.0.0.1:80-0000000000"));
    place.raw.delete(FOREVER);
    for mut registry in [registry, place.permanent()] {
        refused(registry.snapshot(0..9), FOREVER);
    }
    assert!(!place.raw.exists(FOREVER));
}
