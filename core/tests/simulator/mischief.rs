//! What goes wrong, and when.

use leafd_core::lease::Mode;

use crate::breaks::Break;
use crate::host::{Host, Journal, LAYOUTS};
use crate::registry::LAG_MS_MAX;
use crate::world::{GRACE_MS, LEASE_MS, SETTLE_MS, THRESHOLD_MS, World};

const HOUR_MS: i64 = 3_600_000;
const YEAR_MS: i64 = 365 * 24 * HOUR_MS;

impl World {
    /// May break something before a step.
    pub fn mischief(&mut self) {
        let host = self.random.usize(..self.hosts.len());
        let calm = self.calm();
        // The worst moment for a registry to lose its last writes.
        if std::mem::take(&mut self.registry.taken_over) && !calm && self.random.u8(..6) == 0 {
            self.fail_over();
            // A newcomer may choose a worker of a lost claim.
            return self.pod_is_replaced(host);
        }
        let what = self.random.u32(..10_000);
        let host = if what < 200 { self.rarer(host) } else { host };
        match what {
            0..30 => self.crash(host, None),
            30..50 => self.stop(host),
            50..58 => self.pod_is_replaced(host),
            58..80 if !calm => self.pause(host),
            80..110 if !calm && self.clocks_go => self.clock_steps(host),
            110..116 if !calm && self.clocks_go => self.boots_with_a_wrong_clock(host),
            116..120 if !calm => self.registry_goes_away(),
            120..122 if !calm => self.registry_clock_steps(),
            122..124 => self.fail_over(),
            124..130 if self.journals_go => self.journal_is_lost(host),
            130..136 if self.mode == Mode::Leased => self.journal_is_copied(host),
            136..146 => self.hosts[host].backup = Some(self.hosts[host].journal.clone()),
            146..150 if calm && self.mode == Mode::Leased => self.backup_is_restored(host),
            150..180 if self.clocks_go => {
                let true_ms = self.true_ms;
                self.hosts[host].clocks.correct(true_ms);
            }
            180..190 if self.mode == Mode::Leased => self.release(host),
            190..200 if !calm => self.cut_off(host),
            _ => {}
        }
    }

    /// This host or another one: whose lease is in a state that has met fewer faults so far.
    fn rarer(&mut self, host: usize) -> usize {
        let other = self.random.usize(..self.hosts.len());
        let met = |host: usize| {
            let state = self.state_of(host);
            state.map_or(usize::MAX, |state| self.totals.pairs.met_in(state))
        };
        if met(other) < met(host) { other } else { host }
    }

    /// From now on everything is well, and every daemon runs.
    pub fn heal(&mut self) {
        self.away_until_ms = 0;
        self.calm_until_ms = u64::MAX;
        self.registry.offset_ms = 0;
        let true_ms = self.true_ms;
        let workers = usize::try_from(self.pool.end).unwrap();
        self.hosts.truncate(workers);
        for host in &mut self.hosts {
            host.clocks.skew_ppm = 0;
            host.clocks.correct(true_ms);
            (host.paused_until_ms, host.cut_off_until_ms) = (0, 0);
            host.start_at_ms = host.start_at_ms.min(true_ms);
        }
    }

    /// Some or all of the writes on their way to the disk survive.
    pub fn crash(&mut self, host: usize, start_in_ms: Option<u64>) {
        let far = self.random.u8(..5) == 0;
        let off_ms = self.random.u64(..if far { 2 * LEASE_MS } else { 2_000 });
        self.commanded(host, "crash");
        let Some(daemon) = self.hosts[host].daemon.take() else { return };
        let came_through = self.random.usize(..=daemon.writes.len());
        daemon.crash(&mut self.hosts[host].journal, came_through, self.broken);
        self.hosts[host].paused_until_ms = 0;
        self.hosts[host].start_at_ms = self.true_ms + start_in_ms.unwrap_or(off_ms);
        self.totals.crashes += 1;
    }

    pub fn stop(&mut self, host: usize) {
        self.commanded(host, "stop");
        if let Some(daemon) = &mut self.hosts[host].daemon
            && !daemon.stopping
        {
            daemon.stop();
            self.totals.stops += 1;
        }
    }

    /// `leafctl worker release`.
    fn release(&mut self, host: usize) {
        self.commanded(host, "release");
        if let Some(daemon) = &mut self.hosts[host].daemon
            && !daemon.stopping
        {
            daemon.release();
            self.totals.releases += 1;
        }
    }

    /// A pod without a disk ends, and another takes its place.
    fn pod_is_replaced(&mut self, host: usize) {
        if self.mode == Mode::Permanent {
            return;
        }
        self.crash(host, None);
        self.hosts[host] = self.new_host();
        self.totals.pods += 1;
    }

    /// SIGSTOP, or the host sleeps: its boot-time clock keeps running.
    fn pause(&mut self, host: usize) {
        let long = self.random.bool();
        let pause_ms = self.random.u64(10..if long { 3 * LEASE_MS } else { 1_500 });
        self.hosts[host].paused_until_ms = self.true_ms + pause_ms;
        self.totals.pauses += 1;
    }

