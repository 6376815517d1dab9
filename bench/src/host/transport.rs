//! A connection over which ids are drawn, to any server. So the same loops measure leafd and the
//! systems that it is compared with.

use anyhow::Result;
use leafd_client::{Client, Tag};

/// One connection, and what is drawn over it.
pub(super) trait Transport: Send {
    fn one(&mut self) -> Result<u64>;

    /// Sends `depth` requests for one id each before it reads the first answer, and appends the
    /// ids.
    fn pipelined(&mut self, depth: usize, ids: &mut Vec<u64>) -> Result<()>;
}

/// leafd, through its client.
#[derive(Debug)]
pub(super) struct LeafdTransport {
    client: Client,
    tag: Tag,
}

// === impl LeafdTransport ===

impl LeafdTransport {
    pub(super) fn direct(client: Client, tag: &str) -> Result<LeafdTransport> {
        let tag = client.tag(tag)?.direct();
        Ok(LeafdTransport { client, tag })
    }

    pub(super) fn held(client: Client, tag: &str) -> Result<LeafdTransport> {
        let tag = client.tag(tag)?;
        Ok(LeafdTransport { client, tag })
    }
}

impl Transport for LeafdTransport {
    fn one(&mut self) -> Result<u64> {
        Ok(self.tag.next()?)
    }

    fn pipelined(&mut self, depth: usize, ids: &mut Vec<u64>) -> Result<()> {
        let mut pipeline = self.client.pipeline();
        for _ in 0..depth {
            pipeline.push(self.tag.name(), 1)?;
        }
        while let Some(answer) = pipeline.answer() {
            ids.extend(answer.ids?);
        }
        Ok(())
    }
}
