//! The pure core: which ids may be issued next. Nothing in here reads a clock, draws a random
//! number or does I/O; time and chance are arguments.
//!
//! - [`segment`]: numbers of a tag, claimed in ranges;
//! - [`snowflake`]: ids made of time, worker and sequence;
//! - [`RateMeter`]: how fast a tag is drawn, which sizes its claims.

mod rate;
pub mod segment;
pub mod snowflake;
mod tag;
mod time;

pub use rate::RateMeter;
pub use tag::{Tag, WorkerId};
pub use time::{BootMs, UnixMs};
