//! Shared runs: SHARE's messages, and the two pages of memory that come with its answer.
//!
//! All processes of a user draw a tag's ids from one run. Each takes a number, its **ticket**, by one atomic addition in
//! the **ticket page**, the only memory that they can write. Which id a ticket stands for is told by the **run page**,
//! which the daemon alone can write. A ticket is never given twice and never reset, so nobody waits for a lock, and a
//! process that is killed loses the one ticket that it has just taken.
//!
//! - `pages`: the two pages, how the daemon writes them and how a process draws.

mod pages;

use crate::bytes::{Fields, short_length};
use crate::{Header, Malformed, Sink, opcode};

pub use pages::{
    Drawn, ENTRIES, LIVE, MAGIC, Published, RETIRED, RunPage, TICKETS_PER_ENTRY, Taken, TicketPage,
    VALID_MAX_NS, VERSION,
};

/// SHARE: draw a tag's ids from memory that all processes of the user share.
///
/// Body: `u32` deadline in ms, `u64` the page that the client has, 0 for none, `u16` tag length, tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShareRequest<'a> {
    /// The tag's bytes, not yet checked (see [`crate::tag::check_tag`]).
    pub tag: &'a [u8],
    /// How long the daemon may let the request wait until there are ids, in milliseconds; 0: not at all.
    pub deadline_ms: u32,
    /// The number of the page that the client draws from, 0 if it has none.
    pub page: u64,
}

/// The answer to SHARE.
///
/// Body: `u32` form, `u32` ms, `u64` page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShareReply {
    /// The tag is not shared with this user: draw by IDS.
    NotShared {
        /// When to ask again at the earliest; 0: at once, as it could not be told.
        again_ms: u32,
    },
    /// The page that the client has is live, and has ids.
    Same {
        /// Its number.
        page: u64,
    },
    /// The pages' descriptors come with this reply: first the run page's, then the ticket page's.
    Pages {
        /// Their number.
        page: u64,
    },
}

/// Descriptors that come with [`ShareReply::Pages`].
pub const DESCRIPTORS: usize = 2;

// === impl ShareRequest ===

impl<'a> ShareRequest<'a> {
    /// Takes the body apart. The tag is the caller's to check.
    ///
    /// # Errors
    /// A body of another form.
    pub fn decode(body: &'a [u8]) -> Result<Self, Malformed> {
        let mut fields = Fields::new(body);
        let deadline_ms = fields.u32()?;
        let page = fields.u64()?;
        let tag = fields.short_bytes()?;
        fields.end()?;
        Ok(ShareRequest { tag, deadline_ms, page })
    }

    /// Writes the request's frame.
    pub fn put(&self, request_id: u32, sink: &mut impl Sink) {
        sink.put(&Header::request(opcode::SHARE, 0, request_id).encode(14 + self.tag.len()));
        sink.put(&self.deadline_ms.to_le_bytes());
        sink.put(&self.page.to_le_bytes());
        sink.put(&short_length(self.tag.len()));
        sink.put(self.tag);
    }
}

// === impl ShareReply ===

impl ShareReply {
    /// Takes the body apart.
    ///
    /// # Errors
    /// A body of another form.
    pub fn decode(body: &[u8]) -> Result<Self, Malformed> {
        let mut fields = Fields::new(body);
        let (form, again_ms, page) = (fields.u32()?, fields.u32()?, fields.u64()?);
        fields.end()?;
        match form {
            0 => Ok(ShareReply::NotShared { again_ms }),
            1 => Ok(ShareReply::Same { page }),
            2 => Ok(ShareReply::Pages { page }),
            _ => Err(Malformed { what: "an answer to SHARE that is of no known form" }),
        }
    }

    /// The body.
    #[must_use]
    pub fn body(&self) -> Vec<u8> {
        let (form, again_ms, page): (u32, u32, u64) = match *self {
            ShareReply::NotShared { again_ms } => (0, again_ms, 0),
            ShareReply::Same { page } => (1, 0, page),
            ShareReply::Pages { page } => (2, 0, page),
        };
        [&form.to_le_bytes()[..], &again_ms.to_le_bytes(), &page.to_le_bytes()].concat()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::frame::Frame;

    #[test]
    fn messages_come_back_as_they_were() {
        let request = ShareRequest { tag: b"orders", deadline_ms: 1_000, page: 7 };
        let mut bytes = Vec::new();
        request.put(5, &mut bytes);
        let (frame, end) = Frame::first(&bytes, crate::REQUEST_LENGTH_MAX).unwrap().unwrap();
        assert_eq!((frame.header, end), (Header::request(opcode::SHARE, 0, 5), bytes.len()));
        assert_eq!(ShareRequest::decode(frame.body), Ok(request));
        for reply in [
            ShareReply::NotShared { again_ms: 5_000 },
            ShareReply::Same { page: u64::MAX },
            ShareReply::Pages { page: 1 },
        ] {
            assert_eq!(ShareReply::decode(&reply.body()), Ok(reply));
        }
        assert!(ShareReply::decode(&[9; 16]).is_err());
        assert!(ShareReply::decode(&[0; 17]).is_err());
    }
}
