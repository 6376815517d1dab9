//! leafd under a real systemd: the package, its units, and what an operator does with them. Each test boots a machine
//! of its own from this machine's files, on which nothing changes.
#![allow(clippy::unwrap_used, reason = "in a test an unwrap is an assertion")]

mod documents;
mod http;
mod life;
mod machine;
mod package;
mod stores;
mod troubles;
mod under_load;

use leafd_tests::{host, load, servers};
