//! Lists the hosts of the fleet from the records of the stores and the registry.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::tags::{administrative, range};
use super::{Dispatcher, PeerRequest};
use crate::engine::lease::Worker;
use crate::reply::Failure;
use leafd_core::registry::Snapshot;
use leafd_core::store::HostRecord;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct HostsPage {
    /// The host after which the page begins.
    after: Option<String>,
    #[serde(default = "page_max")]
    limit: u32,
}

/// The maximum number of hosts on a page.
const PAGE_MAX: u32 = 1_000;

fn page_max() -> u32 {
    PAGE_MAX
}

impl Dispatcher {
    /// Answers with a page of the fleet's hosts.
    pub(super) fn fleet(self: &Rc<Self>, request: &PeerRequest<'_>) -> Result<(), Failure> {
        let what = "list the fleet's hosts";
        self.answer_administrator(request, what, async |requests, page: HostsPage| {
            range("limit", page.limit.into(), 1, PAGE_MAX.into())?;
            requests.hosts(page).await
        })
    }

    async fn hosts(&self, page: HostsPage) -> Result<Value, Failure> {
        let mut calls = JoinSet::new();
        for upstream in &self.segments.upstreams {
            let upstream = Rc::clone(upstream);
            let (after, limit) = (page.after.clone().unwrap_or_default(), page.limit);
            calls.spawn_local(async move {
                let found = upstream.store.call(move |store| store.hosts(&after, limit)).await;
                (upstream, found)
            });
        }
        let mut hosts: BTreeMap<String, HostRecord> = BTreeMap::new();
        let mut away = BTreeMap::new();
        for (upstream, found) in calls.join_all().await {
            let found = match found {
                Ok(found) => found,
                Err(error) => {
                    away.insert(Arc::clone(&upstream.name), error);
                    continue;
                }
            };
            for found in found {
                let age = |host: &HostRecord| host.claimed_ms_ago.unwrap_or(u64::MAX);
                let known = hosts.entry(found.host.clone()).or_insert_with(|| found.clone());
                if age(&found) < age(known) {
                    *known = found;
                }
            }
        }
        if away.len() == self.segments.upstreams.len()
            && let Some(error) = away.values().next()
        {
            return Err(administrative(error));
        }
        let (workers, registry_error) = match &self.snowflakes.worker {
            Worker::Leased(keeper) => {
                let pool = keeper.lease.borrow().settings.pool.clone();
                match keeper.link.snapshot(pool).await {
                    Ok(found) => (Some(found), None),
                    Err(error) => (None, Some(error.to_string())),
                }
            }
            _ => (None, None),
        };
        let own = self.segments.host.borrow().0.to_string();
        let limit = usize::try_from(page.limit).unwrap_or(usize::MAX);
        let is_last = hosts.len() < limit;
        let rows = hosts.into_values().take(limit);
        let rows: Vec<Value> = rows.map(|host| row(&host, workers.as_ref(), &own)).collect();
        let next = rows.last().filter(|_| !is_last).map(|row| row["host"].clone());
        let away: BTreeMap<_, _> =
            away.into_iter().map(|(name, error)| (name, error.to_string())).collect();
        Ok(json!({
            "hosts": rows,
            "next": next,
            "stores_away": away,
            "registry_error": registry_error,
        }))
    }
}

fn row(host: &HostRecord, workers: Option<&Snapshot>, own: &str) -> Value {
    let leased = workers.and_then(|look| {
        let held = look.entries.iter().find_map(|entry| {
            let holder = entry.holding.holder.as_ref()?;
            // The id of a permanent holder is its configured identity, not the id of a journal.
            let is_its = *holder.id == *host.host || holder.started_as(&host.start);
            is_its.then_some((entry, holder))
        });
        held.map(|(entry, holder)| (look.now, entry, holder))
    });
    let name = leased.as_ref().map(|(_, _, holder)| &*holder.name);
    let worker = leased.as_ref().map(|(now, entry, holder)| {
        json!({
            "worker": entry.worker.0,
            "left_ms": entry.holding.expires.0.saturating_sub(now.0),
            "written_ms_ago": now.0.saturating_sub(entry.written.0),
            "clock_offset_ms": entry.seen.0.cast_signed().saturating_sub(entry.written.0.cast_signed()),
            "stopped": holder.has_stopped(),
        })
    });
    json!({
        "host": host.host,
        "name": name.or(host.name.as_deref()),
        "own": host.host == own,
        "claimed_ms_ago": host.claimed_ms_ago,
        "lease": worker,
    })
}
