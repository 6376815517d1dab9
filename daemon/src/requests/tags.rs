//! Administration of tags: JSON requests and answers, for administrators.

use std::rc::Rc;

use leafd_wire::{Status, opcode};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::tag_stores::{Away, Shown, TagStores};
use super::{Dispatcher, PeerRequest};
use crate::engine::upstream::Upstream;
use crate::reply::Failure;
use leafd_core::Tag;
use leafd_core::mask::{MaskBits, Masking};
use leafd_core::series::is_tag_of_series;
use leafd_core::store::{CEILING_MAX, Generation, NewTag, StoreError, TagChange, TagRow};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Create {
    tag: String,
    #[serde(default = "first_id")]
    start: u64,
    #[serde(default = "default_step")]
    step: u64,
    ceiling: Option<u64>,
    #[serde(default)]
    strict: bool,
    /// How many bits its public ids have, if it is masked.
    masked: Option<u8>,
    description: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    after: Option<String>,
    #[serde(default = "default_page")]
    limit: u32,
    /// The name of the store whose tags to list; the first store if there is none.
    store: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Show {
    tag: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Set {
    tag: String,
    step: Option<u64>,
    ceiling: Option<u64>,
    description: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Raise {
    tag: String,
    /// The least id that may be claimed from now on.
    to: u64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Delete {
    tag: String,
    /// The generation that was shown to the user who decided to delete the tag.
    generation: u64,
}

/// A tag in an answer.
#[derive(Debug, Serialize)]
struct Row<'a> {
    tag: &'a str,
    max_id: i64,
    step: i64,
    ceiling: u64,
    strict: bool,
    masked: Option<u8>,
    mask_key: Option<u8>,
    generation: u64,
    description: Option<&'a str>,
    updated: Option<&'a str>,
    /// The independent primaries that did not answer.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    primaries_away: Vec<&'a str>,
    /// The independent primaries that don't have the tag although another one has.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    primaries_without: Vec<&'a str>,
}

/// A page of tags.
#[derive(Debug, Serialize)]
struct TagPage<'a> {
    tags: Vec<Row<'a>>,
    /// Where the next page starts: pass it as `after`. Null on a store's last page.
    next: Option<&'a str>,
    /// The store after this one, once its last page is reached: pass it as `store`.
    next_store: Option<&'a str>,
    /// The independent primaries that did not answer.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    primaries_away: Vec<&'a str>,
}

/// The maximum number of bytes of a page's rows, so that the whole page fits into a reply.
const PAGE_BYTES_MAX: usize = 900 * 1024;

/// The bytes that separate a row from the next one.
const ROW_BYTES: usize = 1;

/// The maximum number of tags on a page.
const PAGE_MAX: u32 = 1_000;

fn first_id() -> u64 {
    1
}

fn default_step() -> u64 {
    1_000
}

fn default_page() -> u32 {
    100
}

impl Dispatcher {
    /// Refuses a peer that is not an administrator; `what` describes the request.
    pub(super) fn for_administrators(
        &self,
        request: &PeerRequest<'_>,
        what: &str,
    ) -> Result<(), Failure> {
        let peer = &request.session.peer;
        if self.access().may_administer(peer) {
            return Ok(());
        }
        Err(Failure::new(
            Status::Denied,
            format!(
                "uid {} may not {what}: only root, the daemon's own user, admin_uids and admin_gids may",
                peer.uid
            ),
        ))
    }

    /// Answers an administrator's request: JSON in, JSON out. `what` describes the request.
    pub(super) fn answer_administrator<Q: DeserializeOwned + 'static, A: Serialize>(
        self: &Rc<Self>,
        request: &PeerRequest<'_>,
        what: &str,
        work: impl AsyncFnOnce(Rc<Dispatcher>, Q) -> Result<A, Failure> + 'static,
    ) -> Result<(), Failure> {
        self.for_administrators(request, what)?;
        let (asked, dispatcher) = (request.parse()?, Rc::clone(self));
        request.answer_later(async move { Ok(json(&work(dispatcher, asked).await?)) });
        Ok(())
    }

    /// Checks an administrative request, and passes it to the stores.
    pub(super) fn administer(self: &Rc<Self>, request: &PeerRequest<'_>) -> Result<(), Failure> {
        self.for_administrators(request, "administer tags")?;
        match request.header.opcode {
            opcode::TAG_CREATE => {
                let (mut new, masked) = self.checked_create(request.parse()?)?;
                let masks = Rc::clone(&self.masks);
                self.answer_row(request, new.tag.clone(), async move |stores| {
                    if let Some(bits) = masked {
                        // If this host's key differed from that of the other hosts, they could not make this tag's
                        // ids.
                        let keys = masks.confirm().await.map_err(unconfirmed)?;
                        new.masked = Some(Masking::new(keys.current(), bits));
                    }
                    stores.create(&new).await
                })
            }
            opcode::TAG_SHOW => {
                let tag = self.segment_tag(&request.parse::<Show>()?.tag)?;
                let shown = tag.clone();
                self.answer_row(request, tag, async move |stores| stores.show(&shown).await)
            }
            opcode::TAG_SET => {
                let (tag, change) = self.checked_set(request.parse()?)?;
                let of = tag.clone();
                self.answer_row(request, tag, async move |stores| stores.set(&of, &change).await)
            }
            opcode::TAG_RAISE => {
                let Raise { tag, to } = request.parse()?;
                let tag = self.segment_tag(&tag)?;
                range("to", to, 1, CEILING_MAX)?;
                let raised = tag.clone();
                self.answer_row(request, tag, async move |stores| stores.raise(&raised, to).await)
            }
            opcode::TAG_DELETE => {
                let Delete { tag, generation } = request.parse()?;
                let tag = self.segment_tag(&tag)?;
                self.answer_row(request, tag.clone(), async move |stores| {
                    stores.delete(&tag, Generation(generation)).await
                })
            }
            _ => self.list(request, request.parse()?),
        }
    }

    fn list(&self, request: &PeerRequest<'_>, list: List) -> Result<(), Failure> {
        let List { after, limit, store } = list;
        let after = after.map(|after| Tag::parse(after.as_bytes())).transpose()?;
        range("limit", u64::from(limit), 1, u64::from(PAGE_MAX))?;
        // Independent primaries have the same tags, so they are listed once, under the first one's name.
        let upstreams = self.segments.upstreams.iter().enumerate();
        let mut listed = upstreams.filter(|(_, upstream)| upstream.shard.index == 0);
        let found = match &store {
            None => listed.next(),
            Some(name) => listed.find(|(_, upstream)| *upstream.name == **name),
        };
        let (index, _) = found.ok_or_else(|| {
            refused(format!(
                "no store {:?} is configured; use a configured one",
                store.unwrap_or_default()
            ))
        })?;
        let next_store = listed.next().map(|(_, upstream)| upstream.name.clone());
        let upstreams = self.segments.upstreams_beside(index);
        request.answer_later(async move {
            usable(&upstreams).await?;
            // One more than requested shows whether there is a next page.
            let listed = TagStores::new(upstreams).list(after.as_ref(), limit + 1).await;
            let (rows, away) = listed.map_err(|error| administrative(&error))?;
            Ok(page(&rows, &away, limit as usize, next_store.as_deref()))
        });
        Ok(())
    }

    /// Answers with the tag's row as it is after the call to its stores.
    fn answer_row(
        self: &Rc<Self>,
        request: &PeerRequest<'_>,
        tag: Tag,
        call: impl AsyncFnOnce(TagStores) -> Result<Shown, StoreError> + 'static,
    ) -> Result<(), Failure> {
        let upstreams = self.segments.upstreams_of(&tag)?;
        let dispatcher = Rc::clone(self);
        request.answer_later(async move {
            // Other hosts would not look for a tag in a store that is refused.
            usable(&upstreams).await?;
            let shown = call(TagStores::new(upstreams)).await;
            let shown = shown.map_err(|error| administrative(&error))?;
            dispatcher.segments.changed(&tag).await;
            let mut row = Row::from(&shown.row);
            row.primaries_away = names(&shown.away);
            row.primaries_without = shown.without.iter().map(|name| &**name).collect();
            Ok(json(&row))
        });
        Ok(())
    }

    /// Returns the tag to create, and how many bits its public ids have if it is masked.
    fn checked_create(&self, create: Create) -> Result<(NewTag, Option<MaskBits>), Failure> {
        let Create { tag, start, step, ceiling, strict, masked, description } = create;
        let tag = self.segment_tag(&tag)?;
        if is_tag_of_series(tag.as_str()) {
            return Err(refused(format!(
                "{tag:?} can't be the name of a tag: such names are reserved for series (leafctl series create)"
            )));
        }
        let masked = match masked {
            None => None,
            Some(bits) => {
                self.masks.keys()?;
                let (least, most) = (MaskBits::MIN.get(), MaskBits::MAX.get());
                range("masked", bits.into(), least.into(), most.into())?;
                MaskBits::new(bits)
            }
        };
        let largest = masked.map_or(CEILING_MAX, MaskBits::largest);
        let ceiling = ceiling.unwrap_or(largest);
        range("ceiling", ceiling, 1, largest)?;
        let new = NewTag { tag, start, step, ceiling, strict, masked: None, description };
        new.check().map_err(|error| administrative(&error))?;
        Ok((new, masked))
    }

    fn checked_set(&self, set: Set) -> Result<(Tag, TagChange), Failure> {
        let Set { tag, step, ceiling, description } = set;
        let change = TagChange { step, ceiling, description };
        if change == TagChange::default() {
            return Err(refused("nothing to set: pass step, ceiling or description"));
        }
        change.check().map_err(|error| administrative(&error))?;
        Ok((self.segment_tag(&tag)?, change))
    }

    /// Parses a name that a segment tag may have.
    fn segment_tag(&self, name: &str) -> Result<Tag, Failure> {
        let tag = Tag::parse(name.as_bytes())?;
        if self.snowflakes.layout(name).is_some() {
            return Err(refused(format!(
                "{name:?} is the name of a snowflake layout; its ids need no tag in the store"
            )));
        }
        Ok(tag)
    }
}

impl<'a> From<&'a TagRow> for Row<'a> {
    fn from(row: &'a TagRow) -> Self {
        Row {
            tag: row.tag.as_str(),
            max_id: row.max_id,
            step: row.step,
            ceiling: row.ceiling,
            strict: row.strict,
            masked: row.masked.map(|masking| masking.bits.get()),
            mask_key: row.masked.map(|masking| masking.key.get()),
            generation: row.generation.0,
            description: row.description.as_deref(),
            updated: row.updated.as_deref(),
            primaries_away: Vec::new(),
            primaries_without: Vec::new(),
        }
    }
}

