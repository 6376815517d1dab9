//! The true time, its hosts and its registry, and the calls under way between them.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use leafd_core::lease::{LeaseSettings, Mode, Request, Response};
use leafd_core::registry::{Holder, RegistryError};
use leafd_core::store::StartToken;

use crate::breaks::Break;
use crate::check::{Totals, Violation};
use crate::coverage::{event_of, state_of};
use crate::host::{Clocks, Daemon, Host, Journal, LAYOUTS, Outcome};
use crate::registry::Registry;

/// When a run begins: in 2027.
const START_MS: u64 = 1_800_000_000_000;

/// The longest time between two steps.
const STEP_MS_MAX: u64 = 40;

/// How long a daemon waits for an answer.
const TIMEOUT_MS: u64 = 3_000;

/// The settings of runs in which things go wrong: short ones, so that much happens.
pub const LEASE_MS: u64 = 20_000;
pub const SETTLE_MS: u64 = 10_000;
pub const THRESHOLD_MS: u64 = 1_000;
pub const DRIFT_MS: u64 = 2_000;
pub const GRACE_MS: u64 = 5_000;

/// A run.
pub struct World {
    pub random: fastrand::Rng,
    pub broken: Option<Break>,
    pub mode: Mode,
    pub pool: Range<u64>,
    pub lease_ms: u64,
    pub grace_ms: u64,
    pub hosts: Vec<Host>,
    pub registry: Registry,
    pub true_ms: u64,
    /// No host reaches the registry until then.
    pub away_until_ms: u64,
    /// Until then the network and the clocks are well.
    pub calm_until_ms: u64,
    /// Whether hosts lose their journals in this run; otherwise their clocks are set wrong. Permanent workers
    /// can't have both.
    pub journals_go: bool,
    pub clocks_go: bool,
    pub ids: [HashSet<u64>; LAYOUTS.len()],
    pub totals: Totals,
    under_way: BTreeMap<(u64, u64), Event>,
    steps: u64,
    serial: u64,
}

/// Something that happens at its time.
enum Event {
    Arrives { to: Caller, ask: Request, answer_ms: Option<u64> },
    Answers { to: Caller, answer: Response },
    TimesOut { to: Caller, ask: Request },
}

/// The caller, and the call's number.
#[derive(Clone, Copy)]
struct Caller {
    life: u64,
    call: u64,
}

impl World {
    pub fn new(seed: u64, broken: Option<Break>) -> World {
        let mut random = fastrand::Rng::with_seed(seed);
        let mode = if random.u8(..4) == 0 { Mode::Permanent } else { Mode::Leased };
        let leased = mode == Mode::Leased;
        let hosts = random.usize(2..=7);
        // Sometimes fewer workers than hosts.
        let workers = random.u64(if leased { 2..=8 } else { 8..=15 });
        let (journals_go, clocks_go) = if leased {
            (true, random.u8(..4) != 0)
        } else {
            let clocks = random.bool();
            (!clocks, clocks)
        };
        let mut world = World {
            random,
            broken,
            mode,
            pool: 0..workers,
            lease_ms: LEASE_MS,
            grace_ms: GRACE_MS,
            hosts: Vec::new(),
            registry: Registry::new(broken),
            true_ms: START_MS,
            away_until_ms: 0,
            calm_until_ms: 0,
            journals_go,
            clocks_go,
            ids: Default::default(),
            totals: Totals::default(),
            under_way: BTreeMap::new(),
            steps: 0,
            serial: 0,
        };
        let offset_ms = i64::try_from(THRESHOLD_MS / 4).unwrap();
        world.registry.offset_ms = world.random.i64(-offset_ms..=offset_ms);
        for _ in 0..hosts {
            let host = world.new_host();
            world.hosts.push(host);
        }
        world
    }

    /// Runs this many steps, then the recovery.
    pub fn run(&mut self, steps: u64) -> Result<(), Violation> {
        for _ in 0..steps {
            self.mischief();
            self.step()?;
        }
        self.heal();
        let healed_ms = self.true_ms;
        // Everything that was claimed runs out, the last fail-over settles, and the clocks catch up with the ids.
        let enough_ms = 3 * LEASE_MS + SETTLE_MS;
        while self.true_ms < healed_ms + enough_ms {
            self.step()?;
        }
        let settled_ms = self.true_ms;
        while self.true_ms < settled_ms + 2 * LEASE_MS {
            self.step()?;
        }
        self.check_all_draw(settled_ms)
    }

    pub fn steps(&self) -> u64 {
        self.steps
    }

    pub fn elapsed_ms(&self) -> u64 {
        self.true_ms - START_MS
    }

    pub fn totals(&self) -> Totals {
        self.totals.clone()
    }

    pub fn calm(&self) -> bool {
        self.true_ms < self.calm_until_ms
    }

