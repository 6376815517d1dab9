//! The calls of the store: on their way, carried out, and answered.

use std::rc::Rc;
use std::sync::Arc;

use leafd_core::lease::{Request as Ask, Response as Said};
use leafd_core::store::StoreError;
use leafd_core::upstream::{Request, Response};

use crate::check::{Claim, Violation};
use crate::coverage::{LEASE, MONITOR, event_of, lease_state, monitor_state};
use crate::host::{CameThrough, Daemon, Host, LINES};
use crate::lease::failed;
use crate::store::{Answer, Call, From, LAG_MS_MAX, Own, life_of};
use crate::world::World;
use crate::{Break, Simulation};

/// Something that happens at its time.
pub enum Happening {
    Arrives {
        to: Caller,
        call: Call,
        answer_ms: Option<u64>,
    },
    Answers(Answered),
    /// What called the store hears the answer that its thread has.
    IsHeard(Answered),
    TimesOut {
        to: Caller,
        call: Call,
    },
}

/// An answer, and to which call.
pub struct Answered {
    to: Caller,
    call: Call,
    answer: Answer,
    /// Since when the call was under way.
    since_ms: u64,
    /// The number of the write that it made.
    wrote: Option<u64>,
    /// The last commit that it shows.
    saw: u64,
    /// The old primary of a split store gave it.
    is_split: bool,
}

/// The caller, its server and the call's number.
#[derive(Clone)]
pub struct Caller {
    host: usize,
    name: Arc<str>,
    server: usize,
    life: u64,
    call: u64,
}

impl Caller {
    /// Whether this daemon still waits for the answer.
    fn waits(&self, daemon: &Daemon) -> bool {
        (daemon.life, daemon.call.map(|(call, _)| call)) == (self.life, Some(self.call))
    }
}

impl Answered {
    fn of(to: Caller, call: Call, answer: Answer) -> Answered {
        Answered { to, call, answer, since_ms: 0, wrote: None, saw: 0, is_split: false }
    }
}

impl World {
    /// Sends the next call, unless one is under way.
    pub fn set_out(&mut self, host: usize) -> Result<(), Violation> {
        let (true_ms, broken, number) = (self.true_ms, self.broken, self.number());
        let is_verified = self.sim.has_tags && broken != Some(Break::WorkersUnverified);
        let Host { clocks, journal, server, left, daemon: Some(daemon), .. } =
            &mut self.hosts[host]
        else {
            return Ok(());
        };
        if daemon.call.is_some() {
            return Ok(());
        }
        let (mut refused, mut next) = (None, None);
        for line in 0..LINES {
            let Some(call) = daemon.calls[line].pop_front() else { continue };
            if let Call::Worker(ask) = &call
                && is_verified
            {
                let Some(may) = daemon.may_ask(ask, clocks.read(true_ms, broken), true_ms) else {
                    daemon.calls[line].push_front(call);
                    continue;
                };
                refused = may.err().map(|error| Answer::Worker(failed(ask, error.into())));
            }
            next = Some(call);
            break;
        }
        let Some(call) = next else { return Ok(()) };
        // One that waited while the history changed is refused, or its answer doesn't count.
        let under = match &call {
            Call::Claim(_, under) if daemon.tags.monitor.claimable() == Some(under) => {
                Some(&under.history)
            }
            Call::Worker(Ask::CompareAndSet(under, _)) if is_verified && refused.is_none() => {
                Some(&under.history)
            }
            _ => None,
        };
        if under.is_some_and(|history| left.contains(&*history.0)) {
            return Err(Violation::granted(host, "the host had seen this history end"));
        }
        daemon.call = Some((number, true_ms));
        daemon.writes = matches!(call, Call::Worker(Ask::CompareAndSet(..) | Ask::Assign(..)));
        let (name, server) = (Arc::clone(&journal.host), *server);
        let to = Caller { host, name, server, life: daemon.life, call: number };
        if let Some(answer) = refused {
            self.at(1, Happening::Answers(Answered::of(to, call, answer)));
            return Ok(());
        }
        if let Call::Worker(_) = &call {
            self.check_rate(host)?;
        }
        self.send(to, call);
        Ok(())
    }

