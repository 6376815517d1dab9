//! Detects when another program writes the node that this host wrote last, such as a Java Leaf with the same address,
//! which then issues ids as the same worker. The ensemble reports this at once; the next renewal would notice seconds
//! later.

use std::sync::Arc;

use tokio::sync::Notify;
use tokio::task::AbortHandle;
use zookeeper_client::Client;

use super::super::session::CallError;

/// The nodes that one transaction wrote: Leaf's, and leafd's own.
pub(super) struct WrittenNodes {
    pub(super) leaf: String,
    pub(super) side: String,
}

/// Watches Leaf's node between two writes of leafd's own.
#[derive(Default)]
pub(super) struct NodeWatch {
    /// Whom to notify.
    pub(super) told: Option<Arc<Notify>>,
    waits: Option<AbortHandle>,
}

impl NodeWatch {
    /// leafd is about to write, so don't report writes from now on.
    pub(super) fn end(&mut self) {
        if let Some(waits) = self.waits.take() {
            waits.abort();
        }
    }

    /// leafd has written both. From now on, any other write is reported; one that happened in between is reported at
    /// once.
    pub(super) async fn begin(
        &mut self,
        client: &Client,
        node: &WrittenNodes,
    ) -> Result<(), CallError> {
        let Some(told) = self.told.clone() else { return Ok(()) };
        let (leaf, watcher) = client.check_and_watch_stat(&node.leaf).await?;
        let side = client.check_stat(&node.side).await?;
        let changed_by = [leaf, side].map(|stat| stat.map(|stat| stat.mzxid));
        if changed_by[0] != changed_by[1] {
            told.notify_one();
            return Ok(());
        }
        let waits = tokio::spawn(async move {
            watcher.changed().await;
            told.notify_one();
        });
        self.waits = Some(waits.abort_handle());
        Ok(())
    }
}

impl Drop for NodeWatch {
    fn drop(&mut self) {
        self.end();
    }
}
