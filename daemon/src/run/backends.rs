//! Opens the backends that this program was built with: stores by their URLs, and ZooKeeper. A configuration that names
//! any other is refused when it is loaded.

use anyhow::Result;

use crate::config::{Config, NetworkUrl, NotBuilt, Servers, StoreSpec, StoreUrl};
use crate::journal::Identity;
use crate::registry::Registry;
use crate::store::sql::{Examination, ServerEngine, Target, WorkersWish};
use crate::store::{Store, sqlite};
use leafd_core::store::StoreError;

/// The engine of a network store, and where it is; `None` for the embedded store.
fn engine_of(url: &StoreUrl) -> Result<Option<(&'static ServerEngine, &NetworkUrl)>, NotBuilt> {
    Ok(match url {
        StoreUrl::Sqlite(_) => None,
        #[cfg(feature = "postgres")]
        StoreUrl::Postgres(url) => Some((&crate::store::postgres::ENGINE, url)),
        #[cfg(feature = "mysql")]
        StoreUrl::Mysql(url) => Some((&crate::store::mysql::ENGINE, url)),
        #[cfg(not(all(feature = "mysql", feature = "postgres")))]
        url => return Err(NotBuilt::store(url)),
    })
}

/// How many times `store_connect_timeout` an attempt to connect may take.
const PATIENCE: u32 = 8;

/// The engine of a network store, its address and time limits, as configured; `None` for the embedded store.
fn server_of(
    config: &Config,
    spec: &StoreSpec,
) -> Result<Option<(&'static ServerEngine, Target)>, NotBuilt> {
    let target = |url: &NetworkUrl| Target {
        url: url.clone(),
        password: spec.password.clone(),
        connect_timeout: config.store_connect_timeout,
        // After a fail-over, every host must reach the new primary in time to report what it has seen.
        patience_max: (config.store_connect_timeout * PATIENCE).min(config.failover_settle / 2),
        statement_timeout: config.store_statement_timeout,
        leaf_only: config.leaf_only,
        untested_engine: config.untested_engine,
    };
    Ok(engine_of(&spec.url)?.map(|(engine, url)| (engine, target(url))))
}

/// Opens a store. A network store connects with its first call.
///
/// # Errors
/// The embedded store's file can't be used; [`NotBuilt`].
pub fn open_store(config: &Config, spec: &StoreSpec) -> Result<Box<Store>> {
    if let StoreUrl::Sqlite(path) = &spec.url {
        let host = Identity::of_host(config.identity.as_deref());
        return Ok(Box::new(sqlite::open(path, &host)?));
    }
    let server = server_of(config, spec)?;
    let (engine, target) = server.expect("only the embedded store has no server");
    Ok(Box::new(engine.open(target)))
}

/// The statements that create the tables of such a store.
///
/// # Errors
/// [`NotBuilt`].
pub fn schema_of(url: &StoreUrl) -> Result<String, NotBuilt> {
    Ok(engine_of(url)?.map_or_else(sqlite::print_schema, |(engine, _)| engine.print()))
}

/// Creates the tables that a network store lacks, and returns their names. The embedded store creates its own whenever
/// it is opened.
///
/// # Errors
/// The store can't be used, or has different tables; [`NotBuilt`].
pub fn make_tables(config: &Config, spec: &StoreSpec) -> Result<Vec<&'static str>> {
    if let Some((engine, target)) = server_of(config, spec)? {
        return Ok(engine.apply(&target)?);
    }
    open_store(config, spec)?.identity()?;
    Ok(Vec::new())
}

/// Inspects a network store and changes nothing; `None` for the embedded one.
pub fn examine(
    config: &Config,
    spec: &StoreSpec,
    workers: Option<WorkersWish>,
) -> Option<Result<Examination, StoreError>> {
    let (engine, target) = server_of(config, spec).ok()??;
    Some(engine.examine(target, workers))
}

/// Opens the registry in ZooKeeper. It connects with its first call.
///
/// # Errors
/// [`NotBuilt`].
#[cfg(feature = "zookeeper")]
pub fn open_zookeeper(config: &Config, servers: &Servers) -> Result<Box<dyn Registry>, NotBuilt> {
    use crate::registry::zookeeper::{EnsembleTarget, LeasedRegistry, PermanentRegistry};
    use leafd_core::registry::Mode;
    let target = EnsembleTarget {
        servers: servers.clone(),
        auth: config.zookeeper_auth.clone(),
        connect_timeout: config.store_connect_timeout,
        call_timeout: config.store_statement_timeout,
    };
    Ok(match (config.worker_mode, &config.leaf_name) {
        (Mode::Permanent, Some(name)) => {
            Box::new(PermanentRegistry::open(target, name, config.leaf_name_new))
        }
        _ => Box::new(LeasedRegistry::open(target)),
    })
}

/// Refuses: this program can't use ZooKeeper.
///
/// # Errors
/// Always [`NotBuilt`].
#[cfg(not(feature = "zookeeper"))]
pub fn open_zookeeper(_: &Config, _: &Servers) -> Result<Box<dyn Registry>, NotBuilt> {
    Err(NotBuilt::zookeeper())
}
