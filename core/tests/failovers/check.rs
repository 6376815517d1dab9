//! What must never happen, and what must have happened in the end.
//!
//! Some ids may come twice, and the documents say which: those of a host that can't be reached for longer than
//! `failover_settle` during a fail-over, and those claimed between a loss that no engine shows and its discovery. These
//! are counted. Everything else is a violation, above all an id issued by a daemon that knew of the loss.

use std::fmt;
use std::rc::Rc;

use leafd_core::store::History;

use crate::coverage::MACHINE;
use crate::host::{Daemon, Host, Segment};
use crate::pairs::Pairs;
use crate::store::{Granted, TAGS, former_lives, life_of};
use crate::world::{SETTLE_MS, World};

/// A claim that a store made.
pub struct Claim {
    pub at_ms: u64,
    pub granted: Granted,
}

/// An id that was issued.
#[derive(Clone)]
pub struct Issue {
    host: usize,
    at_ms: u64,
    claim: usize,
    /// It was left in a journal that was restored, which only the store can tell, and has not told yet.
    restored: bool,
    /// How long its daemon had been stopped, and had not asked the store since.
    stopped_ms: u64,
    /// The lives that its daemon had seen by then, with the time from which it must know whether it told the store its
    /// numbers in time.
    seen: Rc<[(Rc<str>, u64)]>,
}

/// A broken promise.
#[derive(Clone, Debug)]
pub enum Violation {
    /// An id was issued a second time.
    Twice { tag: usize, id: u64, hosts: (usize, usize), why: &'static str },
    /// A host made or used a claim that must not be.
    Granted { host: usize, why: &'static str },
    /// Servers that are one store were treated as a store that may have lost commits.
    SettledForNothing { host: usize },
    /// Long after everything recovered, a host still gets no ids.
    NeverReady { host: usize, why: String },
}

/// What happened in a run.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    pub ids: u64,
    pub excused: u64,
    pub starts: u64,
    pub late_starts: u64,
    pub crashes: u64,
    pub journals_lost: u64,
    pub journals_copied: u64,
    pub journals_restored: u64,
    pub found_out: u64,
    pub pauses: u64,
    pub outages: u64,
    pub cut_off: u64,
    pub promotions: u64,
    pub like_another: u64,
    pub calm_failovers: u64,
    pub set_back: u64,
    pub returns: u64,
    pub old_answers: u64,
    pub declared: u64,
    pub late_answers: u64,
    pub late_calls: u64,
    pub one_history_runs: u64,
    pub pooler_runs: u64,
    /// Which answers found a monitor in which state.
    pub pairs: Pairs,
}

impl Daemon {
    /// An answer showed this history. From this time on the daemon must know whether it told the store its numbers in
    /// time.
    pub fn sees(&mut self, now_ms: u64, must_know_ms: u64, history: &History) {
        if history.is_in_doubt() {
            return;
        }
        let is_new = |life: &Rc<str>| !self.seen.iter().any(|(seen, _)| seen == life);
        // A former life is over: what the host has not told the store there, it never will.
        let former = former_lives(history).filter(is_new).map(|life| (life, now_ms));
        let all = self.seen.iter().cloned().chain(former);
        self.seen = all.chain([(life_of(history), must_know_ms)]).collect();
    }

    /// The store has said whether claims were made in this history. The first time decides about what is held, unless
    /// the store has lost since when the daemon saw the history what it could have said.
    pub fn is_told(&mut self, now_ms: u64, history: &History) {
        let life = life_of(history);
        if self.told.insert(Rc::clone(&life)) {
            self.seen = self.seen.iter().filter(|(seen, _)| *seen != life).cloned().collect();
        }
        self.sees(now_ms, now_ms, history);
    }
}

impl World {
    /// Checks an id that a host just issued.
    pub fn check_issue(
        &mut self,
        host: usize,
        tag: usize,
        drawn: Segment,
    ) -> Result<(), Violation> {
        let Segment { next: id, claim, .. } = drawn;
        self.totals.ids += 1;
        self.hosts[host].drew_at_ms[tag] = self.true_ms;
        let daemon = self.hosts[host].daemon.as_ref();
        let restored = drawn.restored && daemon.is_none_or(|daemon| !daemon.is_anew);
        let seen = daemon.map(|daemon| Rc::clone(&daemon.seen));
        let stopped_ms = self.true_ms - self.hosts[host].ran_at_ms;
        let seen = seen.unwrap_or_default();
        let issue = Issue { host, at_ms: self.true_ms, claim, restored, stopped_ms, seen };
        let Some(first) = self.issued[tag].get(&id).cloned() else {
            self.issued[tag].insert(id, issue);
            return Ok(());
        };
        if let Some(why) = self.why_not_twice(tag, id, &first, &issue) {
            return Err(Violation::Twice { tag, id, hosts: (first.host, host), why });
        }
        self.totals.excused += 1;
        Ok(())
    }

    /// Why an id must not have come twice out of these claims.
    fn why_not_twice(
        &self,
        tag: usize,
        id: u64,
        one: &Issue,
        other: &Issue,
    ) -> Option<&'static str> {
        if one.restored || other.restored {
            return None;
        }
        if one.claim == other.claim {
            return Some("both came from one claim");
        }
        let (earlier, later) = match one.claim < other.claim {
            true => (one, other),
            false => (other, one),
        };
        let [lost, again] = [earlier, later].map(|issue| &self.claims[issue.claim].granted);
        if again.saw.contains(&lost.commit) {
            return Some("no claim was lost");
        }
        let told = self.store.pushes.iter().any(|push| {
            let of_host = push.host == earlier.host && again.saw.contains(&push.commit);
            of_host && push.covers(tag, id)
        });
        if told {
            return Some("the store was told of the lost claim in time");
        }
        // Clocks differ a little in speed.
        let stopped = |issue: &Issue| issue.stopped_ms > SETTLE_MS + SETTLE_MS / 100;
        if stopped(earlier) || stopped(later) {
            return Some("its daemon had been stopped for longer than the others wait for it");
        }
        let knew_better =
            [earlier, later].into_iter().any(|issue| self.knew_better(issue, tag, id));
        knew_better.then_some("it was issued from a claim that was known to be lost")
    }

