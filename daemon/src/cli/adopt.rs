//! `leafd adopt-store`: makes this host the owner of a copied embedded store, or accepts the database that is now
//! behind a network store's URL.

use std::fs;

use anyhow::{Result, bail};

use crate::cli::{block_on, service};
use crate::config::{Args, Config, StoreSpec, StoreUrl};
use crate::journal::{Identity, Journal, Outside, Recovered, SetAside, Write};
use crate::run;
use crate::run::{embedded, stores};
use crate::state_dir::StateDir;
use crate::store::sqlite;
use leafd_core::store::CheckIn;

/// Adopts every configured store, and reports which ones.
///
/// # Errors
/// The configuration is invalid, or a store can't be adopted.
pub fn adopt_store(args: &Args) -> Result<String> {
    let config = &service::load(args)?;
    let unused = fs::read_dir(&config.state_dir).map_or(true, |mut files| files.next().is_none());
    if unused {
        bail!(
            "the state directory {} is empty, so no daemon has used it; run this command with the daemon's own settings \
             (--config FILE, or --state-dir DIR)",
            config.state_dir.display()
        );
    }
    service::become_owner(&config.state_dir)?;
    // A running daemon would continue to use the stores' former identities. The lock makes sure that none is running.
    let state_dir = StateDir::open(&config.state_dir)?;
    let identity = Identity::of_host(config.identity.as_deref());
    // A store that may be as old as the journal gets a new identity before the journal is set aside. After a crash in
    // between, it is adopted again.
    let adopt_doubtful = |old: &SetAside| {
        for path in embedded::files(config) {
            let in_doubt = embedded::in_doubt(path, &state_dir, old);
            if in_doubt.map_err(|error| error.to_string())? {
                sqlite::adopt(path, &identity, true).map_err(|error| error.to_string())?;
            }
        }
        Ok(())
    };
    let memory = run::memory_file(&config.socket);
    let outside = Outside { memory: Some(&memory), may_begin_anew: &adopt_doubtful };
    let (journal, recovered) = Journal::open(&state_dir, &identity, outside)?;
    let mut said = String::new();
    if let Some(kept) = &recovered.set_aside {
        said.push_str(&format!(
            "the journal belongs to another host (a different identity or machine id, or a copy) or is an old copy \
             that was restored; it was set aside as {}, and the ids held in it are skipped\n",
            kept.display()
        ));
    }
    let mut others = Vec::new();
    for spec in config.routing.stores().iter() {
        match &spec.url {
            StoreUrl::Sqlite(path) => {
                let adopted = sqlite::adopt(path.as_ref(), &identity, false)?;
                said.push_str(&format!(
                    "adopted the store {} for this host; its id is now {adopted}\n",
                    spec.url
                ));
            }
            _ => others.push(spec),
        }
    }
    block_on(async {
        for spec in others {
            said.push_str(&adopt_database(config, spec, &journal, &recovered).await?);
        }
        journal.close().await;
        Ok(said)
    })
}

/// Records in the journal that the store now behind its URL is the right one.
async fn adopt_database(
    config: &Config,
    spec: &StoreSpec,
    journal: &Journal,
    recovered: &Recovered,
) -> Result<String> {
    let store = stores::open_one(config, spec)?;
    let url = spec.url.to_string();
    let found = store.call(|store| store.identity()).await?;
    let before = recovered.at(&url).map(|record| record.store.clone());
    if before.as_ref() == Some(&found.id) {
        return Ok(format!("this host already uses the store {url} (id {})\n", found.id));
    }
    let known = recovered.tokens_known(&found.id);
    let (under, host, token) = (found.clone(), recovered.host.clone(), recovered.token.clone());
    let check_in = store.call(move |store| store.check_in(&under, &host, &known, &token));
    if check_in.await? == CheckIn::Stale {
        bail!(
            "the store {url} has recorded a later start of this host than the journal: another host uses a copy of the \
             journal, or this journal is an old copy; give this host its own state directory"
        );
    }
    let history = found.history.0.clone();
    let mut writes =
        vec![Write::CheckedIn { url: url.as_str().into(), store: found.id.clone(), history }];
    // A worker that was claimed in the former database doesn't belong to this host in this one.
    let claim = recovered.claim.as_ref();
    if claim.is_some_and(|claim| *claim.place == *url && claim.registry.id != found.id) {
        writes.push(Write::NoWorker);
    }
    journal.commit(writes).await?;
    let before = before.map_or_else(|| "none".to_owned(), |before| before.to_string());
    Ok(format!(
        "adopted the store {url}: its id is {}, and the previous id was {before}\n",
        found.id
    ))
}
