//! The public form as text: the application's prefix and `_`, a character for the key, the id in Crockford's base 32,
//! and a check character.
//!
//! The check character is a code over the field of 32 elements. It detects every wrong character and every swap of two
//! characters. As in Crockford's alphabet, letters that look like digits stand for them (`o` for 0, `i` and `l` for 1),
//! and capitals are accepted.

use std::fmt;

use leafd_wire::mask::PREFIX_BYTES_MAX;

use super::{KeyNumber, MaskBits};

/// Crockford's base 32.
pub(crate) const DIGITS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// The prefix of a kind of public ids, without the `_` after it: nothing, or a letter and up to 31 further `a` to `z`,
/// `0` to `9` or `_`, the last one not `_`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Prefix<'a>(&'a str);

/// The content of a text: a public id, and the key that made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PublicText {
    pub key: KeyNumber,
    pub id: u64,
}

/// Why a text is not a public id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TextError {
    /// It has another prefix.
    #[error("it doesn't begin with the requested prefix")]
    Prefix,
    /// It is truncated, or has another width.
    #[error("it is not as long as an id of {bits} bits")]
    Length {
        /// The requested width.
        bits: MaskBits,
    },
    /// A character outside the alphabet.
    #[error("it has a character that is not a base-32 digit")]
    Character,
    #[error("its check character is wrong: it was mistyped")]
    Check,
    /// The text is well formed, but its number is not an id.
    #[error("it is not an id of {bits} bits")]
    Range {
        /// The requested width.
        bits: MaskBits,
    },
}

// === impl Prefix ===

impl<'a> Prefix<'a> {
    pub fn new(text: &'a str) -> Option<Prefix<'a>> {
        let bytes = text.as_bytes();
        let fits = bytes.len() <= PREFIX_BYTES_MAX
            && bytes.iter().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_'))
            && bytes.first().is_none_or(u8::is_ascii_lowercase)
            && bytes.last() != Some(&b'_');
        fits.then_some(Prefix(text))
    }
}

// === impl PublicText ===

impl PublicText {
    /// Writes an id of this width.
    pub fn encode(self, prefix: Prefix<'_>, bits: MaskBits) -> String {
        let digits = digits_of(bits);
        let mut text = String::with_capacity(prefix.0.len() + digits + 3);
        text.push_str(prefix.0);
        if !prefix.0.is_empty() {
            text.push('_');
        }
        let mut check = Check::default();
        let mut put = |value: u8| {
            text.push(char::from(DIGITS[usize::from(value)]));
            check.add(value);
        };
        put(self.key.get());
        for digit in (0..digits).rev() {
            put((self.id >> (5 * digit) & 31) as u8);
        }
        text.push(char::from(DIGITS[usize::from(check.value())]));
        text
    }

    /// Reads an id of this width.
    ///
    /// # Errors
    /// [`TextError`]
    pub fn decode(text: &[u8], prefix: Prefix<'_>, bits: MaskBits) -> Result<Self, TextError> {
        let mut rest = text.strip_prefix(prefix.0.as_bytes()).ok_or(TextError::Prefix)?;
        if !prefix.0.is_empty() {
            rest = rest.strip_prefix(b"_").ok_or(TextError::Prefix)?;
        }
        if rest.len() != digits_of(bits) + 2 {
            // A text such as `ord_...`, read with another prefix or none, has the wrong prefix, not the wrong length.
            let other = rest.contains(&b'_');
            return Err(if other { TextError::Prefix } else { TextError::Length { bits } });
        }
        let mut check = Check::default();
        let mut value = 0u128;
        for &character in rest {
            let digit = value_of(character).ok_or(TextError::Character)?;
            check.add(digit);
            value = value << 5 | u128::from(digit);
        }
        if check.0 != 0 {
            return Err(TextError::Check);
        }
        // Without the check character, the key's character comes first.
        let body = value >> 5;
        let key_shift = 5 * digits_of(bits);
        let id = body & ((1 << key_shift) - 1);
        let key = u8::try_from(body >> key_shift).ok().and_then(KeyNumber::new);
        match (key, u64::try_from(id)) {
            (Some(key), Ok(id)) if id >= 1 && id <= bits.largest() => Ok(PublicText { key, id }),
            _ => Err(TextError::Range { bits }),
        }
    }
}

/// The remainder of a polynomial over the field of 32 elements. The digits are its coefficients.
#[derive(Default)]
struct Check(u8);

impl Check {
    fn add(&mut self, digit: u8) {
        self.0 = self.value() ^ digit;
    }

    /// The digit that makes the remainder of the whole text 0: the remainder times the element 2.
    fn value(&self) -> u8 {
        // x^5 + x^2 + 1
        if self.0 & 16 == 0 { self.0 << 1 } else { self.0 << 1 ^ 0b10_0101 }
    }
}

fn digits_of(bits: MaskBits) -> usize {
    usize::from(bits.get()).div_ceil(5)
}

/// The value of a digit, or of a letter that stands for one.
pub(crate) fn value_of(character: u8) -> Option<u8> {
    let digit = match character.to_ascii_lowercase() {
        b'o' => b'0',
        b'i' | b'l' => b'1',
        other => other,
    };
    let place = DIGITS.iter().position(|known| *known == digit)?;
    u8::try_from(place).ok()
}

impl fmt::Display for Prefix<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}
