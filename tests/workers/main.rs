//! Fleets of real daemons whose snowflake workers are leased, in everything that can go wrong with clocks, schedulers,
//! networks, disks and registries: one suite for every registry. Every id that is issued is checked. Each fault prints
//! a line: registry, fault, ids issued during it, errors by status, ids that came twice, time until every host
//! had ids again.
#![allow(clippy::unwrap_used, reason = "in a test an unwrap is an assertion")]

/// Makes a test of each check for each registry.
macro_rules! on_each_registry {
    ($($check:ident),+ $(,)?) => {
        mod on_postgres {
            $(#[test]
            fn $check() {
                super::$check::<leafd_tests::servers::Postgres>();
            })+
        }
        mod on_mariadb {
            $(#[test]
            fn $check() {
                super::$check::<leafd_tests::servers::MariaDb>();
            })+
        }
        mod on_zookeeper {
            $(#[test]
            fn $check() {
                super::$check::<leafd_tests::servers::zookeeper::ZooKeeper>();
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