    /// Whether the daemon must have known that the store may have given the id to another host: it has known of a life
    /// that began since the claim, and was not in time to tell the store there of this id. Where a second loss has taken
    /// the first claim of that life, the store can't show that the daemon came too late.
    fn knew_better(&self, issue: &Issue, tag: usize, id: u64) -> bool {
        let claim = &self.claims[issue.claim];
        let late = |(life, must_know_ms): &(Rc<str>, u64)| {
            let noted = &self.store.lives[life];
            let Some(first) = noted.first_claim else { return false };
            let in_time = self.store.pushes.iter().any(|push| {
                let of_host = push.host == issue.host && push.life == *life;
                of_host && push.commit < first && push.covers(tag, id)
            });
            let is_traced = noted.untraced_ms.is_none_or(|lost_ms| *must_know_ms < lost_ms);
            noted.noted_ms > claim.at_ms && *must_know_ms < issue.at_ms && is_traced && !in_time
        };
        issue.seen.iter().any(late)
    }

    /// Checks a claim that a host is about to use.
    pub fn check_granted(&self, host: usize, claim: usize) -> Result<(), Violation> {
        let Claim { at_ms, granted, .. } = &self.claims[claim];
        let refuse = |why| Err(Violation::Granted { host, why });
        let life = &self.store.lives[&granted.life];
        if granted.in_doubt {
            return refuse("the engine had said that commits may be lost");
        }
        if life.noted_ms > 0 && *at_ms < life.noted_ms + SETTLE_MS {
            return refuse("other hosts had not had the time to report what they have seen");
        }
        Ok(())
    }

    /// Checks that every host has drawn ids of every tag since, and that no store settled without a loss.
    pub fn check_all_draw(&mut self, since_ms: u64) -> Result<(), Violation> {
        self.totals.one_history_runs += u64::from(self.store.one_history);
        self.totals.pooler_runs += u64::from(self.pooler);
        for (index, host) in self.hosts.iter().enumerate() {
            let failovers = |host: &Host| host.daemon.as_ref().map(|one| one.monitor.failovers);
            if self.store.one_history && failovers(host) != Some(0) {
                return Err(Violation::SettledForNothing { host: index });
            }
            if (0..TAGS).any(|tag| host.drew_at_ms[tag] < since_ms) {
                let why = host.daemon.as_ref().map_or_else(
                    || "it does not run".to_owned(),
                    |daemon| format!("{:?}", daemon.monitor),
                );
                return Err(Violation::NeverReady { host: index, why });
            }
        }
        Ok(())
    }
}

impl Totals {
    pub fn add(&mut self, other: &Totals) {
        let theirs = other.clone().all_mut().map(|(_, count)| *count);
        for ((_, mine), theirs) in self.all_mut().into_iter().zip(theirs) {
            *mine += theirs;
        }
        self.pairs.add(&other.pairs);
    }

    /// If something never goes wrong in a simulation, the simulation shows nothing about it.
    pub fn assert_all_happened(&mut self) {
        for (what, count) in self.all_mut() {
            assert!(*count > 0, "{what} never happened");
        }
        MACHINE.assert_all_met(&self.pairs);
    }

    fn all_mut(&mut self) -> [(&'static str, &mut u64); 23] {
        [
            ("ids", &mut self.ids),
            ("ids twice as the limits say", &mut self.excused),
            ("starts", &mut self.starts),
            ("first starts long after the others", &mut self.late_starts),
            ("crashes", &mut self.crashes),
            ("journals lost", &mut self.journals_lost),
            ("journals copied", &mut self.journals_copied),
            ("journals set back", &mut self.journals_restored),
            ("old journals that the store found out", &mut self.found_out),
            ("pauses", &mut self.pauses),
            ("outages", &mut self.outages),
            ("hosts cut off", &mut self.cut_off),
            ("promotions", &mut self.promotions),
            ("promotions to a timeline that another server has", &mut self.like_another),
            ("promotions with everybody there", &mut self.calm_failovers),
            ("times that data was set back", &mut self.set_back),
            ("returns of a former primary", &mut self.returns),
            ("answers of a former primary", &mut self.old_answers),
            ("losses declared by an operator", &mut self.declared),
            ("late answers", &mut self.late_answers),
            ("late calls", &mut self.late_calls),
            ("runs of servers that are one store", &mut self.one_history_runs),
            ("runs behind a pooler", &mut self.pooler_runs),
        ]
    }
}

impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut totals = self.clone();
        let all = totals.all_mut().map(|(what, count)| format!("{count} {what}"));
        write!(f, "{}; {}", all.join(", "), MACHINE.coverage(&self.pairs))
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Violation::Twice { tag, id, hosts: (first, second), why } => {
                write!(
                    f,
                    "id {id} of tag {tag} was issued by host {first} and then by {second}: {why}"
                )
            }
            Violation::Granted { host, why } => {
                write!(f, "host {host} claims although {why}")
            }
            Violation::SettledForNothing { host } => {
                write!(f, "host {host} waited for a store that had lost nothing")
            }
            Violation::NeverReady { host, why } => write!(f, "host {host} gets no ids: {why}"),
        }
    }
}
