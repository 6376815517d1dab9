//! SERIES_NEXT: draws document numbers, as texts.

use crate::Malformed;
use crate::bytes::{Fields, short_length};

/// The maximum number of document numbers in one request.
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeriesReply<'a> {
    /// The texts, in the order of their numbers.
    pub texts: Vec<&'a str>,
}

// === impl SeriesRequest ===

impl<'a> SeriesRequest<'a> {
    /// Parses the body.
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
    /// Parses the body.
    ///
    /// # Errors
    /// A malformed body.
    pub fn decode(body: &'a [u8]) -> Result<Self, Malformed> {
        let mut fields = Fields::new(body);
        let mut texts = Vec::new();
        for _ in 0..fields.u16()? {
            let length = fields.u8()?;
            let text = std::str::from_utf8(fields.bytes(length.into())?).ok();
            let text = text.filter(|text| text.is_ascii());
            texts.push(text.ok_or(Malformed { what: "a number that is not ASCII" })?);
        }
        fields.end()?;
        Ok(SeriesReply { texts })
    }

    /// The body of an answer with these texts, at most [`NUMBERS_MAX`].
    ///
    /// # Panics
    /// For a text of more than 255 bytes.
    pub fn body(texts: impl Iterator<Item = String>) -> Vec<u8> {
        let (mut body, mut count) = (vec![0; 2], 0);
        for text in texts {
            body.push(u8::try_from(text.len()).expect("formats are shorter"));
            body.extend(text.as_bytes());
            count += 1;
        }
        body[..2].copy_from_slice(&short_length(count));
        body
    }
}
