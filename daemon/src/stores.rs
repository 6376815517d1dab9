//! The configured stores: opened, and kept company with.

use std::rc::Rc;
use std::time::Duration;

use anyhow::Result;
use tokio::task::JoinSet;

use crate::config::{Config, NetworkUrl, StorePassword, StoreSpec, StoreUrl};
use crate::dispatch::segments::{Home, Segments};
use crate::journal::Recovered;
use crate::store::network::Target;
use crate::store::thread::{StoreHandle, StoreThread};
use crate::store::{Role, mysql, postgres, sqlite};

/// How long the start waits for the stores' first answers. It goes on without them, from the journal.
const FIRST_ANSWERS_WITHIN: Duration = Duration::from_secs(1);

/// Opens every configured store. Those behind a network connect later.
///
/// # Errors
/// The embedded store's file can't be used, or the system gives no thread.
pub fn open(config: &Config, recovered: &Recovered) -> Result<Vec<Rc<Home>>> {
    let mut homes = Vec::new();
    for (index, spec) in config.routing.stores().iter().enumerate() {
        let url = spec.url.to_string();
        let remembered = recovered.at(&url).map(|record| record.store.clone());
        homes.push(Rc::new(Home::new(
            spec.name.clone(),
            url.into(),
            open_one(config, spec)?,
            Role(config.routing.role(index).into()),
            matches!(spec.url, StoreUrl::Sqlite(_)),
            remembered,
        )));
    }
    Ok(homes)
}

/// Opens one store on a thread of its own.
///
/// # Errors
/// As for [`open`].
pub fn open_one(config: &Config, spec: &StoreSpec) -> Result<StoreHandle> {
    let name = spec.url.to_string();
    let handle = match &spec.url {
        StoreUrl::Sqlite(path) => {
            let store = sqlite::open(path, &sqlite::host_fingerprint(config.identity.as_deref()))?;
            StoreThread::spawn(&name, Box::new(store))?
        }
        StoreUrl::Postgres(url) => {
            let store = postgres::open(target(config, url, &spec.password));
            StoreThread::spawn(&name, Box::new(store))?
        }
        StoreUrl::Mysql(url) => {
            let store = mysql::open(target(config, url, &spec.password));
            StoreThread::spawn(&name, Box::new(store))?
        }
    };
    Ok(handle)
}

/// Keeps company with every store until the answer is dropped. Returns when each has been asked once, or when
/// that takes too long.
pub async fn watch(segments: &Rc<Segments>) -> JoinSet<()> {
    let mut watching = JoinSet::new();
    for home in segments.homes() {
        watching.spawn_local(Rc::clone(segments).watch(Rc::clone(home)));
    }
    let all_tried = async {
        for home in segments.homes() {
            home.tried().await;
        }
    };
    let _ = tokio::time::timeout(FIRST_ANSWERS_WITHIN, all_tried).await;
    watching
}

/// A network store's place and bounds, as configured.
pub fn target(config: &Config, url: &NetworkUrl, password: &StorePassword) -> Target {
    Target {
        url: url.clone(),
        password: password.clone(),
        connect_timeout: config.store_connect_timeout,
        statement_timeout: config.store_statement_timeout,
        leaf_only: config.leaf_only,
    }
}