    pub fn number(&mut self) -> u64 {
        self.serial += 1;
        self.serial
    }

    /// A new host.
    pub fn new_host(&mut self) -> Host {
        let name = format!("host-{}", self.number());
        let offset_ms = i64::try_from(THRESHOLD_MS / 4).unwrap();
        let clocks = Clocks {
            offset_ms: self.random.i64(-offset_ms..=offset_ms),
            skew_ppm: self.random.i64(-200..=200),
            booted_ms: self.true_ms - self.random.u64(..10_000),
        };
        Host {
            clocks,
            journal: Journal::new(name.into()),
            backup: None,
            daemon: None,
            cut_off_until_ms: 0,
            paused_until_ms: 0,
            start_at_ms: self.true_ms + self.random.u64(..2_000),
            highest: [0; LAYOUTS.len()],
            drew_at_ms: 0,
            calls_ms: VecDeque::new(),
        }
    }

    fn step(&mut self) -> Result<(), Violation> {
        self.steps += 1;
        let passed_ms = self.random.u64(..=STEP_MS_MAX);
        self.pass(passed_ms);
        let host = self.random.usize(..self.hosts.len());
        self.host_goes_on(host)
    }

    /// Time passes, and the events that fall due happen.
    pub fn pass(&mut self, passed_ms: u64) {
        self.true_ms += passed_ms;
        while let Some(entry) = self.under_way.first_entry()
            && entry.key().0 <= self.true_ms
        {
            let event = entry.remove();
            self.happen(event);
        }
    }

    /// A host does what is possible now, and draws ids.
    pub fn host_goes_on(&mut self, index: usize) -> Result<(), Violation> {
        let (true_ms, broken) = (self.true_ms, self.broken);
        let sync_ms = if self.random.u8(..20) == 0 { 500 } else { self.random.u64(..20) };
        let random = self.random.u64(..);
        if self.hosts[index].paused_until_ms > true_ms {
            return Ok(());
        }
        if self.hosts[index].daemon.is_none() {
            if self.hosts[index].start_at_ms > true_ms {
                return Ok(());
            }
            self.start(index);
        }
        let host = &mut self.hosts[index];
        let now = host.clocks.read(true_ms);
        let Some(daemon) = &mut host.daemon else { return Ok(()) };
        let life = daemon.life;
        daemon.lease.want();
        match daemon.go_on(&mut host.journal, true_ms, now, sync_ms, random, broken) {
            Outcome::Goes => {}
            Outcome::Asks(ask) => {
                self.check_rate(index)?;
                self.call(index, life, ask);
            }
            Outcome::Ends => {
                if let Some(daemon) = self.hosts[index].daemon.take() {
                    daemon.end(&mut self.hosts[index].journal);
                }
                self.hosts[index].start_at_ms = true_ms + self.random.u64(..2 * GRACE_MS);
                // By then another host may have the worker that the journal has.
                if !self.calm() && self.random.u8(..4) == 0 {
                    self.cut_off(index);
                }
                return Ok(());
            }
        }
        for _ in 0..self.random.u8(..4) {
            let layout = self.random.usize(..LAYOUTS.len());
            let count = if self.random.u8(..40) == 0 { 300 } else { self.random.u32(1..=3) };
            let random = self.random.u64(..);
            let Some(daemon) = &mut self.hosts[index].daemon else { break };
            if let Some(run) = daemon.draw(layout, now, count, random) {
                self.check_run(index, layout, run)?;
            }
        }
        Ok(())
    }

    fn start(&mut self, index: usize) {
        let life = self.number();
        let host = &mut self.hosts[index];
        let holder = Holder {
            id: Arc::clone(&host.journal.host),
            name: Arc::clone(&host.journal.host),
            incarnation: StartToken(format!("life-{life}").into()),
        };
        let settings = LeaseSettings {
            mode: self.mode,
            pool: self.pool.clone(),
            holder,
            named: false,
            place: "simulated".into(),
            embedded: false,
            lease_ms: self.lease_ms,
            restart_grace_ms: self.grace_ms,
            clock_threshold_ms: THRESHOLD_MS,
            drift_max_ms: DRIFT_MS,
            settle_ms: Some(SETTLE_MS),
        };
        let now = host.clocks.read(self.true_ms);
        host.daemon = Some(Daemon::start(life, settings, &host.journal, now, self.broken));
        self.totals.starts += 1;
    }

