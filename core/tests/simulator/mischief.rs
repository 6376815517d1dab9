//! What goes wrong, and when.

use leafd_core::BootMs;
use leafd_core::lease::Mode;

use crate::Break;
use crate::coverage::{LEASE, MACHINES, MONITOR, lease_state, monitor_state};
use crate::host::{CameThrough, Daemon, Disk, Host, Journal, RETRY_MS};
use crate::store::{LAG_MS_MAX, Loss, OLD_PRIMARY, TAGS};
use crate::world::{THRESHOLD_MS, World};

const HOUR_MS: i64 = 3_600_000;
const YEAR_MS: i64 = 365 * 24 * HOUR_MS;

/// Something that happens to a host, or to what all hosts share.
type Event = fn(&mut World, usize);

/// The first events happen only while it isn't calm.
const TROUBLES: usize = 6;

/// How many of 10,000 steps begin with each event, in `leases` and in `failovers`.
const EVENTS: [(u32, u32, Event); 23] = [
    (6, 3, World::boots_with_a_wrong_clock),
    (4, 20, World::goes_away),
    (6, 8, World::stores_clock_steps),
    (6, 6, World::is_deaf),
    (6, 6, World::disk_hangs),
    (8, 12, World::disk_fails),
    (30, 20, World::crash),
    (20, 8, World::stop),
    (10, 8, World::release),
    (4, 6, World::is_released_elsewhere),
    (8, 4, World::pod_is_replaced),
    (22, 36, World::is_stopped),
    (30, 20, World::clock_steps),
    (30, 40, World::clock_is_corrected),
    (10, 10, World::cut_off),
    (2, 0, World::fail_over),
    (0, 30, World::promotion),
    (0, 18, World::is_set_back),
    (0, 8, World::splits),
    (0, 10, World::connects_elsewhere),
    (6, 4, World::journal_is_lost),
    (6, 3, World::journal_is_copied),
    (8, 17, World::journal_is_restored),
];

impl World {
    /// May break something before a step.
    pub fn mischief(&mut self) {
        // In a store with tags, everything stays well while it is calm.
        if self.calm() && self.sim.has_tags {
            return;
        }
        let host = self.random.usize(..self.hosts.len());
        if self.worst_moment(host) {
            return;
        }
        let mut what = self.random.u32(..10_000);
        for (number, (in_leases, in_failovers, event)) in EVENTS.into_iter().enumerate() {
            let weight = if self.sim.has_tags { in_failovers } else { in_leases };
            if what < weight {
                if number < TROUBLES && self.calm() {
                    return;
                }
                let host = self.rarer(host);
                return event(self, host);
            }
            what -= weight;
        }
    }

