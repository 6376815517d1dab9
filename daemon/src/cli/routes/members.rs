//! A store whose role changes: the recorded role, the new one, and its rows page by page.

use anyhow::{Context, Result, bail};

use super::migration_state::{Frozen, RETIRED};
use crate::config::{Config, PrimaryRole, Routing, StoreSpec, StoreUrl, parse_primary};
use crate::run::stores;
use crate::store::{Store, StoreHandle};
use leafd_core::Tag;
use leafd_core::store::{Identity, Role, TagRow};

/// How many rows one query reads.
const PAGE: u32 = 500;

/// A store.
pub(super) struct Member {
    /// Its name in the configuration and in messages.
    pub(super) name: String,
    /// Its URL, without secrets.
    pub(super) url: String,
    pub(super) store: StoreHandle,
    /// Its identity when it was last asked or changed.
    pub(super) identity: Identity,
    /// The role to record.
    pub(super) to: String,
    /// Its index in the new configuration; `None` if only the former one has it.
    pub(super) index: Option<usize>,
}

/// The progress of a store's change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// It has a different role, or none.
    Before,
    /// It is frozen, so no daemon claims from it any more.
    Frozen,
    /// It has its new role.
    Done,
}

impl Member {
    /// Connects to a store and reads its role.
    pub(super) async fn open(
        config: &Config,
        spec: &StoreSpec,
        index: Option<usize>,
    ) -> Result<Member> {
        let url = spec.url.to_string();
        if matches!(spec.url, StoreUrl::Sqlite(_)) {
            bail!(
                "the store {url} serves only one host, so it can't be one of several stores and needs no routes"
            );
        }
        let store = stores::open_one(config, spec)?;
        let identity = store
            .call(|store| store.identity())
            .await
            .context("every store must be reachable before a change")?;
        let to = index.map_or_else(|| RETIRED.to_owned(), |index| config.routing.role(index));
        let name = if spec.name.is_empty() { url.clone() } else { spec.name.to_string() };
        Ok(Member { name, url, store, identity, to, index })
    }

    /// Its recorded role.
    pub(super) fn role(&self) -> &str {
        &self.identity.role.0
    }

    /// The progress of its change.
    pub(super) fn progress(&self) -> Progress {
        match Frozen::parse(self.role()) {
            Some(_) => Progress::Frozen,
            None if self.role() == self.to => Progress::Done,
            None => Progress::Before,
        }
    }

    /// Its role, or the role before it was frozen.
    pub(super) fn place(&self) -> String {
        Frozen::parse(self.role()).map_or_else(|| self.role().to_owned(), |frozen| frozen.from)
    }

    /// Which of several primaries it is now, if it is one.
    pub(super) fn primary(&self) -> Option<PrimaryRole> {
        parse_primary(&self.place())
    }

    /// Which of several primaries it will be, if it will be one.
    pub(super) fn primary_to_be(&self) -> Option<PrimaryRole> {
        parse_primary(&self.to)
    }

    /// Whether it will grant different ids than before.
    pub(super) fn changes_shard(&self) -> bool {
        let shard = |primary: Option<PrimaryRole>| primary.map(|primary| primary.shard);
        self.index.is_some() && shard(self.primary()) != shard(self.primary_to_be())
    }

    /// Whether the new routes place the tag in it.
    pub(super) fn is_home_of(&self, routing: &Routing, tag: &Tag) -> bool {
        let home = routing.placement(tag).unwrap_or_default();
        self.index.is_some_and(|index| home.contains(&index))
    }

    /// Replaces the recorded role. At that moment, no claim under the former role is in progress.
    pub(super) async fn record(&mut self, place: &str) -> Result<()> {
        let role = Role(place.into());
        let (under, to) = (self.identity.clone(), role.clone());
        self.store.call(move |store| store.replace_role(&under, &to)).await?;
        self.identity.role = role;
        Ok(())
    }

    /// Records that its role is being changed.
    pub(super) async fn freeze(&mut self) -> Result<()> {
        let frozen = Frozen { from: self.place(), to: self.to.clone() };
        self.record(&frozen.text()).await
    }

    /// The rows after a tag, each with the end of all claims ever made under its name; empty after the last row.
    pub(super) async fn page(&self, after: Option<&Tag>) -> Result<Vec<(TagRow, u64)>> {
        let (under, after) = (self.identity.clone(), after.cloned());
        let page = move |store: &mut Store| {
            let rows = store.list(after.as_ref(), PAGE)?;
            let tags: Vec<Tag> = rows.iter().map(|row| row.tag.clone()).collect();
            let terms = store.look_up(&under, &tags)?;
            Ok((rows, terms))
        };
        let (rows, terms) = self.store.call(page).await?;
        // A row deleted in between no longer matters.
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

    /// Calls `see` with every name that the store remembers, including those of deleted tags, and the end of its
    /// claims.
    pub(super) async fn each_end(&self, mut see: impl FnMut(Tag, u64)) -> Result<()> {
        let mut after: Option<Tag> = None;
        loop {
            let page = self.store.call(move |store| store.ends(after.as_ref(), PAGE)).await?;
            let Some((last, _)) = page.last() else { return Ok(()) };
            after = Some(last.clone());
            page.into_iter().for_each(|(tag, end)| see(tag, end));
        }
    }
}
