//! The true time, its hosts and its store, and a step of a run.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;
use std::sync::Arc;

use leafd_core::UnixMs;
use leafd_core::lease::Mode;

use crate::calls::Happening;
use crate::check::{Claim, Issue, Issued, Totals, Violation};
use crate::coverage::{LEASE, MONITOR, lease_state, monitor_state};
use crate::host::{CameThrough, Clocks, Daemon, Disk, Host, Journal, Moment, Outcome};
use crate::lease::LAYOUTS;
use crate::store::{Loss, OLD_PRIMARY, Store, TAGS};
use crate::tags::Segment;
use crate::{Break, Simulation};

/// When a run begins: in 2027.
const START_MS: u64 = 1_800_000_000_000;

/// From when on a store counts as away while a call is under way.
pub const ANSWER_MS: u64 = 1_000;

/// How far clocks may differ, and how far ids may run ahead of them.
pub const THRESHOLD_MS: u64 = 1_000;
pub const DRIFT_MS: u64 = 2_000;

/// A run.
pub struct World {
    pub sim: Simulation,
    pub random: fastrand::Rng,
    pub broken: Option<Break>,
    pub mode: Mode,
    pub pool: Range<u64>,
    pub hosts: Vec<Host>,
    pub store: Store,
    pub claims: Vec<Claim>,
    pub issued: [HashMap<u64, Issue>; TAGS],
    /// Runs of snowflake ids of each layout, by their first ids.
    pub stamped: [BTreeMap<u64, Issued>; LAYOUTS.len()],
    pub true_ms: u64,
    /// These servers don't answer until then.
    pub away_until_ms: Vec<u64>,
    /// Until then the network and the clocks are well.
    pub calm_until_ms: u64,
    /// Whether hosts lose their journals in this run, and whether their clocks are set wrong. Permanent workers can't
    /// have both.
    pub journals_go: bool,
    pub clocks_go: bool,
    /// The hosts reach the store through a pooler, which moves their connections to another server.
    pub pooler: bool,
    /// What the engines said about themselves so far.
    pub engines: BTreeSet<String>,
    /// When an operator declares the loss of what the former primary lacks.
    pub operator_at_ms: Option<u64>,
    pub totals: Totals,
    pub steps: u64,
    pub under_way: BTreeMap<(u64, u64), Happening>,
    serial: u64,
}

impl World {
    pub fn new(sim: Simulation, seed: u64, broken: Option<Break>) -> World {
        let mut random = fastrand::Rng::with_seed(seed);
        let leased = sim.has_tags || random.u8(..4) != 0;
        let one_history = sim.has_tags && random.u8(..5) == 0;
        let hosts = random.usize(2..=if sim.has_tags { 5 } else { 7 });
        let workers = match sim.has_tags {
            true => hosts as u64 + random.u64(..3),
            // Sometimes fewer than hosts.
            false => random.u64(if leased { 2..=8 } else { 8..=15 }),
        };
        let clocks_go = if leased { random.u8(..4) != 0 } else { random.bool() };
        let mut world = World {
            sim,
            broken,
            mode: if leased { Mode::Leased } else { Mode::Permanent },
            pool: 0..workers,
            hosts: Vec::new(),
            store: Store::new(&sim, one_history),
            claims: Vec::new(),
            issued: Default::default(),
            stamped: Default::default(),
            true_ms: START_MS,
            away_until_ms: vec![0; 3],
            calm_until_ms: START_MS + if sim.has_tags { 2_000 } else { 0 },
            journals_go: leased || !clocks_go,
            clocks_go,
            pooler: random.bool(),
            engines: BTreeSet::new(),
            operator_at_ms: None,
            totals: Totals::default(),
            steps: 0,
            under_way: BTreeMap::new(),
            serial: 0,
            random,
        };
        world.store.offset_ms = world.small_offset_ms();
        if one_history {
            world.totals.note("one_history_runs");
        }
        if sim.has_tags && world.pooler {
            world.totals.note("pooler_runs");
        }
        for _ in 0..hosts {
            let mut host = world.new_host();
            if sim.has_tags && world.random.u8(..4) == 0 {
                host.start_at_ms = START_MS + world.random.u64(..30_000);
                world.totals.note("late_starts");
            }
            world.hosts.push(host);
        }
        world
    }

    /// Runs all steps, then the recovery.
    pub fn run(&mut self) -> Result<(), Violation> {
        for _ in 0..self.sim.steps {
            self.mischief();
            self.step()?;
        }
        self.heal();
        let settled_ms = self.true_ms + self.sim.recovery_ms;
        while self.true_ms < settled_ms + self.sim.draw_ms {
            self.step()?;
        }
        self.check_all_draw(settled_ms)
    }

    pub fn elapsed_ms(&self) -> u64 {
        self.true_ms - START_MS
    }

    pub fn calm(&self) -> bool {
        self.true_ms < self.calm_until_ms
    }

