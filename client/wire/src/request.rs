//! A client's requests. STATUS has an empty body; the administrative requests carry JSON.

use crate::bytes::{Fields, short_length};
use crate::{Header, Malformed, Sink, flag, opcode};

/// INFO: which versions the client supports.
///
/// Body: `u16` lowest version, `u16` highest version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InfoRequest {
    /// Lowest protocol version that the client supports.
    pub version_min: u16,
    /// Highest protocol version that the client supports.
    pub version_max: u16,
}

/// IDS: draw ids of a tag. SERIES_NEXT, with the same body: draw document numbers of the series, or of SERIES/TENANT.
///
/// Body: `u32` count, `u32` deadline in ms, `u16` tag length, tag. With the header's [`flag::HOLD`], the count is a
/// maximum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdsRequest<'a> {
    /// The tag's bytes, not yet checked (see [`crate::tag::check_tag`]).
    pub tag: &'a [u8],
    /// The number of ids, not yet checked against [`crate::COUNT_MAX`] or [`crate::NUMBERS_MAX`].
    pub count: u32,
    /// How long the daemon may let the request wait, in milliseconds; 0: not at all.
    pub deadline_ms: u32,
}

// === impl InfoRequest ===

impl InfoRequest {
    /// Parses the body.
    ///
    /// # Errors
    /// A malformed body.
    pub fn decode(body: &[u8]) -> Result<Self, Malformed> {
        let mut fields = Fields::new(body);
        let request = InfoRequest { version_min: fields.u16()?, version_max: fields.u16()? };
        fields.end()?;
        Ok(request)
    }

    /// Writes the request's frame.
    pub fn put(&self, request_id: u32, sink: &mut impl Sink) {
        let mut body = [0; 4];
        body[..2].copy_from_slice(&self.version_min.to_le_bytes());
        body[2..].copy_from_slice(&self.version_max.to_le_bytes());
        Header::request(opcode::INFO, 0, request_id).put_frame(&body, sink);
    }
}

// === impl IdsRequest ===

impl<'a> IdsRequest<'a> {
    /// Parses the body. The caller checks tag and count, because each has its own status.
    ///
    /// # Errors
    /// A malformed body.
    pub fn decode(body: &'a [u8]) -> Result<Self, Malformed> {
        let mut fields = Fields::new(body);
        let count = fields.u32()?;
        let deadline_ms = fields.u32()?;
        let tag = fields.short_bytes()?;
        fields.end()?;
        Ok(IdsRequest { tag, count, deadline_ms })
    }

    /// Writes the request's frame. `hold`: see [`flag::HOLD`].
    pub fn put(&self, hold: bool, request_id: u32, sink: &mut impl Sink) {
        self.put_as(opcode::IDS, if hold { flag::HOLD } else { 0 }, request_id, sink);
    }

    /// Writes the frame of a request of this kind.
    pub fn put_as(&self, opcode: u8, flags: u8, request_id: u32, sink: &mut impl Sink) {
        sink.put(&Header::request(opcode, flags, request_id).encode(10 + self.tag.len()));
        sink.put(&self.count.to_le_bytes());
        sink.put(&self.deadline_ms.to_le_bytes());
        sink.put(&short_length(self.tag.len()));
        sink.put(self.tag);
    }
}
