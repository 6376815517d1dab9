//! leafd, the daemon: unique 64-bit ids for the processes of one host.
//!
//! A request's way, and the order in which to read:
//!
//! - [`id`]: the pure core; which ids may be issued next.
//! - [`store`]: the central store, where ranges of numbers are claimed.
//! - [`journal`]: what this host claimed and may have issued, on disk before use.
//! - [`state_dir`]: the directory that the journal lies in; one daemon owns it.
#![forbid(unsafe_code)]

pub mod id;
pub mod journal;
pub mod state_dir;
pub mod store;
