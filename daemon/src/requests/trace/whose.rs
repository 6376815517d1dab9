//! WHOSE: which host issued an id, and when.

use leafd_wire::Status;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{CLAIMS_A_CALL, Home, PRIMARY_AWAY, given_by_ms};
use crate::config::Peer;
use crate::engine::lease::Worker;
use crate::engine::masks::mask_key;
use crate::reply::Failure;
use crate::reply::given::{Process, TagMark};
use crate::requests::Dispatcher;
use crate::requests::tags::refused;
use crate::requests::workers::failure as registry_failure;
use leafd_core::registry::{Entry, Former, Snapshot, Taking};
use leafd_core::store::{ClaimRecord, StoreError, TagRow};
use leafd_core::{Tag, UnixMs, WorkerId};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Whose {
    /// A segment tag, or a layout.
    tag: String,
    id: u64,
}

/// How many calls look for the host's next claim. On a tag that very many hosts use, it may lie further on.
const CALLS_FOR_NEXT_CLAIM: usize = 10;

/// How much the clocks of hosts and registry may differ before an id is reported as odd, in milliseconds.
const CLOCKS_DIFFER_MS: u64 = 60_000;

impl Dispatcher {
    /// Answers the request of this peer.
    pub(super) async fn whose(&self, asked: &Whose, peer: &Peer) -> Result<Value, Failure> {
        let tag = Tag::parse(asked.tag.as_bytes())?;
        match self.snowflakes.layout(tag.as_str()) {
            Some(_) => self.whose_snowflake(&tag, asked.id).await,
            None => self.whose_number(&tag, asked.id, peer).await,
        }
    }

    async fn whose_number(&self, tag: &Tag, id: u64, peer: &Peer) -> Result<Value, Failure> {
        let homes = self.homes(tag).await?;
        let number = self.number_of(&homes.here, tag, id, peer).await?;
        let oldest = homes.oldest_claims(tag).await?;
        let remembered_ms = oldest.iter().map(|(_, at)| at.0).min();
        let first_known = oldest.iter().map(|(first, _)| *first).min();
        let mut claims = Vec::new();
        for home in &homes.here {
            let page = home.claims_after(tag, number, CLAIMS_A_CALL).await?;
            for claim in page.iter().filter(|claim| claim.has(number)) {
                let mut row = self.claim_row(home, claim);
                row["given_by_ms"] = json!(next_claim(home, tag, number, claim, &page).await?);
                claims.push(row);
            }
        }
        homes.check_known(tag, first_known.is_some())?;
        let own = claims.iter().filter(|claim| claim["own"] == true);
        let claimed_ms = own.filter_map(|claim| claim["claimed_ms"].as_u64()).min().unwrap_or(0);
        let homes_have = |what: fn(&TagRow) -> bool| {
            homes.here.iter().any(|home| home.row.as_ref().is_some_and(what))
        };
        let verdict = match claims.len() {
            0 if homes.here.iter().any(|home| home.is_ahead(number)) => "not_claimed",
            0 if homes_have(|row| row.strict) => "strict",
            // The claim may be recorded in a store that doesn't answer.
            0 if !homes.away.is_empty() => PRIMARY_AWAY,
            0 if first_known.is_none_or(|first| number < first) => "not_remembered",
            0 => "by_none_of_leafds_hosts",
            1 => "claimed",
            _ => "claimed_twice",
        };
        Ok(json!({
            "tag": tag.as_str(),
            "id": id,
            "number": number,
            "verdict": verdict,
            "claims": claims,
            "processes": self.processes(tag, number, UnixMs(claimed_ms)),
            "remembered_since_ms": remembered_ms,
            "away": homes.away(),
        }))
    }

    /// The processes of this host that got an id, as far as it remembers. Times are remembered in seconds, so they are
    /// adjusted to be no earlier than the id.
    fn processes(&self, tag: &Tag, id: u64, since: UnixMs) -> Vec<Value> {
        let found = self.tally.given.find(TagMark::of(tag), id).into_iter();
        found
            .map(|(Process { uid, pid }, at)| {
                json!({ "uid": uid, "pid": pid, "at_ms": at.max(since).0 })
            })
            .collect()
    }

    /// The claimed number: for a masked tag, the one behind the public id.
    async fn number_of(
        &self,
        homes: &[Home],
        tag: &Tag,
        id: u64,
        peer: &Peer,
    ) -> Result<u64, Failure> {
        let Some(masking) = homes.iter().find_map(|home| home.row.as_ref()?.masked) else {
            return Ok(id);
        };
        if !self.access.borrow().may_unmask(tag.as_str(), peer) {
            return Err(Failure::new(
                Status::Denied,
                format!("tag {tag:?} is masked, and uid {} may not unmask its ids", peer.uid),
            ));
        }
        let keys = self.masks.confirm().await?;
        let mask = masking
            .mask(tag, Some(&*keys))
            .map_err(|cause| mask_key(format!("tag {:?}: {cause}", tag.as_str())))?;
        mask.unmask(id)
            .map_err(|cause| refused(format!("{id} is not an id of tag {tag:?}: {cause}")))
    }

