//! Checks the pool of snowflake workers: whether a number is left for this host, and whether another host has this
//! host's number.

use leafd_checkup::Report;
use leafd_checkup::snapshot::Snapshot;
use leafd_core::UnixMs;
use leafd_core::registry::{Entry, Mode, RegistryError};
use leafd_core::store::Why;

use crate::config::{Config, WorkerSpec};

pub type Workers = Result<(UnixMs, Vec<Entry>), RegistryError>;

const SUBJECT: &str = "workers";

/// Warns if less than 1/`FEW_FREE` of the numbers is free.
const FEW_FREE: u64 = 10;

/// This host's identity in registries.
#[derive(Clone, Copy, Debug)]
pub struct Ourselves<'a> {
    /// The host id from the journal or the running daemon, if one of them could be asked.
    pub host: Option<&'a str>,
    /// The running daemon's status.
    pub status: Option<&'a Snapshot>,
}

/// Checks the registry's entries.
pub fn check(
    report: &mut Report,
    config: &Config,
    found: &Workers,
    ourselves: Ourselves<'_>,
    remedy: impl FnOnce(Why) -> String,
) {
    let (now, entries) = match found {
        Ok(found) => found,
        Err(error) => {
            // If numbers come from another registry, this is harmless.
            if matches!(config.worker, WorkerSpec::Store(_)) {
                report.failed(SUBJECT, error.to_string(), remedy(error.why()));
            }
            return;
        }
    };
    let is_held = |entry: &&Entry| {
        let permanent = config.worker_mode == Mode::Permanent;
        entry.holding.holder.is_some() && (permanent || entry.holding.expires > *now)
    };
    let held: Vec<&Entry> = entries.iter().filter(is_held).collect();
    let mut is_well = check_double(report, config, &held, ourselves);
    if !matches!(config.worker, WorkerSpec::Store(_)) {
        return;
    }
    let is_ours = |entry: &Entry| {
        let id = entry.holding.holder.as_ref().map(|holder| &*holder.id);
        let name = config.worker_mode == Mode::Permanent && id == Some(config.host_name.as_str());
        name || id.is_some() && id == ourselves.host
    };
    let ours = held.iter().find(|entry| is_ours(entry));
    let pool = config.worker_range.end.saturating_sub(config.worker_range.start);
    let free = pool.saturating_sub(held.len() as u64);
    let text = format!("{} of {pool} numbers are held", held.len());
    let remedy = "list their holders with: leafctl worker list; release an unused number: leafctl worker release \
                  --worker N; or extend worker_range and the layouts' worker bits";
    if free == 0 && ours.is_none() {
        report.failed(
            SUBJECT,
            format!("{text}, none of them by this host, so it gets no snowflake ids"),
            remedy,
        );
        is_well = false;
    } else if free < pool.div_ceil(FEW_FREE) {
        report.warning(SUBJECT, format!("{text}, so few are left for new hosts"), remedy);
        is_well = false;
    }
    if is_well {
        let ours =
            ours.map_or(String::new(), |ours| format!(", number {} by this host", ours.worker));
        report.ok(SUBJECT, format!("{text}{ours}"));
    }
}

/// Checks that no other host has this host's number.
fn check_double(
    report: &mut Report,
    config: &Config,
    held: &[&Entry],
    ourselves: Ourselves<'_>,
) -> bool {
    let number = match &config.worker {
        WorkerSpec::Static(worker) => Some(worker.0),
        WorkerSpec::Store(_) => ourselves.status.and_then(|status| status.snowflake.state.worker),
        _ => None,
    };
    let Some(number) = number else { return true };
    let Some(entry) = held.iter().find(|entry| entry.worker.0 == number) else { return true };
    let Some(holder) = &entry.holding.holder else { return true };
    if Some(&*holder.id) == ourselves.host
        || *holder.name == *config.host_name && config.worker_mode == Mode::Permanent
    {
        return true;
    }
    report.failed(
        SUBJECT,
        format!(
            "this host issues ids as worker {number}, which the registry has leased to {} ({}): two hosts with the same worker \
             issue the same ids",
            holder.name, holder.id
        ),
        "stop one of the two daemons; let every host lease its worker (worker = store), or give each its own number",
    );
    false
}
