//! GAPS: what became of a range of a tag's ids, as far as the store and this host remember.

use std::ops::Range;
use std::rc::Rc;

use leafd_core::shares::Claimant;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{CLAIMS_A_CALL, Home, given_by_ms};
use crate::engine::segments::{CRASH, Gap, UNANSWERED};
use crate::reply::Failure;
use crate::requests::Dispatcher;
use crate::requests::tags::refused;
use leafd_core::Tag;
use leafd_core::store::{ClaimRecord, StoreError};

/// GAPS's body.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Gaps {
    tag: String,
    first: u64,
    last: u64,
}

/// Most parts in an answer. Further ones are on the next page.
const PARTS_MAX: usize = 500;

/// What this host knows of its own ids of a tag.
struct Own {
    /// Ids that are not issued yet.
    held: Vec<Range<u64>>,
    /// One past the highest id that this host has seen claimed.
    seen: u64,
    gaps: Vec<Gap>,
}

/// A part of a claim of this host, and what became of it.
#[derive(Debug, PartialEq, Eq)]
struct Part {
    ids: Range<u64>,
    why: &'static str,
    at_ms: Option<u64>,
    cause: Option<String>,
}

impl Dispatcher {
    /// Checks the request. The caller must await the returned future, which answers it.
    pub(super) fn gaps(
        self: &Rc<Self>,
        asked: &Gaps,
        claimant: Claimant,
    ) -> Result<impl Future<Output = Result<Value, Failure>> + use<>, Failure> {
        let tag = Tag::parse(asked.tag.as_bytes())?;
        if self.snowflakes.layout(tag.as_str()).is_some() {
            return Err(refused(format!(
                "{tag:?} is a layout: its ids leave gaps by their nature; ask for a segment tag's"
            )));
        }
        let (first, last) = (asked.first.max(1), asked.last);
        if first > last || last > i64::MAX as u64 {
            return Err(refused(format!(
                "there are no numbers from {} to {}: first must not be above last, nor last above 2^63-1",
                asked.first, asked.last
            )));
        }
        let dispatcher = Rc::clone(self);
        Ok(async move { dispatcher.explain(&tag, first..last + 1, claimant).await })
    }

    async fn explain(
        &self,
        tag: &Tag,
        range: Range<u64>,
        claimant: Claimant,
    ) -> Result<Value, Failure> {
        let homes = self.homes(tag).await?;
        let [home] = &homes[..] else {
            return Err(refused(format!(
                "tag {tag:?} lives in independent primaries, which leave gaps by their nature; ask about one id: leafctl \
                 whose ID --tag {tag}"
            )));
        };
        if home.row.as_ref().is_some_and(|row| row.strict) {
            return Err(refused(format!(
                "tag {tag:?} is strict: its claims are not recorded, and what of them nobody took is skipped"
            )));
        }
        let first_known = home.claims_after(tag, 0, 1).await?.first().map(|one| one.run.first);
        if home.row.is_none() && first_known.is_none() {
            return Err(Failure::from(&StoreError::UnknownTag { tag: tag.clone() }));
        }
        let page = home.claims_after(tag, range.start, CLAIMS_A_CALL).await?;
        let (held, seen) = match home.row {
            Some(_) => self.segments.held_of(tag, claimant).await?,
            None => (Vec::new(), u64::MAX),
        };
        let own = Own { held, seen, gaps: self.segments.gaps().of(tag) };
        let known = Known { home, first_known, range: &range };
        let (mut parts, mut next) = (Vec::new(), range.start);
        for (index, claim) in page.iter().enumerate() {
            if claim.run.first >= range.end || parts.len() >= PARTS_MAX {
                break;
            }
            known.uncovered(next..claim.run.first, &mut parts);
            let ids = next.max(claim.run.first)..claim.run.end().min(range.end);
            if self.is_own(claim) {
                parts.extend(own.parts(claim, ids).into_iter().map(|part| {
                    let mut row = self.claim_row(home, claim);
                    row["first"] = json!(part.ids.start);
                    row["last"] = json!(part.ids.end - 1);
                    row["why"] = json!(part.why);
                    row["at_ms"] = json!(part.at_ms);
                    row["cause"] = json!(part.cause);
                    row
                }));
            } else if !ids.is_empty() {
                let later = &page[index + 1..];
                let given = later.iter().find_map(|later| given_by_ms(claim, later, ids.end - 1));
                let mut row = self.claim_row(home, claim);
                (row["first"], row["last"]) = (json!(ids.start), json!(ids.end - 1));
                row["why"] = json!(if given.is_some() { "issued" } else { "held" });
                (row["at_ms"], row["cause"]) = (json!(given), Value::Null);
                parts.push(row);
            }
            next = next.max(claim.run.end());
        }
        let has_more = parts.len() >= PARTS_MAX || page.len() >= CLAIMS_A_CALL as usize;
        if !has_more {
            known.uncovered(next..range.end, &mut parts);
            next = range.end;
        }
        let next = Some(next).filter(|next| *next < range.end);
        Ok(json!({ "tag": tag.as_str(), "parts": parts, "next": next }))
    }
}

