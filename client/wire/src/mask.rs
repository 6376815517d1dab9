//! MASK and UNMASK: convert many dense ids to public ids at once, and back.

use crate::bytes::{Fields, short_length};
use crate::{Header, Malformed, flag, opcode};

/// The maximum number of ids in one request.
pub const MASKS_MAX: usize = 1_000;

/// The maximum length of the prefix of a public id, in bytes.
pub const PREFIX_BYTES_MAX: usize = 32;

/// The requested permutation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MaskForm<'a> {
    /// The tag's bytes, not yet checked.
    pub tag: &'a [u8],
    /// How many bits the ids have, not yet checked.
    pub bits: u8,
    /// The number of the key; 0: the daemon's current one.
    pub key: u8,
    /// The prefix of public ids as text; empty for text without a prefix. `None`: public ids are numbers.
    pub prefix: Option<&'a [u8]>,
}

/// MASK: the public ids of dense ones. UNMASK: the dense ids of public ones.
///
/// Body: `u8` bits, `u8` key, `u16` count, `u16` tag length, `u16` prefix length, tag, prefix, then the items, each a
/// `u64` id. With the header's [`flag::TEXT`], public ids are text, and each item of UNMASK is a `u8` length and that
/// many bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MaskRequest<'a> {
    /// The permutation.
    pub form: MaskForm<'a>,
    count: usize,
    items: &'a [u8],
    has_texts: bool,
}

/// The ids in a request.
#[derive(Clone, Copy, Debug)]
pub enum MaskItems<'a> {
    /// Dense ids, or public ones as numbers.
    Numbers(&'a [u64]),
    /// Public ids as text. Texts longer than 255 bytes, which can't be public ids, are truncated to that length.
    Texts(&'a [&'a [u8]]),
}

/// The answer to MASK or UNMASK.
///
/// Body: `u16` count, `u16` length of each item, then the items: `u64` ids, or text if MASK requested it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MaskReply<'a> {
    item_length: usize,
    items: &'a [u8],
}

const ID_BYTES: usize = 8;

impl MaskForm<'_> {
    /// The flags of the request's header.
    pub fn flags(&self) -> u8 {
        if self.prefix.is_some() { flag::TEXT } else { 0 }
    }
}

// === impl MaskRequest ===

impl<'a> MaskRequest<'a> {
    /// Decodes a frame. The caller checks tag, bits, key and prefix.
    ///
    /// # Errors
    /// A malformed body, or too many ids.
    pub fn decode(header: &Header, body: &'a [u8]) -> Result<Self, Malformed> {
        let mut fields = Fields::new(body);
        let (bits, key, count) = (fields.u8()?, fields.u8()?, usize::from(fields.u16()?));
        if !(1..=MASKS_MAX).contains(&count) {
            return Err(Malformed { what: "a request is for 1 to 1,000 ids" });
        }
        let (tag_length, prefix_length) = (fields.u16()?, fields.u16()?);
        let tag = fields.bytes(usize::from(tag_length))?;
        let prefix = fields.bytes(usize::from(prefix_length))?;
        let is_text = header.flags & flag::TEXT != 0;
        if !is_text && !prefix.is_empty() {
            return Err(Malformed { what: "a prefix in a request for numbers" });
        }
        let form = MaskForm { tag, bits, key, prefix: is_text.then_some(prefix) };
        let has_texts = is_text && header.opcode == opcode::UNMASK;
        let items = fields.rest();
        let mut end = Fields::new(items);
        for _ in 0..count {
            let length = if has_texts { usize::from(end.u8()?) } else { ID_BYTES };
            end.bytes(length)?;
        }
        end.end()?;
        Ok(MaskRequest { form, count, items, has_texts })
    }

    /// The numbers; empty for a request with texts.
    pub fn numbers(&self) -> impl Iterator<Item = u64> + use<'a> {
        numbers(if self.has_texts { &[] } else { self.items })
    }

    /// The texts; empty for a request with numbers.
    pub fn texts(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let mut fields = Fields::new(self.items);
        (0..if self.has_texts { self.count } else { 0 }).map_while(move |_| {
            let length = usize::from(fields.u8().ok()?);
            fields.bytes(length).ok()
        })
    }

    /// The body of a request for 1 to [`MASKS_MAX`] ids. Texts need UNMASK and a form with a prefix.
    pub fn body(form: &MaskForm<'_>, items: MaskItems<'_>) -> Vec<u8> {
        let prefix = form.prefix.unwrap_or_default();
        let count = match items {
            MaskItems::Numbers(ids) => ids.len(),
            MaskItems::Texts(texts) => texts.len(),
        };
        let mut body = vec![form.bits, form.key];
        for length in [count, form.tag.len(), prefix.len()] {
            body.extend(short_length(length));
        }
        body.extend(form.tag);
        body.extend(prefix);
        match items {
            MaskItems::Numbers(ids) => body.extend(ids.iter().flat_map(|id| id.to_le_bytes())),
            MaskItems::Texts(texts) => {
                for text in texts {
                    let length = u8::try_from(text.len()).unwrap_or(u8::MAX);
                    body.push(length);
                    body.extend(&text[..usize::from(length)]);
                }
            }
        }
        body
    }
}

// === impl MaskReply ===

impl<'a> MaskReply<'a> {
    /// Parses the body.
    ///
    /// # Errors
    /// A malformed body.
    pub fn decode(body: &'a [u8]) -> Result<Self, Malformed> {
        let mut fields = Fields::new(body);
        let count = usize::from(fields.u16()?);
        let item_length = usize::from(fields.u16()?);
        let items = fields.bytes(count * item_length)?;
        fields.end()?;
        if item_length == 0 {
            return Err(Malformed { what: "items without a length" });
        }
        Ok(MaskReply { item_length, items })
    }

    /// The items as numbers.
    ///
    /// # Errors
    /// The items are not numbers.
    pub fn numbers(&self) -> Result<impl Iterator<Item = u64> + use<'a>, Malformed> {
        match self.item_length {
            ID_BYTES => Ok(numbers(self.items)),
            _ => Err(Malformed { what: "items that are not ids" }),
        }
    }

    /// The items as texts.
    ///
    /// # Errors
    /// The items are not texts.
    pub fn texts(&self) -> Result<impl Iterator<Item = &'a str> + use<'a>, Malformed> {
        let length = self.item_length;
        match std::str::from_utf8(self.items) {
            Ok(text) if text.bytes().all(|byte| byte.is_ascii_graphic()) => {
                Ok((0..text.len() / length).map(move |item| &text[item * length..][..length]))
            }
            _ => Err(Malformed { what: "items that are not text" }),
        }
    }

    /// The body of an answer with numbers.
    pub fn of_numbers(ids: &[u64]) -> Vec<u8> {
        let mut body = Self::head(ids.len(), ID_BYTES);
        body.extend(ids.iter().flat_map(|id| id.to_le_bytes()));
        body
    }

    /// The body of an answer with texts of one length.
    pub fn of_texts(texts: &[String]) -> Vec<u8> {
        let length = texts.first().map_or(0, String::len);
        let mut body = Self::head(texts.len(), length);
        for text in texts {
            debug_assert_eq!(text.len(), length, "ids of one width are as long as each other");
            body.extend(text.as_bytes());
        }
        body
    }

    fn head(count: usize, item_length: usize) -> Vec<u8> {
        [short_length(count), short_length(item_length)].concat()
    }
}

fn numbers(bytes: &[u8]) -> impl Iterator<Item = u64> + use<'_> {
    bytes.as_chunks::<ID_BYTES>().0.iter().map(|bytes| u64::from_le_bytes(*bytes))
}
