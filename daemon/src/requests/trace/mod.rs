//! Operators' queries about issued ids: which host issued one, and why some are missing. The answers combine the
//! records of the stores and the registry with what this host knows about its own ids.
//!
//! An answer takes a few calls to a store. Each reads a limited number of rows, so that claims are served in between.

mod classes;
mod gaps;
mod own;
mod whose;

use std::rc::Rc;

use leafd_wire::opcode;
use serde_json::{Value, json};

use super::tags::administrative;
use super::{Dispatcher, PeerRequest};
use crate::engine::segments::HOLD_MS;
use crate::engine::upstream::Upstream;
use crate::reply::Failure;
use gaps::Gaps;
use leafd_core::store::{ClaimRecord, StoreError, TagRow};
use leafd_core::{Tag, UnixMs};
use whose::Whose;

/// How many claims a call reads.
const CLAIMS_A_CALL: u32 = 500;

/// Nothing is known about an id while a primary that may have recorded it doesn't answer.
const PRIMARY_AWAY: &str = "primary_away";

/// A tag in one of its stores. Its row may be gone.
struct Home {
    upstream: Rc<Upstream>,
    row: Option<TagRow>,
}

/// The stores of a tag.
struct Homes {
    here: Vec<Home>,
    /// Several primaries that feed one tag fail apart: those that don't answer.
    away: Vec<Rc<Upstream>>,
}

impl Dispatcher {
    /// Checks a request about issued ids, and answers it.
    pub(super) fn trace(self: &Rc<Self>, request: &PeerRequest<'_>) -> Result<(), Failure> {
        let (session, what) = (request.session, "ask who issued ids");
        let (peer, claimant) = (session.peer.clone(), session.outbox.claimant);
        match request.header.opcode {
            opcode::WHOSE => {
                self.answer_administrator(request, what, async move |requests, asked: Whose| {
                    requests.whose(&asked, &peer).await
                })
            }
            _ => self.answer_administrator(request, what, async move |requests, asked: Gaps| {
                requests.gaps(&asked, claimant).await
            }),
        }
    }

    /// The stores of a tag, each with the tag's row. At least one answers.
    async fn homes(&self, tag: &Tag) -> Result<Homes, Failure> {
        let (mut homes, mut failure) = (Homes { here: Vec::new(), away: Vec::new() }, None);
        for upstream in self.segments.upstreams_of(tag)? {
            if let Some(failure) = upstream.refusal() {
                return Err(failure);
            }
            let row = match upstream.show(tag).await {
                Ok(row) => Some(row),
                Err(StoreError::UnknownTag { .. }) => None,
                Err(error @ StoreError::Unavailable { .. }) => {
                    failure = Some(administrative(&error));
                    homes.away.push(upstream);
                    continue;
                }
                Err(error) => return Err(administrative(&error)),
            };
            homes.here.push(Home { upstream, row });
        }
        match failure {
            Some(failure) if homes.here.is_empty() => Err(failure),
            _ => Ok(homes),
        }
    }

    /// A claim in an answer.
    fn claim_row(&self, home: &Home, claim: &ClaimRecord) -> Value {
        let present = home.row.as_ref().map(|row| row.generation);
        json!({
            "host": &*claim.by.host.0,
            "name": &*claim.by.name,
            "own": self.is_own(claim),
            "store": &*home.upstream.name,
            "first": claim.run.first,
            "last": claim.run.end() - 1,
            "stride": claim.run.stride,
            "claimed_ms": claim.at.0,
            "earlier_tag": present != Some(claim.generation),
        })
    }

    fn is_own(&self, claim: &ClaimRecord) -> bool {
        claim.by.host == *self.segments.host.borrow()
    }
}

impl Homes {
    /// The names of those that don't answer.
    fn away(&self) -> Vec<&str> {
        self.away.iter().map(|upstream| &*upstream.name).collect()
    }

    /// The first ids and the times of the oldest claims that the stores remember.
    async fn oldest_claims(&self, tag: &Tag) -> Result<Vec<(u64, UnixMs)>, Failure> {
        let mut oldest = Vec::new();
        for home in &self.here {
            let claims = home.claims_after(tag, 0, 1).await?;
            oldest.extend(claims.first().map(|claim| (claim.run.first, claim.at)));
        }
        Ok(oldest)
    }

    /// Refuses a tag that no store has, nor remembers.
    fn check_known(&self, tag: &Tag, is_remembered: bool) -> Result<(), Failure> {
        match is_remembered || self.here.iter().any(|home| home.row.is_some()) {
            true => Ok(()),
            false => Err(Failure::from(&StoreError::UnknownTag { tag: tag.clone() })),
        }
    }
}

impl Home {
    async fn claims_after(
        &self,
        tag: &Tag,
        id: u64,
        limit: u32,
    ) -> Result<Vec<ClaimRecord>, Failure> {
        let claims = self.upstream.claims_after(tag, id, limit).await;
        claims.map_err(|error| administrative(&error))
    }

    /// Whether this store grants the id, and has not done so yet.
    fn is_ahead(&self, id: u64) -> bool {
        self.row.is_some() && id >= self.end() && self.gives(id)
    }

    /// From this number on, nothing is claimed; above every id if the row was deleted.
    fn end(&self) -> u64 {
        self.row.as_ref().map_or(u64::MAX, |row| row.max_id.max(1).cast_unsigned())
    }

    /// Whether this store grants the id.
    fn gives(&self, id: u64) -> bool {
        self.upstream.shard.first_from(id) == id
    }
}

/// The latest time at which the host that claimed an id still had it. By then a process got the id, or it was skipped.
/// A process may use it a little later.
fn given_by_ms(claim: &ClaimRecord, later: &ClaimRecord, id: u64) -> Option<u64> {
    let is_past = later.by.holds_from.is_none_or(|from| from > id);
    let is_later = later.by.host == claim.by.host && later.run.first > id && later.at >= claim.at;
    (is_later && is_past).then(|| later.at.0.saturating_add(HOLD_MS.into()))
}