    fn send(&mut self, to: Caller, call: Call) {
        let Simulation { timeout_ms, outage_ms, .. } = self.sim;
        let mut arrives_ms = Some(self.random.u64(1..=25));
        let mut answer_ms = Some(self.random.u64(1..=25));
        // More calls in states that seldom last have a bad fate.
        let of = if self.is_rare(to.host) { 40 } else { 100 };
        let fate = if self.calm() { u8::MAX } else { self.random.u8(..of) };
        match fate {
            0..3 => arrives_ms = None,
            3..6 => {
                answer_ms = None;
                self.totals.note("answers_lost");
            }
            6..9 => {
                // Its caller has given up by then, and may have crashed or written again.
                arrives_ms = Some(timeout_ms + self.random.u64(..outage_ms));
                self.totals.note("late_calls");
            }
            9..13 => {
                answer_ms = Some(self.random.u64(100..timeout_ms));
                self.totals.note("late_answers");
            }
            _ => {}
        }
        if fate < 13 {
            self.hosts[to.host].is_unwell_until(self.true_ms + timeout_ms);
        }
        if let Some(arrives_ms) = arrives_ms {
            let (to, call) = (to.clone(), call.clone());
            self.at(arrives_ms, Happening::Arrives { to, call, answer_ms });
        }
        self.at(timeout_ms, Happening::TimesOut { to, call });
    }

    fn at(&mut self, in_ms: u64, happening: Happening) {
        let number = self.number();
        self.under_way.insert((self.true_ms + in_ms, number), happening);
    }

    /// The caller learns at once that its connection is broken.
    fn breaks(&mut self, to: Caller, call: Call) {
        let answer = call.unavailable();
        let in_ms = self.random.u64(1..=25);
        self.at(in_ms, Happening::Answers(Answered::of(to, call, answer)));
    }

    pub fn happen(&mut self, happening: Happening) -> Result<(), Violation> {
        match happening {
            Happening::Arrives { to, call, answer_ms } => {
                let (away_until_ms, servers) = (self.away_until_ms[to.server], self.servers());
                let Some(host) = self.hosts.get_mut(to.host) else { return Ok(()) };
                // A server that is gone is not reached, and no longer awaited.
                let is_gone = to.server >= servers;
                let is_cut_off = host.cut_off_until_ms > self.true_ms || is_gone;
                let is_deaf = host.deaf_until_ms > self.true_ms;
                if is_deaf {
                    // The caller waits for the answer until its time limit.
                    host.is_unwell_until(self.true_ms + self.sim.timeout_ms);
                }
                if is_cut_off || away_until_ms > self.true_ms {
                    host.is_unwell_until(self.true_ms + self.sim.timeout_ms);
                    match self.random.u8(..3) {
                        0 => self.breaks(to, call),
                        // Delayed until the server is back.
                        1 if !is_cut_off => {
                            let in_ms = away_until_ms - self.true_ms + self.random.u64(..100);
                            self.at(in_ms, Happening::Arrives { to, call, answer_ms: None });
                        }
                        _ => {}
                    }
                    return Ok(());
                }
                self.store.wrote = None;
                self.store.goes_on_at(to.server);
                let answer = self.carry_out(&to, call.clone());
                let is_split = self.store.split_since_ms().is_some();
                let (wrote, saw) = (self.store.wrote, self.store.data.commit);
                self.store.goes_on_at(0);
                let answered = Answered::of(to, call, answer?);
                let answered = Answered { wrote, saw, is_split, ..answered };
                match answer_ms {
                    _ if is_deaf => {}
                    Some(answer_ms) => self.at(answer_ms, Happening::Answers(answered)),
                    // The connection breaks, or nothing more comes over it.
                    None if self.random.bool() => self.breaks(answered.to, answered.call),
                    None => {}
                }
                Ok(())
            }
            Happening::Answers(answered) => self.arrives(answered),
            Happening::IsHeard(answered) => self.deliver(answered),
            Happening::TimesOut { to, call } => {
                let answer = match &call {
                    Call::Worker(Ask::CompareAndSet(..))
                        if self.broken == Some(Break::SilenceIsConsent) =>
                    {
                        let now = self.store.clock(self.true_ms);
                        Answer::Worker(Said::CompareAndSet(Ok(now)))
                    }
                    _ => call.unavailable(),
                };
                self.arrives(Answered::of(to, call, answer))
            }
        }
    }

