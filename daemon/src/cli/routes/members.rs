//! A store whose place is to be changed: what it records, what it is to record, and its rows page by page.

use anyhow::{Context, Result, bail};

use super::migration_state::{Frozen, RETIRED};
use crate::config::{Config, Placement, PrimaryRole, Routing, StoreSpec, StoreUrl, parse_primary};
use crate::run::stores;
use crate::store::StoreHandle;
use leafd_core::Tag;
use leafd_core::store::{Identity, Role, TagRow};

/// Rows that are asked for at once.
const PAGE: u32 = 500;

/// A store.
pub(super) struct Member {
    /// Its name in the configuration; in messages.
    pub(super) name: String,
    /// Where it is, without secrets.
    pub(super) url: String,
    pub(super) store: StoreHandle,
    /// What it was when it was last asked or changed.
    pub(super) identity: Identity,
    /// What it is to record.
    pub(super) to: String,
    /// Its index in the new configuration; `None` for one that is in the former only.
    pub(super) index: Option<usize>,
}

/// How far a store's change has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// It has another place, or none.
    Before,
    /// No daemon claims from it any more.
    Frozen,
    /// It has the place that it is to have.
    Done,
}

impl Member {
    /// Connects to a store and asks what it records.
    pub(super) async fn open(
        config: &Config,
        spec: &StoreSpec,
        index: Option<usize>,
    ) -> Result<Member> {
        let url = spec.url.to_string();
        if matches!(spec.url, StoreUrl::Sqlite(_)) {
            bail!(
                "the store {url} serves one host only: it can't be one of several stores, and needs no routes"
            );
        }
        let store = stores::open_one(config, spec)?;
        let identity = store
            .identity()
            .await
            .context("every store must be reachable before anything is changed")?;
        let to = index.map_or_else(|| RETIRED.to_owned(), |index| config.routing.role(index));
        let name = if spec.name.is_empty() { url.clone() } else { spec.name.to_string() };
        Ok(Member { name, url, store, identity, to, index })
    }

    /// What it records.
    pub(super) fn role(&self) -> &str {
        &self.identity.role.0
    }

    /// How far its change has come.
    pub(super) fn progress(&self) -> Progress {
        match Frozen::parse(self.role()) {
            Some(_) => Progress::Frozen,
            None if self.role() == self.to => Progress::Done,
            None => Progress::Before,
        }
    }

    /// The place that it has, or had before it was frozen.
    pub(super) fn place(&self) -> String {
        Frozen::parse(self.role()).map_or_else(|| self.role().to_owned(), |frozen| frozen.from)
    }

    /// As which of several primaries it gives ids so far, if so.
    pub(super) fn primary(&self) -> Option<PrimaryRole> {
        parse_primary(&self.place())
    }

    /// As which of several primaries it is to give ids, if so.
    pub(super) fn primary_to_be(&self) -> Option<PrimaryRole> {
        parse_primary(&self.to)
    }

    /// Whether it comes to give other ids than so far.
    pub(super) fn changes_shard(&self) -> bool {
        let shard = |primary: Option<PrimaryRole>| primary.map(|primary| primary.shard);
        self.index.is_some() && shard(self.primary()) != shard(self.primary_to_be())
    }

    /// Whether tags are at home in it by the new routes.
    pub(super) fn is_home_of(&self, routing: &Routing, tag: &Tag) -> bool {
        match (routing.placement(tag), self.index) {
            (Some(Placement::One(store)), Some(index)) => store == index,
            (Some(Placement::Primaries { members, .. }), Some(index)) => members.contains(&index),
            _ => false,
        }
    }

    /// Has it record a place instead of the one that it records. No claim under the former one is under way then.
    pub(super) async fn record(&mut self, place: &str) -> Result<()> {
        let role = Role(place.into());
        self.store.replace_role(&self.identity, &role).await?;
        self.identity.role = role;
        Ok(())
    }

    /// Has it record that its place is being changed.
    pub(super) async fn freeze(&mut self) -> Result<()> {
        let frozen = Frozen { from: self.place(), to: self.to.clone() };
        self.record(&frozen.text()).await
    }

    /// The rows after a tag, each with the end of what was ever claimed under its name; none at the end.
    pub(super) async fn page(&self, after: Option<&Tag>) -> Result<Vec<(TagRow, u64)>> {
        let rows = self.store.list(after, PAGE).await?;
        let tags = rows.iter().map(|row| row.tag.clone()).collect();
        let terms = self.store.look_up(&self.identity, tags).await?;
        // One that is gone meanwhile is no longer of interest.
        let rows = rows.into_iter().zip(terms);
        Ok(rows.filter_map(|(row, terms)| Some((row, terms?.end))).collect())
    }

    /// Calls `see` with every row.
    pub(super) async fn each_row(&self, mut see: impl FnMut(TagRow, u64)) -> Result<()> {
        let mut after = None;
        loop {
            let page = self.page(after.as_ref()).await?;
            let Some((last, _)) = page.last() else { return Ok(()) };
            after = Some(last.tag.clone());
            page.into_iter().for_each(|(row, end)| see(row, end));
        }
    }

    /// Calls `see` with every name that it remembers, also of tags that it has no more, and the end of what was claimed.
    pub(super) async fn each_end(&self, mut see: impl FnMut(Tag, u64)) -> Result<()> {
        let mut after: Option<Tag> = None;
        loop {
            let page = self.store.ends(after.as_ref(), PAGE).await?;
            let Some((last, _)) = page.last() else { return Ok(()) };
            after = Some(last.clone());
            page.into_iter().for_each(|(tag, end)| see(tag, end));
        }
    }
}
