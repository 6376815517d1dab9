//! leafd, the daemon: unique 64-bit ids for the processes of one host.
//!
//! [`daemon`] puts the parts together. A request's way through them, and the order in which to read:
//!
//! - [`server`], [`stream`], [`connection`], [`codec`]: from the socket to requests;
//! - [`dispatch`]: from a request to its answer, and to what the tags in use need;
//! - [`id`]: the pure core; which ids may be issued next;
//! - [`journal`]: what this host claimed and may have issued, on disk before use;
//! - [`store`]: the central store, where ranges of numbers are claimed;
//! - [`registry`]: where the snowflake worker id comes from.
//!
//! Towards systemd: [`activation`] (the socket that it hands over), [`service`] (what it is told) and [`reload`].
//!
//! Beside it: [`stores`] (opens the configured ones), [`schema`] (their tables), [`adopt`] (accepts another one), [`config`], [`logging`], [`clock`] (the only reader of clocks), [`man`] (manual pages), [`polling`] (when to stay
//! awake), [`socket`], [`peer`], [`lock`] and [`state_dir`].
#![deny(unsafe_code)]

pub mod activation;
pub mod adopt;
pub mod clock;
pub mod codec;
pub mod config;
pub mod connection;
pub mod daemon;
pub mod dispatch;
pub mod id;
pub mod journal;
pub mod lock;
pub mod logging;
pub mod man;
pub mod output;
pub mod peer;
pub mod polling;
pub mod registry;
pub mod reload;
pub mod routes;
pub mod schema;
pub mod server;
pub mod service;
pub mod socket;
pub mod state_dir;
pub mod store;
pub mod stores;
pub mod stream;
mod workers;
