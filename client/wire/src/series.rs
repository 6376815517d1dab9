//! SERIES_NEXT: draws document numbers, as texts.

use crate::Malformed;
use crate::bytes::{Fields, short_length};

/// The most numbers in one request.
pub const NUMBERS_MAX: u32 = 1_000;

/// SERIES_NEXT: the next numbers of a series.
///
/// Body: `u32` count, `u32` deadline in ms, `u16` length of the series' name, name, `u16` length of the tenant's name,
/// name; it is empty for a series without tenants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeriesRequest<'a> {
    /// The name of the series, not yet checked.
    pub series: &'a [u8],
    /// The tenant, not yet checked.
    pub tenant: &'a [u8],
    /// How many numbers; not yet checked against [`NUMBERS_MAX`].
    pub count: u32,
    /// How long the daemon may let the request wait, in milliseconds; 0: not at all.
    pub deadline_ms: u32,
}

/// The answer.
///
/// Body: `u16` count, then for each number a `u8` length and the text, which is ASCII.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeriesReply<'a> {
    texts: &'a [u8],
}

// === impl SeriesRequest ===

impl<'a> SeriesRequest<'a> {
    /// Takes the body apart.
    ///
    /// # Errors
    /// A malformed body.
    pub fn decode(body: &'a [u8]) -> Result<Self, Malformed> {
        let mut fields = Fields::new(body);
        let (count, deadline_ms) = (fields.u32()?, fields.u32()?);
        let (series, tenant) = (fields.short_bytes()?, fields.short_bytes()?);
        fields.end()?;
        Ok(SeriesRequest { series, tenant, count, deadline_ms })
    }

    /// The body of the request.
    pub fn body(&self) -> Vec<u8> {
        let mut body = [self.count.to_le_bytes(), self.deadline_ms.to_le_bytes()].concat();
        for name in [self.series, self.tenant] {
            body.extend(short_length(name.len()));
            body.extend(name);
        }
        body
    }
}

// === impl SeriesReply ===

impl<'a> SeriesReply<'a> {
    /// Takes the body apart.
    ///
    /// # Errors
    /// A malformed body.
    pub fn decode(body: &'a [u8]) -> Result<Self, Malformed> {
        let mut fields = Fields::new(body);
        let count = fields.u16()?;
        let texts = fields.rest();
        let mut end = Fields::new(texts);
        for _ in 0..count {
            let length = end.u8()?;
            if !end.bytes(length.into())?.is_ascii() {
                return Err(Malformed { what: "a number that is not ASCII" });
            }
        }
        end.end()?;
        Ok(SeriesReply { texts })
    }

    /// The texts, in the order of their numbers.
    pub fn texts(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        let mut fields = Fields::new(self.texts);
        std::iter::from_fn(move || {
            let length = fields.u8().ok()?;
            std::str::from_utf8(fields.bytes(length.into()).ok()?).ok()
        })
    }

    /// The body of an answer with numbers, at most [`NUMBERS_MAX`], which `write` writes one after the other.
    ///
    /// # Panics
    /// For a text of more than 255 bytes.
    pub fn body(numbers: impl Iterator<Item = u64>, write: impl Fn(u64, &mut String)) -> Vec<u8> {
        let (mut body, mut count, mut text) = (vec![0; 2], 0, String::new());
        for number in numbers {
            text.clear();
            write(number, &mut text);
            body.push(u8::try_from(text.len()).expect("formats are shorter"));
            body.extend(text.as_bytes());
            count += 1;
        }
        body[..2].copy_from_slice(&short_length(count));
        body
    }
}
