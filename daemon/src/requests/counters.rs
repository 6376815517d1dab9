//! Counts events since the start that aren't counted elsewhere.

use std::cell::Cell;

use crate::clock;
use leafd_core::UnixMs;

/// Counts since the daemon's start.
#[derive(Debug, Default)]
pub struct Counters {
    /// Requests of every kind.
    pub requests: Cell<u64>,
    /// Connections that are open now.
    pub connections: Cell<u64>,
    /// Open connections of administrators.
    pub administrators: Cell<u64>,
    /// Connections accepted since the start.
    pub accepted: Cell<u64>,
    /// Connections refused because there were too many.
    pub turned_away: Cell<u64>,
    /// Reloads that took effect.
    pub reloads: Cell<u64>,
    /// Reloads that were refused because of an invalid configuration.
    pub reloads_refused: Cell<u64>,
    /// Whether the last reload was refused.
    pub reload_refused_last: Cell<bool>,
    /// When a configuration last took effect.
    pub configured_at: Cell<UnixMs>,
}

impl Counters {
    /// Counts a reload of the configuration; `in_force`: whether it took effect.
    pub fn reloaded(&self, in_force: bool) {
        let count = if in_force { &self.reloads } else { &self.reloads_refused };
        count.set(count.get() + 1);
        self.reload_refused_last.set(!in_force);
        if in_force {
            self.configured_at.set(clock::now().unix);
        }
    }
}
