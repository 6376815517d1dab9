//! One of tokio's connections to the daemon. One task at a time uses it.

use std::io;
use std::path::Path;
use std::time::Instant;

use leafd_wire::frame::Frame;
use leafd_wire::{REPLY_LENGTH_MAX, Status};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;

use crate::connection::{OVERSIZED, STRAY, broken_by};
use crate::error::Break;
use crate::replies::RequestOutcome;

pub(crate) struct AsyncConnection {
    stream: UnixStream,
    made: Instant,
    received: Vec<u8>,
    last_number: u32,
    /// Whether it has answered anything.
    served: bool,
    /// The daemon closes it after its last answer.
    closing: bool,
}

impl AsyncConnection {
    pub(crate) async fn new(path: &Path) -> io::Result<AsyncConnection> {
        let stream = UnixStream::connect(path).await?;
        let (made, received) = (Instant::now(), Vec::new());
        Ok(AsyncConnection {
            stream,
            made,
            received,
            last_number: 0,
            served: false,
            closing: false,
        })
    }

    pub(crate) fn made(&self) -> Instant {
        self.made
    }

    /// Whether a further request may use it.
    pub(crate) fn is_usable(&self) -> bool {
        !self.closing && self.received.is_empty()
    }

    /// Sends a request, whose frame `put` writes, and waits for its outcome.
    pub(crate) async fn exchange(
        &mut self,
        opcode: u8,
        put: impl FnOnce(u32, &mut Vec<u8>),
    ) -> RequestOutcome {
        // Never 0: with request id 0 a daemon addresses the connection as a whole.
        self.last_number = self.last_number.checked_add(1).unwrap_or(1);
        let mut frame = Vec::new();
        put(self.last_number, &mut frame);
        // If the peer reads no more, it may have sent a reason before it closed: reading finds that, then the end.
        let _ = self.stream.write_all(&frame).await;
        match self.outcome(opcode).await {
            Ok(outcome) => outcome,
            Err(why) => RequestOutcome::Broken { why, served: self.served },
        }
    }

    async fn outcome(&mut self, opcode: u8) -> Result<RequestOutcome, Break> {
        loop {
            let first = Frame::first(&self.received, REPLY_LENGTH_MAX).map_err(|_| OVERSIZED)?;
            if let Some((frame, length)) = first {
                let header = frame.header;
                let closes = Status::from_number(header.status).is_some_and(Status::closes);
                let outcome = match header.request_id {
                    id if id == self.last_number => RequestOutcome::of(&frame, opcode)?,
                    0 if closes => RequestOutcome::failed(&frame)?,
                    _ => return Err(STRAY),
                };
                self.closing |= closes;
                self.served |= header.status == Status::Ok as u16;
                self.received.drain(..length);
                return Ok(outcome);
            }
            match self.stream.read_buf(&mut self.received).await {
                Ok(0) => return Err(Break::End),
                Ok(_) => {}
                Err(error) => return Err(broken_by(&error)),
            }
        }
    }
}
