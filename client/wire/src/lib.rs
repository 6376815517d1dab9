//! leafd's wire protocol as types and bytes, without I/O: the content of `protocol.md` in Rust.
//!
//! Both ends use this crate, so a frame is described only once:
//!
//! - [`frame`]: the header that every frame starts with, where a frame ends, and how long it may be;
//! - [`request`]: what a client sends;
//! - [`reply`]: what the daemon answers;
//! - [`mask`]: the conversion of dense ids to public ids, and back;
//! - [`run`]: a run of ids, described by its first id, count and stride;
//! - [`status`]: the numbered outcomes, each with what a client may do next;
//! - [`layout`]: how snowflake ids are encoded and decoded;
//! - [`tag`]: which names a tag may have;
//! - [`text`]: text from other parties, made safe to show.
//!
//! Decoding never allocates based on a length that a peer sent: it borrows from the caller's buffer,
//! whose size the caller bounds by the limits below. Integers are little-endian.

#![warn(missing_docs)]

pub mod bytes;
pub mod frame;
pub mod layout;
pub mod mask;
pub mod reply;
pub mod request;
pub mod run;
pub mod status;
pub mod tag;
pub mod text;

pub use bytes::{Malformed, Sink};
pub use frame::{FrameError, HEADER_BYTES, Header, REPLY_LENGTH_MAX, REQUEST_LENGTH_MAX};
pub use layout::{Layout, LayoutError, Parts};
pub use mask::{MaskForm, MaskItems, MaskReply, MaskRequest};
pub use reply::{ErrorReply, IdsReply, InfoReply};
pub use request::{IdsRequest, InfoRequest};
pub use run::Run;
pub use status::Status;
pub use tag::TagError;

/// The only protocol version that this crate supports.
pub const VERSION: u16 = 1;

/// The maximum number of ids in one request.
pub const COUNT_MAX: u32 = 1_000_000;

/// The maximum number of document numbers in one request.
pub const NUMBERS_MAX: u32 = 1_000;

/// The longest deadline that the daemon honours, in milliseconds. Longer ones are capped.
pub const DEADLINE_MS_MAX: u32 = 60_000;

/// How many requests of one connection may await an answer at once. The daemon stops reading from a
/// connection that has this many, so further ones wait in the socket.
pub const PIPELINE_MAX: u32 = 1024;

/// The type of a frame. A reply carries the request's number with [`opcode::REPLY`] added.
pub mod opcode {
    /// Agree on a version; learn the daemon's limits and layouts.
    pub const INFO: u8 = 1;
    /// Draw ids.
    pub const IDS: u8 = 2;
    /// The daemon's state as JSON.
    pub const STATUS: u8 = 3;
    /// The public ids of dense ones.
    pub const MASK: u8 = 4;
    /// The dense ids of public ones.
    pub const UNMASK: u8 = 5;
    /// The daemon's metrics as text (administrative).
    pub const METRICS: u8 = 6;
    /// The next document numbers of a series.
    pub const SERIES_NEXT: u8 = 8;
    /// Create a tag (administrative, JSON).
    pub const TAG_CREATE: u8 = 16;
    /// List tags in pages (administrative, JSON).
    pub const TAG_LIST: u8 = 17;
    /// Show one tag (administrative, JSON).
    pub const TAG_SHOW: u8 = 18;
    /// Change a tag's settings (administrative, JSON).
    pub const TAG_SET: u8 = 19;
    /// Raise a tag's next number (administrative, JSON).
    pub const TAG_RAISE: u8 = 20;
    /// Delete a tag (administrative, JSON).
    pub const TAG_DELETE: u8 = 21;
    /// List the registry's workers (administrative, JSON).
    pub const WORKER_LIST: u8 = 22;
    /// Release a worker (administrative, JSON).
    pub const WORKER_RELEASE: u8 = 23;
    /// Show who issued an id (administrative, JSON).
    pub const WHOSE: u8 = 24;
    /// Show what happened to a range of numbers (administrative, JSON).
    pub const GAPS: u8 = 25;
    /// List the hosts that use the stores in pages (administrative, JSON).
    pub const FLEET: u8 = 26;
    /// Create a series of document numbers (administrative, JSON).
    pub const SERIES_CREATE: u8 = 27;
    /// List the series (administrative, JSON).
    pub const SERIES_LIST: u8 = 28;
    /// Read a document number (JSON).
    pub const SERIES_CHECK: u8 = 29;
    /// Set in every reply's opcode.
    pub const REPLY: u8 = 0x80;

    /// Whether a request is administrative, with JSON as its body. A daemon doesn't start one if its client has
    /// disconnected.
    pub const fn is_administrative(opcode: u8) -> bool {
        TAG_CREATE <= opcode && opcode < REPLY
    }
}

/// Bits of the header's flags.
pub mod flag {
    /// On an IDS request: the ids go into a run that the process holds, so the daemon may return fewer than requested
    /// (at least one) instead of making the client wait.
    pub const HOLD: u8 = 1;
    /// On a MASK or UNMASK request: public ids are text.
    pub const TEXT: u8 = 2;
    /// On a reply: the daemon stays awake for a moment. A client that will send its next request
    /// soon should poll for the answer instead of sleeping.
    pub const AWAKE: u8 = 1;
}