    /// The state of a host's lease, if its daemon runs.
    pub fn state_of(&self, host: usize) -> Option<&'static str> {
        let Host { clocks, daemon, .. } = &self.hosts[host];
        daemon.as_ref().map(|daemon| state_of(&daemon.lease, clocks.read(self.true_ms)))
    }

    /// A command reaches a daemon, or its end.
    pub fn commanded(&mut self, host: usize, event: &'static str) {
        if let Some(state) = self.state_of(host) {
            self.totals.pairs.meet(state, event);
        }
    }

    /// Sends a call to the registry.
    fn call(&mut self, host: usize, life: u64, ask: Request) {
        let call = self.number();
        let Some(daemon) = &mut self.hosts[host].daemon else { return };
        daemon.call = Some(call);
        let to = Caller { life, call };
        let calm = self.calm();
        let mut arrives_ms = Some(self.random.u64(1..=30));
        let mut answer_ms = Some(self.random.u64(1..=30));
        if !calm {
            match self.random.u8(..100) {
                0..3 => arrives_ms = None,
                3..6 => {
                    answer_ms = None;
                    self.totals.answers_lost += 1;
                }
                6..9 => {
                    // Its caller has given up by then, and may have crashed or written again.
                    arrives_ms = Some(self.random.u64(TIMEOUT_MS..TIMEOUT_MS + LEASE_MS));
                    self.totals.late_calls += 1;
                }
                9..12 => answer_ms = Some(self.random.u64(100..TIMEOUT_MS)),
                _ => {}
            }
        }
        if let Some(arrives_ms) = arrives_ms {
            self.at(arrives_ms, Event::Arrives { to, ask: ask.clone(), answer_ms });
        }
        self.at(TIMEOUT_MS, Event::TimesOut { to, ask });
    }

    fn at(&mut self, in_ms: u64, event: Event) {
        let number = self.number();
        self.under_way.insert((self.true_ms + in_ms, number), event);
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Arrives { to, .. } if self.is_cut_off(to.life) => {}
            Event::Arrives { to, ask, answer_ms } => {
                if self.away_until_ms > self.true_ms {
                    // Lost, or delayed until the registry is back.
                    if self.random.u8(..3) == 0 {
                        let in_ms = self.away_until_ms - self.true_ms + self.random.u64(..100);
                        self.at(in_ms, Event::Arrives { to, ask, answer_ms: None });
                    }
                    return;
                }
                let answer = self.carry_out(ask);
                if let Some(answer_ms) = answer_ms {
                    self.at(answer_ms, Event::Answers { to, answer });
                }
            }
            Event::Answers { to, answer } => self.deliver(to, answer),
            Event::TimesOut { to, ask } => {
                let away = RegistryError::Unavailable {
                    registry: "simulated".to_owned(),
                    cause: "it did not answer in time".into(),
                };
                let answer = match ask {
                    Request::Snapshot(_) => Response::Snapshot(Err(away)),
                    Request::CompareAndSet(..) if self.broken == Some(Break::SilenceIsConsent) => {
                        Response::CompareAndSet(Ok(self.registry.clock(self.true_ms)))
                    }
                    Request::CompareAndSet(..) => Response::CompareAndSet(Err(away)),
                    Request::Assign(..) => Response::Assign(Err(away)),
                    Request::Record(_) => unreachable!("the daemon's journal records it"),
                };
                self.deliver(to, answer);
            }
        }
    }

    fn is_cut_off(&self, life: u64) -> bool {
        let lives = |host: &&Host| host.daemon.as_ref().is_some_and(|daemon| daemon.life == life);
        self.hosts.iter().find(lives).is_some_and(|host| host.cut_off_until_ms > self.true_ms)
    }

    fn carry_out(&mut self, ask: Request) -> Response {
        let true_ms = self.true_ms;
        match ask {
            Request::Snapshot(pool) => {
                Response::Snapshot(Ok(self.registry.snapshot(true_ms, pool)))
            }
            Request::CompareAndSet(under, swap) => {
                Response::CompareAndSet(self.registry.compare_and_set(true_ms, &under, &swap))
            }
            Request::Assign(under, pool, holding) => {
                Response::Assign(self.registry.assign(true_ms, &under, pool, &holding))
            }
            Request::Record(_) => unreachable!("the daemon's journal records it"),
        }
    }

    fn deliver(&mut self, to: Caller, answer: Response) {
        let random = self.random.u64(..);
        let calls = |host: &&mut Host| {
            let daemon = host.daemon.as_ref();
            daemon.is_some_and(|daemon| (daemon.life, daemon.call) == (to.life, Some(to.call)))
        };
        let Some(host) = self.hosts.iter_mut().find(calls) else { return };
        let Some(daemon) = &mut host.daemon else { return };
        if host.paused_until_ms > self.true_ms {
            // It is read when the daemon resumes.
            let in_ms = host.paused_until_ms - self.true_ms;
            return self.at(in_ms, Event::Answers { to, answer });
        }
        let now = host.clocks.read(self.true_ms);
        self.totals.pairs.meet(state_of(&daemon.lease, now), event_of(&answer));
        daemon.answered(now, answer, random);
    }
}
