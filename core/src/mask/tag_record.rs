//! How a masked tag's numbers become ids. This is decided when the tag is created, and recorded with it, so a host
//! either masks as all others do, or not at all.

use std::fmt;

use super::{KeyNumber, Mask, MaskBits, MaskKey, MaskKeys};
use crate::Tag;

/// The mask that makes a tag's ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Masking {
    /// How many bits the tag's numbers and ids have.
    pub bits: MaskBits,
    /// The number of the key.
    pub key: KeyNumber,
    /// Distinguishes the key from another one with the same number.
    pub check_value: u64,
}

/// Why a host can't mask a tag's ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoSuchKey {
    /// It has no key with this number.
    #[error(
        "this host doesn't have mask key {0}, with which the tag is masked; set mask_key_file to a copy of the other \
         hosts' file"
    )]
    Missing(KeyNumber),
    /// Its key with this number is a different one.
    #[error(
        "mask key {0} of this host is not the key with which the tag is masked; set mask_key_file to a copy of the \
         other hosts' file"
    )]
    Another(KeyNumber),
}

impl Masking {
    /// The masking of a new tag, with this key.
    pub fn new(key: &MaskKey, bits: MaskBits) -> Masking {
        Masking { bits, key: key.number, check_value: key.check_value() }
    }

    /// Reads what [`Masking`]'s `Display` writes.
    pub fn parse(text: &str) -> Option<Masking> {
        let mut words = text.split(' ');
        let masking = Masking {
            bits: MaskBits::new(words.next()?.parse().ok()?)?,
            key: KeyNumber::new(words.next()?.parse().ok()?)?,
            check_value: u64::from_str_radix(words.next()?, 16).ok()?,
        };
        // Only the canonical form is accepted.
        (masking.to_string() == text).then_some(masking)
    }

    /// The mask, made with a host's keys.
    ///
    /// # Errors
    /// [`NoSuchKey`]
    pub fn mask(&self, tag: &Tag, keys: Option<&MaskKeys>) -> Result<Mask, NoSuchKey> {
        let key = keys.and_then(|keys| keys.get(self.key)).ok_or(NoSuchKey::Missing(self.key))?;
        if key.check_value() != self.check_value {
            return Err(NoSuchKey::Another(self.key));
        }
        Ok(Mask::new(key, tag, self.bits))
    }
}

/// The store's record of it: bits, key and check value.
impl fmt::Display for Masking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {:016x}", self.bits, self.key, self.check_value)
    }
}
