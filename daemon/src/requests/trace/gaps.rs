//! GAPS: what happened to a range of a tag's ids, as far as the store and this host have records.

use std::ops::Range;
use std::rc::Rc;

use leafd_core::Tag;
use leafd_core::shares::Claimant;
use leafd_core::store::ClaimRecord;
use leafd_wire::Run;
use serde::Deserialize;
use serde_json::{Value, json};

use super::classes::{Piece, StridedIds, pieces};
use super::own::{Own, Part};
use super::{CLAIMS_A_CALL, Home, Homes, PRIMARY_AWAY, given_by_ms};
use crate::config::PRIMARIES_MAX;
use crate::engine::upstream::Upstream;
use crate::reply::Failure;
use crate::requests::Dispatcher;
use crate::requests::tag_stores::TagStores;
use crate::requests::tags::{administrative, refused};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Gaps {
    tag: String,
    first: u64,
    /// The last number; by default, the last one that is claimed.
    last: Option<u64>,
}

/// The maximum number of parts in an answer. Further ones are on the next page.
const PARTS_MAX: usize = 500;

/// What is reported about some ids.
struct Row<'a> {
    ids: StridedIds,
    why: &'a str,
    /// The claim that contains them, with its store.
    claim: Option<(&'a Home, &'a ClaimRecord)>,
    /// Without a claim: the store that issues them, or that is unavailable.
    store: &'a str,
    at_ms: Option<u64>,
    cause: Option<&'static str>,
}

impl<'a> Row<'a> {
    fn of(ids: StridedIds, why: &'a str) -> Row<'a> {
        Row { ids, why, claim: None, store: "", at_ms: None, cause: None }
    }
}

impl Dispatcher {
    /// Answers the request of this user.
    pub(super) async fn gaps(&self, asked: &Gaps, claimant: Claimant) -> Result<Value, Failure> {
        let tag = Tag::parse(asked.tag.as_bytes())?;
        if self.snowflakes.layout(tag.as_str()).is_some() {
            return Err(refused(format!(
                "{tag:?} is a layout, whose ids always have gaps; use a segment tag"
            )));
        }
        let (first, last) = (
            asked.first.max(1),
            match asked.last {
                Some(last) => last,
                None => {
                    let stores = TagStores::new(self.segments.upstreams_of(&tag)?);
                    let row = stores.show(&tag).await.map_err(|error| administrative(&error))?.row;
                    // Without any claim, this is about number 1.
                    row.max_id.max(2).cast_unsigned() - 1
                }
            },
        );
        if first > last || last > i64::MAX as u64 {
            return Err(refused(format!(
                "invalid range {} to {}: first must not be above last, and last must not be above 2^63-1",
                asked.first, last
            )));
        }
        let mut answer = self.explain(&tag, first..last + 1, claimant).await?;
        self.add_texts(&tag, &mut answer).await;
        Ok(answer)
    }