    /// How many servers there are now.
    pub fn servers(&self) -> usize {
        match &self.store.old_side {
            _ if self.store.one_history => self.away_until_ms.len(),
            Some(_) => OLD_PRIMARY + 1,
            None => 1,
        }
    }

    pub fn number(&mut self) -> u64 {
        self.serial += 1;
        self.serial
    }

    pub fn new_name(&mut self) -> Arc<str> {
        format!("host-{}", self.number()).into()
    }

    /// A new host.
    pub fn new_host(&mut self) -> Host {
        let clocks = Clocks {
            offset_ms: self.small_offset_ms(),
            skew_ppm: self.random.i64(-200..=200),
            booted_ms: self.true_ms - self.random.u64(1..100_000),
            suspended_ms: 0,
        };
        let start_at_ms =
            self.true_ms + self.random.u64(..if self.sim.has_tags { 500 } else { 2_000 });
        let is_quiet = self.random.u8(..4) == 0;
        let quiet_ms = if is_quiet { self.random.u64(..self.sim.lease_ms) } else { 0 };
        Host {
            clocks,
            journal: Journal { host: self.new_name(), ..Journal::default() },
            start_at_ms,
            quiet_until_ms: start_at_ms + quiet_ms,
            unwell_ms: self.true_ms,
            draws_seldom: self.random.bool(),
            server: self.random.usize(..self.servers()),
            ..Host::default()
        }
    }

    fn small_offset_ms(&mut self) -> i64 {
        let most_ms = i64::try_from(THRESHOLD_MS / 4).unwrap();
        self.random.i64(-most_ms..=most_ms)
    }

    /// Something happens to a daemon that is not an answer.
    pub fn befalls(&mut self, host: usize, event: &'static str) {
        let Host { clocks, daemon, .. } = &self.hosts[host];
        let Some(daemon) = daemon else { return };
        let state = lease_state(&daemon.worker.lease, clocks.read(self.true_ms, self.broken));
        self.totals.pairs[LEASE].meet(state, event);
        if self.sim.has_tags && ["stop", "crash", "pause"].contains(&event) {
            self.totals.pairs[MONITOR].meet(monitor_state(&daemon.tags.monitor), event);
        }
    }

    fn step(&mut self) -> Result<(), Violation> {
        self.steps += 1;
        if self.operator_at_ms.is_some_and(|at_ms| at_ms <= self.true_ms) {
            self.operator_declares_a_loss();
        }
        if self.store.old_side.as_ref().is_some_and(|old| old.until_ms <= self.true_ms) {
            self.is_fenced();
        }
        let passed_ms = self.random.u64(1..=self.sim.step_ms_max);
        self.pass(passed_ms)?;
        if !self.sim.has_tags {
            let host = self.random.usize(..self.hosts.len());
            return self.host_goes_on(host);
        }
        self.note_unwell();
        (0..self.hosts.len()).try_for_each(|host| self.host_goes_on(host))
    }

    /// Time passes, and what falls due happens, each at its own instant, so that their order is known.
    pub fn pass(&mut self, passed_ms: u64) -> Result<(), Violation> {
        let until_ms = self.true_ms + passed_ms;
        while let Some(entry) = self.under_way.first_entry()
            && entry.key().0 <= until_ms
        {
            self.true_ms = entry.key().0.max(self.true_ms + 1);
            let happening = entry.remove();
            self.happen(happening)?;
        }
        self.true_ms = until_ms.max(self.true_ms + 1);
        Ok(())
    }

    /// A host serves the requests that wait, and then does what is possible now.
    pub fn host_goes_on(&mut self, index: usize) -> Result<(), Violation> {
        let Host { paused_until_ms, start_at_ms, disk_fails_until_ms, daemon, .. } =
            &self.hosts[index];
        if *paused_until_ms > self.true_ms {
            return Ok(());
        }
        if daemon.is_none() {
            // A start that the journal can't record is refused, and tried again.
            if *start_at_ms > self.true_ms || *disk_fails_until_ms > self.true_ms {
                return Ok(());
            }
            let (life, moment) = (self.number(), self.moment(index));
            self.hosts[index].start(life, (self.mode, self.pool.clone()), moment);
            self.totals.note("starts");
        }
        if self.sim.has_tags {
            self.draw_of_tags(index)?;
        }
        self.draw_snowflakes(index)?;
        self.hosts[index].ran_at_ms = self.true_ms;
        self.drive(index)
    }

