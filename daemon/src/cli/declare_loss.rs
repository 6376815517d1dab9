//! `leafd declare-loss`: makes every host assume that the stores may have lost commits, for example after a restore.

use anyhow::{Context, Result, bail};

use crate::cli::schema::in_each_store;
use crate::cli::service;
use crate::config::{Args, Config, StoreSpec, StoreUrl};
use crate::run::backends;

/// Declares the loss in every configured store.
///
/// # Errors
/// The configuration is invalid, or a store can't record the loss.
pub fn declare_loss(args: &Args) -> Result<String> {
    let config = service::load(args)?;
    // Servers with peer authentication must see the daemon's user.
    if args.store.is_none() {
        service::become_owner(&config.state_dir)?;
    }
    in_each_store(&config, |spec| {
        let url = &spec.url;
        declare_in(&config, spec).with_context(|| format!("can't declare a loss in {url}"))?;
        Ok(format!(
            "declared a loss in {url}: every host reports the highest ids it has seen, and drops held ids that other hosts \
             may claim; claims pause for failover_settle\n"
        ))
    })
}

fn declare_in(config: &Config, spec: &StoreSpec) -> Result<()> {
    if matches!(spec.url, StoreUrl::Sqlite(_)) {
        bail!("only this host uses an embedded store; after a restore, run: leafd adopt-store");
    }
    let mut store = backends::open_store(config, spec)?;
    let found = store.identity()?;
    if !store.renew(&found, None)? {
        bail!("it has only Leaf's table, which can't record a loss; run: leafd schema apply");
    }
    Ok(())
}