/// Refuses stores that are not the configured ones, or not known to be. A primary that has not answered yet is skipped.
/// A daemon that has just started will have asked each of them soon.
async fn usable(upstreams: &[Rc<Upstream>]) -> Result<(), Failure> {
    for upstream in upstreams {
        upstream.asked_once().await;
    }
    let refusal = |upstream: &Rc<Upstream>| match upstreams.len() {
        1 => upstream.admin_refusal(),
        _ => upstream.refusal(),
    };
    upstreams.iter().find_map(refusal).map_or(Ok(()), Err)
}

fn names(away: &[Away]) -> Vec<&str> {
    away.iter().map(|(name, _)| &**name).collect()
}

fn unconfirmed(failure: Failure) -> StoreError {
    match failure.status {
        Status::StoreUnavailable => StoreError::Unavailable {
            store: "the mask keys".to_owned(),
            cause: failure.message.into(),
        },
        _ => StoreError::Refused(failure.message.into()),
    }
}

fn page(rows: &[TagRow], away: &[Away], limit: usize, next_store: Option<&str>) -> Vec<u8> {
    let mut bytes = 0;
    // As many rows as a reply can carry, at least one: names and descriptions may be long.
    let fitting = rows.iter().take_while(|row| {
        bytes += ROW_BYTES + json(&Row::from(*row)).len();
        bytes <= PAGE_BYTES_MAX
    });
    let shown = &rows[..fitting.count().max(1).min(limit).min(rows.len())];
    let next =
        if rows.len() > shown.len() { shown.last().map(|row| row.tag.as_str()) } else { None };
    let next_store = next_store.filter(|_| next.is_none());
    let tags = shown.iter().map(Row::from).collect();
    json(&TagPage { tags, next, next_store, primaries_away: names(away) })
}

impl PeerRequest<'_> {
    pub(super) fn parse<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        let malformed = |why| {
            Failure::new(Status::Malformed, format!("the request's JSON can't be read: {why}"))
        };
        // Serde would accept an array with an object's members in their order.
        if self.body.trim_ascii_start().first() == Some(&b'[') {
            return Err(malformed("it must be an object, not an array".to_owned()));
        }
        serde_json::from_slice(self.body).map_err(|error| malformed(error.to_string()))
    }
}

pub(super) fn json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("these types have string keys only")
}

pub(super) fn range(name: &str, value: u64, least: u64, most: u64) -> Result<(), Failure> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    Err(refused(format!("{name} is {value}; it must be from {least} to {most}")))
}

pub(super) fn refused(message: impl Into<String>) -> Failure {
    Failure::new(Status::ValueRefused, message)
}

/// If the store refuses an administrative request, the request has a bad value, and the store's rows are fine.
pub(super) fn administrative(error: &StoreError) -> Failure {
    match error {
        StoreError::Refused(message) => refused(message.words.clone()),
        other => Failure::from(other),
    }
}
