//! The true time, its hosts and its store, and the calls under way between them.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use std::rc::Rc;

use leafd_core::store::StoreError;
use leafd_core::upstream::{Request, Response};

use crate::breaks::Break;
use crate::check::{Claim, Issue, Totals, Violation};
use crate::coverage::{event_of, state_of};
use crate::host::{Daemon, Host, Journal, Segment};
use crate::store::{Answer, Call, From, Loss, Store, TAGS, Told, life_of};

/// When a run begins.
const START_MS: u64 = 1_000_000;

/// The longest time between two steps.
const STEP_MS_MAX: u64 = 30;

/// All daemons' settings: short ones, so that much happens.
pub const SETTLE_MS: u64 = 2_000;
pub const PROBE_MS: u64 = SETTLE_MS / 4;

/// How long a daemon waits for an answer: longer than a store settles.
pub const TIMEOUT_MS: u64 = 5_000;

/// From when on a store counts as away while a call is under way.
pub const ANSWER_MS: u64 = 1_000;

/// A run.
pub struct World {
    pub random: fastrand::Rng,
    pub broken: Option<Break>,
    pub hosts: Vec<Host>,
    pub store: Store,
    pub claims: Vec<Claim>,
    pub issued: [HashMap<u64, Issue>; TAGS],
    pub true_ms: u64,
    /// These servers don't answer until then.
    pub away_until_ms: Vec<u64>,
    /// Nothing goes wrong until then.
    pub calm_until_ms: u64,
    pub totals: Totals,
    /// The hosts reach the store through a pooler, which moves their connections to another server.
    pub pooler: bool,
    /// What the engines said about themselves so far.
    pub engines: BTreeSet<String>,
    /// When an operator declares the loss of what the former primary lacks.
    pub operator_at_ms: Option<u64>,
    under_way: BTreeMap<(u64, u64), Happening>,
    pub serial: u64,
    pub steps: u64,
}

/// Something that happens at its time.
enum Happening {
    Arrives {
        to: Caller,
        call: Call,
        answer_ms: Option<u64>,
    },
    /// An answer: when it was given, and to which call.
    Answers {
        to: Caller,
        at_ms: u64,
        call: Call,
        answer: Answer,
        /// The number of the write that the call made.
        wrote: Option<u64>,
    },
    TimesOut {
        to: Caller,
        call: Call,
    },
}

/// The caller, its server and the call's number.
#[derive(Clone, Copy)]
struct Caller {
    host: usize,
    name: usize,
    server: usize,
    life: u64,
    line: usize,
    call: u64,
}

