//! The interface to the service manager.
//!
//! - [`activation`]: the sockets that it passes.
//! - [`notify`]: notifications to it.
//! - [`reload`]: reloads on SIGHUP.

pub mod activation;
pub mod notify;
pub mod reload;
