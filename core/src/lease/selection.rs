//! Which worker of a pool to claim.
//!
//! A worker is free when its last lease has expired, both by the registry's clock and by the host's own. One of those
//! that expired longest ago is chosen at random, so hosts that start together rarely choose the same one, and recently
//! used workers stay unused for the longest time.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use super::LeaseSettings;
use crate::registry::{Entry, LeaseRecord, Snapshot};
use crate::{UnixMs, WorkerId};

/// A worker to claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Choice {
    pub worker: WorkerId,
    /// Its present entry.
    pub expected: Option<LeaseRecord>,
    /// Where the claim starts.
    pub start: UnixMs,
}

/// Why no worker is free.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken {
    pub pool: Range<u64>,
    /// How many belong to hosts that renew their claims.
    pub live: usize,
    /// How many belong to hosts that stopped or crashed, and whose leases have not expired.
    pub left: usize,
    /// How many are permanent, or leased for longer than any lease lasts.
    pub permanent: usize,
    /// The length of a lease, in milliseconds.
    pub lease_ms: u64,
    /// The time until the next lease expires, in milliseconds; `None` if none will.
    pub next_ms: Option<u64>,
    /// The holders whose last write is oldest.
    pub oldest: Vec<OldHolder>,
}

/// One of the oldest holders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OldHolder {
    pub name: Arc<str>,
    pub worker: WorkerId,
    /// How long ago it wrote, in milliseconds.
    pub written_ms_ago: u64,
}

/// The minimum number of candidates, if there are that many.
const CHOICES_MIN: u64 = 32;

/// How many of the oldest holders a message names.
const OLDEST: usize = 5;

/// Chooses a worker. `own` is the host's own clock.
pub(super) fn choose(
    look: &Snapshot,
    settings: &LeaseSettings,
    own: UnixMs,
    random: u64,
) -> Result<Choice, Taken> {
    let pool = &settings.pool;
    let entries: BTreeMap<u64, &Entry> = look
        .entries
        .iter()
        .filter(|entry| pool.contains(&entry.worker.0))
        .map(|entry| (entry.worker.0, entry))
        .collect();
    let reachable = UnixMs(own.0.saturating_add(settings.drift_max_ms)).min(look.now);
    let mut passed: Vec<(UnixMs, u64)> = entries
        .values()
        .filter(|entry| entry.holding.expires <= reachable)
        .map(|entry| (entry.holding.expires, entry.worker.0))
        .collect();
    passed.sort_unstable();
    // Workers that were never used come first. They are counted, not listed: there may be billions.
    let unused = pool.end.saturating_sub(pool.start).saturating_sub(length(entries.len()));
    let free = unused.saturating_add(length(passed.len()));
    if free == 0 {
        return Err(taken(look, settings));
    }
    let nth = random % (free / 4).max(CHOICES_MIN).min(free);
    let had = nth.checked_sub(unused).and_then(|nth| passed.get(usize::try_from(nth).ok()?));
    let (start, worker) = match had {
        Some(&passed) => passed,
        None => (UnixMs(0), nth_unused(pool, &entries, nth)),
    };
    let expected = entries.get(&worker).map(|entry| entry.holding.clone());
    Ok(Choice { worker: WorkerId(worker), expected, start })
}

/// The unused worker with this index: workers of the pool without an entry, in order.
fn nth_unused(pool: &Range<u64>, entries: &BTreeMap<u64, &Entry>, nth: u64) -> u64 {
    let mut worker = pool.start.saturating_add(nth);
    for used in entries.keys() {
        // Each entry at or below it shifts it by one.
        if *used > worker {
            break;
        }
        worker = worker.saturating_add(1);
    }
    worker
}

fn length(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

fn taken(look: &Snapshot, settings: &LeaseSettings) -> Taken {
    let (pool, lease_ms) = (settings.pool.clone(), settings.lease_ms);
    let ours = || look.entries.iter().filter(|entry| pool.contains(&entry.worker.0));
    let ago = |entry: &Entry| look.now.0.saturating_sub(entry.written.0);
    let lives = |entry: &Entry| entry.in_use() && ago(entry) <= settings.alive_ms();
    // No lease is longer than this. A later expiry belongs to a permanent worker, or is garbage.
    let sane = UnixMs(look.now.0.saturating_add(settings.ahead_max_ms().saturating_mul(2)));
    let for_ever = |entry: &Entry| entry.holding.expires > sane;
    let permanent = ours().filter(|entry| for_ever(entry)).count();
    let live = ours().filter(|entry| !for_ever(entry) && lives(entry)).count();
    let left = ours().count() - permanent - live;
    let ends = ours().filter(|entry| !for_ever(entry)).map(|entry| entry.holding.expires);
    let next_ms = ends.min().map(|bound| bound.0.saturating_sub(look.now.0));
    let mut holders: Vec<&Entry> = ours().filter(|entry| entry.holding.holder.is_some()).collect();
    holders.sort_by_key(|entry| entry.written);
    let oldest = holders.into_iter().take(OLDEST).filter_map(|entry| {
        let name = Arc::clone(&entry.holding.holder.as_ref()?.name);
        Some(OldHolder { name, worker: entry.worker, written_ms_ago: ago(entry) })
    });
    let oldest = oldest.collect();
    Taken { pool, live, left, permanent, lease_ms, next_ms, oldest }
}

impl fmt::Display for Taken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Taken { pool, live, left, permanent, .. } = self;
        let all = pool.end.saturating_sub(pool.start);
        write!(
            f,
            "all {all} workers of the pool {}..{} are taken: {live} by live hosts, {left} by stopped or crashed hosts \
             whose leases have not expired, {permanent} permanently",
            pool.start, pool.end
        )?;
        if let Some(next_ms) = self.next_ms {
            write!(f, " (the next one expires in {} s)", next_ms.div_ceil(1_000))?;
        }
        let lease_s = self.lease_ms / 1_000;
        write!(
            f,
            "; the pool needs a number for each live host plus (crashes per second x lease of {lease_s} s): extend \
             worker_range or worker_bits, shorten lease, or release an unused number: leafctl worker release --worker \
             N"
        )?;
        if self.oldest.is_empty() {
            return Ok(());
        }
        f.write_str("; longest silent:")?;
        for (index, OldHolder { name, worker, written_ms_ago }) in self.oldest.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(f, "{comma} {name} (worker {worker}, {} s ago)", written_ms_ago / 1_000)?;
        }
        Ok(())
    }
}
