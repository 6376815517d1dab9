//! Towards the service manager.
//!
//! - [`activation`]: the socket that it hands over.
//! - [`notify`]: what it is told.
//! - [`reload`]: what it asks for with SIGHUP.

pub mod activation;
pub mod notify;
pub mod reload;
