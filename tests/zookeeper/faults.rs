//! Sessions that expire, connections that break or swallow bytes, servers that are stopped, and writes that arrive
//! late.

use std::time::{Duration, Instant};

use leafd::registry::zookeeper::{EnsembleTarget, LeasedRegistry};
use leafd::registry::{Registry, RegistryHandle};
use leafd_core::UnixMs;
use leafd_core::registry::{RegistryError, Snapshot};
use leafd_tests::host::eventually;
use leafd_tests::relay::Relay;
use leafd_tests::servers::zookeeper::ZooKeeper;

use crate::scene::*;

/// A call's time limit in tests that wait for it.
const SHORT: Duration = Duration::from_millis(800);

/// Longer than any delay of a thread on a busy machine.
const LATE: Duration = Duration::from_millis(1_500);

fn through(relay: &Relay, place: &Place) -> LeasedRegistry {
    let (_, path) = place.address.split_once('/').unwrap();
    let target = target(&format!("127.0.0.1:{}/{path}", relay.port()));
    LeasedRegistry::open(EnsembleTarget { connect_timeout: SHORT, call_timeout: SHORT, ..target })
}

#[track_caller]
fn bounded<T: std::fmt::Debug>(call: impl FnOnce() -> Result<T, RegistryError>, part: &str) {
    let begun = Instant::now();
    unavailable(call(), part);
    let took = begun.elapsed();
    assert!(took < 2 * SHORT + LATE, "{took:?}");
}

#[test]
fn a_frozen_server_holds_a_call_no_longer_than_its_bound() {
    let server = ZooKeeper::new();
    let place = Place::on(&server.address());
    let short =
        EnsembleTarget { connect_timeout: SHORT, call_timeout: SHORT, ..target(&place.address) };
    let mut registry = LeasedRegistry::open(short);
    let ours = held("h", "i", soon(&mut registry));
    let under = snapshot(&mut registry).registry;
    registry.compare_and_set(&under, &swap_of(1, None, ours.clone())).unwrap();
    server.process.freeze();
    let again = swap_of(1, Some(ours.clone()), held("h", "i", UnixMs(ours.expires.0 + 1)));
    // Either the call's limit ends first, or the connection's.
    bounded(|| registry.compare_and_set(&under, &again), "no ");
    bounded(|| registry.compare_and_set(&under, &again), "");
    bounded(|| registry.snapshot(0..9), "");
    server.process.thaw();
    // One of these writes may have been carried out.
    let found =
        eventually("a look", BOUND, || registry.snapshot(0..9).ok()).entries.remove(0).holding;
    assert!(found == ours || found == again.next, "{found:?}");
    registry.compare_and_set(&under, &swap_of(1, Some(found), ours)).unwrap();
}

#[test]
fn a_stopped_server_is_found_again() {
    let mut server = ZooKeeper::new();
    let place = Place::on(&server.address());
    let mut registry = place.leased();
    let ours = held("h", "i", soon(&mut registry));
    let under = snapshot(&mut registry).registry;
    registry.compare_and_set(&under, &swap_of(1, None, ours.clone())).unwrap();
    server.process.kill();
    unavailable(registry.snapshot(0..9), "");
    let begun = Instant::now();
    unavailable(registry.snapshot(0..9), "accepts the session");
    assert!(begun.elapsed() < LATE, "nobody listens there, which is known at once");
    // Longer than the sessions last, as far as the server knows.
    std::thread::sleep(Duration::from_secs(3));
    server.start();
    let begun = Instant::now();
    registry.compare_and_set(&under, &swap_of(1, Some(ours.clone()), ours.clone())).unwrap();
    println!("a swap {:?} after the server came back", begun.elapsed());
    // The same if no call was made while the server was stopped.
    server.process.stop();
    server.start();
    eventually("a look", BOUND, || registry.snapshot(0..9).ok());
    assert_eq!(snapshot(&mut registry).registry, under);
    assert_eq!(snapshot(&mut registry).entries[0].holding, ours);
}

