//! Where the host's snowflake worker comes from, opened as configured.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, Result};
use tracing::info;

use crate::clock;
use crate::config::{Config, StoreUrl, WorkerSpec};
use crate::dispatch::segments::Home;
use crate::dispatch::worker::{Keeper, Link, Worker};
use crate::id::worker::{Lease, Settings};
use crate::journal::{Journal, Recovered, Write};
use crate::registry::fixed::FixedWorker;
use crate::registry::zookeeper::{LeasedRegistry, PermanentRegistry, Target};
use crate::registry::{HOLDER_BYTES_MAX, Holder, Mode, Registry, RegistryThread};

/// Opens what the worker comes from. Nothing is claimed yet. A host that is to have no worker forgets the one that it had
/// claimed: so one leaves a registry that is not there any more, or was replaced.
///
/// # Errors
/// The host's name or identity can't be told to a registry; the system gives no thread; the journal can't be written.
pub async fn open(
    config: &Config,
    fixed: Option<&FixedWorker>,
    homes: &[Rc<Home>],
    journal: &Journal,
    recovered: &Recovered,
) -> Result<Worker> {
    if let Some(fixed) = fixed {
        return Ok(Worker::Fixed(Cell::new(Some(fixed.worker()))));
    }
    let mode = config.worker_mode;
    let layouts = || config.layouts.iter().map(|(name, layout)| (name.clone(), *layout)).collect();
    let (link, place, embedded) = match &config.worker {
        WorkerSpec::None => {
            if let Some(claim) = &recovered.claim {
                journal.commit(vec![Write::NoWorker]).await?;
                info!(
                    worker = claim.worker.0, registry = %claim.place,
                    "this host is to have no worker: it goes by its claim no longer"
                );
            }
            return Ok(Worker::None);
        }
        WorkerSpec::Static(_) => return Ok(Worker::None),
        WorkerSpec::Store(index) => {
            let home = homes.get(*index).context("worker names a store that is not there")?;
            let embedded = matches!(config.routing.stores()[*index].url, StoreUrl::Sqlite(_));
            let others = homes.iter().enumerate().filter(|(other, _)| other != index);
            let others = others.map(|(_, home)| (home.name.clone(), home.store.clone())).collect();
            let link = Link::store(Rc::clone(home), mode, layouts()).beside(others);
            (link, home.url.to_string(), embedded)
        }
        WorkerSpec::Zookeeper(servers) => {
            let place = format!("zookeeper:{servers}");
            let target = Target {
                servers: servers.clone(),
                auth: config.zookeeper_auth.clone(),
                connect_timeout: config.store_connect_timeout,
                call_timeout: config.store_statement_timeout,
            };
            let registry: Box<dyn Registry> = match (mode, &config.leaf_name) {
                (Mode::Permanent, Some(name)) => Box::new(PermanentRegistry::open(target, name)),
                _ => Box::new(LeasedRegistry::open(target)),
            };
            let thread = RegistryThread::spawn(&place, registry)?;
            let others = homes.iter().map(|home| (home.name.clone(), home.store.clone())).collect();
            (Link::thread(thread, layouts()).beside(others), place, false)
        }
    };
    let settings = settings(config, recovered, place, embedded)?;
    let lease = Lease::new(settings, recovered.claim.clone(), clock::now());
    Ok(Worker::Kept(Keeper::new(lease, link, journal.clone())))
}

/// What the lease is told.
fn settings(
    config: &Config,
    recovered: &Recovered,
    place: String,
    embedded: bool,
) -> Result<Settings> {
    // What a file has acknowledged is not lost but with the host. An ensemble can be put back to an old copy, which those
    // notice who have seen more.
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
    Ok(Settings {
        mode: config.worker_mode,
        pool: config.worker_range.clone(),
        holder: Holder { id: id.into(), name: name.into(), incarnation },
        named: config.identity.is_some(),
        place: place.into(),
        embedded,
        lease_ms: millis(config.lease),
        restart_grace_ms: millis(config.restart_grace),
        clock_threshold_ms: millis(config.clock_threshold),
        drift_max_ms: millis(config.max_drift),
        settle_ms: loses.then(|| millis(config.failover_settle)),
    })
}

/// A name as registries hold them: printable ASCII without spaces, everything else as % and its hexadecimal bytes.
fn printable(name: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_graphic() && byte != b'%';
    let shown =
        |byte: u8| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02x}") };
    name.bytes().map(shown).collect()
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
