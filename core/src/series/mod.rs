//! Document numbers: texts such as INV-2026-000123, with a count that starts over in each period.
//!
//! A period's count is an ordinary tag, so nothing here decides which numbers are issued. This decides which tag they
//! come from, and how they are written.
//!
//! - `format`: the texts; `check`: their check digits.
//! - `period`: days, weeks, months, quarters and years in a time zone.
//! - `clock`: what a host knows of the store's clock, and whether that is enough to tell the period.

mod check;
mod clock;
mod format;
mod period;

use serde::{Deserialize, Serialize};

use crate::Tag;
use crate::store::CEILING_MAX;

pub use clock::{Sample, Standing};
pub use format::{Format, FormatError, Number, ReadError, Template};
pub use period::{Period, PeriodKind};

/// What the names of the tags of series begin with. No other tag can be created under such a name.
const TAG_PREFIX: &str = "series/";

/// The same for dense series. A host must know that a tag is dense before it asks the store.
const DENSE_PREFIX: &str = "series.dense/";

/// The longest name of a series.
pub const NAME_BYTES_MAX: usize = 40;

/// The longest name of a tenant.
pub const TENANT_BYTES_MAX: usize = 32;

/// The most tenants that a series can be allowed.
pub const TENANTS_MAX: u32 = 100_000;

/// A series as the store records it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Series {
    pub format: Format,
    /// The IANA name of the time zone in which its periods begin.
    pub timezone: String,
    pub overflow: Overflow,
    /// Whether hosts claim numbers only when they are drawn.
    pub dense: bool,
    /// How many tenants it may have.
    pub tenants_max: u32,
    /// How many days after the end of a period its tag is deleted; `None`: never.
    pub retention_days: Option<u32>,
}

/// What happens when a period needs more numbers than have room in the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Overflow {
    /// Numbers get longer.
    Grow,
    /// There are no more numbers until the next period.
    Refuse,
}

impl Series {
    /// The largest number of a period.
    pub fn ceiling(&self) -> u64 {
        match self.overflow {
            Overflow::Grow => CEILING_MAX,
            Overflow::Refuse => self.format.capacity(),
        }
    }

    /// From this number on, most of the room in the format is used.
    pub fn warn_from(&self) -> u64 {
        self.format.capacity() / 5 * 4
    }

    /// What the names of a tenant's tags begin with; without a tenant, those of all tags of the series.
    pub fn tags_of(&self, name: &str, tenant: &str) -> String {
        let prefix = if self.dense { DENSE_PREFIX } else { TAG_PREFIX };
        let slash = if tenant.is_empty() { "" } else { "/" };
        format!("{prefix}{name}/{tenant}{slash}")
    }

    /// The tag that counts a period's numbers.
    ///
    /// # Panics
    /// When name and tenant were not checked.
    pub fn tag_of(&self, name: &str, tenant: &str, period: Period) -> Tag {
        let tag = format!("{}{period}", self.tags_of(name, tenant));
        Tag::parse(tag.as_bytes()).expect("checked names fit into a tag")
    }

    /// Checks a tenant, and returns it as tags have it. Texts show it in capitals.
    ///
    /// # Errors
    /// Why it isn't a tenant, in words.
    pub fn tenant(&self, text: &str) -> Result<String, &'static str> {
        match (self.format.has_tenant(), text.is_empty()) {
            (true, true) => return Err("its numbers need a tenant"),
            (false, false) => return Err("its format has no {tenant}"),
            _ => {}
        }
        let fits =
            text.len() <= TENANT_BYTES_MAX && text.bytes().all(|byte| byte.is_ascii_alphanumeric());
        match fits {
            true => Ok(text.to_ascii_lowercase()),
            false => Err("a tenant is 1 to 32 letters and digits"),
        }
    }
}

/// Whether a text may name a series: a lower-case letter, then `a` to `z`, `0` to `9`, `_` or `-`.
pub fn is_name(text: &str) -> bool {
    let inner =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-".contains(&byte);
    text.len() <= NAME_BYTES_MAX
        && text.bytes().next().is_some_and(|byte| byte.is_ascii_lowercase())
        && text.bytes().all(inner)
}

/// Whether a tag belongs to a series.
pub fn is_tag_of_series(tag: &Tag) -> bool {
    tag.as_str().starts_with(TAG_PREFIX) || is_dense(tag)
}

/// Whether a tag belongs to a dense series: no ids of it are claimed ahead of use.
pub fn is_dense(tag: &Tag) -> bool {
    tag.as_str().starts_with(DENSE_PREFIX)
}
