//! leafd under a real systemd: the package, its units, and what operators do with them. Each test boots a separate
//! machine from this machine's files, and changes nothing here.
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
