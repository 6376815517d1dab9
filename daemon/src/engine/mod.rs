//! What the tags in use need between requests: numbers claimed and marked ahead, a worker's lease kept, stores watched.
//!
//! Everything here runs on one thread and never blocks: what needs the store or the journal waits in a queue with its
//! deadline, and goes on when the thread that does the blocking has reported back.
//!
//! - [`segments`]: segment tags, from a request to the journal and the store.
//! - [`snowflakes`]: snowflake layouts.
//! - [`lease`]: the host's worker.
//! - [`upstream`]: the stores that tags live in, whether each is the one that is meant, and their fail-overs.
//! - [`writer`]: changes of the journal, and what follows from them.

pub mod lease;
pub mod masks;
pub mod segments;
pub mod snowflakes;
pub mod upstream;
pub mod writer;

use std::time::Duration;

/// How often tags with waiting requests are looked at.
pub(crate) const TICK: Duration = Duration::from_millis(10);
