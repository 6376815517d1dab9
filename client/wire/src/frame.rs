//! The header that every frame starts with, and how long a frame may be.
//!
//! ```text
//! offset  size  field
//!      0     4  length      bytes that follow this field: 8 + the body's
//!      4     1  opcode      a reply's has bit 7 set
//!      5     1  flags
//!      6     2  status      0 in requests and in replies that carry an answer
//!      8     4  request id  chosen by the client, returned by the reply
//!     12     …  body
//! ```

use std::fmt;

use crate::Sink;

/// A header's size in bytes, its length field included.
pub const HEADER_BYTES: usize = 12;

/// Largest value of a request's length field (bytes after the field itself).
pub const REQUEST_LENGTH_MAX: u32 = 64 * 1024;

/// Largest value of a reply's length field (bytes after the field itself).
pub const REPLY_LENGTH_MAX: u32 = 1024 * 1024;

/// The header's bytes that the length field counts.
const COUNTED_HEADER_BYTES: u32 = 8;

/// A frame's header, without its length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// The request or reply type (see [`crate::opcode`]).
    pub opcode: u8,
    /// See [`crate::flag`].
    pub flags: u8,
    /// A [`crate::Status`] number; 0 in requests.
    pub status: u16,
    /// The client's number for the request.
    pub request_id: u32,
}

/// A length field that is out of range. The rest of the stream can't be parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameError {
    /// The length field's value.
    pub length: u32,
    /// The largest that is allowed here.
    pub length_max: u32,
}

/// A frame found at the start of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// The frame's header.
    pub header: Header,
    /// The bytes after the header.
    pub body: &'a [u8],
}

// === impl Header ===

impl Header {
    /// A request's header.
    pub fn request(opcode: u8, flags: u8, request_id: u32) -> Self {
        Header { opcode, flags, status: 0, request_id }
    }

    /// The header's bytes for a body of `body_length` bytes.
    pub fn encode(&self, body_length: usize) -> [u8; HEADER_BYTES] {
        let body_length = u32::try_from(body_length).expect("frames are far below 4 GiB");
        let mut bytes = [0; HEADER_BYTES];
        bytes[0..4].copy_from_slice(&(COUNTED_HEADER_BYTES + body_length).to_le_bytes());
        bytes[4] = self.opcode;
        bytes[5] = self.flags;
        bytes[6..8].copy_from_slice(&self.status.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.request_id.to_le_bytes());
        bytes
    }

    /// Writes a whole frame.
    pub fn put_frame(&self, body: &[u8], sink: &mut impl Sink) {
        sink.put(&self.encode(body.len()));
        sink.put(body);
    }
}

// === impl Frame ===

impl<'a> Frame<'a> {
    /// Finds the frame at the start of `buffer`. `None`: more bytes are needed.
    ///
    /// # Errors
    /// A length below the header's own 8 bytes or above `length_max`. It is reported as soon as the
    /// length field has arrived, before anything is allocated for it.
    pub fn first(
        buffer: &'a [u8],
        length_max: u32,
    ) -> Result<Option<(Frame<'a>, usize)>, FrameError> {
        let Some(end) = frame_end(buffer, length_max)? else { return Ok(None) };
        if buffer.len() < end {
            return Ok(None);
        }
        let header = Header {
            opcode: buffer[4],
            flags: buffer[5],
            status: u16::from_le_bytes([buffer[6], buffer[7]]),
            request_id: u32::from_le_bytes([buffer[8], buffer[9], buffer[10], buffer[11]]),
        };
        Ok(Some((Frame { header, body: &buffer[HEADER_BYTES..end] }, end)))
    }
}

/// The size of the frame at the start of `buffer`. `None`: its length has not arrived yet.
///
/// # Errors
/// As [`Frame::first`].
pub fn frame_end(buffer: &[u8], length_max: u32) -> Result<Option<usize>, FrameError> {
    let Some(field) = buffer.first_chunk::<4>() else { return Ok(None) };
    let length = u32::from_le_bytes(*field);
    if !(COUNTED_HEADER_BYTES..=length_max).contains(&length) {
        return Err(FrameError { length, length_max });
    }
    Ok(Some(4 + length as usize))
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "a frame's length field says {}; it must be from {COUNTED_HEADER_BYTES} to {}",
            self.length, self.length_max
        )
    }
}

impl std::error::Error for FrameError {}
