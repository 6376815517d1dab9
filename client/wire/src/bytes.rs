//! Reads and writes little-endian fields with bounds checks.

use std::fmt;

/// The destination of encoded bytes: a `Vec<u8>`, or any buffer that the caller wraps.
pub trait Sink {
    /// Appends `bytes`.
    fn put(&mut self, bytes: &[u8]);
}

impl Sink for Vec<u8> {
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

/// A body that doesn't fit its opcode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// What is wrong, for the error text.
    pub what: &'static str,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.what)
    }
}

impl std::error::Error for Malformed {}

/// Reads fields from the front of a body.
pub(crate) struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    pub(crate) fn new(body: &'a [u8]) -> Self {
        Fields { rest: body }
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (head, rest) =
            self.rest.split_first_chunk().ok_or(Malformed { what: "the body ends too early" })?;
        self.rest = rest;
        Ok(*head)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, Malformed> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub(crate) fn u16(&mut self) -> Result<u16, Malformed> {
        self.array().map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Malformed> {
        self.array().map(u64::from_le_bytes)
    }

    /// A `u16` length and that many bytes.
    pub(crate) fn short_bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let length = usize::from(self.u16()?);
        self.bytes(length)
    }

    /// The next `length` bytes.
    pub(crate) fn bytes(&mut self, length: usize) -> Result<&'a [u8], Malformed> {
        if length > self.rest.len() {
            return Err(Malformed { what: "a length points past the end of the body" });
        }
        let (head, rest) = self.rest.split_at(length);
        self.rest = rest;
        Ok(head)
    }

    pub(crate) fn short_text(&mut self) -> Result<&'a str, Malformed> {
        std::str::from_utf8(self.short_bytes()?)
            .map_err(|_| Malformed { what: "text is not UTF-8" })
    }

    pub(crate) fn rest(self) -> &'a [u8] {
        self.rest
    }

    pub(crate) fn end(self) -> Result<(), Malformed> {
        if self.rest.is_empty() {
            Ok(())
        } else {
            Err(Malformed { what: "the body continues after its last field" })
        }
    }
}

/// Encodes a length for a `u16` field. Callers bound what they pass; a greater length is a bug.
pub(crate) fn short_length(length: usize) -> [u8; 2] {
    u16::try_from(length).expect("the caller keeps texts within 65,535 bytes").to_le_bytes()
}
