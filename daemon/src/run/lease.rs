//! Opens the configured source of the host's snowflake worker.

use std::cell::RefCell;
use std::rc::Rc;

use anyhow::{Context, Result};
use leafd_checkup::snapshot::store_subject;
use tracing::info;

use super::backends;
use crate::clock;
use crate::config::{Config, StoreUrl, WorkerSpec};
use crate::engine::lease::{Backend, LeaseDriver, RegistryClient, Worker, ZOOKEEPER};
use crate::engine::upstream::Upstream;
use crate::journal::{Journal, Recovered, Write};
use crate::registry::RegistryHandle;
use crate::registry::static_worker::StaticWorker;
use crate::requests::Dispatcher;
use leafd_core::lease::{Lease, LeaseSettings};
use leafd_core::registry::{HOLDER_BYTES_MAX, Holder, Mode};
use leafd_core::store::NAME_BYTES_MAX;

/// Opens the worker's source; nothing is claimed yet. A host that is configured without a worker forgets its claim,
/// which is how to leave a registry that no longer exists or was replaced.
///
/// # Errors
/// A registry can't take the host's name or identity; the system can't start a thread; the journal can't be written.
pub async fn open(
    config: &Config,
    fixed: Option<&Result<Rc<StaticWorker>, String>>,
    upstreams: &[Rc<Upstream>],
    journal: &Journal,
    recovered: &Recovered,
) -> Result<Worker> {
    if let Some(fixed) = fixed {
        return Ok(Worker::Static(RefCell::new(fixed.clone())));
    }
    let mode = config.worker_mode;
    let mut others = upstreams.to_vec();
    let (backend, place, subject, embedded) = match &config.worker {
        WorkerSpec::None => {
            if let Some(claim) = &recovered.claim {
                journal.commit(vec![Write::NoWorker]).await?;
                info!(
                    worker = claim.worker.0, registry = %claim.place,
                    "worker = none: dropped the recorded lease"
                );
            }
            return Ok(Worker::None);
        }
        WorkerSpec::Static(_) => return Ok(Worker::None),
        WorkerSpec::Store(index) => {
            let upstream =
                upstreams.get(*index).context("worker names a store that is not configured")?;
            let embedded = matches!(config.routing.stores()[*index].url, StoreUrl::Sqlite(_));
            others.remove(*index);
            let subject = store_subject(&upstream.name).to_owned();
            (Backend::Store(Rc::clone(upstream), mode), upstream.url.to_string(), subject, embedded)
        }
        WorkerSpec::Zookeeper(servers) => {
            let place = format!("zookeeper:{servers}");
            let registry = backends::open_zookeeper(config, servers)?;
            let thread = RegistryHandle::spawn(&place, registry)?;
            (Backend::Thread(thread), place, ZOOKEEPER.to_owned(), false)
        }
    };
    let settings = settings(config, recovered, place, embedded)?;
    let layouts = config.layouts.iter().map(|(name, layout)| (name.clone(), *layout)).collect();
    let link = RegistryClient::new(backend, layouts, others);
    let lease = Lease::new(settings, recovered.claim.clone(), clock::now());
    Ok(Worker::Leased(LeaseDriver::new(lease, link, &subject, journal.clone())))
}

fn settings(
    config: &Config,
    recovered: &Recovered,
    place: String,
    embedded: bool,
) -> Result<LeaseSettings> {
    // A file loses acknowledged writes only together with the host. An ensemble can be restored from an old copy, which
    // hosts detect that have seen a later state.
    let loses = !embedded;
    let name = printable(&config.host_name);
    if name.len() > HOLDER_BYTES_MAX {
        anyhow::bail!(
            "the identity {:?} is too long for a registry of workers, which holds {HOLDER_BYTES_MAX} bytes",
            config.host_name
        );
    }
    let name = if name.is_empty() { "unnamed".to_owned() } else { name };
    let id = match config.worker_mode {
        Mode::Leased => recovered.host.0.to_string(),
        Mode::Permanent => name.clone(),
    };
    let incarnation = recovered.token.clone();
    Ok(LeaseSettings {
        mode: config.worker_mode,
        pool: config.worker_range.clone(),
        holder: Holder { id: id.into(), name: name.into(), incarnation },
        named: config.identity.is_some(),
        place: place.into(),
        embedded,
        lease_ms: clock::millis(config.lease),
        restart_grace_ms: clock::millis(config.restart_grace),
        clock_threshold_ms: clock::millis(config.clock_threshold),
        drift_max_ms: clock::millis(config.max_drift),
        settle_ms: loses.then(|| clock::millis(config.failover_settle)),
    })
}

/// The host's name in the stores' record of claims.
pub(super) fn host_name(config: &Config) -> String {
    let mut name = printable(&config.host_name);
    name.truncate(NAME_BYTES_MAX);
    name
}

/// A name in the registries' form: printable ASCII without spaces; every other byte as % and two hexadecimal digits.
fn printable(name: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_graphic() && byte != b'%';
    let shown =
        |byte: u8| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02x}") };
    name.bytes().map(shown).collect()
}

/// The worker's source, for the status.
pub(super) fn worker_text(config: &Config) -> String {
    match &config.worker {
        WorkerSpec::None => "none".to_owned(),
        WorkerSpec::Static(worker) => format!("static:{worker}"),
        WorkerSpec::Store(index) => {
            let name = &config.routing.stores()[*index].name;
            if name.is_empty() { "store".to_owned() } else { format!("store:{name}") }
        }
        WorkerSpec::Zookeeper(servers) => format!("zookeeper at {servers}"),
    }
}

/// Stops using the worker number if its lock file is missing or was replaced, because then nothing prevents a second
/// daemon from using it. This is checked every second.
pub async fn guard_worker(
    worker: Option<Result<Rc<StaticWorker>, String>>,
    dispatcher: Rc<Dispatcher>,
) {
    let Some(Ok(worker)) = worker else { return };
    while worker.still_held() {
        tokio::time::sleep(crate::clock::TICK).await;
    }
    dispatcher.snowflakes.give_up_worker(format!(
        "the lock file of worker {} was removed or replaced: make sure that no other daemon on this host uses the \
         number, then restart leafd",
        worker.worker()
    ));
}
