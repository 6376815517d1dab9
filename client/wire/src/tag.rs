//! Checks names of tags and layouts.
//!
//! The limit is that of Leaf's column, a `varchar(128)`: 128 characters, so up to 512 bytes.

use std::fmt;

/// The maximum number of characters (Unicode scalar values) of a tag.
pub const TAG_CHARACTERS_MAX: usize = 128;

/// The maximum number of bytes of a tag: that many characters of four bytes each.
pub const TAG_BYTES_MAX: usize = 4 * TAG_CHARACTERS_MAX;

/// Why bytes are not a tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TagError {
    /// The broken rule.
    pub what: &'static str,
}

const TOO_LONG: TagError = TagError { what: "a tag has at most 128 characters" };

/// Checks a tag's bytes from an untrusted source.
///
/// # Errors
/// See [`TagError`].
pub fn check_tag(bytes: &[u8]) -> Result<&str, TagError> {
    if bytes.is_empty() {
        return Err(TagError { what: "a tag has at least one character" });
    }
    if bytes.len() > TAG_BYTES_MAX {
        return Err(TOO_LONG);
    }
    let text = std::str::from_utf8(bytes).map_err(|_| TagError { what: "a tag is UTF-8 text" })?;
    // A text within the limit in bytes is within the limit in characters too.
    if bytes.len() > TAG_CHARACTERS_MAX && text.chars().count() > TAG_CHARACTERS_MAX {
        return Err(TOO_LONG);
    }
    // Databases and logs treat control characters differently.
    if text.chars().any(char::is_control) {
        return Err(TagError { what: "a tag has no control characters" });
    }
    Ok(text)
}

impl fmt::Display for TagError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.what)
    }
}

impl std::error::Error for TagError {}