impl World {
    pub fn new(seed: u64, broken: Option<Break>) -> World {
        let mut random = fastrand::Rng::with_seed(seed);
        let one_history = random.u8(..5) == 0;
        let servers = if one_history { 3 } else { 1 };
        let hosts = random.usize(2..=5);
        let pooler = random.bool();
        let mut world = World {
            random,
            broken,
            hosts: Vec::new(),
            store: Store::new(one_history),
            claims: Vec::new(),
            issued: Default::default(),
            true_ms: START_MS,
            away_until_ms: vec![0; servers],
            calm_until_ms: START_MS + 2_000,
            totals: Totals::default(),
            pooler,
            engines: BTreeSet::new(),
            operator_at_ms: None,
            under_way: BTreeMap::new(),
            serial: 0,
            steps: 0,
        };
        for index in 0..hosts {
            let is_late = world.random.u8(..4) == 0;
            world.totals.late_starts += u64::from(is_late);
            let draws_seldom = world.random.bool();
            let start_ms = world.random.u64(..if is_late { 30_000 } else { 500 });
            let host = Host {
                booted_ms: START_MS - world.random.u64(1..100_000),
                skew_ppm: world.random.i64(-200..=200),
                suspended_ms: 0,
                draws_seldom,
                ran_at_ms: 0,
                journal: Journal { host: index, ..Journal::default() },
                backup: None,
                daemon: None,
                paused_until_ms: 0,
                cut_off_until_ms: 0,
                start_at_ms: START_MS + start_ms,
                server: index % servers,
                engine: None,
                kept: None,
                left: BTreeSet::new(),
                drew_at_ms: [0; TAGS],
            };
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
        // The last call times out, the last loss is noticed, and the store settles.
        let healed_ms = self.true_ms;
        while self.true_ms < healed_ms + TIMEOUT_MS + 3 * SETTLE_MS {
            self.step()?;
        }
        let settled_ms = self.true_ms;
        while self.true_ms < settled_ms + 2 * SETTLE_MS {
            self.step()?;
        }
        self.check_all_draw(settled_ms)
    }

    /// Something happens to a daemon that is not an answer.
    pub fn befalls(&mut self, host: usize, event: &'static str) {
        if let Some(daemon) = &self.hosts[host].daemon {
            self.totals.pairs.meet(state_of(&daemon.monitor), event);
        }
    }

    pub fn calm(&self) -> bool {
        self.true_ms < self.calm_until_ms
    }

    fn number(&mut self) -> u64 {
        self.serial += 1;
        self.serial
    }

    fn step(&mut self) -> Result<(), Violation> {
        self.steps += 1;
        let until_ms = self.true_ms + self.random.u64(1..=STEP_MS_MAX);
        if self.operator_at_ms.is_some_and(|at_ms| at_ms <= self.true_ms) {
            self.operator_declares_a_loss();
        }
        // Each at its own instant, so that their order is known.
        while let Some(entry) = self.under_way.first_entry()
            && entry.key().0 <= until_ms
        {
            self.true_ms = entry.key().0.max(self.true_ms + 1);
            let happening = entry.remove();
            self.happen(happening)?;
        }
        self.true_ms = until_ms.max(self.true_ms + 1);
        for host in 0..self.hosts.len() {
            self.host_goes_on(host)?;
        }
        Ok(())
    }

    fn host_goes_on(&mut self, index: usize) -> Result<(), Violation> {
        let (true_ms, broken) = (self.true_ms, self.broken);
        if self.hosts[index].paused_until_ms > true_ms {
            return Ok(());
        }
        if self.hosts[index].daemon.is_none() {
            if self.hosts[index].start_at_ms > true_ms {
                return Ok(());
            }
            let life = self.number();
            self.hosts[index].start(life, true_ms, broken);
            self.hosts[index].ran_at_ms = true_ms;
            self.totals.starts += 1;
        }
        let now = self.hosts[index].now(true_ms, broken);
        // After a pause, a host serves the waiting requests before anything else.
        for tag in 0..TAGS {
            let Host { draws_seldom, ran_at_ms, .. } = self.hosts[index];
            let draws = match ran_at_ms + ANSWER_MS > true_ms {
                false => self.random.u8(1..4),
                true if draws_seldom => u8::from(self.random.u8(..20) == 0),
                true => self.random.u8(..3),
            };
            for _ in 0..draws {
                let Some(daemon) = &mut self.hosts[index].daemon else { break };
                let Some(drawn) = daemon.draw(tag, now, broken) else { break };
                self.check_issue(index, tag, drawn)?;
            }
        }
        self.hosts[index].ran_at_ms = true_ms;
        let slow = self.random.u8(..20) == 0;
        let sync_ms = self.random.u64(..if slow { 400 } else { 20 });
        let random = self.random.u64(..);
        self.hosts[index].go_on(true_ms, sync_ms, random, broken);
        self.set_out(index)
    }

    /// Sends the next calls: the monitor's one by one, and claims in parallel.
    fn set_out(&mut self, host: usize) -> Result<(), Violation> {
        for line in 0..2 {
            let number = self.number();
            let Host { journal: Journal { host: name, .. }, server, .. } = self.hosts[host];
            let Host { daemon: Some(daemon), left, .. } = &mut self.hosts[host] else { break };
            if daemon.call[line].is_some() {
                continue;
            }
            let Some(call) = daemon.calls[line].pop_front() else { continue };
            // One that waited while the history changed is refused, or its answer doesn't count.
            if let Call::Claim(_, under) = &call
                && left.contains(&*under.history.0)
                && daemon.monitor.claimable() == Some(under)
            {
                let why = "the host had seen this history end";
                return Err(Violation::Granted { host, why });
            }
            daemon.call[line] = Some(number);
            daemon.called_ms[line] = self.true_ms;
            let to = Caller { host, name, server, life: daemon.life, line, call: number };
            self.send(to, call);
        }
        Ok(())
    }

    fn send(&mut self, to: Caller, call: Call) {
        let mut arrives_ms = Some(self.random.u64(1..=20));
        let mut answer_ms = Some(self.random.u64(1..=20));
        if !self.calm() {
            match self.random.u8(..100) {
                0..2 => arrives_ms = None,
                2..4 => answer_ms = None,
                4..6 => {
                    // Its caller has given up by then.
                    arrives_ms = Some(self.random.u64(TIMEOUT_MS..3 * TIMEOUT_MS));
                    self.totals.late_calls += 1;
                }
                6..12 => {
                    answer_ms = Some(self.random.u64(100..TIMEOUT_MS));
                    self.totals.late_answers += 1;
                }
                _ => {}
            }
        }
        if let Some(arrives_ms) = arrives_ms {
            self.at(arrives_ms, Happening::Arrives { to, call: call.clone(), answer_ms });
        }
        self.at(TIMEOUT_MS, Happening::TimesOut { to, call });
    }

    fn at(&mut self, in_ms: u64, happening: Happening) {
        let number = self.number();
        self.under_way.insert((self.true_ms + in_ms, number), happening);
    }

    fn happen(&mut self, happening: Happening) -> Result<(), Violation> {
        match happening {
            Happening::Arrives { to, call, answer_ms } => {
                let cut_off_until_ms = self.hosts[to.host].cut_off_until_ms;
                if self.away_until_ms[to.server].max(cut_off_until_ms) > self.true_ms {
                    return Ok(());
                }
                self.store.wrote = None;
                let answer = self.carry_out(to, call.clone())?;
                if let Some(answer_ms) = answer_ms {
                    let (at_ms, wrote) = (self.true_ms, self.store.wrote);
                    let answers = Happening::Answers { to, at_ms, call, answer, wrote };
                    self.at(answer_ms, answers);
                }
                Ok(())
            }
            Happening::Answers { to, at_ms, call, answer, wrote } => {
                self.deliver(to, at_ms, call, answer, wrote)
            }
            Happening::TimesOut { to, call } => {
                let away = StoreError::Unavailable {
                    store: "simulated".to_owned(),
                    cause: "it did not answer in time".into(),
                };
                let answer = match &call {
                    Call::Claim(..) => Answer::Claim(Err(away)),
                    Call::Monitor(request, _) => Answer::Monitor(Some(match request {
                        Request::CheckIn(_) => Response::CheckIn(Err(away)),
                        Request::IsSettled(_) => Response::IsSettled(Err(away)),
                        Request::PushHighWater(_) => Response::PushHighWater(Err(away)),
                        Request::Renew(..) => Response::Renew(Err(away)),
                        _ => Response::Identity(Err(away)),
                    })),
                };
                let at_ms = self.true_ms;
                self.deliver(to, at_ms, call, answer, None)
            }
        }
    }

    /// The store carries out a call. Its caller may be gone by now.
    fn carry_out(&mut self, to: Caller, call: Call) -> Result<Answer, Violation> {
        let (true_ms, broken) = (self.true_ms, self.broken);
        if matches!(call, Call::Monitor(Request::Identity, _))
            && !self.calm()
            && self.random.u8(..25) == 0
            && let Some(daemon) = &self.hosts[to.host].daemon
            && let Some(old) = self.store.old_primary(&daemon.monitor)
        {
            self.totals.old_answers += 1;
            return Ok(Answer::Monitor(Some(Response::Identity(Ok(old)))));
        }
        let engine = self.store.engine(to.server, broken);
        let host = &mut self.hosts[to.host];
        let told = host.engine.get_or_insert(engine).clone();
        let composed = self.pooler && broken == Some(Break::EngineAskedOnce);
        // A call that its caller has given up proves nothing: between its statements nobody decides any more.
        let waits =
            |daemon: &&mut Daemon| (daemon.life, daemon.call[to.line]) == (to.life, Some(to.call));
        let daemon = host.daemon.as_mut().filter(waits);
        let is_awaited = daemon.is_some();
        let starts = daemon.as_ref().map_or(Vec::new(), |daemon| daemon.starts.clone());
        let from = From {
            host: to.name,
            index: to.host,
            life: to.life,
            starts,
            server: to.server,
            proof: daemon.map(|daemon| &mut daemon.proof),
            engine: composed.then_some(told),
        };
        Ok(match call {
            Call::Claim(tag, under) => {
                let claimed = self.store.claim(true_ms, from, tag, &under, broken);
                if let Ok(granted) = &claimed
                    && is_awaited
                    && let Some((of, commit)) = &host.kept
                    && *of == granted.life
                    && !granted.saw.contains(commit)
                {
                    let why = "its own last write was gone";
                    return Err(Violation::Granted { host: to.host, why });
                }
                Answer::Claim(claimed.map(|granted| {
                    let start = granted.start;
                    self.claims.push(Claim { at_ms: true_ms, granted });
                    (start, self.claims.len() - 1)
                }))
            }
            Call::Monitor(request, told) => {
                Answer::Monitor(self.store.answer(true_ms, from, request, told, broken))
            }
        })
    }

    fn deliver(
        &mut self,
        to: Caller,
        at_ms: u64,
        call: Call,
        answer: Answer,
        wrote: Option<u64>,
    ) -> Result<(), Violation> {
        let (true_ms, broken) = (self.true_ms, self.broken);
        let random = self.random.u64(..);
        let servers = self.away_until_ms.len();
        let elsewhere = self.random.usize(..servers);
        let slow = self.random.u8(..20) == 0;
        let sync_ms = self.random.u64(..if slow { 1_500 } else { 30 });
        let pooler = self.pooler;
        let host = &mut self.hosts[to.host];
        let paused_until_ms = host.paused_until_ms;
        let now = host.now(true_ms, broken);
        let Some(daemon) = &mut host.daemon else { return Ok(()) };
        if (daemon.life, daemon.call[to.line]) != (to.life, Some(to.call)) {
            return Ok(());
        }
        if paused_until_ms > true_ms {
            // It is read when the daemon resumes.
            let answers = Happening::Answers { to, at_ms, call, answer, wrote };
            self.at(paused_until_ms - true_ms, answers);
            return Ok(());
        }
        self.totals.pairs.meet(state_of(&daemon.monitor), event_of(&answer));
        daemon.call[to.line] = None;
        if let Some(number) = wrote {
            daemon.proof.confirm(number);
        }
        let failed = matches!(
            &answer,
            Answer::Claim(Err(StoreError::Unavailable { .. }))
                | Answer::Monitor(Some(Response::Identity(Err(_))))
        );
        match (answer, call) {
            (Answer::Monitor(None), Call::Monitor(request, _)) => {
                self.totals.found_out += 1;
                self.serial += 1;
                let name = usize::try_from(self.serial).unwrap();
                daemon.begins_anew(name, &mut host.journal, broken);
                daemon.calls[0].push_front(Call::Monitor(request, Told::default()));
            }
            (Answer::Monitor(Some(response)), call) => {
                if let Response::Identity(Ok(found)) = &response {
                    if daemon.monitor.claimable() == Some(found) && !daemon.is_anew {
                        host.journal.written = daemon.proof.confirmed(&found.history);
                        host.journal.kept.clone_from(&host.kept);
                    }
                    let noted = self.store.lives.get(&life_of(&found.history));
                    let others_claim_ms = noted.map_or(0, |life| life.noted_ms + SETTLE_MS + 5);
                    daemon.sees(true_ms, true_ms.max(others_claim_ms), &found.history);
                    let former = daemon.monitor.known_history();
                    let is_former = former.is_some_and(|known| found.history.is_former_of(known));
                    if broken == Some(Break::FormerHistoriesForgotten) && is_former {
                        host.crash();
                        host.journal.history = None;
                        host.start_at_ms = true_ms;
                        return Ok(());
                    }
                }
                let response = match (response, call) {
                    (Response::CheckIn(Ok(_)), _) => {
                        Response::CheckIn(Ok(host.journal.history.clone()))
                    }
                    (
                        response @ Response::IsSettled(Ok(_)),
                        Call::Monitor(Request::IsSettled(of), _),
                    ) => {
                        daemon.is_told(true_ms, &of.history);
                        response
                    }
                    (response, _) => response,
                };
                if let Some(daemon) = &mut host.daemon {
                    daemon.answered(now, response, random, broken);
                }
            }
            (Answer::Claim(claim), Call::Claim(tag, under)) => {
                let used = daemon.claimed(true_ms, now, sync_ms, tag, &under, claim, broken);
                if let Some(claim) = used {
                    self.check_granted(to.host, claim)?;
                    let granted = &self.claims[claim].granted;
                    self.hosts[to.host].kept = Some((Rc::clone(&granted.life), granted.commit));
                }
            }
            _ => panic!("this answers no such call"),
        }
        let host = &mut self.hosts[to.host];
        // The driver takes its next steps before anything else runs.
        host.go_on(true_ms, sync_ms, random, broken);
        if failed {
            // Try another server.
            host.server = elsewhere;
        }
        if failed || !pooler {
            host.engine = None;
        }
        Ok(())
    }

    /// The store loses commits. Returns a host that holds numbers of a claim that it has lost.
    pub fn lose(&mut self, kind: Loss, lag_ms: u64) -> Option<usize> {
        self.true_ms += 1;
        self.store.lose(kind, self.true_ms, lag_ms);
        let is_lost = |held: &Segment| {
            !self.store.data.commits.contains(&self.claims[held.claim].granted.commit)
        };
        let mut daemons = self.hosts.iter().map(|host| host.daemon.as_ref());
        daemons.position(|daemon| daemon.is_some_and(|daemon| daemon.held.iter().any(is_lost)))
    }

    pub fn operator_declares_a_loss(&mut self) {
        if self.operator_at_ms.take().is_some() {
            self.store.declare_loss(self.true_ms);
            self.totals.declared += 1;
        }
    }
}
