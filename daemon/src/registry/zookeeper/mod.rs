//! Workers in ZooKeeper.
//!
//! Everything is in persistent nodes, compared and set by their versions, so that a session means nothing: one that
//! expires is replaced, and a write whose answer was lost fails by its version when it arrives after another one.
//! The registry's clock is that of the ensemble's leader, which writes it into every node that changes.
//!
//! It knows both ways of holding a number, each in a registry of its own:
//! - `leased`: `/leafd/workers/NNNNN`, a node for each worker that ever had a holder.
//! - `permanent`: Leaf's own nodes, `/snowflake/NAME/forever/IP:PORT-NNNNNNNNNN`, which Java Leaf reads and writes
//!   too; what Leaf has no field for is under `/leafd/permanent/NAME`.
//!
//! What they share:
//! - `session`: a connection, every call within its deadline.
//! - `ensemble`: which registry it is, its clock, the layouts.
//! - `record`, `leaf_node`: what stands in the nodes; pure.

mod ensemble;
mod leaf_node;
mod leased;
mod permanent;
mod record;
mod session;

use std::time::Duration;

use crate::config::{Servers, StorePassword};

pub use leaf_node::LEAF_COVER;
pub use leased::LeasedRegistry;
pub use permanent::PermanentRegistry;
pub use session::THREAD_NAME;

/// Where the ensemble is, who we are there, and within which bounds it is used.
#[derive(Clone, Debug)]
pub struct Target {
    /// Where it is.
    pub servers: Servers,
    /// `USER:PASSWORD` of ZooKeeper's `digest` scheme. With it only the same user can read and write leafd's own
    /// nodes; without it anybody can. Leaf's nodes are open to all in any case, because Java Leaf doesn't log in.
    pub auth: StorePassword,
    /// How long it may take to find a server that lets us in.
    pub connect_timeout: Duration,
    /// How long a call may take once we are in.
    pub call_timeout: Duration,
}
