//! The fail-over guard: a store whose history has changed may have lost the last commits that it had
//! acknowledged, claims of numbers that are in use. So every daemon tells it the highest end that it has seen of
//! each tag, and only when all have had the time to does any of them claim again. Issuing goes on meanwhile
//! from what is held.
//!
//! The time is counted from when the first daemon noticed, by the store's own clock. Whoever notices within
//! it has spoken before anybody claims, so what it holds is its own. Whoever comes later may hold numbers that
//! have been claimed anew, and drops them.

use std::rc::Rc;
use std::time::Duration;

use tokio::time::Instant;
use tracing::{error, info, warn};

use super::home::Home;
use super::{SegmentTag, Segments};
use crate::clock;
use crate::id::{BootMs, Tag};
use crate::journal::Write;
use crate::store::{History, Identity, StoreError};

/// Tags told to the store in one call.
const TOLD_AT_ONCE: u32 = 1_000;

impl Segments {
    /// Sees a store through a fail-over, and trusts it then.
    pub(super) async fn failed_over(
        self: &Rc<Self>,
        home: &Rc<Home>,
        found: Identity,
    ) -> Result<(), StoreError> {
        let settle = if home.embedded { Duration::ZERO } else { self.settings.failover_settle };
        let noticed = home.store.note_history(&found).await?.unwrap_or_default();
        let begun = Instant::now();
        let left = settle.saturating_sub(noticed);
        if home.count_fail_over(&found.history) {
            error!(
                store = %home.url, history = %found.history, noticed_before_ms = noticed.as_millis(),
                settle_ms = left.as_millis(),
                "the store's history has changed: it may have lost commits; claims wait until it has been told what was \
                 claimed"
            );
        }
        let before = match home.trusted() {
            Some(trusted) => Some(trusted.history),
            None => {
                let record = home.key().and_then(|key| self.start.of(&key));
                record.map(|record| History(record.history.clone()))
            }
        };
        let loss_declared = before.is_some_and(|before| before.losses() != found.history.losses());
        home.settle(found.clone(), BootMs(clock::boot().0 + millis(left)));
        if loss_declared || left.is_zero() && !home.told(&found.history) {
            self.doubt_held(home);
        }
        let told = self.tell_seen(home, &found).await?;
        if begun.elapsed() <= left {
            home.set_told(&found.history);
        } else if !home.told(&found.history) {
            // It took so long that others may have claimed before they could know.
            self.doubt_held(home);
        }
        self.answered(home);
        tokio::time::sleep_until(begun + left).await;
        // Once more, for claims that were answered meanwhile.
        self.tell_seen(home, &found).await?;
        if let Some(store) = home.key() {
            self.record(Write::History { store, history: found.history.0.clone() }).await?;
        }
        info!(store = %home.url, tags = told, "the store has been told what was claimed; claims go on");
        home.trust(found);
        self.resume(home);
        Ok(())
    }

    /// Others may have claimed anew what this host holds of a store. An embedded store has no others.
    fn doubt_held(self: &Rc<Self>, home: &Rc<Home>) {
        if !home.embedded {
            warn!(store = %home.url, "numbers held from before the store lost its commits are in doubt: they are skipped");
            home.doubt_leftovers();
            self.drop_held(home);
        }
    }

    /// A store gave, or has, less than it had given before: it has lost commits without showing another history.
    /// Makes that known to every daemon.
    pub(super) async fn lost_commits(
        self: &Rc<Self>,
        home: &Rc<Home>,
        tag: &SegmentTag,
        seen: u64,
    ) -> Result<(), StoreError> {
        let Some(under) = home.claimable() else { return Ok(()) };
        error!(
            store = %home.url, tag = %tag.tag, seen,
            "the store has lost claims that it had made: every daemon is to tell it what it has seen"
        );
        self.doubt_held(home);
        if home.store.declare_loss(&under).await? {
            // The history has changed by it; the rest is as after a fail-over.
            home.look_soon();
            return Ok(());
        }
        // With only Leaf's table there is nowhere to tell the others.
        self.tell_seen(home, &under).await?;
        Ok(())
    }

    /// Raises every tag of a store that this host knows to the highest end that it has seen. Tells how many it knows.
    async fn tell_seen(&self, home: &Rc<Home>, under: &Identity) -> Result<usize, StoreError> {
        let Some(key) = home.key() else { return Ok(0) };
        let mut told = 0;
        let mut after: Option<Tag> = None;
        loop {
            let page = self.writer.journal().ends(&key, after.as_ref(), TOLD_AT_ONCE).await;
            let page = page.map_err(|error| StoreError::Unavailable {
                store: "journal".to_owned(),
                cause: error.to_string(),
            })?;
            let Some((last, _)) = page.last() else { break };
            after = Some(last.clone());
            told += page.len();
            home.store.raise(under, page).await?;
        }
        // What the journal is still about to record.
        let in_use = self.seen_in_use(home);
        if !in_use.is_empty() {
            home.store.raise(under, in_use).await?;
        }
        Ok(told)
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
