//! Names and numbers that must not be mixed up with other text and numbers.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

use leafd_wire::TagError;
use leafd_wire::tag::check_tag;
use serde::{Deserialize, Serialize};

/// The checked name of a tag or a layout: 1 to 128 characters, no control characters.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct Tag(Arc<str>);

/// A snowflake worker's number. The layout decides which numbers fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct WorkerId(pub u64);

// === impl Tag ===

impl Tag {
    /// Checks a name from an untrusted source.
    ///
    /// # Errors
    /// See [`TagError`].
    pub fn parse(bytes: &[u8]) -> Result<Tag, TagError> {
        check_tag(bytes).map(|name| Tag(name.into()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for Tag {
    type Error = TagError;

    fn try_from(name: String) -> Result<Tag, TagError> {
        Tag::parse(name.as_bytes())
    }
}

impl Borrow<str> for Tag {
    fn borrow(&self) -> &str {
        &self.0
    }
}

/// As quoted text, which is how errors name a tag.
impl fmt::Debug for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for WorkerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
