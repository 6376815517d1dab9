//! The blocking client of leafd, the daemon on this host that issues unique 64-bit ids.
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
//! [`Client`] draws ids, singly or in batches; [`Tag`] is a handle for drawing many; [`Pipeline`] sends many requests
//! at once; [`PublicIds`] hides how many ids exist. With the feature `tokio`, `AsyncClient` does not block; with
//! `admin`, a client creates and changes tags. Code that takes an [`IdSource`] runs without a daemon in tests, with a
//! [`FakeClient`].
//!
//! The crate depends only on `std` and `libc`, and starts no threads. A client is safe to share between threads and to
//! use on both sides of a fork: a child never gets an id that its parent held, whatever the parent's other threads were
//! doing. (The exception is a fork from a signal handler that interrupted a call of this crate.) Signal handlers must
//! not call it, because they could wait for a lock that the interrupted thread holds.

// How the crate is structured, from the caller to the socket:
//
// - `client`, `tag`, `pipeline`, `public_ids`, `series`: the public calls; `source`: their trait and its fake; `event_loop`: held
//   runs for callers that send requests themselves; `async_client`: the client for tokio; `admin`: typed administration;
// - `held`, `names`, `slot`, `supply`, `sizing`: the held runs, and how the next one is fetched;
// - `core`, `arena`, `inherited`: the state that clones share, the part that a fork wipes, and the part that it leaves;
// - `pool`, `connection`, `replies`, `polling`: the connections, each for one call at a time;
// - `socket`, `clock`: system calls; `interruption`: what ends a wait early.

#![warn(missing_docs)]

#[cfg(feature = "admin")]
mod admin;
mod arena;
#[cfg(feature = "tokio")]
mod async_client;
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
mod series;
mod sizing;
mod slot;
mod socket;
mod source;
mod supply;
mod tag;

#[cfg(feature = "admin")]
pub use admin::{NewTag, TagChange, TagInfo};
#[cfg(feature = "tokio")]
pub use async_client::AsyncClient;
pub use builder::{Builder, DEADLINE_DEFAULT};
pub use client::{Client, Decoded, decode};
pub use deadline::WAIT_MAX;
pub use error::{Error, Result};
pub use ids::{BATCH_MAX, Ids};
#[doc(hidden)]
pub use interruption::{Interpreter, set_interpreter};
pub use leafd_wire::reply::InfoReply;
pub use leafd_wire::{COUNT_MAX, Layout, Parts, Run, Status, opcode};
pub use names::TAGS_MAX;
pub use paths::default_socket_path;
pub use pipeline::{Answer, IN_FLIGHT_MAX, Pipeline};
pub use public_ids::PublicIds;
pub use series::Series;
#[doc(hidden)]
pub use slot::HeldId;
pub use source::{FakeClient, IdSource};
pub use tag::Tag;