    fn draw_of_tags(&mut self, index: usize) -> Result<(), Violation> {
        let now = self.hosts[index].clocks.read(self.true_ms, self.broken);
        for tag in 0..TAGS {
            let Host { draws_seldom, ran_at_ms, .. } = self.hosts[index];
            let draws = match ran_at_ms + ANSWER_MS > self.true_ms {
                // Requests have waited meanwhile.
                false => self.random.u8(1..4),
                true if draws_seldom => u8::from(self.random.u8(..20) == 0),
                true => self.random.u8(..3),
            };
            for _ in 0..draws {
                let Some(daemon) = &mut self.hosts[index].daemon else { break };
                let Some(drawn) = daemon.draw(tag, now.boot, self.broken) else { break };
                self.check_issue(index, tag, drawn)?;
            }
        }
        Ok(())
    }

    fn draw_snowflakes(&mut self, index: usize) -> Result<(), Violation> {
        if self.hosts[index].quiet_until_ms > self.true_ms {
            return Ok(());
        }
        let now = self.hosts[index].clocks.read(self.true_ms, self.broken);
        for _ in 0..self.random.u8(..if self.sim.has_tags { 2 } else { 4 }) {
            let layout = self.random.usize(..LAYOUTS.len());
            let count = if self.random.u8(..40) == 0 { 300 } else { self.random.u32(1..=3) };
            let random = self.random.u64(..);
            let fault_ignored = self.broken == Some(Break::FaultIgnored);
            let Some(daemon) = &mut self.hosts[index].daemon else { break };
            if daemon.fails() && !fault_ignored {
                break;
            }
            daemon.worker.lease.want();
            if let Some(run) = daemon.worker.draw(layout, now, count, random) {
                self.check_run(index, layout, run)?;
            }
        }
        Ok(())
    }

    /// The daemon takes its next steps, and sends its next calls.
    pub fn drive(&mut self, index: usize) -> Result<(), Violation> {
        let moment = self.moment(index);
        let off_ms = match self.hosts[index].go_on(moment) {
            Outcome::Goes => return self.set_out(index),
            Outcome::Ends => self.random.u64(..2 * self.sim.grace_ms),
            Outcome::EndsInexactly => self.random.u64(..self.sim.grace_ms),
        };
        self.ends(index);
        self.hosts[index].start_at_ms = self.true_ms + off_ms;
        // When it starts again, another host may have the worker that the journal has.
        if !self.calm() && self.random.u8(..4) == 0 {
            self.cut_off(index);
        }
        Ok(())
    }

    /// A stop ends. If the journal fails meanwhile, its exact marks may be on the disk, or nothing is since it failed.
    fn ends(&mut self, index: usize) {
        let host = &mut self.hosts[index];
        if !host.fails(self.true_ms) {
            return host.end();
        }
        let has_writes = host.daemon.as_ref().is_some_and(Daemon::has_writes);
        match host.disk(self.true_ms) {
            // The last commit failed after it was written.
            Disk::FailsLate if !has_writes => host.end(),
            _ => host.crash(CameThrough::default(), self.broken),
        }
        self.totals.note("inexact_stops");
    }

    /// What a daemon goes by now, and how long its disk takes.
    pub fn moment(&mut self, host: usize) -> Moment {
        let slow = self.random.u8(..20) == 0;
        let sync_ms = self.random.u64(..if slow { self.sim.sync_ms } else { 20 });
        let hangs_until_ms = self.hosts.get(host).map_or(0, |host| host.disk_hangs_until_ms);
        Moment {
            sim: self.sim,
            broken: self.broken,
            true_ms: self.true_ms,
            disk: self.hosts.get(host).map_or(Disk::Works, |host| host.disk(self.true_ms)),
            acknowledges: true,
            sync_ms: sync_ms.max(hangs_until_ms.saturating_sub(self.true_ms)),
            random: self.random.u64(..),
        }
    }

    /// The store loses commits. Returns a host that holds numbers or a worker of a claim that it has lost.
    pub fn lose(&mut self, kind: Loss, lag_ms: u64) -> Option<usize> {
        self.true_ms += 1;
        self.store.lose(kind, self.true_ms, lag_ms, self.broken);
        let is_there = |commit| self.store.includes(self.store.data.commit, commit);
        let is_lost = |held: &Segment| !is_there(self.claims[held.claim].granted.commit);
        let workers = &self.store.data.workers;
        let has_lost = |host: &Host| {
            let Some(daemon) = &host.daemon else { return false };
            let holder = &daemon.worker.lease.settings.holder.id;
            let is_its = |worker: u64| {
                let holder_now = workers.get(&worker).and_then(|one| one.holding.holder.as_ref());
                holder_now.is_some_and(|now| now.id == *holder)
            };
            let held = daemon.worker.lease.held();
            let is_held = held.is_some_and(|(_, until)| until > UnixMs(self.true_ms));
            daemon.tags.held.iter().any(is_lost)
                || is_held && held.is_some_and(|(worker, _)| !is_its(worker.0))
        };
        self.hosts.iter().position(has_lost)
    }

    pub fn operator_declares_a_loss(&mut self) {
        if self.operator_at_ms.take().is_some() {
            self.store.declare_loss(self.true_ms);
            self.totals.note("declared");
        }
    }
}
