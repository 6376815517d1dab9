//! The pure core: which ids may be issued next. Nothing in here reads a clock, draws a random
//! number or does I/O; time and chance are arguments.

mod tag;
mod time;

pub use tag::{Tag, WorkerId};
pub use time::{BootMs, UnixMs};