/// What is known about ids that are in no recorded claim.
struct Known<'a> {
    home: &'a Home,
    first_known: Option<u64>,
    range: &'a Range<u64>,
}

impl Known<'_> {
    fn uncovered(&self, ids: Range<u64>, parts: &mut Vec<Value>) {
        let max_id =
            self.home.row.as_ref().map_or(u64::MAX, |row| row.max_id.max(1).cast_unsigned());
        let first_known = self.first_known.unwrap_or(u64::MAX).min(max_id);
        for (ids, why) in [
            (ids.start..ids.end.min(first_known), "not_remembered"),
            (ids.start.max(first_known)..ids.end.min(max_id), "by_none_of_leafds_hosts"),
            (ids.start.max(max_id)..ids.end, "not_claimed"),
        ] {
            let ids = ids.start.max(self.range.start)..ids.end.min(self.range.end);
            if !ids.is_empty() {
                parts.push(json!({
                    "first": ids.start,
                    "last": ids.end - 1,
                    "why": why,
                    "host": null,
                    "name": null,
                    "own": false,
                    "store": &*self.home.upstream.name,
                    "stride": 1,
                    "claimed_ms": null,
                    "earlier_tag": false,
                    "at_ms": null,
                    "cause": null,
                }));
            }
        }
    }
}

impl Own {
    /// What became of these ids in a claim of this host, in parts in ascending order.
    fn parts(&self, claim: &ClaimRecord, ids: Range<u64>) -> Vec<Part> {
        // Parts meet wherever something that is known begins or ends. This divides the whole claim, so that the same
        // is said of an id whichever ids the request asks for.
        let whole = claim.run.first..claim.run.end();
        let mut edges = vec![whole.start, whole.end];
        let crashes = self.gaps.iter().filter(|gap| gap.cause == CRASH);
        let dropped = self.gaps.iter().filter(|gap| gap.cause != CRASH);
        edges.extend(self.held.iter().flat_map(|held| [held.start, held.end]));
        edges.extend(dropped.clone().flat_map(|gap| [gap.ids.start, gap.ids.end]));
        edges.extend(crashes.clone().map(|gap| gap.ids.start));
        edges.retain(|edge| (whole.start..=whole.end).contains(edge));
        edges.sort_unstable();
        edges.dedup();
        let part = |from: u64, to: u64| {
            let is_in = |range: &Range<u64>| range.contains(&from);
            let (why, gap) = if claim.run.first >= self.seen {
                ("lost", None)
            } else if let Some(gap) = dropped.clone().find(|gap| is_in(&gap.ids)) {
                (if gap.cause == UNANSWERED { "lost" } else { "dropped" }, Some(gap))
            } else if self.held.iter().any(is_in) {
                ("held", None)
            } else {
                // Up to the id at which the daemon went on after a crash, if that is in this claim; not below the
                // claim's beginning.
                let up_to = crashes.clone().find(|gap| gap.ids.start == to && to > claim.run.first);
                (if up_to.is_some() { "issued_until_crash" } else { "issued" }, up_to)
            };
            let cause = gap.filter(|gap| gap.cause != CRASH).map(|gap| gap.cause.clone());
            let asked = from.max(ids.start)..to.min(ids.end);
            Part { ids: asked, why, at_ms: gap.map(|gap| gap.at.0), cause }
        };
        let parts = edges.windows(2).map(|pair| part(pair[0], pair[1]));
        parts.filter(|part| !part.ids.is_empty()).collect()
    }
}
