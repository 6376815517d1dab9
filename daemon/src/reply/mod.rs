//! A request's answer.
//!
//! - [`failure`]: the one place that turns an error into a status on the wire.
//! - [`outbox`]: buffers answers until the connection writes them, as a [`backlog`] of bytes.
//! - `masked`: answers with ids of masked tags, which are generated as their peer reads them.

pub mod backlog;
pub mod failure;
pub mod given;
mod masked;
pub mod outbox;
pub mod tally;
pub mod users;

pub use failure::Failure;
