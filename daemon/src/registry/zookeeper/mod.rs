//! Workers in ZooKeeper.
//!
//! All data is in persistent nodes, which are compared and set by their versions. So sessions don't matter: an expired
//! one is replaced, and a write whose answer was lost fails because of its version if it arrives after another one. The
//! registry's clock is the clock of the ensemble's leader, which stamps every node that changes.
//!
//! There are two ways to hold a number, each with its own registry:
//! - `leased`: `/leafd/workers/NNNNN`, a node for each worker that has ever had a holder.
//! - `permanent`: Leaf's own nodes, `/snowflake/NAME/forever/IP:PORT-NNNNNNNNNN`, which Java Leaf reads and writes too.
//!   `/leafd/permanent/NAME` contains data for which Leaf has no field.
//!
//! Both use: - `session`: a connection, every call within its deadline.
//! - `ensemble`: the registry's identity, its clock and the layouts.
//! - `leaf_tree`: where Leafs have their nodes.
//! - `record`, `leaf_node`: the content of the nodes, without I/O.

mod ensemble;
pub mod leaf_node;
mod leaf_tree;
pub mod leased;
pub mod permanent;
pub mod record;
mod session;

use std::time::Duration;

use crate::config::{Servers, StorePassword};

pub use leaf_node::LEAF_COVER;
pub use leased::LeasedRegistry;
pub use permanent::PermanentRegistry;
pub use session::THREAD_NAME;

/// The ensemble's address, the login, and the time limits.
#[derive(Clone, Debug)]
pub struct EnsembleTarget {
    /// The servers.
    pub servers: Servers,
    /// `USER:PASSWORD` of ZooKeeper's `digest` scheme. With it, only this user can read and write leafd's own
    /// nodes; without it, anyone can. Leaf's nodes are open to all in any case, because Java Leaf doesn't log in.
    pub auth: StorePassword,
    /// How long logging in to any server may take.
    pub connect_timeout: Duration,
    /// How long a call may take after the login.
    pub call_timeout: Duration,
}
