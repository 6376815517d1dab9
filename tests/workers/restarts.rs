//! A host that restarts, in every way, has its worker immediately. Measures the time from exec to the first id.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use leafd_tests::host::{Host, eventually};
use leafd_tests::load::Drawn;

use crate::fleet::{Fleet, TAG, lease, only, worker_of};
use crate::registry::{Backend, Registry};

/// The lease, 10 minutes.
const LEASE_MS: u64 = 600_000;

/// The number of starts that are measured for each kind; the median is reported.
const TIMES: usize = 3;

/// How soon a start must have an id: it waits 1 s for the registry, and the rest is for a busy machine.
const STARTS_WITHIN: Duration = Duration::from_secs(8);

on_each_registry!(a_restart_has_its_worker_at_once);

/// The state of the registry at a start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum There {
    Up,
    /// Nothing listens.
    Down,
    /// Connections lead to a black hole.
    Silent,
}

fn a_restart_has_its_worker_at_once<B: Backend>() {
    let mut fleet = Fleet::<B>::new(Registry::shared(), 3, "10m", &[]);
    let mut host = fleet.hosts.pop().unwrap();
    let mut ids = host.raw().draw(TAG, 10);
    for there in [There::Up, There::Down, There::Silent] {
        for clean in [true, false] {
            let way = if clean { "clean stop" } else { "kill -9" };
            let fault = format!("restart after {way}, registry {there:?}, exec to first id");
            let errors = fleet.under_load(&fault, 2, |fleet, _| {
                let mut took: Vec<Duration> =
                    (0..TIMES).map(|_| again(fleet, &mut host, clean, there, &mut ids)).collect();
                took.sort();
                Some(took[TIMES / 2])
            });
            only(&errors, &[]);
        }
    }
    fleet.add(&ids);
    fleet.finish();
}

fn again<B: Backend>(
    fleet: &mut Fleet<B>,
    host: &mut Host,
    clean: bool,
    there: There,
    ids: &mut Vec<u64>,
) -> Duration {
    if clean {
        host.stop();
    } else {
        host.kill();
    }
    match there {
        There::Up => {}
        There::Down => fleet.registry.relay.refuse(),
        There::Silent => fleet.registry.relay.swallow(),
    }
    let full_ms = unix_ms() + LEASE_MS;
    let (id, took) = host.first_id(TAG);
    fleet.registry.relay.pass();
    assert_eq!(worker_of(id), worker_of(ids[0]), "its worker is its own");
    assert!(id > *ids.last().unwrap());
    ids.push(id);
    ids.extend(host.raw().draw(TAG, 10));
    assert!(took < STARTS_WITHIN, "{took:?}");
    wait_until_renewed(host, full_ms);
    took
}

/// Waits until the claim is renewed in the registry and in the journal, because a kill between the two would cost the
/// worker.
#[track_caller]
fn wait_until_renewed(host: &Host, full_ms: u64) {
    eventually("a renewal", Duration::from_secs(20), || {
        lease(host)["until_ms"].as_u64().filter(|until| *until >= full_ms)
    });
}

fn unix_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    now.as_millis().try_into().unwrap()
}

/// A host whose registry is its own file.
#[test]
fn a_restart_on_sqlite_has_its_worker_at_once() {
    let mut host = Host::new();
    host.start();
    let mut ids = host.raw().draw(TAG, 10);
    for clean in [true, false] {
        let mut took = Vec::new();
        for _ in 0..TIMES {
            if clean {
                host.stop();
            } else {
                host.kill();
            }
            let full_ms = unix_ms() + LEASE_MS;
            let (id, after) = host.first_id(TAG);
            assert_eq!(worker_of(id), worker_of(ids[0]));
            assert!(id > *ids.last().unwrap());
            ids.push(id);
            ids.extend(host.raw().draw(TAG, 10));
            took.push(after);
            wait_until_renewed(&host, full_ms);
        }
        took.sort();
        let way = if clean { "clean stop" } else { "kill -9" };
        let seconds = took[TIMES / 2].as_secs_f64();
        println!(
            "| SQLite | restart after {way}, exec to first id | {TIMES} | none | 0 | {seconds:.2} s |"
        );
    }
    let drawn = Drawn { ids: BTreeMap::from([(TAG.to_owned(), ids)]), ..Drawn::default() };
    drawn.assert_sound();
}
