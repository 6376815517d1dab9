//! Blocking client of leafd, the host's daemon that gives out unique 64-bit ids.
//!
//! ```no_run
//! # fn main() -> Result<(), leafd_client::Error> {
//! use leafd_client::Client;
//!
//! let client = Client::connect(leafd_client::default_socket_path())?;
//! let order_id = client.next("orders")?;
//! let hundred: Vec<u64> = client.next_batch("orders", 100)?.collect();
//! # Ok(()) }
//! ```
//!
//! It needs `std` and `libc` only, starts no thread, and is safe to share between threads and to
//! use on both sides of a fork: a child never sees an id that its parent held, whatever the
//! parent's other threads were doing. (The limit: a fork from within a signal handler that
//! interrupted a call of this crate.)
//!
//! Calls are not for signal handlers, which would wait for ever for a lock that the thread they interrupted has.
//! [`Tag::take_for_loop`] alone is. (Handlers that an interpreter runs between its instructions, as Python does, are no
//! such ones: see [`set_interpreter`].)
//!
//! The way of a request, from the caller to the socket:
//!
//! - `client`, `tag`, `pipeline`: what can be asked; `event_loop`: what is held for whoever asks by itself;
//! - `public_ids`: what outsiders are shown instead of ids;
//! - `held`, `names`, `slot`, `supply`, `sizing`: the held runs, and where the next one comes from;
//! - `core`, `arena`, `atfork`, `inherited`: what clones share, what a fork wipes, and what it leaves;
//! - `pool`, `connection`, `replies`, `polling`: the connections, each for one call at a time;
//! - `socket`, `clock`: system calls; `interruption`: signals that end a wait.

#![warn(missing_docs)]

mod arena;
mod atfork;
mod builder;
mod client;
mod clock;
mod connection;
mod core;
mod deadline;
mod error;
mod event_loop;
mod held;
mod ids;
mod inherited;
mod interruption;
mod names;
mod paths;
mod pipeline;
mod polling;
mod pool;
mod public_ids;
mod replies;
mod sizing;
mod slot;
mod socket;
mod supply;
mod tag;

pub use builder::{Builder, DEADLINE_DEFAULT};
pub use client::{Client, Decoded, MetricsFormat, decode};
pub use deadline::WAIT_MAX;
pub use error::{Error, Result};
pub use event_loop::Held;
pub use ids::Ids;
pub use interruption::{Interpreter, set_interpreter};
pub use leafd_wire::reply::InfoReply;
pub use leafd_wire::{COUNT_MAX, Layout, Parts, Run, Status, opcode};
pub use names::TAGS_MAX;
pub use paths::default_socket_path;
pub use pipeline::{Answer, BATCH_MAX, IN_FLIGHT_MAX, Pipeline};
pub use public_ids::PublicIds;
pub use tag::Tag;