    async fn whose_snowflake(&self, tag: &Tag, id: u64) -> Result<Value, Failure> {
        let layout = match self.snowflakes.layout(tag.as_str()) {
            Some(layout) => layout.layout,
            None => return Err(Failure::from(&StoreError::UnknownTag { tag: tag.clone() })),
        };
        let parts = layout
            .decompose(id)
            .map_err(|error| refused(format!("{id} can't be an id of layout {tag:?}: {error}")))?;
        let at = UnixMs(layout.tick_start_ms(parts.tick));
        let mut answer = json!({
            "tag": tag.as_str(),
            "id": id,
            "at_ms": at.0,
            "worker": parts.worker,
            "sequence": parts.sequence,
            "holder": null,
            "name": null,
            "own": false,
            "taken_ms": null,
            "until_ms": null,
            "processes": self.processes(tag, id, at),
        });
        let Worker::Leased(keeper) = &self.snowflakes.worker else {
            answer["verdict"] = json!("no_registry");
            return Ok(answer);
        };
        let worker = WorkerId(parts.worker);
        let look = keeper.link.snapshot(worker.0..worker.0.saturating_add(1)).await;
        let look = look.map_err(|error| registry_failure(&error))?;
        let former = keeper
            .link
            .call(move |registry| registry.former(worker, at))
            .await
            .map_err(|error| registry_failure(&error))?;
        let own = &keeper.lease.borrow().settings.holder.id.clone();
        let (verdict, found) = judge(at, &look, former);
        answer["verdict"] = json!(verdict);
        if let Some(Found { id, name, taken, until }) = found {
            answer["own"] = json!(id == **own);
            (answer["holder"], answer["name"]) = (json!(id), json!(name));
            (answer["taken_ms"], answer["until_ms"]) =
                (json!(taken.map(|at| at.0)), json!(until.map(|at| at.0)));
        }
        Ok(answer)
    }
}

/// A host that may have had a worker.
struct Found {
    id: String,
    name: String,
    taken: Option<UnixMs>,
    until: Option<UnixMs>,
}

/// Which host had a worker at an instant, and how certain that is.
fn judge(at: UnixMs, look: &Snapshot, former: Option<Former>) -> (&'static str, Option<Found>) {
    let present = look.entries.first();
    if at.0 > look.now.0.saturating_add(CLOCKS_DIFFER_MS) {
        return ("in_the_future", None);
    }
    let Some(Former { taking, next }) = former else {
        return ("no_history", present.and_then(holder));
    };
    let Some(Taking { holder: by, taken, .. }) = taking else {
        let nobody = next.is_none() && present.is_none();
        return if nobody { ("never_held", None) } else { ("not_remembered", None) };
    };
    // A holding ended where the next one began. The current one ends at the time in its entry.
    let until = next.map(|next| next.since).or(present.map(|entry| entry.holding.expires));
    let found =
        Found { id: by.id.to_string(), name: by.name.to_string(), taken: Some(taken), until };
    let verdict = match until {
        Some(until) if at >= until => "not_held",
        _ if at.0.saturating_add(CLOCKS_DIFFER_MS) < taken.0 => "not_held",
        _ => "held",
    };
    (verdict, Some(found))
}

fn holder(entry: &Entry) -> Option<Found> {
    let holder = entry.holding.holder.as_ref()?;
    let until = Some(entry.holding.expires);
    Some(Found { id: holder.id.to_string(), name: holder.name.to_string(), taken: None, until })
}

/// Looks for a later claim of the same host that shows that the id was issued by then.
async fn next_claim(
    home: &Home,
    tag: &Tag,
    id: u64,
    claim: &ClaimRecord,
    first_page: &[ClaimRecord],
) -> Result<Option<u64>, Failure> {
    let given = |page: &[ClaimRecord]| page.iter().find_map(|later| given_by_ms(claim, later, id));
    if let Some(ms) = given(first_page) {
        return Ok(Some(ms));
    }
    let mut last = first_page.len();
    let mut end = first_page.last().map_or(id, |claim| claim.run.end());
    for _ in 1..CALLS_FOR_NEXT_CLAIM {
        if last < CLAIMS_A_CALL as usize {
            return Ok(None);
        }
        let page = home.claims_after(tag, end, CLAIMS_A_CALL).await?;
        if let Some(ms) = given(&page) {
            return Ok(Some(ms));
        }
        last = page.len();
        end = page.last().map_or(end, |claim| claim.run.end());
    }
    Ok(None)
}
