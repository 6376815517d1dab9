//! Tests the client with a small real server, over real sockets and forks.

#![expect(clippy::unwrap_used, reason = "a test that meets an error is to fail")]

mod absent;
mod answers;
#[cfg(feature = "tokio")]
mod asynchronous;
mod checks;
mod descriptors;
mod event_loop;
mod faults;
mod forks;
mod held_runs;
mod interruptions;
mod restarts;
mod server;
mod short_lives;
mod signals;
mod surface;
