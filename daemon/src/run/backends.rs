//! Opens what this program was built with: stores by their URLs, and ZooKeeper. A configuration that names anything
//! else is refused when it is loaded.

use anyhow::Result;

use crate::config::{Config, NotBuilt, Servers, StoreSpec, StoreUrl};
use crate::journal::Identity;
use crate::registry::Registry;
use crate::store::sql::{Examination, WorkersWish};
use crate::store::{Store, sqlite};
use leafd_core::store::StoreError;

/// Opens a store. A network store connects with its first call.
///
/// # Errors
/// The embedded store's file can't be used; [`NotBuilt`].
pub fn open_store(config: &Config, spec: &StoreSpec) -> Result<Box<Store>> {
    Ok(match &spec.url {
        StoreUrl::Sqlite(path) => {
            let host = Identity::of_host(config.identity.as_deref());
            Box::new(sqlite::open(path, &host)?)
        }
        #[cfg(feature = "postgres")]
        StoreUrl::Postgres(url) => {
            Box::new(crate::store::postgres::open(target(config, spec, url)))
        }
        #[cfg(feature = "mysql")]
        StoreUrl::Mysql(url) => Box::new(crate::store::mysql::open(target(config, spec, url))),
        #[cfg(not(all(feature = "mysql", feature = "postgres")))]
        url => return Err(NotBuilt::store(url).into()),
    })
}

/// The statements that create the tables of such a store.
///
/// # Errors
/// [`NotBuilt`].
pub fn schema_of(url: &StoreUrl) -> Result<String, NotBuilt> {
    Ok(match url {
        StoreUrl::Sqlite(_) => sqlite::print_schema(),
        #[cfg(feature = "postgres")]
        StoreUrl::Postgres(_) => crate::store::postgres::print(),
        #[cfg(feature = "mysql")]
        StoreUrl::Mysql(_) => crate::store::mysql::print(),
        #[cfg(not(all(feature = "mysql", feature = "postgres")))]
        url => return Err(NotBuilt::store(url)),
    })
}

/// Creates the tables that a network store lacks, and returns their names. The embedded store creates its own whenever
/// it is opened.
///
/// # Errors
/// The store can't be used, or has different tables; [`NotBuilt`].
pub fn make_tables(config: &Config, spec: &StoreSpec) -> Result<Vec<&'static str>> {
    Ok(match &spec.url {
        StoreUrl::Sqlite(_) => {
            open_store(config, spec)?.identity()?;
            Vec::new()
        }
        #[cfg(feature = "postgres")]
        StoreUrl::Postgres(url) => crate::store::postgres::apply(&target(config, spec, url))?,
        #[cfg(feature = "mysql")]
        StoreUrl::Mysql(url) => crate::store::mysql::apply(&target(config, spec, url))?,
        #[cfg(not(all(feature = "mysql", feature = "postgres")))]
        url => return Err(NotBuilt::store(url).into()),
    })
}

/// Inspects a network store and changes nothing; `None` for the embedded one.
#[cfg_attr(
    not(any(feature = "mysql", feature = "postgres")),
    allow(unused_variables, reason = "the embedded store alone is built in")
)]
pub fn examine(
    config: &Config,
    spec: &StoreSpec,
    workers: Option<WorkersWish>,
) -> Option<Result<Examination, StoreError>> {
    match &spec.url {
        #[cfg(feature = "postgres")]
        StoreUrl::Postgres(url) => {
            let target = target(config, spec, url);
            Some(crate::store::postgres::examine(&target, workers))
        }
        #[cfg(feature = "mysql")]
        StoreUrl::Mysql(url) => {
            let target = target(config, spec, url);
            Some(crate::store::mysql::examine(&target, workers))
        }
        _ => None,
    }
}

/// A network store's address and time limits, as configured.
#[cfg(any(feature = "mysql", feature = "postgres"))]
fn target(
    config: &Config,
    spec: &StoreSpec,
    url: &crate::config::NetworkUrl,
) -> crate::store::sql::Target {
    crate::store::sql::Target {
        url: url.clone(),
        password: spec.password.clone(),
        connect_timeout: config.store_connect_timeout,
        statement_timeout: config.store_statement_timeout,
        leaf_only: config.leaf_only,
        untested_engine: config.untested_engine,
    }
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