    /// Some moments are worse than others.
    fn worst_moment(&mut self, host: usize) -> bool {
        let has_taken_over = std::mem::take(&mut self.store.taken_over) && !self.calm();
        if has_taken_over && self.random.u8(..6) == 0 {
            // The store loses a lease that another host had not given back. A newcomer may choose its worker.
            if self.store.one_history {
                return false;
            }
            self.loses_commits(host);
            self.pod_is_replaced(host);
            return true;
        }
        let daemon = self.hosts[host].daemon.as_ref();
        let writes = daemon.is_some_and(|one| one.writes && one.worker.lease.renewed.is_none());
        if writes && !self.store.one_history && self.random.u32(..400) == 0 {
            // The store loses its last writes before a host has its first lease.
            self.loses_commits(host);
            return true;
        }
        if self.random.u8(..40) == 0 && daemon.is_some_and(Daemon::fails) && !self.calm() {
            // Nobody knows what is on the disk.
            let event = if self.random.u8(..3) == 0 { World::crash } else { World::stop };
            event(self, host);
            return true;
        }
        if self.random.u8(..64) == 0 && self.is_rare(host) {
            // Few events fall into short states.
            let events =
                [World::crash, World::stop, World::release, World::is_stopped, World::clock_steps];
            let event: Event = events[self.random.usize(..events.len())];
            event(self, host);
            return true;
        }
        if !self.sim.has_tags {
            return false;
        }
        if self.random.u8(..200) == 0 {
            // Every host trusts a server that is replaced by the former primary.
            self.former_primary_takes_over(host);
        }
        let Host { daemon, cut_off_until_ms, .. } = &self.hosts[host];
        let Some(daemon) = daemon else { return false };
        let is_cut_off = *cut_off_until_ms > self.true_ms;
        if daemon.tags.monitor.own_until().is_some() && !is_cut_off && self.random.u8(..24) == 0 {
            // A host is gone while its held numbers are in doubt.
            self.is_cut_off_for(host, 2 * self.sim.settle_ms);
            return true;
        }
        if self.store.old_side.is_some() && self.random.u8(..60) == 0 {
            self.connects_elsewhere(host);
            return true;
        }
        let settles = daemon.tags.monitor.settling_ms(BootMs(0)) > 0;
        if settles && !self.store.one_history && self.random.u32(..400) == 0 {
            // The store fails over again before all hosts have settled.
            self.promotion(host);
            return true;
        }
        let slow_ms = self.true_ms + self.sim.settle_ms / 4;
        let claimed = daemon.tags.unjournalled.back().is_some_and(|(due_ms, _)| *due_ms > slow_ms);
        if claimed && !self.store.one_history && self.random.u8(..8) == 0 {
            // The store loses a claim that no journal has yet.
            let lag_ms = self.random.u64(..LAG_MS_MAX / 4);
            self.promotion_with(lag_ms);
            return true;
        }
        false
    }

    fn loses_commits(&mut self, host: usize) {
        let event = if self.sim.has_tags { World::promotion } else { World::fail_over };
        event(self, host);
    }

    /// Whether the host's lease or monitor is in a state that seldom lasts.
    pub fn is_rare(&self, host: usize) -> bool {
        let Host { clocks, daemon: Some(daemon), .. } = &self.hosts[host] else { return false };
        let now = clocks.read(self.true_ms, self.broken);
        let states = [lease_state(&daemon.worker.lease, now), monitor_state(&daemon.tags.monitor)];
        let mut machines = if self.sim.has_tags { 0..2 } else { 0..1 };
        machines.any(|machine| MACHINES[machine].is_brief(states[machine]))
    }

    /// This host or another one: whose lease or monitor is in a state that has met fewer events so far.
    fn rarer(&mut self, host: usize) -> usize {
        let other = self.random.usize(..self.hosts.len());
        let by_monitor = self.sim.has_tags && self.random.bool();
        let met = |host: usize| {
            let Host { clocks, daemon: Some(daemon), .. } = &self.hosts[host] else {
                return usize::MAX;
            };
            if by_monitor {
                let state = monitor_state(&daemon.tags.monitor);
                return self.totals.pairs[MONITOR].met_in(state);
            }
            let state = lease_state(&daemon.worker.lease, clocks.read(self.true_ms, self.broken));
            self.totals.pairs[LEASE].met_in(state)
        };
        if met(other) < met(host) { other } else { host }
    }

    /// From now on everything is well, and every daemon runs.
    pub fn heal(&mut self) {
        self.calm_until_ms = u64::MAX;
        self.away_until_ms.fill(0);
        self.is_fenced();
        let workers = usize::try_from(self.pool.end).unwrap();
        self.hosts.truncate(workers);
        self.all_go_on();
        for host in &mut self.hosts {
            host.start_at_ms = host.start_at_ms.min(self.true_ms);
            // Otherwise a host may draw nothing for a while by chance.
            (host.quiet_until_ms, host.draws_seldom) = (0, false);
        }
        self.all_clocks_are_right();
        self.operator_declares_a_loss();
    }

    /// Every host that runs can be reached.
    fn all_go_on(&mut self) {
        for host in &mut self.hosts {
            host.resume(self.true_ms);
            (host.cut_off_until_ms, host.deaf_until_ms) = (0, 0);
            (host.disk_hangs_until_ms, host.disk_fails_until_ms) = (0, 0);
        }
    }

