//! Embedded stores beside a restored journal. A store's record of claims is trusted only if it is from the host's last
//! life.

use std::path::Path;

use tracing::{error, warn};

use crate::config::{Config, StoreUrl};
use crate::engine::segments::Segments;
use crate::journal::{Recovered, SetAside};
use crate::state_dir::StateDir;
use crate::store::{Store, sqlite};
use leafd_core::store::{StartToken, StoreError};

/// The files of the configured embedded stores.
pub fn files(config: &Config) -> impl Iterator<Item = &Path> {
    config.routing.stores().iter().filter_map(|spec| match &spec.url {
        StoreUrl::Sqlite(path) => Some(path.as_ref()),
        _ => None,
    })
}

/// Whether a store may have been restored together with the journal that is to be set aside. Such a store would grant
/// numbers again.
///
/// # Errors
/// The errors of reading the file.
pub fn in_doubt(path: &Path, dir: &StateDir, journal: &SetAside) -> Result<bool, StoreError> {
    // A copied journal is no evidence about a store elsewhere, which detects its own copies.
    let beside = path.canonicalize().is_ok_and(|path| path.starts_with(dir.path()));
    if !journal.restored && !beside {
        return Ok(false);
    }
    let tokens = sqlite::start_tokens(path)?;
    Ok(!tokens.is_empty() && !tokens.iter().any(|token| journal.is_older_than(token)))
}

/// Refuses to start a new journal beside a store in doubt.
///
/// # Errors
/// The message for the operator.
pub fn refuse_doubtful(config: &Config, dir: &StateDir, journal: &SetAside) -> Result<(), String> {
    for path in files(config) {
        if in_doubt(path, dir, journal).map_err(|error| error.to_string())? {
            return Err(format!(
                "it is not this host's latest journal ({}), and the store {} may be old too, in which case ids would \
                 repeat. Put the latest files back. If they are lost, raise each tag above every id in use \
                 (docs/operate/restored-state.md), then run: leafd adopt-store",
                journal.why,
                path.display()
            ));
        }
    }
    Ok(())
}

/// Reports a store's file that is missing although this host has used it.
pub fn report_lost(config: &Config, recovered: &Recovered) {
    for spec in config.routing.stores().iter() {
        let StoreUrl::Sqlite(path) = &spec.url else { continue };
        let known = recovered.at(&spec.url.to_string());
        if let Some(known) = known.filter(|_| !Path::new(path).exists()) {
            error!(
                store = %spec.url, was = %known.store,
                "the store's file is missing: leafd creates a new one without tags. Put the file back if it was moved; \
                 otherwise create the tags again, and they continue above the highest ids in this host's journal"
            );
        }
    }
}

/// Records a clean stop in the embedded stores, like a start, so that a copy that was made while the daemon ran is
/// detected.
pub async fn tell_stop(segments: &Segments, recovered: &Recovered, stop: &StartToken) {
    for upstream in segments.upstreams.iter().filter(|upstream| upstream.embedded) {
        let trusted = upstream.monitor.borrow().trusted.clone();
        let Some(trusted) = trusted else { continue };
        let (known, host, stop) = ([recovered.token.clone()], segments.host(), stop.clone());
        let tell = move |store: &mut Store| store.check_in(&trusted, &host, &known, &stop);
        if let Err(error) = upstream.store.call(tell).await {
            warn!(store = %upstream.url, "could not record the stop in the store: {error}");
        }
    }
}
