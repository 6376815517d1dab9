//! The pure core: which ids may be issued next. Nothing in here reads a clock, draws a random
//! number or does I/O; time and chance are arguments.
//!
//! - [`segment`]: numbers of a tag, claimed in ranges ahead of use and held;
//! - [`strict`]: numbers of a strict tag, claimed when they are asked for;
//! - [`snowflake`]: ids made of time, worker and sequence;
//! - [`worker`]: the claim on the worker number that goes into them;
//! - [`RateMeter`]: how fast a tag is drawn, which sizes its claims.

mod held;
mod provision;
mod rate;
pub mod segment;
pub mod snowflake;
pub mod strict;
mod tag;
mod time;
mod waiting;
pub mod worker;

pub use rate::RateMeter;
pub use tag::{Tag, WorkerId};
pub use time::{BootMs, UnixMs};
pub use waiting::Want;

/// The largest id: ids are positive signed 64-bit numbers.
const ID_MAX: u64 = i64::MAX as u64;
