//! One of tokio's connections to the daemon. One task at a time uses it.

use std::io;
use std::path::Path;
use std::time::Instant;

use leafd_wire::frame::Frame;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;

use crate::connection::broken_by;
use crate::error::Break;
use crate::replies::{Replies, RequestOutcome};

pub(crate) struct AsyncConnection {
    stream: UnixStream,
    pub(crate) made: Instant,
    replies: Replies,
}

impl AsyncConnection {
    pub(crate) async fn new(path: &Path) -> io::Result<AsyncConnection> {
        let stream = UnixStream::connect(path).await?;
        Ok(AsyncConnection { stream, made: Instant::now(), replies: Replies::default() })
    }

    /// Whether another request may use it.
    pub(crate) fn is_usable(&self) -> bool {
        self.replies.may_follow()
    }

    /// Sends a request, whose frame `put` writes, and waits for its outcome.
    pub(crate) async fn exchange(
        &mut self,
        opcode: u8,
        put: impl FnOnce(u32, &mut Vec<u8>),
    ) -> RequestOutcome {
        let number = self.replies.next_number();
        let mut frame = Vec::new();
        put(number, &mut frame);
        // If the peer reads no more, it may have sent a reason before it closed. Reading finds that reason, and then
        // the end.
        let _ = self.stream.write_all(&frame).await;
        let outcome = self.outcome(number, opcode).await;
        outcome.unwrap_or_else(|why| RequestOutcome::Broken { why, served: self.replies.served })
    }

    async fn outcome(&mut self, number: u32, opcode: u8) -> Result<RequestOutcome, Break> {
        loop {
            let read = |frame: &Frame<'_>| RequestOutcome::for_request(frame, number, opcode);
            if let Some(outcome) = self.replies.take(read)? {
                return Ok(outcome);
            }
            match self.stream.read_buf(self.replies.buffer()).await {
                Ok(0) => return Err(Break::End),
                Ok(_) => {}
                Err(error) => return Err(broken_by(&error)),
            }
        }
    }
}
