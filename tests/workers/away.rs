//! The registry is unavailable: paused, killed, unreachable, stopped for a long time, or without its session. Ids
//! continue until the lease ends, then errors say why, and everything recovers without help.

use std::time::{Duration, Instant};

use leafd_tests::host::eventually;
use leafd_tests::load::Load;
use leafd_tests::servers::zookeeper::ZooKeeper;

use crate::fleet::{
    Fleet, RESUMES_WITHIN, TAG, held, id_of, lease, only, recovery, refusal, served, worker_of,
};
use crate::registry::{Backend, Registry};

/// The lease of hosts that lose their registry for a longer time.
const LEASE: Duration = Duration::from_secs(6);

/// How much of the lease may have passed when the outage begins: a renewal interval, and what a busy machine adds.
const LATE: Duration = Duration::from_secs(3);

/// How long ZooKeeper is stopped, unless the environment says otherwise: `LEAFD_TEST_OUTAGE=60` for a minute.
const OUTAGE: Duration = Duration::from_secs(12);

on_each_registry!(
    a_registry_that_is_paused,
    a_registry_that_crashes,
    a_registry_in_a_black_hole,
    a_registry_whose_answers_are_lost,
    a_registry_that_is_away_for_less_than_the_lease,
    a_worker_is_given_back_to_a_registry_that_answers_only
);

fn a_registry_that_is_paused<B: Backend>() {
    past_the_lease::<B>(
        Registry::own(),
        "registry paused past the lease",
        &["no answer", "not connected", "timed out", "accepts the session"],
        |registry| registry.server().pause(),
        |registry| registry.server().resume(),
    );
}

fn a_registry_that_crashes<B: Backend>() {
    past_the_lease::<B>(
        Registry::own(),
        "registry killed for longer than the lease",
        &["broke", "closed", "reset", "refused", "accepts the session"],
        |registry| registry.server().crash(),
        |registry| registry.server().restart(),
    );
}

fn a_registry_in_a_black_hole<B: Backend>() {
    past_the_lease::<B>(
        Registry::shared(),
        "black hole for longer than the lease",
        &["no answer", "not connected", "timed out", "accepts the session"],
        |registry| registry.relay.swallow(),
        |registry| registry.relay.pass(),
    );
}

/// The registry receives and executes what the hosts send, and they hear nothing.
fn a_registry_whose_answers_are_lost<B: Backend>() {
    past_the_lease::<B>(
        Registry::shared(),
        "answers lost for longer than the lease",
        &["no answer", "not connected", "timed out", "accepts the session"],
        |registry| registry.relay.swallow_answers(),
        |registry| registry.relay.pass(),
    );
}

/// Ids continue until the lease ends, then they are refused with one of these causes, and afterwards they return with
/// the same workers.
fn past_the_lease<B: Backend>(
    registry: Registry<B>,
    fault: &str,
    causes: &[&str],
    begin: impl FnOnce(&mut Registry<B>),
    end: impl FnOnce(&mut Registry<B>),
) {
    let lease = format!("{}s", LEASE.as_secs());
    let mut fleet = Fleet::<B>::new(registry, 3, &lease, &[]);
    let errors = fleet.under_load(fault, 3, |fleet, load| {
        let workers = workers(fleet);
        begin(&mut fleet.registry);
        served_until(load, Instant::now() + LEASE - LATE);
        for host in &fleet.hosts {
            let told = refusal(host, LEASE + 2 * LATE);
            assert!(told.contains("this host's lease of worker"), "{told}");
            assert!(causes.iter().any(|cause| told.contains(cause)), "{causes:?} in {told}");
        }
        // The load's requests also wait, and finally get the error.
        std::thread::sleep(Duration::from_secs(5));
        end(&mut fleet.registry);
        let recovered = recovery(load);
        assert_eq!(self::workers(fleet), workers, "nobody else came");
        Some(recovered)
    });
    // On a busy machine, a request's deadline may pass, or its client may give up, just before the error arrives.
    only(&errors, &["NO_WORKER", "DEADLINE", "no answer"]);
    assert!(!errors.is_empty());
    fleet.finish();
}

fn a_registry_that_is_away_for_less_than_the_lease<B: Backend>() {
    let mut fleet = Fleet::<B>::new(Registry::own(), 3, "40s", &[]);
    let errors = fleet.under_load("registry killed, back within the lease", 3, |fleet, load| {
        fleet.registry.server().crash();
        served(load, Duration::from_secs(3));
        for host in &fleet.hosts {
            eventually("the log warns while ids still come", RESUMES_WITHIN, || {
                let log = host.log();
                let warns = |line: &str| {
                    let of_registry = ["registry_away", "store_away"];
                    line.contains("WARN") && of_registry.iter().any(|code| line.contains(code))
                };
                log.lines().any(warns).then_some(())
            });
        }
        fleet.registry.server().restart();
        Some(recovery(load))
    });
    only(&errors, &[]);
    let errors = fleet.under_load("connections cut and refused for 3 s", 3, |fleet, load| {
        fleet.registry.relay.refuse();
        served(load, Duration::from_secs(3));
        fleet.registry.relay.pass();
        Some(recovery(load))
    });
    only(&errors, &[]);
    fleet.hosts.iter().for_each(renewed);
    fleet.finish();
}

