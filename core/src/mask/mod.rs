//! Turns dense numbers into public ids, which don't show how many there are: a permutation of all numbers of a given
//! width, under a key and the tag's name.
//!
//! - `ff1`: the permutation, FF1 of NIST SP 800-38G with radix 2 over AES-128.
//! - `keys`: the keys in the key file, by number.
//! - `tag_record`: what a masked tag's record says about its mask.
//! - `text`: the public form as text, such as `ord_16dsky4r4xzza8d`.
//!
//! The tweak is the tag's name. So each tag has its own permutation, and any other implementation of FF1 computes the
//! same ids from the key, the width and the name. The tweak leaves out the tag's generation and store on purpose. A
//! tag's numbers never repeat under its name, so one permutation of them never repeats an id, but two permutations
//! could.

mod ff1;
mod keys;
mod tag_record;
mod text;

use std::fmt;

use crate::{ID_MAX, Tag};

pub use keys::{KeyNumber, MaskKey, MaskKeys, MaskKeysError, SECRET_BYTES};
pub use tag_record::{Masking, NoSuchKey};
pub(crate) use text::{DIGITS, value_of};
pub use text::{Prefix, PublicText, TextError};

/// How many bits a mask permutes. At least 20, because FF1 must not be used on fewer than a million numbers; at most
/// 63.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MaskBits(u8);

/// The permutation of a tag's numbers from 1 to 2^bits - 1 under one key.
pub struct Mask {
    permutation: ff1::Ff1,
    pub bits: MaskBits,
}

/// A number outside a mask's range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{number} is out of range: the numbers of this mask are 1 to 2^{bits} - 1")]
pub struct OutsideMask {
    pub number: u64,
    pub bits: MaskBits,
}

// === impl MaskBits ===

impl MaskBits {
    pub const MIN: MaskBits = MaskBits(20);
    /// All bits of an id.
    pub const MAX: MaskBits = MaskBits(63);

    pub const fn new(bits: u8) -> Option<MaskBits> {
        if bits >= Self::MIN.0 && bits <= Self::MAX.0 { Some(MaskBits(bits)) } else { None }
    }

    /// The number of bits.
    pub const fn get(self) -> u8 {
        self.0
    }

    /// The largest number of this width.
    pub const fn largest(self) -> u64 {
        ID_MAX >> (Self::MAX.0 - self.0)
    }
}

impl fmt::Display for MaskBits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

// === impl Mask ===

impl Mask {
    /// The permutation of a tag's numbers under a key.
    pub fn new(key: &MaskKey, tag: &Tag, bits: MaskBits) -> Mask {
        Mask { permutation: ff1::Ff1::new(&key.cipher, tag.as_str().as_bytes(), bits.get()), bits }
    }

    /// The public id of a number.
    ///
    /// # Errors
    /// [`OutsideMask`]
    pub fn mask(&self, number: u64) -> Result<u64, OutsideMask> {
        let mut numbers = [number];
        self.mask_all(&mut numbers)?;
        Ok(numbers[0])
    }

    /// The number of a public id.
    ///
    /// # Errors
    /// [`OutsideMask`]
    pub fn unmask(&self, id: u64) -> Result<u64, OutsideMask> {
        let mut ids = [id];
        self.unmask_all(&mut ids)?;
        Ok(ids[0])
    }

    /// Replaces numbers by their public ids. A batch costs less than single calls.
    ///
    /// # Errors
    /// [`OutsideMask`] for the first number outside the range; then none is replaced.
    pub fn mask_all(&self, numbers: &mut [u64]) -> Result<(), OutsideMask> {
        self.check(numbers)?;
        self.permutation.encrypt_all(numbers);
        // 0 is not an id. The number that maps to 0 gets the id that 0 itself maps to.
        for id in numbers.iter_mut().filter(|id| **id == 0) {
            *id = self.permutation.encrypt(0);
        }
        Ok(())
    }

    /// Replaces public ids by their numbers.
    ///
    /// # Errors
    /// [`OutsideMask`] for the first id outside the range; then none is replaced.
    pub fn unmask_all(&self, ids: &mut [u64]) -> Result<(), OutsideMask> {
        self.check(ids)?;
        self.permutation.decrypt_all(ids);
        for number in ids.iter_mut().filter(|number| **number == 0) {
            *number = self.permutation.decrypt(0);
        }
        Ok(())
    }

    /// Whether all of the numbers can be masked.
    ///
    /// # Errors
    /// [`OutsideMask`] for the first number outside the range.
    pub fn check(&self, numbers: &[u64]) -> Result<(), OutsideMask> {
        let bits = self.bits;
        match numbers.iter().find(|number| !(1..=bits.largest()).contains(*number)) {
            Some(&number) => Err(OutsideMask { number, bits }),
            None => Ok(()),
        }
    }
}

/// Leaves out the key.
impl fmt::Debug for Mask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mask").field("bits", &self.bits).finish_non_exhaustive()
    }
}
