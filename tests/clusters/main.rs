//! The real daemons on real clusters whose nodes are killed, stopped, cut off and rebuilt, and whose leaders change,
//! with a load of every kind running and every id checked. Each test prints what it measured, which
//! docs/operate/clusters.md shows.
//!
//! They take minutes: `./tests/run clusters` runs them all, `./tests/run` one of them.
#![allow(clippy::unwrap_used, reason = "in a test an unwrap is an assertion")]

mod course;
mod galera;
mod group_replication;
mod haproxy;
mod patroni;
mod report;
mod routes;
mod splits;
mod zookeeper;
