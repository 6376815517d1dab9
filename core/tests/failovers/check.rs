//! What must never happen, and what must have happened in the end.
//!
//! Some ids may come twice, and the README says which: those of a host that can't be reached for longer than
//! `failover_settle` during a fail-over, and those claimed between a hidden loss and its discovery. These are counted.
//! Everything else is a violation, above all an id issued by a daemon that knew of the loss.

use std::fmt;
use std::rc::Rc;

use leafd_core::store::History;

use crate::host::{Daemon, Host};
use crate::store::{Failover, Loss, TAGS};
use crate::world::{SETTLE_MS, World};

/// A claim that a store made.
pub struct Claim {
    pub host: usize,
    pub commit: u64,
    pub at_ms: u64,
    /// The loss that took it, by number.
    pub lost_by: Option<usize>,
}

/// An id that was issued.
#[derive(Clone)]
pub struct Issue {
    host: usize,
    at_ms: u64,
    claim: usize,
    /// The losses that its host knew of by then.
    aware: Rc<[usize]>,
}

/// A broken promise.
#[derive(Clone, Debug)]
pub enum Violation {
    /// An id was issued a second time.
    Twice { tag: usize, id: u64, hosts: (usize, usize), why: &'static str },
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
    pub crashes: u64,
    pub pauses: u64,
    pub outages: u64,
    pub failovers: u64,
    pub calm_failovers: u64,
    pub unseen_losses: u64,
    pub returns: u64,
    pub late_answers: u64,
    pub late_calls: u64,
    pub one_history_runs: u64,
}

impl Daemon {
    /// An answer given at this time showed this history: the daemon now knows of these losses.
    pub fn sees(&mut self, failovers: &[Failover], at_ms: u64, history: &History) {
        let changed = self.last_seen.as_ref().is_some_and(|last| last != history);
        for (index, failover) in failovers.iter().enumerate().rev() {
            let shown = match failover.kind {
                Loss::NewHistory => failover.at_ms <= at_ms,
                Loss::FormerHistory => failover.at_ms <= at_ms && changed,
                Loss::Unseen => false,
            };
            if shown || failover.evident_ms.is_some_and(|evident_ms| evident_ms <= at_ms) {
                // The last loss hides the earlier ones.
                if !self.aware.contains(&index) {
                    self.aware = self.aware.iter().copied().chain([index]).collect();
                }
                break;
            }
        }
        if changed {
            self.left.extend(self.last_seen.take());
        }
        self.last_seen = Some(history.clone());
    }
}

impl World {
    /// Checks an id that a host just issued.
    pub fn check_issue(
        &mut self,
        host: usize,
        tag: usize,
        id: u64,
        claim: usize,
    ) -> Result<(), Violation> {
        self.totals.ids += 1;
        self.hosts[host].drew_at_ms[tag] = self.true_ms;
        let aware = match &self.hosts[host].daemon {
            Some(daemon) => Rc::clone(&daemon.aware),
            None => Rc::default(),
        };
        let issue = Issue { host, at_ms: self.true_ms, claim, aware };
        let Some(first) = self.issued[tag].get(&id).cloned() else {
            self.issued[tag].insert(id, issue);
            return Ok(());
        };
        let reason = |lost: &Issue, other: &Issue| self.why_not_twice(lost, other);
        let why = match (reason(&first, &issue), reason(&issue, &first)) {
            (None, _) | (_, None) => None,
            (Some("no claim was lost"), Some(why)) | (Some(why), Some(_)) => Some(why),
        };
        if let Some(why) = why {
            return Err(Violation::Twice { tag, id, hosts: (first.host, host), why });
        }
        self.totals.excused += 1;
        Ok(())
    }

    /// Why an id of a lost claim must not have come again out of this other claim.
    fn why_not_twice(&self, lost: &Issue, other: &Issue) -> Option<&'static str> {
        let claim = &self.claims[lost.claim];
        let Some(by) = claim.lost_by else { return Some("no claim was lost") };
        let other_claimed_ms = self.claims[other.claim].at_ms;
        let since = self.store.failovers[by..].iter().enumerate();
        // At the same instant, a claim that the loss took came first.
        let before = self.claims[other.claim]
            .lost_by
            .map_or(usize::MAX, |lost_by| lost_by.saturating_sub(by));
        let since = since.take_while(|(index, _)| *index < before);
        let since = since.filter(|(_, failover)| failover.at_ms <= other_claimed_ms);
        let since: Vec<_> = since.map(|(index, failover)| (by + index, failover)).collect();
        let in_time = |failover: &Failover| {
            failover.noted_ms.is_some_and(|noted_ms| {
                let mut pushes = failover.pushes.iter().filter(|(host, _)| *host == claim.host);
                pushes.any(|(_, pushed_ms)| *pushed_ms < noted_ms + SETTLE_MS)
            })
        };
        let knew_better = since.iter().any(|(index, failover)| {
            let settled = failover.noted_ms.is_some_and(|ms| ms + SETTLE_MS <= lost.at_ms);
            lost.aware.contains(index) && settled && !in_time(failover)
        });
        if knew_better {
            return Some("it was issued from a claim that was known to be lost");
        }
        let Some((last, failover)) = since.last() else { return Some("no claim was lost") };
        if failover.evident_ms.is_none_or(|evident_ms| other_claimed_ms <= evident_ms) {
            let knew = other.aware.contains(last);
            return knew.then_some("it was claimed before the loss was evident, and issued after");
        }
        in_time(failover).then_some("the store was told of the lost claim in time")
    }

    /// Checks that every host has drawn ids of every tag since, and that no store settled without a loss.
    pub fn check_all_draw(&mut self, since_ms: u64) -> Result<(), Violation> {
        self.totals.one_history_runs += u64::from(self.store.one_history);
        for (index, host) in self.hosts.iter().enumerate() {
            let failovers = |host: &Host| host.daemon.as_ref().map(|one| one.monitor.failovers());
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
    }

    /// If something never goes wrong in a simulation, the simulation shows nothing about it.
    pub fn assert_all_happened(&mut self) {
        for (what, count) in self.all_mut() {
            assert!(*count > 0, "{what} never happened");
        }
    }

    fn all_mut(&mut self) -> [(&'static str, &mut u64); 13] {
        [
            ("ids", &mut self.ids),
            ("ids twice as the limits say", &mut self.excused),
            ("starts", &mut self.starts),
            ("crashes", &mut self.crashes),
            ("pauses", &mut self.pauses),
            ("outages", &mut self.outages),
            ("losses", &mut self.failovers),
            ("fail-overs with everybody there", &mut self.calm_failovers),
            ("losses unseen", &mut self.unseen_losses),
            ("returns of a former primary", &mut self.returns),
            ("late answers", &mut self.late_answers),
            ("late calls", &mut self.late_calls),
            ("runs of servers that are one store", &mut self.one_history_runs),
        ]
    }
}

impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut totals = self.clone();
        let all = totals.all_mut().map(|(what, count)| format!("{count} {what}"));
        f.write_str(&all.join(", "))
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
            Violation::SettledForNothing { host } => {
                write!(f, "host {host} waited for a store that had lost nothing")
            }
            Violation::NeverReady { host, why } => write!(f, "host {host} gets no ids: {why}"),
        }
    }
}
