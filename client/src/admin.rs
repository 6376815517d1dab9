//! Administration of tags: typed requests and answers.

use leafd_wire::opcode;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::client::Client;
use crate::error::{Error, Result};

/// The settings of a new tag. `None` and `false` select the daemon's defaults.
#[derive(Clone, Debug, Default, Serialize)]
pub struct NewTag {
    /// The first id to issue, from 1 to 2^63 - 2. Default: 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start: Option<u64>,
    /// The minimum number of ids in a claim. Default: 1000.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<u64>,
    /// The largest id to issue. Default: 2^63 - 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ceiling: Option<u64>,
    /// Whether ids increase across all hosts.
    pub strict: bool,
    /// The number of bits, from 20 to 63, if ids are issued as public ids.
    pub masked: Option<u8>,
    /// A human-readable description.
    pub description: Option<String>,
}

/// New settings of a tag. `None` keeps the current value.
#[derive(Clone, Debug, Default, Serialize)]
pub struct TagChange {
    /// The minimum number of ids in a claim.
    pub step: Option<u64>,
    /// The largest id.
    pub ceiling: Option<u64>,
    /// A human-readable description; an empty one removes it.
    pub description: Option<String>,
}

/// A tag as the daemon describes it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct TagInfo {
    /// The tag's name.
    pub tag: String,
    /// The first number that no host has claimed.
    pub max_id: i64,
    /// The minimum number of ids in a claim.
    pub step: i64,
    /// The largest id.
    pub ceiling: u64,
    /// Whether ids increase across all hosts.
    pub strict: bool,
    /// The number of bits if ids are issued as public ids.
    pub masked: Option<u8>,
    /// Distinguishes the tag from a deleted one of the same name; 0 if leafd did not create it.
    pub generation: u64,
    /// A human-readable description.
    pub description: Option<String>,
}

#[derive(Deserialize)]
struct TagPage {
    tags: Vec<TagInfo>,
    next: Option<String>,
    next_store: Option<String>,
}

/// Available with the feature `admin`, for administrators of the daemon. These requests are never repeated, so after
/// [`Error::Disconnected`] or [`Error::Timeout`] they may have taken effect.
impl Client {
    /// Creates a tag. If it exists, the error's status is [`crate::Status::TagExists`].
    ///
    /// # Errors
    /// Same as [`Client::admin`].
    pub fn create_tag(&self, tag: &str, settings: &NewTag) -> Result<TagInfo> {
        self.administer(opcode::TAG_CREATE, tag, settings)
    }

    /// Describes a tag.
    ///
    /// # Errors
    /// Same as [`Client::admin`].
    pub fn tag_info(&self, tag: &str) -> Result<TagInfo> {
        self.administer(opcode::TAG_SHOW, tag, json!({}))
    }

    /// Changes a tag's settings.
    ///
    /// # Errors
    /// Same as [`Client::admin`].
    pub fn change_tag(&self, tag: &str, change: &TagChange) -> Result<TagInfo> {
        self.administer(opcode::TAG_SET, tag, change)
    }

    /// Makes `to` the lowest number that may be claimed from now on. Hosts keep issuing the ids that they have already
    /// claimed.
    ///
    /// # Errors
    /// Same as [`Client::admin`].
    pub fn raise_tag(&self, tag: &str, to: u64) -> Result<TagInfo> {
        self.administer(opcode::TAG_RAISE, tag, json!({ "to": to }))
    }

    /// Deletes the described tag, but not a newer tag of the same name.
    ///
    /// # Errors
    /// Same as [`Client::admin`].
    pub fn delete_tag(&self, tag: &TagInfo) -> Result<TagInfo> {
        self.administer(opcode::TAG_DELETE, &tag.tag, json!({ "generation": tag.generation }))
    }

    /// Returns all tags of all stores.
    ///
    /// # Errors
    /// Same as [`Client::admin`].
    pub fn tags(&self) -> Result<Vec<TagInfo>> {
        let (mut all, mut place) = (Vec::new(), json!({}));
        loop {
            let page: TagPage = parse(&self.admin(opcode::TAG_LIST, &place.to_string())?)?;
            all.extend(page.tags);
            place = match (page.next, page.next_store) {
                (Some(after), _) => json!({ "after": after, "store": place["store"] }),
                (None, Some(store)) => json!({ "store": store }),
                (None, None) => return Ok(all),
            };
        }
    }

    fn administer(&self, opcode: u8, tag: &str, settings: impl Serialize) -> Result<TagInfo> {
        let mut body = json!(settings);
        body["tag"] = tag.into();
        parse(&self.admin(opcode, &body.to_string())?)
    }
}

fn parse<T: DeserializeOwned>(answer: &str) -> Result<T> {
    serde_json::from_str(answer).map_err(|error| Error::protocol(format!("an answer: {error}")))
}