    /// The store carries out a call. Its caller may be gone by now.
    fn carry_out(&mut self, to: &Caller, call: Call) -> Result<Answer, Violation> {
        let (true_ms, broken) = (self.true_ms, self.broken);
        if matches!(call, Call::Monitor(Request::Identity, _))
            && !self.calm()
            && self.random.u8(..25) == 0
            && let Some(daemon) = &self.hosts[to.host].daemon
            && let Some(old) = self.store.old_primary(&daemon.tags.monitor)
        {
            self.totals.note("old_answers");
            return Ok(Answer::Monitor(Some(Response::Identity(Ok(old)))));
        }
        let engine = self.store.engine(to.server, broken);
        let host = &mut self.hosts[to.host];
        let now = host.clocks.read(true_ms, broken).boot;
        let told = host.engine.get_or_insert(engine).clone();
        let composed = self.pooler && broken == Some(Break::EngineAskedOnce);
        // A call that its caller has given up proves nothing: between its statements nobody decides any more. Nor does a
        // claim under a history that no longer counts: the daemon drops its answer.
        let daemon = host.daemon.as_mut().filter(|daemon| to.waits(daemon));
        let counts = |daemon: &&mut Daemon| match &call {
            Call::Claim(_, under) => daemon.tags.monitor.counts(under),
            _ => true,
        };
        let is_used = daemon.as_ref().is_some_and(counts);
        let starts = daemon.as_ref().map_or(Vec::new(), |daemon| daemon.tags.starts.clone());
        let from = From {
            host: Arc::clone(&to.name),
            index: to.host,
            life: to.life,
            starts,
            server: to.server,
            own: daemon.map(|Daemon { tags, worker, .. }| Own {
                proof: &mut tags.proof,
                host: &mut tags.host,
                seen: &mut worker.seen,
                now,
            }),
            engine: composed.then_some(told),
        };
        Ok(match call {
            Call::Claim(tag, under) => {
                let claimed = self.store.claim(true_ms, from, tag, &under, broken);
                if let Ok(granted) = &claimed
                    && is_used
                    && let Some((of, commit)) = &host.kept
                    && *of == granted.life
                    && !self.store.includes(granted.commit, *commit)
                {
                    return Err(Violation::granted(to.host, "its own last write was gone"));
                }
                Answer::Claim(claimed.map(|granted| {
                    let start = granted.start;
                    if granted.split_since_ms.is_some() {
                        self.totals.note("split_claims");
                    }
                    self.claims.push(Claim { at_ms: true_ms, granted });
                    (start, self.claims.len() - 1)
                }))
            }
            Call::Monitor(request, told) => {
                Answer::Monitor(self.store.answer(true_ms, from, request, told, broken))
            }
            Call::Worker(ask) => {
                let writes = self.store.leased.len();
                let answer = self.store.lease(true_ms, from, ask, broken);
                if self.store.leased.len() > writes {
                    self.check_leased(to.host)?;
                }
                Answer::Worker(answer)
            }
        })
    }

    /// The thread that calls the store has an answer, and makes the next call.
    fn arrives(&mut self, mut answered: Answered) -> Result<(), Violation> {
        let Some(host) = self.hosts.get_mut(answered.to.host) else { return Ok(()) };
        let paused_ms = host.paused_until_ms.saturating_sub(self.true_ms);
        let Some(daemon) = host.daemon.as_mut().filter(|daemon| answered.to.waits(daemon)) else {
            return Ok(());
        };
        if paused_ms > 0 {
            // The thread reads it when it resumes, perhaps earlier than planned.
            self.at(paused_ms.min(self.sim.step_ms_max), Happening::Answers(answered));
            return Ok(());
        }
        daemon.writes = false;
        answered.since_ms = daemon.call.take().map_or(0, |(_, since_ms)| since_ms);
        if let Some(number) = answered.wrote {
            daemon.tags.proof.confirm(number);
        }
        let host = answered.to.host;
        if self.calm() || self.random.u8(..20) > 0 {
            self.deliver(answered)?;
            return self.set_out(host);
        }
        // It is heard after later ones, and perhaps the store has lost it by then.
        let in_ms = self.random.u64(1..3_000);
        self.hosts[host].is_unwell_until(self.true_ms + in_ms);
        let is_claim = matches!(answered.answer, Answer::Claim(Ok(_)));
        self.at(in_ms, Happening::IsHeard(answered));
        if is_claim && self.random.u8(..4) == 0 {
            self.promotion_with(LAG_MS_MAX / 8);
        }
        self.set_out(host)
    }