#[test]
fn an_expired_session_is_replaced() {
    let place = Place::new();
    let relay = Relay::to(shared().process.port);
    let mut registry = through(&relay, &place);
    let ours = held("h", "i", soon(&mut registry));
    let under = snapshot(&mut registry).registry;
    registry.compare_and_set(&under, &swap_of(1, None, ours.clone())).unwrap();
    // The server hears nothing for longer than it keeps a session. When the client asks for the session again, it no
    // longer exists.
    relay.swallow();
    std::thread::sleep(Duration::from_secs(8));
    relay.pass();
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(seen_soon(&mut registry).entries[0].holding, ours);
    registry.compare_and_set(&under, &swap_of(1, Some(ours.clone()), ours)).unwrap();
}

#[test]
fn a_black_hole_holds_a_call_no_longer_than_its_bound() {
    let place = Place::new();
    let relay = Relay::to(shared().process.port);
    let mut registry = through(&relay, &place);
    let under = snapshot(&mut registry).registry;
    relay.swallow();
    bounded(|| registry.snapshot(0..9), "no answer");
    bounded(|| registry.snapshot(0..9), "");
    relay.pass();
    assert_eq!(seen_soon(&mut registry).registry, under);
    relay.cut();
    seen_soon(&mut registry);
}

/// A registry's content as soon as its server answers again. A call's time limit is short for a server that collects
/// garbage.
fn seen_soon(registry: &mut dyn Registry) -> Snapshot {
    eventually("a look", BOUND, || registry.snapshot(0..1024).ok())
}

#[test]
fn a_session_outlives_its_silence() {
    // A session that is kept alive between calls needs no replacement, and so no write that all servers must agree on.
    let server = ZooKeeper::new();
    let place = Place::on(&server.address());
    let relay = Relay::to(server.process.port);
    let mut registry = through(&relay, &place);
    snapshot(&mut registry);
    std::thread::sleep(Duration::from_secs(8));
    snapshot(&mut registry);
    assert_eq!(relay.accepted(), 1);
}

#[test]
fn a_write_that_arrives_late_undoes_nothing() {
    let place = Place::new();
    let relay = Relay::to(shared().process.port);
    let (mut slow, mut direct) = (through(&relay, &place), place.leased());
    let bound = soon(&mut direct);
    let under = snapshot(&mut direct).registry;
    let (mut first, mut too_late) = (0, 0);
    // Two of three round trips are reads. With some of these delays, the write is sent but its answer is no longer
    // awaited.
    let delays_ms = (0..4).flat_map(|_| [175, 165, 155, 150, 145, 140, 135, 125]);
    for (worker, delay_ms) in delays_ms.enumerate() {
        let (worker, creates) = (worker as u64, worker % 2 == 0);
        let before = held("h1", "before", bound);
        let expected = (!creates).then(|| before.clone());
        if !creates {
            direct.compare_and_set(&under, &swap_of(worker, None, before)).unwrap();
        }
        snapshot(&mut slow);
        relay.delay(Duration::from_millis(delay_ms));
        let (late, other) = (held("h1", "late", bound), held("h2", "i", bound));
        let answer = slow.compare_and_set(&under, &swap_of(worker, expected.clone(), late.clone()));
        let won = direct.compare_and_set(&under, &swap_of(worker, expected, other.clone()));
        relay.pass();
        if answer.is_ok() {
            assert_eq!(conflict(won), Some(late));
            continue;
        }
        unavailable(answer, "no answer");
        std::thread::sleep(SHORT / 2);
        let entries = snapshot(&mut direct).entries;
        let found = entries.into_iter().find(|entry| entry.worker.0 == worker).unwrap().holding;
        if won.is_ok() {
            // If the late write arrived, it found another version.
            assert_eq!(found, other);
            too_late += 1;
        } else {
            assert_eq!((conflict(won), found), (Some(late.clone()), late));
            first += 1;
        }
        if first > 0 && too_late > 0 {
            break;
        }
    }
    println!("of the writes that were given up {first} came first and {too_late} too late");
    assert!(first > 0, "no write that was given up was carried out, so that nothing was tried");
}