    fn all_clocks_are_right(&mut self) {
        self.store.offset_ms = 0;
        self.hosts.iter_mut().for_each(|host| host.clocks.correct(self.true_ms));
    }

    pub fn crash(&mut self, host: usize) {
        let far = self.random.u8(..5) == 0;
        let off_ms = self.random.u64(..if far { self.sim.outage_ms } else { 2_000 });
        self.crash_for(host, off_ms);
    }

    /// Some or all of the writes on their way to the disk survive.
    fn crash_for(&mut self, host: usize, off_ms: u64) {
        self.befalls(host, "crash");
        self.hosts[host].resume(self.true_ms);
        let Some(daemon) = &self.hosts[host].daemon else { return };
        let came_through = match self.hosts[host].disk(self.true_ms) {
            Disk::Refuses => CameThrough::default(),
            _ => CameThrough {
                writes: self.random.usize(..=daemon.worker.writes.len()),
                claims: self.random.usize(..=TAGS),
                record: self.random.bool(),
                drop: self.random.bool(),
            },
        };
        if daemon.fails() {
            self.totals.note("fault_crashes");
        }
        let backed_up = self.random.bool();
        let host = &mut self.hosts[host];
        host.crash(came_through, self.broken);
        if backed_up {
            host.backup = Some(host.journal.clone());
        }
        host.start_at_ms = self.true_ms + off_ms;
        self.totals.note("crashes");
    }

    pub fn stop(&mut self, host: usize) {
        self.befalls(host, "stop");
        if let Some(daemon) = &mut self.hosts[host].daemon
            && !daemon.stopping
        {
            daemon.stopping = true;
            daemon.stop_by_ms = self.true_ms + self.sim.timeout_ms / 4;
            daemon.worker.stop(self.broken);
            self.totals.note("stops");
        }
    }

    /// `leafctl worker release`.
    fn release(&mut self, host: usize) {
        if self.mode == Mode::Permanent {
            return;
        }
        self.befalls(host, "release");
        let quiet_ms = if self.random.bool() { self.random.u64(..2_000) } else { 0 };
        let Host { daemon: Some(daemon), quiet_until_ms, .. } = &mut self.hosts[host] else {
            return;
        };
        if !daemon.stopping {
            daemon.worker.release(self.broken);
            *quiet_until_ms = self.true_ms + quiet_ms;
            self.totals.note("releases");
        }
    }

    /// An operator releases the host's worker on another host. A permanent one would be lost for good.
    fn is_released_elsewhere(&mut self, host: usize) {
        let daemon = self.hosts[host].daemon.as_ref();
        if let Some((worker, _)) = daemon.and_then(|one| one.worker.lease.held())
            && self.mode == Mode::Leased
        {
            self.store.release(self.true_ms, worker);
            self.totals.note("releases_elsewhere");
        }
    }

    /// A pod without a disk ends, and another takes its place.
    fn pod_is_replaced(&mut self, host: usize) {
        if self.mode == Mode::Permanent {
            return;
        }
        self.crash(host);
        self.hosts[host] = self.new_host();
        self.totals.note("pods");
    }

    /// SIGSTOP, or the host sleeps: its boot-time clock keeps running.
    fn is_stopped(&mut self, host: usize) {
        let long = self.random.bool();
        let pause_ms = self.random.u64(10..if long { self.sim.outage_ms } else { 1_500 });
        self.pause(host, pause_ms);
    }

    fn pause(&mut self, host: usize, pause_ms: u64) {
        if self.calm() || self.hosts[host].paused_until_ms > self.true_ms {
            return;
        }
        self.befalls(host, "pause");
        let host = &mut self.hosts[host];
        host.paused_until_ms = self.true_ms + pause_ms;
        host.clocks.suspended_ms += pause_ms;
        self.totals.note("pauses");
    }

