//! Checks names of tags and layouts.
//!
//! The limit is that of Leaf's column, `varchar(128)`: 128 characters, so up to 512 bytes.

use std::fmt;

/// The maximum number of characters (Unicode scalar values) of a tag.
pub const TAG_CHARACTERS_MAX: usize = 128;

/// The maximum number of bytes of a tag: that many characters of four bytes each.
pub const TAG_BYTES_MAX: usize = 4 * TAG_CHARACTERS_MAX;

/// Why bytes are not a tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TagError {
    /// It has no characters.
    Empty,
    /// It has more than [`TAG_CHARACTERS_MAX`] characters.
    TooLong,
    /// It is not UTF-8.
    NotUtf8,
    /// It has a control character, which databases and logs treat differently.
    Control,
}

/// Checks a tag's bytes from an untrusted source.
///
/// # Errors
/// See [`TagError`].
pub fn check_tag(bytes: &[u8]) -> Result<&str, TagError> {
    if bytes.is_empty() {
        return Err(TagError::Empty);
    }
    if bytes.len() > TAG_BYTES_MAX {
        return Err(TagError::TooLong);
    }
    let text = std::str::from_utf8(bytes).map_err(|_| TagError::NotUtf8)?;
    // A text within the limit in bytes is within the limit in characters too.
    if bytes.len() > TAG_CHARACTERS_MAX && text.chars().count() > TAG_CHARACTERS_MAX {
        return Err(TagError::TooLong);
    }
    if text.chars().any(char::is_control) {
        return Err(TagError::Control);
    }
    Ok(text)
}

impl fmt::Display for TagError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TagError::Empty => write!(f, "a tag has at least one character"),
            TagError::TooLong => write!(f, "a tag has at most {TAG_CHARACTERS_MAX} characters"),
            TagError::NotUtf8 => write!(f, "a tag is UTF-8 text"),
            TagError::Control => write!(f, "a tag has no control characters"),
        }
    }
}

impl std::error::Error for TagError {}