    fn deliver(&mut self, answered: Answered) -> Result<(), Violation> {
        let moment = self.moment(answered.to.host);
        let (true_ms, broken) = (self.true_ms, self.broken);
        let elsewhere = self.random.usize(..self.servers());
        let number = self.number();
        let Some(host) = self.hosts.get_mut(answered.to.host) else { return Ok(()) };
        let paused_until_ms = host.paused_until_ms;
        let now = host.clocks.read(true_ms, broken);
        let lives = |daemon: &&mut Daemon| daemon.life == answered.to.life;
        let Some(daemon) = host.daemon.as_mut().filter(lives) else { return Ok(()) };
        if paused_until_ms > true_ms {
            let in_ms = (paused_until_ms - true_ms).min(self.sim.step_ms_max);
            self.at(in_ms, Happening::IsHeard(answered));
            return Ok(());
        }
        if let Some(in_ms) = daemon.waits_for_journal(&host.journal, &answered.answer, true_ms) {
            self.at(in_ms, Happening::IsHeard(answered));
            return Ok(());
        }
        if answered.is_split {
            host.old_primary_ms = true_ms;
        }
        let Answered { to, call, mut answer, since_ms, saw, is_split, .. } = answered;
        let saw = (saw, is_split);
        if self.sim.has_tags && broken != Some(Break::WorkersUnverified) {
            daemon.verify(now, &mut answer);
        }
        match &answer {
            Answer::Worker(_) => {
                let state = lease_state(&daemon.worker.lease, now);
                self.totals.pairs[LEASE].meet(state, event_of(&answer));
            }
            _ => {
                let state = monitor_state(&daemon.tags.monitor);
                self.totals.pairs[MONITOR].meet(state, event_of(&answer));
            }
        }
        if matches!(answer, Answer::Monitor(_)) && since_ms >= paused_until_ms {
            // It has asked the store since it was stopped.
            host.ran_at_ms = true_ms;
        }
        let failed = matches!(
            &answer,
            Answer::Claim(Err(StoreError::Unavailable { .. }))
                | Answer::Monitor(Some(Response::Identity(Err(_))))
        );
        match (answer, call) {
            (Answer::Worker(answer), _) => daemon.worker.answered(now, answer, saw, moment.random),
            (Answer::Monitor(None), Call::Monitor(request, _)) => {
                self.totals.note("found_out");
                let new_name = format!("host-{number}").into();
                daemon.tags.begins_anew(daemon.life, new_name, &mut host.journal, broken);
                daemon.calls[0].push_front(Call::Monitor(request, Default::default()));
            }
            (Answer::Monitor(Some(mut response)), call) => {
                if let Response::Identity(Ok(found)) = &response {
                    let tags = &mut daemon.tags;
                    if tags.monitor.claimable() == Some(found) && !tags.is_anew {
                        host.journal.written = tags.proof.confirmed(&found.history);
                        host.journal.kept.clone_from(&host.kept);
                    }
                    let noted = self.store.lives.get(&life_of(&found.history));
                    let claims_from = |noted_ms| noted_ms + self.sim.settle_ms + 5;
                    let others_claim_ms = noted.map_or(0, |life| claims_from(life.noted_ms));
                    // An answer of the old primary showed its history as the present one, so the time limit begins
                    // there.
                    let others_claim_ms = others_claim_ms.max(claims_from(host.old_primary_ms));
                    tags.sees(true_ms, true_ms.max(others_claim_ms), &found.history);
                    let former = tags.monitor.known_history();
                    let is_former = former.is_some_and(|known| found.history.is_former_of(known));
                    if broken == Some(Break::FormerHistoriesForgotten) && is_former {
                        host.crash(CameThrough::default(), broken);
                        host.journal.history = None;
                        host.start_at_ms = true_ms;
                        return Ok(());
                    }
                }
                if let Response::CheckIn(Ok(known)) = &mut response {
                    known.clone_from(&host.journal.history);
                }
                if let Response::IsSettled(Ok(_)) = &response
                    && let Call::Monitor(Request::IsSettled(of), _) = &call
                {
                    daemon.tags.is_told(true_ms, &of.history);
                }
                daemon.tags.answered(now.boot, response, moment);
            }
            (Answer::Claim(claim), Call::Claim(tag, under)) => {
                let used = daemon.tags.claimed(now.boot, tag, &under, claim, moment);
                if let Some(claim) = used {
                    self.check_granted(to.host, claim)?;
                    let granted = &self.claims[claim].granted;
                    self.hosts[to.host].kept = Some((Rc::clone(&granted.life), granted.commit));
                }
            }
            _ => panic!("this answers no such call"),
        }
        // The driver takes its next steps before anything else runs.
        self.drive(to.host)?;
        let host = &mut self.hosts[to.host];
        if failed {
            // Try another server.
            host.server = elsewhere;
        }
        if failed || !self.pooler {
            host.engine = None;
        }
        Ok(())
    }
}
