//! What has happened since the start, as far as nobody else counts it.

use std::cell::Cell;

use crate::clock;
use leafd_core::UnixMs;

/// What has happened since the start.
#[derive(Debug, Default)]
pub struct Counters {
    /// Requests of every kind.
    pub requests: Cell<u64>,
    /// Connections open now.
    pub connections: Cell<u64>,
    /// Those of them that are administrators'.
    pub administrators: Cell<u64>,
    /// Connections ever accepted.
    pub accepted: Cell<u64>,
    /// Connections that found no room.
    pub turned_away: Cell<u64>,
    /// Reloads that put a configuration in force.
    pub reloads: Cell<u64>,
    /// Reloads that changed nothing, because the configuration can't be used.
    pub reloads_refused: Cell<u64>,
    /// Whether the last one was such.
    pub reload_refused_last: Cell<bool>,
    /// When a configuration was last put in force.
    pub configured_at: Cell<UnixMs>,
}

impl Counters {
    /// The configuration was read again: it is in force, or can't be used.
    pub fn reloaded(&self, in_force: bool) {
        let count = if in_force { &self.reloads } else { &self.reloads_refused };
        count.set(count.get() + 1);
        self.reload_refused_last.set(!in_force);
        if in_force {
            self.configured_at.set(clock::now().unix);
        }
    }
}
