//! Serves the tags in use between requests: claims ids and moves marks ahead of need, keeps the worker's lease, and
//! watches the stores.
//!
//! Everything here runs on one thread and never blocks. Work that needs the store or the journal waits in a queue with
//! its deadline, and continues when the blocking thread has reported back.
//!
//! - [`segments`]: segment tags, from a request to the journal and the store.
//! - [`series`]: document numbers, and the periods in which they are counted.
//! - [`snowflakes`]: snowflake layouts.
//! - [`lease`]: the host's worker.
//! - [`upstream`]: the stores in which tags live, whether each is the configured one, and their fail-overs.
//! - [`quotas`]: how many ids of a tag its users may draw.
//! - [`writer`]: writes changes to the journal, and then runs their effects.

pub mod lease;
pub mod masks;
pub mod quotas;
pub mod segments;
pub mod series;
pub mod snowflakes;
pub mod upstream;
pub mod writer;

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

/// How often tags with waiting requests are checked.
pub(crate) const TICK: Duration = Duration::from_millis(10);

/// The pending call that a state machine has requested, if there is one.
pub(crate) type PendingCall<T> = Option<Pin<Box<dyn Future<Output = T>>>>;

/// The response to the pending call. Never returns if there is none.
pub(crate) async fn response<T>(pending: &mut PendingCall<T>) -> T {
    let Some(call) = pending else { return std::future::pending().await };
    let response = call.await;
    *pending = None;
    response
}
