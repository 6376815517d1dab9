//! Cuts requests out of a byte stream, for tokio-util's framing.

use bytes::{Buf as _, BytesMut};
use leafd_wire::frame::{Frame, frame_end};
use leafd_wire::{FrameError, HEADER_BYTES, Header, REQUEST_LENGTH_MAX};
use tokio_util::codec::Decoder;

/// Cuts requests out of what a client sends.
#[derive(Debug, Default)]
pub struct RequestDecoder;

/// One request's frame.
#[derive(Debug)]
pub struct Request {
    /// Its header.
    pub header: Header,
    /// The bytes after the header.
    pub body: BytesMut,
}

/// Why no further request can be cut out.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// The stream can't be followed further.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// The socket failed.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

impl Decoder for RequestDecoder {
    type Item = Request;
    type Error = DecodeError;

    fn decode(&mut self, buffer: &mut BytesMut) -> Result<Option<Request>, DecodeError> {
        let Some((frame, end)) = Frame::first(buffer, REQUEST_LENGTH_MAX)? else {
            if let Some(end) = frame_end(buffer, REQUEST_LENGTH_MAX)? {
                // Room for the rest of this frame and no more. The length is within the limit.
                buffer.reserve(end - buffer.len());
            }
            return Ok(None);
        };
        let header = frame.header;
        let mut body = buffer.split_to(end);
        body.advance(HEADER_BYTES);
        Ok(Some(Request { header, body }))
    }
}