#[test]
fn a_number_that_was_given_unheard_is_found_again() {
    let place = Place::new();
    let relay = Relay::to(shared().process.port);
    let (_, path) = place.address.split_once('/').unwrap();
    let short = EnsembleTarget {
        connect_timeout: SHORT,
        call_timeout: SHORT,
        ..target(&format!("127.0.0.1:{}/{path}", relay.port()))
    };
    let mut slow = leafd::registry::zookeeper::PermanentRegistry::open(
        short,
        &SERVICE.parse().unwrap(),
        false,
    );
    let ours = held("10.0.0.1:80", "i", soon(&mut slow));
    let under = snapshot(&mut slow).registry;
    // The call is abandoned at some point, each time a little later. What was already sent arrives later.
    let mut given_up = 0;
    for delay_ms in [250, 120, 90, 70, 60, 50] {
        relay.delay(Duration::from_millis(delay_ms));
        match slow.assign(&under, 0..1024, &ours) {
            Ok(_) => break,
            Err(error) => {
                unavailable(Err::<(), _>(error), "");
                given_up += 1;
            }
        }
    }
    relay.pass();
    std::thread::sleep(SHORT);
    let entry = assign(&mut place.permanent(), &ours).unwrap();
    assert_eq!((entry.worker.0, entry.holding), (0, ours));
    assert_eq!(place.raw.children(FOREVER), ["10.0.0.1:80-0000000000"]);
    assert!(given_up > 0, "the relay was slow enough");
}

#[test]
fn an_ensemble_goes_on_without_its_leader() {
    let mut servers = ZooKeeper::three();
    let all = servers.each_ref().map(ZooKeeper::address).join(",");
    let (mut registry, mut other) =
        (LeasedRegistry::open(target(&all)), LeasedRegistry::open(target(&all)));
    let bound = soon(&mut registry);
    let under = snapshot(&mut registry).registry;
    let mut last = held("h", "0", bound);
    registry.compare_and_set(&under, &swap_of(1, None, last.clone())).unwrap();
    for round in 1..=2 {
        let leader = servers.iter().position(ZooKeeper::leads).unwrap();
        servers[leader].process.kill();
        let next = held("h", &format!("{round}"), bound);
        let begun = Instant::now();
        // A write that was cut off may have been carried out.
        eventually("a swap", Duration::from_secs(60), || {
            let answer =
                registry.compare_and_set(&under, &swap_of(1, Some(last.clone()), next.clone()));
            match answer {
                Ok(_) => Some(()),
                Err(RegistryError::Conflict { found: Some(found), .. })
                    if found.holding == next =>
                {
                    Some(())
                }
                Err(RegistryError::Unavailable { .. }) => None,
                Err(error) => panic!("{error}"),
            }
        });
        println!("a swap {:?} after the leader was killed", begun.elapsed());
        last = next;
        // Whichever server it connects to, acknowledged writes are there, and the registry is in the same life.
        let seen = eventually("a look", BOUND, || other.snapshot(0..9).ok());
        assert_eq!((&seen.registry, seen.history_age), (&under, None));
        assert_eq!(seen.entries[0].holding, last);
        servers[leader].start();
    }
}

#[test]
fn a_registry_runs_on_a_thread_of_its_own() {
    let place = Place::new();
    let under = snapshot(&mut place.leased()).registry;
    let ours = held("h", "i", soon(&mut place.leased()));
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let handle = RegistryHandle::spawn("the registry", Box::new(place.leased())).unwrap();
    runtime.block_on(async {
        handle.call(|registry| registry.register_layouts(&[])).await.unwrap();
        let swap = swap_of(1, None, ours.clone());
        let of = under.clone();
        handle.call(move |registry| registry.compare_and_set(&of, &swap)).await.unwrap();
        let seen = handle.call(|registry| registry.snapshot(0..9)).await.unwrap();
        assert_eq!(seen.entries[0].holding, ours);
        let assigned = handle.call(move |registry| registry.assign(&under, 0..9, &ours)).await;
        refused(assigned, "assigns none permanently");
        handle.close().await;
        let closed = handle.call(|registry| registry.snapshot(0..9)).await;
        let closed = closed.unwrap_err().to_string();
        assert!(closed.contains("the registry") && closed.contains("closed"), "{closed}");
    });
}