    async fn explain(
        &self,
        tag: &Tag,
        range: Range<u64>,
        claimant: Claimant,
    ) -> Result<Value, Failure> {
        let homes = self.homes(tag).await?;
        if homes.here.iter().any(|home| home.row.as_ref().is_some_and(|row| row.strict)) {
            return Err(refused(format!(
                "tag {tag:?} is strict: its claims are not recorded, and unused ids are skipped"
            )));
        }
        let first_known = homes.oldest_claims(tag).await?.into_iter().map(|(first, _)| first).min();
        homes.check_known(tag, first_known.is_some())?;
        let exists = homes.here.iter().any(|home| home.row.is_some());
        let (held, ends) = match exists {
            true => self.segments.held_of(tag, claimant).await?,
            false => (Vec::new(), Vec::new()),
        };
        let own = Own { held, gaps: self.segments.losses.of(tag) };
        let of = homes.here[0].upstream.shard.of;
        let (pages, known_to) = pages(&homes, tag, &range).await?;
        let claims: Vec<(&ClaimPage<'_>, &[ClaimRecord])> = pages
            .iter()
            .flat_map(|page| (0..page.claims.len()).map(move |index| (page, &page.claims[index..])))
            .collect();
        let runs: Vec<Run> = claims.iter().map(|(_, from)| from[0].run).collect();
        let known = Known { homes: &homes, first_known };
        let mut rows = Vec::new();
        for Piece { ids, claim } in pieces(&(range.start..known_to), of, &runs) {
            let Some((ClaimPage { home, is_all, .. }, from)) = claim.map(|index| claims[index])
            else {
                known.uncovered(ids, &mut rows);
                continue;
            };
            let (claim, later) = (&from[0], &from[1..]);
            let row = |ids, why| Row { claim: Some((*home, claim)), ..Row::of(ids, why) };
            if self.is_own(claim) {
                let shard = home.upstream.shard.index as usize;
                let seen = home.row.as_ref().and_then(|_| ends.get(shard)).copied();
                // If this page is full, the next one may be further on.
                let ahead = if *is_all { u64::MAX } else { claim.run.end() };
                let next = later.iter().find(|later| self.is_own(later));
                let next = next.map_or(ahead, |next| next.run.first);
                let parts = own.parts(&claim.run, ids, seen.unwrap_or(u64::MAX), next);
                rows.extend(parts.into_iter().map(|Part { ids, why, at_ms, cause }| Row {
                    at_ms,
                    cause,
                    ..row(ids, why)
                }));
            } else {
                let at_ms = later.iter().find_map(|later| given_by_ms(claim, later, ids.last));
                let why = if at_ms.is_some() { "issued" } else { "held" };
                rows.push(Row { at_ms, ..row(ids, why) });
            }
        }
        rows.sort_by_key(|row| row.ids.first);
        // No two parts begin with the same id, so this makes progress.
        let told_to = rows.get(PARTS_MAX).map_or(known_to, |row| row.ids.first);
        let parts: Vec<Value> = rows.iter().filter_map(|row| self.part(row, told_to)).collect();
        let next = Some(told_to).filter(|next| *next < range.end);
        Ok(json!({ "tag": tag.as_str(), "parts": parts, "next": next, "away": homes.away() }))
    }

    /// A row in an answer, as far as its ids are below `to`.
    fn part(&self, row: &Row<'_>, to: u64) -> Option<Value> {
        let ids = row.ids.within(&(row.ids.first..to))?;
        let mut part = match row.claim {
            Some((home, claim)) => self.claim_row(home, claim),
            None => json!({
                "host": null,
                "name": null,
                "own": false,
                "store": row.store,
                "claimed_ms": null,
                "earlier_tag": false,
            }),
        };
        (part["first"], part["last"]) = (json!(ids.first), json!(ids.last));
        (part["stride"], part["why"]) = (json!(ids.stride), json!(row.why));
        (part["at_ms"], part["cause"]) = (json!(row.at_ms), json!(row.cause));
        Some(part)
    }
}

/// Claims that a store remembers, in their order.
struct ClaimPage<'a> {
    home: &'a Home,
    claims: Vec<ClaimRecord>,
    /// Whether there are no further ones.
    is_all: bool,
}

/// The claims in a range that each store remembers, up to the number that is returned: more are on further pages.
async fn pages<'a>(
    homes: &'a Homes,
    tag: &Tag,
    range: &Range<u64>,
) -> Result<(Vec<ClaimPage<'a>>, u64), Failure> {
    let (mut pages, mut to) = (Vec::new(), range.end);
    let limit = (CLAIMS_A_CALL / homes.here[0].upstream.shard.of).max(2);
    for home in &homes.here {
        let page = home.claims_after(tag, range.start, limit).await?;
        if page.iter().any(|claim| claim.run.stride as usize > PRIMARIES_MAX) {
            return Err(refused(format!(
                "store {} has a row of tag {tag:?} in leafd_claim that leafd did not write: repair it with SQL",
                home.upstream.url
            )));
        }
        let is_all = page.len() < limit as usize;
        if let Some(last) = page.last().filter(|_| !is_all) {
            to = to.min(last.run.end());
        }
        pages.push(ClaimPage { home, claims: page, is_all });
    }
    Ok((pages, to))
}

/// What is known about ids that are in no recorded claim.
struct Known<'a> {
    homes: &'a Homes,
    /// The first id with a recorded claim.
    first_known: Option<u64>,
}

impl<'a> Known<'a> {
    fn uncovered(&self, ids: StridedIds, rows: &mut Vec<Row<'a>>) {
        // It is unknown which store of a former list issued these ids, but all of them were claimed.
        let home = self.homes.here.iter().find(|home| home.upstream.shard == ids.class());
        let end = home.map_or(u64::MAX, Home::end);
        let mut add = |range: Range<u64>, why, store| {
            rows.extend(ids.within(&range).map(|ids| Row { store, ..Row::of(ids, why) }));
        };
        let store = home.map_or("", |home| &*home.upstream.name);
        if let Some(first) = self.homes.away.first() {
            let gives = |away: &&Rc<Upstream>| away.shard == ids.class();
            let missed = self.homes.away.iter().find(gives).unwrap_or(first);
            add(ids.first..end, PRIMARY_AWAY, &*missed.name);
        } else {
            let first_known = self.first_known.unwrap_or(u64::MAX).min(end);
            add(ids.first..first_known, "not_remembered", store);
            add(ids.first.max(first_known)..end, "by_none_of_leafds_hosts", store);
        }
        add(ids.first.max(end)..u64::MAX, "not_claimed", store);
    }
}
