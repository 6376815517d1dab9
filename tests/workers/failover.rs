//! A database that is the registry dies with claims that its standby never received. All their holders report them to
//! the new primary before any host claims a worker.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use leafd_tests::host::{Host, eventually};
use leafd_tests::load::{Drawn, Load};
use leafd_tests::servers::mysqld::Engine;
use leafd_tests::servers::zookeeper::ZooKeeper;
use leafd_tests::servers::{MariaDb, Mysql, Pair, Postgres, Server};

use crate::fleet::{
    Fleet, RESUMES_WITHIN, TAG, draw_of, errors_of, held, id_of, lease, only, row, worker_of,
};
use crate::registry::{Backend as _, Registry, write_to_zookeeper};

/// The setting `failover_settle` of all hosts.
const SETTLE: Duration = Duration::from_secs(5);

#[test]
fn on_postgres() {
    claims_that_are_lost::<Postgres>();
}

#[test]
fn on_mariadb() {
    claims_that_are_lost::<MariaDb>();
}

#[test]
fn on_mysql() {
    if Engine::Mysql.is_tested() {
        claims_that_are_lost::<Mysql>();
    }
}

/// There are so few workers that a new host would soon choose one of a lost claim: one more than there are hosts.
fn claims_that_are_lost<S: Server>() {
    let mut pair = Pair::<S>::new();
    let settle = format!("{}s", SETTLE.as_secs());
    let host = || {
        Host::on_store(&pair.url())
            .set("failover_settle", &settle)
            .set("lease", "20s")
            .set("worker_range", "0..5")
            .set("store_connect_timeout", "1s")
            .set("store_statement_timeout", "1s")
    };
    let mut hosts: Vec<Host> = (0..5).map(|_| host()).collect();
    let mut all = Drawn::default();
    // The standby knows the first host's claim, but never receives the next three.
    hosts[0].start();
    all.add_ids(TAG, &[id_of(&hosts[0])]);
    hosts[1].start();
    hosts[2].start();
    hosts[3].start();
    pair.caught_up();
    pair.lose_from_now();
    let load = Load::start(hosts[..3].iter().map(draw_of).collect());
    load.under_way();
    let of_3 = hosts[3].raw().draw(TAG, 100);
    all.add_ids(TAG, &of_3);
    let workers: Vec<u64> = hosts[..4].iter().map(number).collect();
    assert_eq!(held(&hosts[0]).len(), 4);
    // One of them is down while the standby takes over, and returns in time.
    hosts[3].kill();

    let before = load.issued();
    let begun = Instant::now();
    pair.primary.kill();
    pair.standby.promote();
    hosts[4].start();
    hosts[3].start();
    // A new host waits until all others have reported.
    let mut raw = hosts[4].raw();
    let id = raw.draw_until(TAG, SETTLE + RESUMES_WITHIN);
    let claimed = begun.elapsed();
    assert!(
        claimed >= SETTLE - Duration::from_secs(1),
        "claimed before others could tell: {claimed:?}"
    );
    all.add_ids(TAG, &[id]);
    load.each_draws(RESUMES_WITHIN);
    for (host, worker) in hosts[..4].iter().zip(&workers) {
        eventually("a renewal", RESUMES_WITHIN, || {
            lease(host)["renewed_ms_ago"].as_u64().filter(|ago| *ago < 5_000)
        });
        assert_eq!(number(host), *worker, "each has told what it holds");
    }
    assert!(!workers.contains(&worker_of(id)), "{} of {workers:?}", worker_of(id));
    let id = id_of(&hosts[3]);
    assert!(id > *of_3.last().unwrap());
    all.add_ids(TAG, &[id]);
    assert_eq!(held(&hosts[0]).len(), 5);
    let issued = load.issued() - before;
    let mut drawn = load.stop();
    let errors = errors_of(&mut drawn);
    all.add(drawn);
    let fault = "fail-over with lost claims, 5 daemons, a new one claims";
    println!("{}", row(S::NAME, fault, issued, &errors, all.duplicates(), Some(claimed)));
    all.assert_sound();
    only(&errors, &[]);
}

/// An ensemble has no standby that lags, but its disks can be reset to an old copy. The hosts that have seen later
/// writes report it.
#[test]
fn on_zookeeper() {
    let settle = format!("{}s", SETTLE.as_secs());
    let set = [("failover_settle", &*settle), ("worker_range", "0..4")];
    let mut fleet = Fleet::<ZooKeeper>::new(Registry::own(), 4, "20s", &set);
    let mut first = vec![id_of(&fleet.hosts[0])];
    let server = fleet.registry.server();
    let (data, kept) = (server.process.dir.join("data"), server.process.dir.join("kept"));
    server.process.stop();
    copy(&data, &kept);
    server.restart();
    let fault = "ZooKeeper put back to an old copy, 4 daemons, a new one claims";
    let errors = fleet.under_load(fault, 3, |fleet, load| {
        assert_eq!(held(&fleet.hosts[0]).len(), 3);
        let workers: Vec<u64> = fleet.hosts[..3].iter().map(number).collect();
        let server = fleet.registry.server();
        // The daemons can detect that the copy is old while it has fewer writes than they have seen. Each adds a few
        // writes when it returns.
        write_to_zookeeper(server, 100);
        let written = Instant::now();
        for host in &fleet.hosts[..3] {
            eventually("it has seen them", RESUMES_WITHIN, || {
                let ago_ms = lease(host)["renewed_ms_ago"].as_u64()?;
                (u128::from(ago_ms) < written.elapsed().as_millis()).then_some(())
            });
        }
        server.process.stop();
        std::fs::remove_dir_all(&data).unwrap();
        copy(&kept, &data);
        server.restart();
        let begun = Instant::now();
        eventually("one has told what it holds", RESUMES_WITHIN, || {
            lease(&fleet.hosts[0])["renewed_ms_ago"].as_u64().filter(|ago| *ago < 300)
        });
        let noticed = Instant::now();
        let id = id_of(&fleet.hosts[3]);
        assert!(noticed.elapsed() >= SETTLE - Duration::from_secs(2), "{:?}", noticed.elapsed());
        assert!(!workers.contains(&worker_of(id)), "{} of {workers:?}", worker_of(id));
        first.push(id_of(&fleet.hosts[0]));
        load.each_draws(RESUMES_WITHIN);
        let after: Vec<u64> = fleet.hosts[..3].iter().map(number).collect();
        assert_eq!(after, workers, "each has told what it holds");
        assert_eq!(held(&fleet.hosts[0]).len(), 4);
        fleet.add(&[id]);
        Some(begun.elapsed())
    });
    only(&errors, &[]);
    fleet.add(&first);
    fleet.finish();
}

fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-a").args([from, to]).status();
    assert!(copied.unwrap().success());
}

#[track_caller]
fn number(host: &Host) -> u64 {
    lease(host)["worker"].as_u64().expect("it has a worker")
}
