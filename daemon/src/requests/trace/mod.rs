//! What operators ask about issued ids: which host issued one, and why some are missing. The answers combine what the
//! stores and the registry remember with what this host knows of its own ids.
//!
//! An answer takes a few calls to a store. Each reads a limited number of rows, so that claims are served in between.

mod gaps;
mod whose;

use std::rc::Rc;

use leafd_wire::{Header, opcode};
use serde_json::{Value, json};

use super::tags::{json as bytes, parse};
use super::{Dispatcher, Session};
use crate::engine::segments::HOLD_MS;
use crate::engine::upstream::Upstream;
use crate::reply::Failure;
use leafd_core::Tag;
use leafd_core::store::{ClaimRecord, StoreError, TagRow};

/// How many claims a call reads.
const CLAIMS_A_CALL: u32 = 500;

/// A tag in one of its stores. Its row may be gone.
struct Home {
    upstream: Rc<Upstream>,
    row: Option<TagRow>,
}

impl Dispatcher {
    /// Checks a request about issued ids, and has it answered.
    pub(super) fn trace(
        self: &Rc<Self>,
        session: &Session,
        header: &Header,
        body: &[u8],
    ) -> Result<(), Failure> {
        self.for_administrators(session, "ask who issued ids")?;
        if header.opcode == opcode::WHOSE {
            let answer = self.whose(parse(body)?, session.peer.clone())?;
            answer_later(session, header, answer);
        } else {
            let answer = self.gaps(&parse(body)?, session.outbox.claimant())?;
            answer_later(session, header, answer);
        }
        Ok(())
    }

    /// The stores of a tag, each with the tag's row.
    async fn homes(&self, tag: &Tag) -> Result<Vec<Home>, Failure> {
        let mut homes = Vec::new();
        for upstream in self.segments.upstreams_of(tag)? {
            if let Some(failure) = upstream.refusal() {
                return Err(failure);
            }
            let row = match upstream.store.show(tag).await {
                Ok(row) => Some(row),
                Err(StoreError::UnknownTag { .. }) => None,
                Err(error) => return Err(administrative(&error)),
            };
            homes.push(Home { upstream, row });
        }
        Ok(homes)
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

impl Home {
    async fn claims_after(
        &self,
        tag: &Tag,
        id: u64,
        limit: u32,
    ) -> Result<Vec<ClaimRecord>, Failure> {
        let claims = self.upstream.store.claims_after(tag, id, limit).await;
        claims.map_err(|error| administrative(&error))
    }

    /// Whether this store gives the id, and it is not claimed yet.
    fn is_ahead(&self, id: u64) -> bool {
        let max_id =
            self.row.as_ref().map_or(u64::MAX, |row| u64::try_from(row.max_id).unwrap_or(0));
        id >= max_id && self.gives(id)
    }

    /// Whether this store gives the id.
    fn gives(&self, id: u64) -> bool {
        self.upstream.shard.first_from(id) == id
    }
}

fn answer_later(
    session: &Session,
    header: &Header,
    answer: impl Future<Output = Result<Value, Failure>> + 'static,
) {
    let reply = session.outbox.later(*header);
    tokio::task::spawn_local(async move {
        match answer.await {
            Ok(answer) => reply.body(&bytes(&answer)),
            Err(failure) => reply.failure(&failure),
        }
    });
}

/// The latest time at which the host that claimed an id still had it. By then a process got the id, or it was skipped.
/// A process may use it a little later.
fn given_by_ms(claim: &ClaimRecord, later: &ClaimRecord, id: u64) -> Option<u64> {
    let is_past = later.by.holds_from.is_none_or(|from| from > id);
    let is_later = later.by.host == claim.by.host && later.run.first > id && later.at >= claim.at;
    (is_later && is_past).then(|| later.at.0.saturating_add(HOLD_MS.into()))
}

/// If the store refuses the request, the request has a bad value; the store's rows have no defect.
fn administrative(error: &StoreError) -> Failure {
    super::tags::administrative(error)
}
