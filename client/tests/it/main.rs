//! The client against a small real server, over real sockets and forks.

#![expect(clippy::unwrap_used, reason = "a test that meets an error is to fail")]

mod answers;
mod checks;
mod descriptors;
mod faults;
mod forks;
mod leases;
mod restarts;
mod server;
mod surface;
