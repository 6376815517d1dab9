//! What a request is answered.
//!
//! - [`failure`]: the one place where what went wrong becomes a status on the wire.
//! - [`outbox`]: where answers gather until the connection writes them.

pub mod failure;
pub mod outbox;
pub mod tally;
pub mod users;

pub use failure::Failure;
