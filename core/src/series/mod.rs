//! Document numbers: texts such as INV-2026-000123, with a count that starts over in each period.
//!
//! A period's count is an ordinary tag, so nothing here decides which numbers are issued. This module decides which tag
//! they come from, and how they are written.
//!
//! - `format`: the texts.
//! - `period`: days, weeks, months, quarters and years in a time zone.
//! - `clock`: what a host knows of the store's clock, and whether that is enough to tell the period.

mod clock;
mod format;
mod period;

use serde::{Deserialize, Serialize};

use crate::Tag;

pub use clock::Sample;
pub use format::{Format, Number};
pub use period::{Period, PeriodKind};

/// The prefix of the names of series' tags. No other tag can be created with it.
const TAG_PREFIX: &str = "series/";

/// The prefix of tags of which no ids are claimed ahead of use. The name must show this, because a host must know it
/// before it asks the store.
const DENSE_PREFIX: &str = "series.dense/";

/// The longest name of a series.
const NAME_BYTES_MAX: usize = 40;

/// A series as it is created and recorded, in JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Series {
    #[serde(rename = "series")]
    pub name: String,
    /// See [`Format`].
    pub format: String,
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

/// What happens when a period needs more numbers than fit the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Overflow {
    /// Numbers get longer.
    Grow,
    /// There are no more numbers until the next period.
    Refuse,
}

impl Series {
    /// The prefix of a tenant's tags; with an empty `tenant`, of all tags of the series.
    pub fn tags_of(&self, tenant: &str) -> String {
        let prefix = if self.dense { DENSE_PREFIX } else { TAG_PREFIX };
        let slash = if tenant.is_empty() { "" } else { "/" };
        format!("{prefix}{}/{tenant}{slash}", self.name)
    }

    /// The tag that counts its tenants.
    ///
    /// # Panics
    /// If its name was not checked.
    pub fn tenants_tag(&self) -> Tag {
        let tag = format!("{DENSE_PREFIX}{}/tenants", self.name);
        Tag::parse(tag.as_bytes()).expect("a checked name fits into a tag")
    }

    /// The tag that counts a period's numbers.
    ///
    /// # Panics
    /// If name and tenant were not checked.
    pub fn tag_of(&self, tenant: &str, period: Period) -> Tag {
        let tag = format!("{}{period}", self.tags_of(tenant));
        Tag::parse(tag.as_bytes()).expect("checked names fit into a tag")
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

/// Whether a tag belongs to a series. Only the series draws from it.
pub fn is_tag_of_series(tag: &str) -> bool {
    tag.starts_with(TAG_PREFIX) || tag.starts_with(DENSE_PREFIX)
}

/// Whether a tag counts the tenants of a series. If it is exhausted, only new tenants are affected.
pub fn counts_tenants(tag: &str) -> bool {
    let name = tag.strip_prefix(DENSE_PREFIX).and_then(|it| it.strip_suffix("/tenants"));
    name.is_some_and(|name| !name.contains('/'))
}

/// Whether no ids of a tag are claimed ahead of use: it counts the numbers of a dense series, or tenants.
pub fn is_dense(tag: &Tag) -> bool {
    tag.as_str().starts_with(DENSE_PREFIX)
}
