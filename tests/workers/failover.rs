//! A database that is the registry dies with claims that its standby never saw. Everybody who holds one tells the new
//! primary before anybody claims anew.

use std::time::{Duration, Instant};

use leafd_tests::host::{Host, eventually};
use leafd_tests::load::{Drawn, Load};
use leafd_tests::servers::{MariaDb, Pair, Postgres, Server};

use crate::fleet::{
    RESUMES_WITHIN, TAG, draw_of, errors_of, held, id_of, lease, only, row, worker_of,
};

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

/// So few workers that a new host would choose a lost claim's soon: as many as hosts, and one.
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
    // Known to the standby: the first host's claim. Of the next three it never hears.
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
    // One of them is down while the standby takes over, and back in time.
    hosts[3].kill();

    let before = load.issued();
    let begun = Instant::now();
    pair.primary.kill();
    pair.standby.promote();
    hosts[4].start();
    hosts[3].start();
    // A new host waits until all have spoken.
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

#[track_caller]
fn number(host: &Host) -> u64 {
    lease(host)["worker"].as_u64().expect("it has a worker")
}
