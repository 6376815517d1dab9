//! Finds the nodes of Leaf services at a path, even if the path is within Leaf's own tree: `/snowflake/NAME/forever`
//! with its hosts, and `/snowflake/NAME/recycle` of Leaf's fork, which returns numbers to a pool.

use zookeeper_client::{Client, Error};

use super::leaf_node;
use super::session::CallError;
use crate::config::LeafAddress;

/// Nodes of a Leaf service.
pub(super) struct LeafTree {
    pub(super) path: String,
    /// The service, if permanent mode can share its nodes from here.
    pub(super) service: Option<String>,
}

/// The first nodes of a Leaf service that exist.
pub(super) async fn find(client: &Client) -> Result<Option<LeafTree>, CallError> {
    for folder in ["/snowflake", ""] {
        let children =
            match client.list_children(if folder.is_empty() { "/" } else { folder }).await {
                Err(Error::NoNode) => continue,
                children => children?,
            };
        for child in children {
            let path = format!("{folder}/{child}");
            let address = leaf_node::parse(&child).map(|node| node.holder.parse::<LeafAddress>());
            if folder.is_empty() && (child == "forever" || matches!(address, Some(Ok(_)))) {
                return Ok(Some(LeafTree { path, service: None }));
            }
            for kind in ["forever", "recycle"] {
                let path = format!("{path}/{kind}");
                if client.check_stat(&path).await?.is_some() {
                    let shared = !folder.is_empty() && kind == "forever";
                    return Ok(Some(LeafTree { path, service: shared.then_some(child) }));
                }
            }
        }
    }
    Ok(None)
}
