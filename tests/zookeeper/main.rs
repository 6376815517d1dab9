//! Worker registries in a real ZooKeeper: what is recorded, byte for byte, and what happens to it when sessions,
//! connections or the server itself fail.
#![allow(clippy::unwrap_used, reason = "in a test an unwrap is an assertion")]

mod beside_leaf;
mod daemons;
mod ensemble;
mod faults;
mod leased;
mod permanent;
mod scene;