/// The server expires every session, which it does only for clients that it doesn't hear from.
#[test]
fn sessions_that_expire() {
    let mut fleet = Fleet::<ZooKeeper>::new(Registry::own(), 3, "40s", &[]);
    let fault = "ZooKeeper sessions expired (silence of 9 s, sessions last 6 s)";
    let errors = fleet.under_load(fault, 3, |fleet, load| {
        fleet.registry.relay.swallow();
        served(load, Duration::from_secs(9));
        fleet.registry.relay.pass();
        let begun = Instant::now();
        fleet.hosts.iter().for_each(renewed);
        load.each_draws(RESUMES_WITHIN);
        Some(begun.elapsed())
    });
    only(&errors, &[]);
    fleet.finish();
}

#[test]
fn an_ensemble_that_is_stopped_for_long() {
    let named = std::env::var("LEAFD_TEST_OUTAGE").ok();
    let outage = named.map_or(OUTAGE, |seconds| {
        Duration::from_secs(seconds.parse().expect("LEAFD_TEST_OUTAGE is a number of seconds"))
    });
    let mut fleet = Fleet::<ZooKeeper>::new(Registry::own(), 3, "10m", &[]);
    let fault = format!("ZooKeeper stopped for {} s, lease 10 min", outage.as_secs());
    let errors = fleet.under_load(&fault, 3, |fleet, load| {
        let before = workers(fleet);
        fleet.registry.server().process.stop();
        served(load, outage / 2);
        // A host that restarts meanwhile uses its journal.
        fleet.hosts[2].kill();
        let (id, _) = fleet.hosts[2].first_id("snowflake");
        assert_eq!(worker_of(id), before[2]);
        fleet.add(&[id]);
        served(load, outage / 2);
        fleet.registry.server().restart();
        fleet.hosts.iter().for_each(renewed);
        assert_eq!(workers(fleet), before);
        Some(recovery(load))
    });
    only(&errors, &["no connection", "disconnected"]);
    assert_eq!(held(&fleet.hosts[0]).len(), 3);
    fleet.finish();
}

/// Waits until the registry confirms a host's claim.
#[track_caller]
fn renewed(host: &leafd_tests::host::Host) {
    eventually("a renewal", Duration::from_secs(30), || {
        let known = lease(host);
        known["renewed_ms_ago"].as_u64().filter(|ago| *ago < 1_500)
    });
}

#[track_caller]
fn served_until(load: &Load, end: Instant) {
    served(load, end.saturating_duration_since(Instant::now()));
}

/// The hosts' worker numbers.
fn workers<B: Backend>(fleet: &Fleet<B>) -> Vec<u64> {
    let of = |host: &leafd_tests::host::Host| lease(host)["worker"].as_u64().expect("it has one");
    fleet.hosts.iter().map(of).collect()
}

fn a_worker_is_given_back_to_a_registry_that_answers_only<B: Backend>() {
    let mut fleet = Fleet::<B>::new(Registry::shared(), 1, "1m", &[]);
    let host = &fleet.hosts[0];
    let mut ids = vec![id_of(host)];
    let release = || host.leafctl(&["worker", "release"]);
    fleet.registry.relay.refuse();
    let refused = release();
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && said.contains("unavailable"), "{refused:?}");
    // It keeps its worker.
    ids.extend(host.raw().draw(TAG, 10));
    assert!(ids.iter().all(|id| worker_of(*id) == worker_of(ids[0])), "{ids:?}");
    fleet.registry.relay.pass();
    eventually("it is given back", RESUMES_WITHIN, || release().status.success().then_some(()));
    assert_eq!(held(host).len(), 0);
    let shown = String::from_utf8(host.leafctl(&["status"]).stdout).unwrap();
    assert!(shown.contains("none; the next request for a snowflake id leases one"), "{shown}");
    for of_a_claim in ["worker_error", "lease left", "renewed ago"] {
        assert!(!shown.contains(of_a_claim), "{of_a_claim} in {shown}");
    }
    ids.push(id_of(host));
    assert_eq!(held(host).len(), 1);
    fleet.add(&ids);
    fleet.finish();
}
