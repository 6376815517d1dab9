//! Fleets of real daemons whose snowflake workers are leased, in everything that can go wrong with clocks, schedulers,
//! networks, disks and registries: one suite for every registry. Every id that is issued is checked. Each fault prints
//! a line: registry, fault, ids issued during it, errors by status, ids that came twice, time until every host
//! had ids again.
#![allow(clippy::unwrap_used, reason = "in a test an unwrap is an assertion")]

/// Makes a test of each check, which runs on every registry at once: they mostly wait.
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

/// Runs these at once, each on a thread of this name; fails when any of them does.
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
