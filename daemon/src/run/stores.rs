//! The configured stores: opens and watches them.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use tokio::task::JoinSet;

use super::backends;
use crate::clock;
use crate::config::{Config, StoreSpec, StoreUrl};
use crate::engine::segments::Segments;
use crate::engine::upstream::{Driver, Upstream};
use crate::journal::{Journal, Recovered};
use crate::store::StoreHandle;
use leafd_core::store::{History, Role};
use leafd_core::upstream::Settings;

/// How long a start waits for the stores' first answers. After that it continues from the journal.
const FIRST_ANSWERS_WITHIN: Duration = Duration::from_secs(1);

/// How long a call to the embedded store may take. That is longer than it waits for another process's lock.
const FILE_ANSWERS_WITHIN: Duration = Duration::from_secs(5);

/// Opens every configured store. Network stores connect later.
///
/// # Errors
/// The embedded store's file can't be used, or the system can't start a thread.
pub fn open(config: &Config, recovered: &Recovered) -> Result<Vec<Rc<Upstream>>> {
    let specs = config.routing.stores();
    let mut upstreams = Vec::new();
    let mut eras: BTreeMap<Vec<usize>, Rc<Cell<u32>>> = BTreeMap::new();
    for (index, spec) in specs.iter().enumerate() {
        let embedded = matches!(spec.url, StoreUrl::Sqlite(_));
        let url = spec.url.to_string();
        let remembered = recovered.at(&url);
        let probe_every = config.store_check_interval(embedded && specs.len() == 1);
        let settings = Settings {
            url: url.as_str().into(),
            role: Role(config.routing.role(index).into()),
            embedded,
            remembered: remembered
                .map(|record| (record.store.clone(), History(record.history.clone()))),
            settle_ms: if embedded { 0 } else { clock::millis(config.failover_settle) },
            probe_ms: clock::millis(probe_every),
            answer_ms: clock::millis(answer_within(config, spec)),
        };
        let store = backends::open_store(config, spec)?;
        let conflicts = Arc::clone(&store.conflicts);
        let latest_era = eras.entry(config.routing.together(index)).or_default();
        latest_era.set(latest_era.get().max(remembered.map_or(0, |record| record.later_era)));
        let store = StoreHandle::spawn(&url, store)?;
        let mut upstream = Upstream::new(spec.name.clone(), store, settings);
        upstream.conflicts = conflicts;
        upstream.latest_era = Rc::clone(latest_era);
        upstreams.push(Rc::new(upstream));
    }
    Ok(upstreams)
}

/// How long a call to a store may take at most.
fn answer_within(config: &Config, spec: &StoreSpec) -> Duration {
    match &spec.url {
        StoreUrl::Sqlite(_) => FILE_ANSWERS_WITHIN,
        StoreUrl::Postgres(url) | StoreUrl::Mysql(url) => {
            // At worst, it connects to each server in turn, and is repeated twice because of conflicts or a broken
            // connection.
            let turns = u32::try_from(url.endpoints.len()).unwrap_or(u32::MAX).saturating_add(2);
            (config.store_connect_timeout + config.store_statement_timeout).saturating_mul(turns)
        }
    }
}

/// Opens one store on its own thread.
///
/// # Errors
/// As for [`open`].
pub fn open_one(config: &Config, spec: &StoreSpec) -> Result<StoreHandle> {
    Ok(StoreHandle::spawn(&spec.url.to_string(), backends::open_store(config, spec)?)?)
}

/// Watches every store until the returned value is dropped. Returns once each store has been asked, or after
/// a time limit.
pub async fn watch(
    segments: &Rc<Segments>,
    journal: &Journal,
    recovered: Recovered,
) -> JoinSet<()> {
    let recovered = Rc::new(recovered);
    let mut watching = JoinSet::new();
    for upstream in &segments.upstreams {
        let (upstream, segments) = (Rc::clone(upstream), Rc::clone(segments));
        let driver = Driver::new(upstream, segments, journal.clone(), Rc::clone(&recovered));
        watching.spawn_local(driver.run());
    }
    let all_tried = async {
        for upstream in &segments.upstreams {
            upstream.tried().await;
        }
    };
    let _ = tokio::time::timeout(FIRST_ANSWERS_WITHIN, all_tried).await;
    watching
}
