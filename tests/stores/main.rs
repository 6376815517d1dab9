//! The real daemons on real database servers that fail in every way, with a load running and every id checked: one
//! suite for PostgreSQL, MariaDB and MySQL. Each test prints what it measured.
#![allow(clippy::unwrap_used, reason = "in a test an unwrap is an assertion")]

/// Makes a test of each check for each server, or for each server except MySQL.
macro_rules! on_each_server {
    ($($check:ident),* $(,)? $(; but for MySQL: $($other:ident),+ $(,)?)?) => {
        mod on_postgres {
            $(#[test]
            fn $check() {
                super::$check::<leafd_tests::servers::Postgres>();
            })*
            $($(#[test]
            fn $other() {
                super::$other::<leafd_tests::servers::Postgres>();
            })+)?
        }
        mod on_mariadb {
            $(#[test]
            fn $check() {
                super::$check::<leafd_tests::servers::MariaDb>();
            })*
            $($(#[test]
            fn $other() {
                super::$other::<leafd_tests::servers::MariaDb>();
            })+)?
        }
        mod on_mysql {
            $(#[test]
            fn $check() {
                if leafd_tests::servers::mysqld::Engine::Mysql.is_tested() {
                    super::$check::<leafd_tests::servers::Mysql>();
                }
            })*
        }
    };
}

/// Makes a test of each check for MariaDB and for MySQL.
macro_rules! on_both {
    ($($check:ident),* $(,)?) => {
        mod on_mariadb {
            $(#[test]
            fn $check() {
                super::$check::<leafd_tests::servers::mysqld::OfMariaDb>();
            })*
        }
        mod on_mysql {
            $(#[test]
            fn $check() {
                if leafd_tests::servers::mysqld::Engine::Mysql.is_tested() {
                    super::$check::<leafd_tests::servers::mysqld::OfMysql>();
                }
            })*
        }
    };
}

mod at_random;
mod away;
mod beside_leaf;
mod commits;
mod conflicts;
mod crowd;
mod doctor;
mod examples;
mod failover;
mod fixtures;
mod former_routes;
mod from_leaf;
mod gaps;
mod gaps_primaries;
mod health;
mod kept_statements;
mod leaf_only;
mod left_servers;
mod lost_past;
mod made_up;
mod many_hosts;
mod masked;
mod mysql_servers;
mod other_database;
mod other_registry;
mod outages;
mod primaries;
mod primaries_tags;
mod record_privileges;
mod releases;
mod remade_tag;
mod restore;
mod routed;
mod routes;
mod routes_deleted;
mod routes_unfinished;
mod scene;
mod schema;
mod series;
mod several_stores;
mod strict;
mod tags;
mod transactions;
mod whose;
mod workers;
