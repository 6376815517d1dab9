//! The keys of masks, as read from their file: one line per key, with its number and 32 hexadecimal digits. The first
//! key makes new public ids. The others read ids that were made with them before.

use std::fmt;

use aes::Aes128Enc;
use aes::cipher::{BlockCipherEncrypt, KeyInit};

/// Bytes of a key.
pub const SECRET_BYTES: usize = 16;

/// Encrypted to check whether two hosts have the same key. No input of FF1 begins with these bytes.
const CHECK: [u8; 16] = *b"leafd mask check";

/// Which key a public id was made with: 1 to 31, so that it fits one character of its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeyNumber(u8);

/// One key. Its `Debug` doesn't show it.
#[derive(Clone)]
pub struct MaskKey {
    pub number: KeyNumber,
    pub(super) cipher: Aes128Enc,
}

/// The keys of a host, at least one.
#[derive(Clone, Debug)]
pub struct MaskKeys(Vec<MaskKey>);

/// Why a text is not a valid key file. The error never quotes the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MaskKeysError {
    /// There is no key.
    #[error("it contains no key")]
    Empty,
    /// A malformed line.
    #[error("its line {line} is not a number from 1 to 31 followed by 32 hexadecimal digits")]
    Line {
        /// Counted from 1.
        line: usize,
    },
    /// A number that occurs twice.
    #[error("it contains two keys with the number {number}")]
    Twice { number: KeyNumber },
}

// === impl KeyNumber ===

impl KeyNumber {
    /// The number of a tag's or host's first key.
    pub const FIRST: KeyNumber = KeyNumber(1);

    pub const fn new(number: u8) -> Option<KeyNumber> {
        if number >= 1 && number <= 31 { Some(KeyNumber(number)) } else { None }
    }

    pub const fn get(self) -> u8 {
        self.0
    }
}

impl fmt::Display for KeyNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

// === impl MaskKey ===

impl MaskKey {
    /// A key of random bytes.
    pub fn new(number: KeyNumber, secret: &[u8; SECRET_BYTES]) -> MaskKey {
        MaskKey { number, cipher: Aes128Enc::new(secret.into()) }
    }

    /// Distinguishes two keys, and reveals nothing else about them: the first half of an encrypted constant.
    pub fn check_value(&self) -> u64 {
        let mut block = aes::Block::from(CHECK);
        self.cipher.encrypt_block(&mut block);
        let (first, _) = block.split_first_chunk().expect("a block has 16 bytes");
        u64::from_be_bytes(*first)
    }
}

impl fmt::Debug for MaskKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MaskKey").field("number", &self.number).finish_non_exhaustive()
    }
}

// === impl MaskKeys ===

impl MaskKeys {
    /// Reads a file's text. Skips empty lines and lines that begin with `#`.
    ///
    /// # Errors
    /// [`MaskKeysError`]
    pub fn parse(text: &str) -> Result<MaskKeys, MaskKeysError> {
        let mut keys: Vec<MaskKey> = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let key = parse_line(line).ok_or(MaskKeysError::Line { line: index + 1 })?;
            if keys.iter().any(|known| known.number == key.number) {
                return Err(MaskKeysError::Twice { number: key.number });
            }
            keys.push(key);
        }
        if keys.is_empty() { Err(MaskKeysError::Empty) } else { Ok(MaskKeys(keys)) }
    }

    /// The key that makes new public ids.
    pub fn current(&self) -> &MaskKey {
        &self.0[0]
    }

    /// The key of a number.
    pub fn get(&self, number: KeyNumber) -> Option<&MaskKey> {
        self.0.iter().find(|key| key.number == number)
    }

    /// All keys, the current one first.
    pub fn iter(&self) -> impl Iterator<Item = &MaskKey> {
        self.0.iter()
    }
}

fn parse_line(line: &str) -> Option<MaskKey> {
    let (number, digits) = line.split_once(char::is_whitespace)?;
    let number = KeyNumber::new(number.parse().ok()?)?;
    let digits = digits.trim();
    if digits.len() != 2 * SECRET_BYTES || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    let secret = u128::from_str_radix(digits, 16).ok()?.to_be_bytes();
    Some(MaskKey::new(number, &secret))
}
