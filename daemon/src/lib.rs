//! leafd, the daemon: unique 64-bit ids for the processes of one host.
//!
//! The modules along the path of a request, in reading order:
//!
//! - [`run`]: the daemon's life cycle; it assembles the parts;
//! - [`server`]: from the socket to requests;
//! - [`requests`]: from a request to its answer, one closed `match`;
//! - [`engine`]: the work for the tags in use: segments, snowflake layouts, the lease, and the stores upstream;
//! - [`health`]: whether ids are available, and if not, why;
//! - [`reply`]: answers to requests, and their buffers;
//! - [`journal`]: what this host claimed and may have issued, on disk before use;
//! - [`store`]: the central store, where ranges of numbers are claimed;
//! - [`registry`]: where the snowflake worker number comes from.
//!
//! The crate `leafd-core` decides which ids may be issued next.
//!
//! The other modules: [`blocking`] (a thread for a backend that blocks), [`cli`] (the program's other commands),
//! [`config`], `http` and [`metrics`] (for monitoring), [`systemd`], [`clock`] (the
//! wall and boot-time clocks), [`histogram`], [`lock`], [`logging`], [`memory`], [`output`], [`random`], [`recent`]
//! (the last lines of the log) and [`state_dir`].
#![deny(unsafe_code)]

pub mod blocking;
mod busy;
pub mod cli;
pub mod clock;
pub mod config;
pub mod engine;
pub mod health;
pub mod histogram;
#[cfg(feature = "http")]
pub mod http;
pub mod journal;
pub mod lock;
pub mod logging;
pub mod memory;
pub mod metrics;
pub mod output;
pub mod random;
pub mod recent;
pub mod registry;
pub mod reply;
pub mod requests;
pub mod run;
pub mod server;
pub mod state_dir;
pub mod store;
pub mod systemd;
