//! Fleets of real daemons whose snowflake workers are leased, under all kinds of faults of clocks, schedulers,
//! networks, disks and registries: one suite for every registry. Every issued id is checked. Each fault prints a line:
//! registry, fault, ids issued during it, errors by status, repeated ids, and the time until every host had ids again.
#![allow(clippy::unwrap_used, reason = "in a test an unwrap is an assertion")]

/// Makes a test of each check, which runs on all registries at the same time, because the checks mostly wait.
macro_rules! on_each_registry {
    ($($check:ident),+ $(,)?) => {
        mod on_each_registry {
            use leafd_tests::servers::zookeeper::ZooKeeper;
            use leafd_tests::servers::mysqld::Engine;
            use leafd_tests::servers::{MariaDb, Mysql, Postgres};

            $(#[test]
            fn $check() {
                let mut checks: Vec<(&str, fn())> = vec![
                    ("PostgreSQL", super::$check::<Postgres>),
                    ("MariaDB", super::$check::<MariaDb>),
                    ("ZooKeeper", super::$check::<ZooKeeper>),
                ];
                if Engine::Mysql.is_tested() {
                    checks.push(("MySQL", super::$check::<Mysql>));
                }
                crate::at_once(&checks);
            })+
        }
    };
}

mod away;
mod beside;
mod churn;
mod clocks;
mod copies;
mod failover;
mod fleet;
mod misuse;
mod registry;
mod restarts;
mod sleeps;

/// Runs these at the same time, each on a thread with this name. Fails if any of them does.
fn at_once(checks: &[(&str, fn())]) {
    let threads: Vec<_> = checks
        .iter()
        .map(|(name, check)| {
            (name, std::thread::Builder::new().name((*name).to_owned()).spawn(*check).unwrap())
        })
        .collect();
    let failed: Vec<_> =
        threads.into_iter().filter_map(|(name, one)| one.join().is_err().then_some(name)).collect();
    assert!(failed.is_empty(), "failed: {failed:?}");
}