    fn clock_steps(&mut self, host: usize) {
        let small = i64::try_from(2 * THRESHOLD_MS).unwrap();
        let by_ms = match self.random.u8(..8) {
            0 => HOUR_MS,
            1 => -HOUR_MS,
            2 => 2 * YEAR_MS,
            3 => self.random.i64(-60_000..60_000),
            _ => self.random.i64(-small..=small),
        };
        let by_ms = if self.far_ahead_is_believed() { by_ms.min(small) } else { by_ms };
        self.hosts[host].clocks.offset_ms += by_ms;
        self.totals.clock_steps += 1;
    }

    fn boots_with_a_wrong_clock(&mut self, host: usize) {
        let off_ms = self.random.u64(..2_000);
        self.crash(host, Some(off_ms));
        let years = [-2 * YEAR_MS, -HOUR_MS, HOUR_MS, 5 * YEAR_MS];
        let by_ms = years[self.random.usize(..years.len())];
        let by_ms = if self.far_ahead_is_believed() { by_ms.min(0) } else { by_ms };
        let true_ms = self.true_ms;
        let clocks = &mut self.hosts[host].clocks;
        clocks.correct(true_ms);
        clocks.offset_ms += by_ms;
        clocks.booted_ms = true_ms;
        self.totals.clock_steps += 1;
    }

    /// A permanent worker can start from the journal alone. If the registry doesn't answer then, no clock can be
    /// compared, and ids of a far future would be issued. This is a documented limit.
    fn far_ahead_is_believed(&self) -> bool {
        self.mode == Mode::Permanent
    }

    /// This host alone doesn't reach the registry.
    pub fn cut_off(&mut self, host: usize) {
        self.hosts[host].cut_off_until_ms = self.true_ms + self.random.u64(100..2 * LEASE_MS);
        self.totals.cut_off += 1;
    }

    fn registry_clock_steps(&mut self) {
        let small = i64::try_from(2 * THRESHOLD_MS).unwrap();
        self.registry.offset_ms = match self.random.u8(..4) {
            0 => -HOUR_MS,
            _ => self.random.i64(-small..=small),
        };
        self.totals.registry_clock_steps += 1;
    }

    fn registry_goes_away(&mut self) {
        let long = self.random.u8(..3) == 0;
        let away_ms = self.random.u64(100..if long { 2 * LEASE_MS } else { 3_000 });
        self.away_until_ms = self.true_ms + away_ms;
        self.totals.outages += 1;
    }

    /// The registry loses its last writes. Its promise then needs hosts that reach it and clocks that are about right,
    /// until no host can still have a lost claim.
    fn fail_over(&mut self) {
        self.away_until_ms = 0;
        self.calm_until_ms = self.true_ms + LEASE_MS + SETTLE_MS + 2 * THRESHOLD_MS + GRACE_MS;
        let true_ms = self.true_ms;
        for host in &mut self.hosts {
            (host.paused_until_ms, host.cut_off_until_ms) = (0, 0);
            host.clocks.correct(true_ms);
        }
        self.registry.offset_ms = 0;
        let lag_ms = self.random.u64(..LAG_MS_MAX);
        self.registry.fail_over(true_ms, lag_ms);
        self.totals.fail_overs += 1;
    }

    /// The state directory is gone. What starts then is a new host, or (permanent) one with a known name.
    fn journal_is_lost(&mut self, index: usize) {
        self.crash(index, None);
        let name = match self.mode {
            Mode::Leased => format!("host-{}", self.number()).into(),
            Mode::Permanent => self.hosts[index].journal.host.clone(),
        };
        let host = &mut self.hosts[index];
        host.journal = Journal::new(name);
        host.backup = None;
        host.highest = [0; LAYOUTS.len()];
        self.totals.journals_lost += 1;
    }

    /// Another host starts from a copy of a running host's files. It notices, becomes a host of its own, and keeps
    /// only the marks.
    fn journal_is_copied(&mut self, from: usize) {
        let mut to = self.random.usize(..self.hosts.len());
        if to == from {
            to = (to + 1) % self.hosts.len();
        }
        let mut journal = self.hosts[from].journal.clone();
        if self.broken != Some(Break::CopyUnnoticed) {
            journal.host = format!("host-{}", self.number()).into();
            journal.claim = None;
        }
        self.crash(to, None);
        let host = self.new_host();
        self.hosts[to] = Host { journal, ..host };
        self.totals.copies += 1;
    }

    /// An old state of the files is restored unnoticed. The registry, which answers, knows a later life.
    fn backup_is_restored(&mut self, host: usize) {
        if self.hosts[host].daemon.is_some() {
            return;
        }
        if let Some(backup) = self.hosts[host].backup.take() {
            self.hosts[host].journal = backup;
            self.hosts[host].highest = [0; LAYOUTS.len()];
            self.totals.restored += 1;
        }
    }
}