    fn clock_steps(&mut self, host: usize) {
        if self.calm() || !self.clocks_go {
            return;
        }
        let small = i64::try_from(2 * THRESHOLD_MS).unwrap();
        let by_ms = match self.random.u8(..8) {
            0 => HOUR_MS,
            1 => -HOUR_MS,
            2 => 2 * YEAR_MS,
            3 => self.random.i64(-60_000..60_000),
            _ => self.random.i64(-small..=small),
        };
        let by_ms = if self.far_ahead_is_believed() { by_ms.min(small) } else { by_ms };
        self.befalls(host, "clock step");
        self.hosts[host].clocks.offset_ms += by_ms;
        self.totals.note("clock_steps");
    }

    fn boots_with_a_wrong_clock(&mut self, host: usize) {
        if !self.clocks_go {
            return;
        }
        let off_ms = self.random.u64(..2_000);
        self.crash_for(host, off_ms);
        let years = [-2 * YEAR_MS, -HOUR_MS, HOUR_MS, 5 * YEAR_MS];
        let by_ms = years[self.random.usize(..years.len())];
        let by_ms = if self.far_ahead_is_believed() { by_ms.min(0) } else { by_ms };
        let clocks = &mut self.hosts[host].clocks;
        (clocks.booted_ms, clocks.suspended_ms) = (self.true_ms, 0);
        clocks.correct(self.true_ms);
        clocks.offset_ms += by_ms;
        self.totals.note("clock_steps");
    }

    /// A permanent worker can start from the journal alone. If the registry doesn't answer then, no clock can be
    /// compared, and ids of a far future would be issued. This is a documented limit.
    fn far_ahead_is_believed(&self) -> bool {
        self.mode == Mode::Permanent
    }

    fn clock_is_corrected(&mut self, host: usize) {
        self.hosts[host].clocks.correct(self.true_ms);
    }

    /// This host alone reaches no server.
    pub fn cut_off(&mut self, host: usize) {
        let for_ms = self.random.u64(100..self.sim.outage_ms);
        self.is_cut_off_for(host, for_ms);
    }

    fn is_cut_off_for(&mut self, host: usize, for_ms: u64) {
        if !self.calm() {
            self.hosts[host].cut_off_until_ms = self.true_ms + for_ms;
            self.totals.note("cut_off");
        }
    }

    /// A partition in one direction.
    fn is_deaf(&mut self, host: usize) {
        let for_ms = self.random.u64(100..self.sim.outage_ms);
        self.hosts[host].deaf_until_ms = self.true_ms + for_ms;
        self.totals.note("deaf");
    }

    fn disk_hangs(&mut self, host: usize) {
        let for_ms = self.random.u64(100..self.sim.outage_ms / 2);
        self.hosts[host].disk_hangs_until_ms = self.true_ms + for_ms;
        self.hosts[host].is_unwell_until(self.true_ms + for_ms);
        self.totals.note("disks_hang");
    }

    /// Commits of the journal fail for a while, before or after they are written.
    fn disk_fails(&mut self, host: usize) {
        let long = self.random.u8(..3) == 0;
        let most_ms = if long { self.sim.outage_ms } else { 3 * RETRY_MS };
        let until_ms = self.true_ms + self.random.u64(100..most_ms);
        let is_written = self.random.bool();
        let host = &mut self.hosts[host];
        host.disk_fails_until_ms = until_ms;
        host.failing_disk = if is_written { Disk::FailsLate } else { Disk::Refuses };
        host.is_unwell_until(until_ms + RETRY_MS);
        self.totals.note(if is_written { "journals_fail_late" } else { "journals_refuse" });
    }

    fn stores_clock_steps(&mut self, _: usize) {
        let small = i64::try_from(2 * THRESHOLD_MS).unwrap();
        let lasted_ms = self.true_ms - self.store.offset_since_ms;
        if self.store.offset_ms == -HOUR_MS && lasted_ms > self.sim.lease_ms {
            self.totals.note("registry_clock_behind");
        }
        self.store.offset_since_ms = self.true_ms;
        self.store.offset_ms = match self.random.u8(..6) {
            0 | 1 => -HOUR_MS,
            2 => 0,
            _ => self.random.i64(-small..=small),
        };
        self.totals.note("registry_clock_steps");
    }

