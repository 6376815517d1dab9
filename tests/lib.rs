//! What the tests share: hosts with real daemons, real database servers, a relay that fails on demand, a Java Leaf to
//! run beside leafd, and a load that checks every id.
#![allow(clippy::unwrap_used, reason = "in a test an unwrap is an assertion")]

pub mod browser;
pub mod cgroup;
pub mod host;
pub mod http;
pub mod leaf;
pub mod lingering;
pub mod load;
pub mod order;
pub mod power;
pub mod program;
pub mod raw;
pub mod relay;
pub mod seed;
pub mod servers;
pub mod small_disk;
pub mod terminal;
pub mod wall_clock;
