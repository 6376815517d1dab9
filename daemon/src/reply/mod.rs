//! A request's answer.
//!
//! - [`failure`]: the one place that turns an error into a status on the wire.
//! - [`outbox`]: where answers gather until the connection writes them.

pub mod failure;
pub mod given;
pub mod outbox;
pub mod tally;
mod units;
pub mod users;

pub use failure::Failure;
