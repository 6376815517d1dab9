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
            use leafd_tests::servers::{MariaDb, Postgres};

            $(#[test]
            fn $check() {
                crate::at_once([
                    ("PostgreSQL", super::$check::<Postgres>),
                    ("MariaDB", super::$check::<MariaDb>),
                    ("ZooKeeper", super::$check::<ZooKeeper>),
                ]);
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
fn at_once(checks: [(&str, fn()); 3]) {
    let threads = checks.map(|(name, check)| {
        std::thread::Builder::new().name(name.to_owned()).spawn(check).unwrap()
    });
    let failed = threads.map(|thread| thread.join().is_err());
    assert!(!failed.contains(&true), "failed: {failed:?}");
}