    fn goes_away(&mut self, _: usize) {
        let server = self.random.usize(..self.servers());
        let long = self.random.u8(..3) == 0;
        let most_ms = if long { self.sim.outage_ms } else { self.sim.outage_ms / 8 };
        self.away_until_ms[server] = self.true_ms + self.random.u64(100..most_ms);
        self.totals.note("outages");
    }

    fn connects_elsewhere(&mut self, host: usize) {
        let server = self.random.usize(..self.servers());
        if self.store.old_side.is_some() && self.hosts[host].server != server {
            self.totals.note("moves");
        }
        self.hosts[host].server = server;
    }

    /// A standby is promoted while the old primary goes on taking writes: some hosts reach the one, some the other, until
    /// the old one is fenced.
    fn splits(&mut self, _: usize) {
        if self.store.one_history || self.store.old_side.is_some() || self.operator_at_ms.is_some()
        {
            return;
        }
        let lag_ms = self.random.u64(..LAG_MS_MAX);
        self.lose(Loss::Promotion, lag_ms);
        let for_ms = self.sim.settle_ms + self.random.u64(..3 * self.sim.outage_ms);
        self.store.split(self.true_ms, self.true_ms + for_ms);
        for host in &mut self.hosts {
            host.server = self.random.usize(..=OLD_PRIMARY);
        }
        let host = self.random.usize(..self.hosts.len());
        let other = (host + 1) % self.hosts.len();
        (self.hosts[host].server, self.hosts[other].server) = (0, OLD_PRIMARY);
        self.totals.note("splits");
    }

    /// The old primary takes no more writes, and nobody reaches it. If it has the later history, because a host came to
    /// it from the new one, hosts refuse the new one until an operator declares a loss.
    pub fn is_fenced(&mut self) {
        let Some(is_later) = self.store.end_split() else { return };
        self.hosts.iter_mut().for_each(|host| host.server = 0);
        if is_later {
            self.operator_at_ms = Some(self.true_ms + self.random.u64(..2 * self.sim.settle_ms));
        }
    }

    /// The registry loses its last writes. Its promise then needs hosts that reach it and clocks that are about right,
    /// until no host can still have a lost claim.
    fn fail_over(&mut self, _: usize) {
        // What a hanging or failing disk has taken arrives late, also if all goes well from now on.
        let is_unable = |host: &Host| {
            let hangs = host.disk_hangs_until_ms > self.true_ms;
            host.journal.is_restored || hangs || host.fails(self.true_ms)
        };
        if self.hosts.iter().any(is_unable) {
            return;
        }
        let sim = self.sim;
        let calm_ms = sim.lease_ms + sim.settle_ms + 2 * THRESHOLD_MS + sim.grace_ms;
        self.calm_until_ms = self.true_ms + calm_ms;
        self.away_until_ms.fill(0);
        self.all_go_on();
        self.all_clocks_are_right();
        let lag_ms = self.random.u64(..LAG_MS_MAX);
        self.lose(Loss::Promotion, lag_ms);
        self.totals.note("fail_overs");
    }

    fn promotion(&mut self, _: usize) {
        let lag_ms = self.random.u64(..LAG_MS_MAX);
        self.promotion_with(lag_ms);
    }

    /// Half of them happen while every host can be reached: then no id at all may come twice.
    pub fn promotion_with(&mut self, lag_ms: u64) {
        if self.store.one_history {
            return;
        }
        let is_calm = self.random.bool();
        if is_calm {
            self.is_fenced();
        }
        let loser = self.lose(Loss::Promotion, lag_ms);
        self.totals.note("promotions");
        if !self.engines.insert(self.store.engine(0, None)) {
            self.totals.note("like_another");
        }
        if is_calm {
            self.calm_until_ms = self.true_ms + self.sim.settle_ms + self.sim.timeout_ms;
            self.all_go_on();
            self.all_clocks_are_right();
            self.totals.note("calm_failovers");
        } else {
            self.beset(loser);
        }
    }

