//! The pure core of leafd: decides which ids may be issued next. It reads no clock, draws no random numbers and does no
//! I/O: time, randomness and answers are arguments.
//!
//! - [`segment`]: the numbers of a tag, which are claimed in ranges ahead of use and held, or claimed for each request;
//! - [`snowflake`]: ids made of time, worker and sequence;
//! - [`lease`]: the host's right to the worker number that goes into them;
//! - [`shares`], [`lines`], [`quota`]: how much each user may take, so that enough is left for the others;
//! - [`health`]: the problems that stop ids, when they began, and what is logged about them;
//! - [`mask`]: dense numbers as public ids that reveal neither count nor order;
//! - [`series`]: document numbers, with a count for each period;
//! - [`upstream`]: a store as one daemon sees it, across its fail-overs;
//! - [`store`], [`registry`]: the plain types of stores and registries, and the rules that every backend
//!   shares.
#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, clippy::disallowed_types, clippy::disallowed_macros)
)]

mod backoff;
pub mod health;
pub mod lease;
pub mod lines;
pub mod mask;
pub mod quota;
pub mod registry;
pub mod segment;
pub mod series;
pub mod shares;
pub mod snowflake;
pub mod store;
mod tag;
mod time;
pub mod upstream;

pub use backoff::Backoff;
pub use leafd_wire::Run;
pub use segment::{RateMeter, Want};
pub use tag::{Tag, WorkerId};
pub use time::{BootMs, Now, UnixMs};

/// The largest id: ids are positive signed 64-bit numbers.
const ID_MAX: u64 = i64::MAX as u64;