    fn is_set_back(&mut self, _: usize) {
        if self.store.one_history {
            return;
        }
        let lag_ms = self.random.u64(..LAG_MS_MAX);
        let loser = self.lose(Loss::SetBack, lag_ms);
        self.totals.note("set_back");
        match (self.random.u8(..4), loser) {
            // Nothing but the journals of hosts that start again at once can tell.
            (0, _) => (0..self.hosts.len()).for_each(|host| self.crash_for(host, 0)),
            (1 | 2, Some(host)) => self.crash_for(host, 0),
            _ => self.beset(loser),
        }
    }

    /// The worst moment for a host to be gone is when its claims were just lost.
    fn beset(&mut self, loser: Option<usize>) {
        let Some(host) = loser else { return };
        // For longer than others wait for it.
        let for_ms = self.sim.settle_ms + self.random.u64(..2 * self.sim.settle_ms);
        match self.random.u8(..6) {
            0 => self.crash(host),
            1..4 => self.pause(host, for_ms),
            _ => self.is_cut_off_for(host, for_ms),
        }
    }

    /// The former primary replaces the present one, as it was. Every host knows the history in between, so nobody uses
    /// it, until an operator says what is lost.
    fn former_primary_takes_over(&mut self, _: usize) {
        let present = &self.store.data.note.history;
        let knows = |host: &Host| {
            let daemon = host.daemon.as_ref();
            let trusts = daemon.and_then(|daemon| daemon.tags.monitor.claimable());
            trusts.is_some_and(|trusted| trusted.history == *present)
        };
        let is_whole = self.store.old_side.is_none() && self.operator_at_ms.is_none();
        let is_possible = self.store.former.is_some() && is_whole;
        if !is_possible || !self.hosts.iter().all(knows) {
            return;
        }
        self.lose(Loss::FormerPrimary, 0);
        self.operator_at_ms = Some(self.true_ms + self.random.u64(..2 * self.sim.settle_ms));
        self.totals.note("returns");
    }

    /// The state directory is gone. What starts then is a new host, or (permanent) one with a known name.
    fn journal_is_lost(&mut self, host: usize) {
        if !self.journals_go {
            return;
        }
        self.crash(host);
        let name = match self.mode {
            Mode::Leased => self.new_name(),
            Mode::Permanent => self.hosts[host].journal.host.clone(),
        };
        self.hosts[host].backup = None;
        self.hosts[host].use_journal(Journal { host: name, ..Journal::default() });
        self.totals.note("journals_lost");
    }

    /// A host starts from a copy of another host's files. It notices, and becomes a host of its own.
    fn journal_is_copied(&mut self, to: usize) {
        if self.mode == Mode::Permanent {
            return;
        }
        let mut from = self.random.usize(..self.hosts.len());
        if from == to {
            from = (from + 1) % self.hosts.len();
        }
        let mut journal = self.hosts[from].journal.clone();
        if self.broken != Some(Break::CopyUnnoticed) {
            journal = journal.begin_anew(self.new_name());
        }
        self.crash(to);
        self.hosts[to].use_journal(journal);
        self.totals.note("journals_copied");
    }

    /// An old state of a host's files is restored. Either the host notices at once, or only the store can tell. If nothing
    /// but the registry can, it must answer, and know the present life.
    fn journal_is_restored(&mut self, host: usize) {
        let calm_ms = self.calm_until_ms.saturating_sub(self.true_ms);
        let daemon = self.hosts[host].daemon.as_ref();
        let is_known = daemon.is_some_and(|daemon| daemon.worker.lease.renewed.is_some());
        let can_be_told = self.sim.has_tags || calm_ms > 2 * self.sim.timeout_ms && is_known;
        if self.mode == Mode::Permanent || !can_be_told {
            return;
        }
        let Some(mut backup) = self.hosts[host].backup.take() else { return };
        match self.sim.has_tags {
            true => self.crash(host),
            false => self.crash_for(host, 0),
        }
        if self.random.u8(..4) == 0 {
            backup = backup.begin_anew(self.new_name());
        }
        backup.segments.iter_mut().for_each(|segment| segment.restored = true);
        backup.is_restored = backup.lease.is_some();
        self.hosts[host].use_journal(backup);
        self.totals.note("journals_restored");
    }
}
